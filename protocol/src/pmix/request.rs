//! What clients call for (`pmix_server.c`, `server_switchyard`).

use alloc::vec::Vec;

use super::board::DEFAULT;
use super::key;
use super::kind::Kind;
use super::query::Query;
use super::reader::{Info, Process, Read, Reader};
use super::status::Status;
use crate::limits::{PMIX_HANDLERS_MAX, PMIX_INFOS_MAX, PMIX_MEMBERS_MAX};

/// A call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// What is known of the job.
    Job,
    /// The job is to end.
    Abort {
        /// With this status.
        status: i32,
        /// And these words.
        message: &'a [u8],
    },
    /// What the rank has put.
    Commit(Buckets<'a>),
    /// It waits for others.
    Fence {
        /// For whom.
        members: Vec<Process<'a>>,
        /// What they have put is to be known to all of them.
        collect: bool,
        /// For how long at most, s.
        timeout_s: Option<u32>,
    },
    /// It waits for others, for something else.
    Together {
        /// For what.
        what: Together<'a>,
        /// For whom; for a group that is there, for its members.
        members: Vec<Process<'a>>,
        /// The answer is to have a number that no other group has.
        wants_number: bool,
        /// For how long at most, s.
        timeout_s: Option<u32>,
    },
    /// Something with names.
    Named(Named<'a>),
    /// What another rank has put.
    Get(Get<'a>),
    /// The rank is done.
    Finalize,
    /// The rank is to be told of what has these codes.
    Register(Vec<i32>),
    /// It is not any longer. Nobody waits for an answer.
    Deregister(Vec<i32>),
    /// What is so with the job?
    Query(Vec<Query<'a>>),
    /// Others are to be told something.
    Notify(Notify<'a>),
    /// Others are to be started, which this server does not do.
    Spawn,
    /// Something else that it does not do.
    Other,
}

/// See [`Request::Notify`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notify<'a> {
    /// What has happened.
    pub status: i32,
    /// Whom it is for, `pmix_data_range_t`.
    pub range: u8,
    /// What is said about it.
    pub infos: Vec<Info<'a>>,
    /// The same as the rank wrote it.
    pub bytes: &'a [u8],
}

/// See [`Request::Named`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named<'a> {
    /// These values are to be found by others.
    Publish(Vec<Info<'a>>),
    /// What is found under these names?
    LookUp {
        /// The names.
        keys: Vec<&'a [u8]>,
        /// What is not there yet is waited for.
        waits: bool,
        /// For how long at most, s.
        timeout_s: Option<u32>,
    },
    /// Nothing is to be found under these names any more.
    Unpublish(Vec<&'a [u8]>),
}

/// See [`Request::Together`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Together<'a> {
    /// Ranks connect with each other, which those of one job are.
    Connect,
    /// And the other way round.
    Disconnect,
    /// They make a group of this name.
    Construct(&'a [u8]),
    /// They take it apart.
    Destruct(&'a [u8]),
}

/// See [`Request::Get`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Get<'a> {
    /// Whose.
    pub of: Process<'a>,
    /// Which key is missing. All that the rank has put is answered, if this is there.
    pub key: Option<&'a [u8]>,
    /// The answer is to be what is known now.
    pub immediate: bool,
    /// Else for how long to wait at most, s.
    pub timeout_s: Option<u32>,
}

/// How far what a rank puts is to be known (`pmix_scope_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// On its node.
    Local,
    /// On others.
    Remote,
    /// On all.
    Global,
}

/// What is committed, by scope.
#[derive(Clone, Copy, Debug)]
pub struct Buckets<'a>(Reader<'a>);

impl PartialEq for Buckets<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0.rest() == other.0.rest()
    }
}

impl Eq for Buckets<'_> {}

impl<'a> Buckets<'a> {
    fn bucket(&mut self) -> Read<(Scope, Pairs<'a>)> {
        let reader = &mut self.0;
        reader.packed(1)?;
        let scope = match reader.byte()? {
            1 => Scope::Local,
            2 => Scope::Remote,
            3 => Scope::Global,
            _ => return Err(Status::BAD_PARAM),
        };
        reader.packed(1)?;
        // How it is written, which is as all the rest.
        reader.byte()?;
        Ok((scope, Pairs(Reader::new(reader.object()?, reader.dialect()))))
    }
}

impl<'a> Iterator for Buckets<'a> {
    /// A scope and its pairs. Behind an error there is no next one.
    type Item = Read<(Scope, Pairs<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        (!self.0.is_empty()).then(|| {
            let bucket = self.bucket();
            if bucket.is_err() {
                self.0 = Reader::new(&[], self.0.dialect());
            }
            bucket
        })
    }
}

/// Pairs of keys and values, each packed by a call of its own.
#[derive(Clone, Copy, Debug)]
pub struct Pairs<'a>(Reader<'a>);

impl<'a> Pairs<'a> {
    /// Those of some bytes.
    #[must_use]
    pub const fn of(reader: Reader<'a>) -> Self {
        Self(reader)
    }
}

impl<'a> Iterator for Pairs<'a> {
    /// A key, and all bytes of the pair, without how many there are. Behind an error there is no next one.
    type Item = Read<(&'a [u8], &'a [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        let reader = &mut self.0;
        (!reader.is_empty()).then(|| {
            let pair = reader.packed(1).and_then(|()| reader.pair());
            if pair.is_err() {
                *reader = Reader::new(&[], reader.dialect());
            }
            pair
        })
    }
}

impl<'a> Request<'a> {
    /// Understands a call.
    ///
    /// # Errors
    /// Why it is none: that is the answer.
    pub fn parse(mut reader: Reader<'a>) -> Read<Self> {
        reader.packed(1)?;
        let command = reader.byte()?;
        Ok(match command {
            0 => Self::Job,
            1 => {
                reader.packed(1)?;
                let status = reader.i32()?;
                reader.packed(1)?;
                Self::Abort { status, message: reader.text()? }
            }
            2 => Self::Commit(Buckets(reader)),
            3 => Self::fence(reader)?,
            4 => Self::Get(Get::parse(reader)?),
            5 => Self::Finalize,
            6 => {
                Self::user(&mut reader)?;
                let mut infos = list(&mut reader, PMIX_INFOS_MAX, Reader::info)?;
                infos.retain(|info| !info.key.starts_with(key::RESERVED));
                Self::Named(Named::Publish(infos))
            }
            7 | 8 => {
                Self::user(&mut reader)?;
                reader.packed(1)?;
                let count = reader.size()?;
                if count > PMIX_INFOS_MAX {
                    return Err(Status::OUT_OF_RESOURCE);
                }
                let keys: Vec<&[u8]> =
                    (0..count).map(|_| reader.packed(1).and_then(|()| reader.text())).collect::<Read<_>>()?;
                let (mut waits, mut timeout_s) = (false, None);
                for info in list(&mut reader, PMIX_INFOS_MAX, Reader::info)? {
                    match info.key {
                        key::WAIT => waits = true,
                        key::TIMEOUT => timeout_s = info.seconds(reader),
                        _ => {}
                    }
                }
                let looks_up = command == 7;
                Self::Named(if looks_up { Named::LookUp { keys, waits, timeout_s } } else { Named::Unpublish(keys) })
            }
            9 => Self::Spawn,
            10 => Self::together(Together::Connect, reader)?,
            11 => Self::together(Together::Disconnect, reader)?,
            12 => Self::Notify(Notify::parse(reader)?),
            13 => {
                let codes = list(&mut reader, PMIX_HANDLERS_MAX, Reader::i32)?;
                // What else it says of its handlers it looks after itself.
                list(&mut reader, PMIX_INFOS_MAX, Reader::info)?;
                // Who names none asks for whatever happens.
                Self::Register(if codes.is_empty() { Vec::from([DEFAULT]) } else { codes })
            }
            14 => Self::Deregister(Self::codes(reader)),
            15 => Self::Query(Query::parse_all(&mut reader)?),
            24 => {
                reader.packed(1)?;
                let name = reader.text()?;
                Self::together(Together::Construct(name), reader)?
            }
            28 => {
                reader.packed(1)?;
                let name = reader.text()?;
                Self::together(Together::Destruct(name), reader)?
            }
            _ => Self::Other,
        })
    }

    /// Whose call it is: all that a job does is done for the same user.
    fn user(reader: &mut Reader<'a>) -> Read<()> {
        reader.packed(1)?;
        reader.u32().map(drop)
    }

    /// All codes that follow, each packed by a call of its own.
    fn codes(mut reader: Reader<'a>) -> Vec<i32> {
        core::iter::from_fn(|| reader.packed(1).and_then(|()| reader.i32()).ok()).collect()
    }

    fn together(what: Together<'a>, mut reader: Reader<'a>) -> Read<Self> {
        let members = match what {
            Together::Destruct(_) => Vec::new(),
            _ => list(&mut reader, PMIX_MEMBERS_MAX, Reader::process)?,
        };
        let (mut wants_number, mut timeout_s) = (false, None);
        for info in list(&mut reader, PMIX_INFOS_MAX, Reader::info)? {
            match info.key {
                key::ASSIGN_CONTEXT_ID => wants_number = info.is_true(reader),
                key::TIMEOUT => timeout_s = info.seconds(reader),
                _ => {}
            }
        }
        Ok(Self::Together { what, members, wants_number, timeout_s })
    }

    fn fence(mut reader: Reader<'a>) -> Read<Self> {
        let members = list(&mut reader, PMIX_MEMBERS_MAX, Reader::process)?;
        let (mut collect, mut timeout_s) = (false, None);
        for info in list(&mut reader, PMIX_INFOS_MAX, Reader::info)? {
            match info.key {
                key::COLLECT_DATA => collect = info.is_true(reader),
                key::TIMEOUT => timeout_s = info.seconds(reader),
                _ => {}
            }
        }
        if members.is_empty() { Err(Status::BAD_PARAM) } else { Ok(Self::Fence { members, collect, timeout_s }) }
    }
}

impl<'a> Notify<'a> {
    fn parse(mut reader: Reader<'a>) -> Read<Self> {
        reader.packed(1)?;
        let status = reader.i32()?;
        reader.packed(1)?;
        let range = reader.byte()?;
        let mut behind = reader;
        let infos = list(&mut behind, PMIX_INFOS_MAX, Reader::info)?;
        reader.packed(1)?;
        reader.size()?;
        if !infos.is_empty() {
            reader.packed(infos.len())?;
        }
        let bytes = reader.take(reader.rest().len() - behind.rest().len())?;
        Ok(Self { status, range, infos, bytes })
    }
}

impl<'a> Get<'a> {
    fn parse(mut reader: Reader<'a>) -> Read<Self> {
        reader.packed(1)?;
        let space = reader.text()?;
        reader.packed(1)?;
        let of = Process { space, rank: reader.u32()? };
        let mut get = Self { of, key: None, immediate: false, timeout_s: None };
        for info in list(&mut reader, PMIX_INFOS_MAX, Reader::info)? {
            match info.key {
                key::IMMEDIATE => get.immediate = info.is_true(reader),
                key::TIMEOUT => get.timeout_s = info.seconds(reader),
                _ => {}
            }
        }
        if !reader.is_empty() {
            reader.packed(1)?;
            get.key = Some(reader.text()?).filter(|key| !key.is_empty());
        }
        Ok(get)
    }
}

/// How many there are, and as many of those.
pub(super) fn list<'a, T>(
    reader: &mut Reader<'a>,
    most: usize,
    each: impl Fn(&mut Reader<'a>) -> Read<T>,
) -> Read<Vec<T>> {
    reader.packed(1)?;
    let count = reader.size()?;
    if count > most {
        return Err(Status::OUT_OF_RESOURCE);
    }
    if count > 0 {
        reader.packed(count)?;
    }
    (0..count).map(|_| each(reader)).collect()
}

impl<'a> Info<'a> {
    /// Whether it says yes: the key alone does. `like` has the dialect.
    pub(super) fn is_true(&self, like: Reader<'_>) -> bool {
        match self.kind {
            Kind::UNDEFINED => true,
            Kind::BOOL => Reader::new(self.value, like.dialect()).byte().is_ok_and(|byte| byte != 0),
            _ => false,
        }
    }

    /// The processes that it names, one or an array of them; nothing if it is something else.
    pub(super) fn processes(&self, like: Reader<'_>) -> Option<Vec<Process<'a>>> {
        let mut reader = Reader::new(self.value, like.dialect());
        match self.kind {
            Kind::PROC => reader.process().ok().map(|process| Vec::from([process])),
            Kind::DATA_ARRAY if Kind(reader.u16().ok()?) == Kind::PROC => {
                let count = reader.size().ok().filter(|count| *count <= PMIX_MEMBERS_MAX)?;
                (0..count).map(|_| reader.process().ok()).collect()
            }
            _ => None,
        }
    }

    /// A time in seconds; none if it is 0 or no number.
    fn seconds(&self, like: Reader<'_>) -> Option<u32> {
        let mut reader = Reader::new(self.value, like.dialect());
        let seconds = match self.kind {
            Kind::INT | Kind::UINT => reader.int().ok().and_then(|seconds| seconds.try_into().ok()),
            Kind::INT32 => reader.i32().ok().and_then(|seconds| seconds.try_into().ok()),
            Kind::UINT32 => reader.u32().ok(),
            Kind::SIZE => reader.size().ok().and_then(|seconds| seconds.try_into().ok()),
            _ => None,
        };
        seconds.filter(|seconds| *seconds > 0)
    }
}
