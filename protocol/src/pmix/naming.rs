//! Values that ranks publish for others to look up: PMIx's words for names that a node of the job keeps
//! ([`crate::pmi`]). Kept with each is who has published it, and how it is written.

use alloc::boxed::Box;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::client::Client;
use super::dialect::Dialect;
use super::kind::Kind;
use super::reader::Process;
use super::request::Named;
use super::status::Status;
use super::writer::Writer;
use crate::limits::{PMI_ASK_NS, PMIX_WAITS_MAX};
use crate::pmi::{Answer, Refusal, Server, Verb, Wish};

/// A call about some names.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct NameCall {
    tag: u32,
    /// Values are to be told.
    looks_up: bool,
    /// Those that are not there yet are waited for.
    waits: bool,
    pub(super) deadline_ns: Option<u64>,
    /// When to ask for those again, ns.
    pub(super) again_ns: Option<u64>,
    names: Vec<Sought>,
    /// Why one of them is not there, or not done.
    failed: Option<Status>,
}

impl NameCall {
    /// What it takes of the memory, about, bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let names = self.names.iter().map(|sought| {
            size_of_val(sought) + sought.name.len() + sought.found.as_ref().map_or(0, |found| found.len())
        });
        size_of_val(self) + names.sum::<usize>()
    }
}

/// A name, and what is wanted with it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Sought {
    name: Box<[u8]>,
    /// Under which number its keeper is asked.
    number: Option<u64>,
    /// What was found under it, or nothing, when it is done.
    found: Option<Box<[u8]>>,
}

/// What is kept under a name: who has published it, how it is written, and the value with its type.
fn kept(rank: u32, dialect: Dialect, kind: Kind, value: &[u8]) -> Vec<u8> {
    let mut typed = Writer::new(dialect);
    typed.u16(kind.0);
    let how = if dialect == Dialect::Wide { 3 } else { 4 };
    [&rank.to_le_bytes()[..], &[how], typed.bytes(), value].concat()
}

/// The other way round.
fn of_kept(bytes: &[u8], dialect: Dialect) -> Option<(u32, &[u8])> {
    let (rank, behind) = bytes.split_first_chunk()?;
    let (how, value) = behind.split_first()?;
    let is_readable = *how == if dialect == Dialect::Wide { 3 } else { 4 };
    is_readable.then_some((u32::from_le_bytes(*rank), value))
}

impl Client {
    /// Takes a call about names. Then see [`Self::go_on_with_names`].
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn begin_naming(
        &mut self,
        tag: u32,
        named: &Named<'_>,
        dialect: Dialect,
        server: &mut Server,
        now_ns: u64,
    ) -> Result<(), Status> {
        if self.waits() >= PMIX_WAITS_MAX {
            return Err(Status::OUT_OF_RESOURCE);
        }
        let (waits, deadline_ns) = match named {
            Named::LookUp { waits, timeout_s, .. } => {
                (*waits, timeout_s.map(|seconds| super::client::deadline_ns(now_ns, seconds)))
            }
            Named::Publish(_) | Named::Unpublish(_) => (false, None),
        };
        let looks_up = matches!(named, Named::LookUp { .. });
        let mut call = NameCall { tag, looks_up, waits, deadline_ns, again_ns: None, names: Vec::new(), failed: None };
        let wishes: Vec<_> = match named {
            Named::Publish(infos) => infos
                .iter()
                .map(|info| Wish::publish(info.key, &kept(self.rank.0, dialect, info.kind, info.value)))
                .collect(),
            Named::LookUp { keys, .. } => keys.iter().map(|key| Wish::new(key, Verb::LookUp)).collect(),
            Named::Unpublish(keys) => keys.iter().map(|key| Wish::new(key, Verb::Unpublish)).collect(),
        };
        if wishes.is_empty() {
            return Err(Status::BAD_PARAM);
        }
        for wish in wishes {
            let wish = wish.map_err(|_| Status::BAD_PARAM)?;
            let name = wish.name.clone();
            let number = server.ask(self.rank, wish, now_ns).map_err(|_| Status::OUT_OF_RESOURCE)?;
            call.names.push(Sought { name, number: Some(number), found: None });
        }
        self.names.push(call);
        Ok(())
    }

    /// Answers calls about names that are over, and looks again for what is waited for.
    pub(super) fn go_on_with_names(&mut self, dialect: Dialect, server: &mut Server, now_ns: u64) {
        let mut calls = core::mem::take(&mut self.names);
        calls.retain_mut(|call| !self.go_on_with_name(call, dialect, server, now_ns));
        self.names = calls;
    }

    /// Whether that is over, and was answered.
    fn go_on_with_name(&mut self, call: &mut NameCall, dialect: Dialect, server: &mut Server, now_ns: u64) -> bool {
        for Sought { number, found, .. } in &mut call.names {
            let Some(answer) = number.and_then(|number| server.take_answer(number)) else { continue };
            *number = None;
            match answer {
                Answer::Done => *found = Some(Box::default()),
                Answer::Port(value) | Answer::Value { value, .. } => *found = Some(value),
                Answer::No(Refusal::Unknown) if call.waits => {
                    call.again_ns = Some(now_ns.saturating_add(PMI_ASK_NS / 8))
                }
                Answer::No(refusal) => {
                    call.failed = Some(match refusal {
                        Refusal::Taken => Status::DUPLICATE_KEY,
                        Refusal::Unknown => Status::NOT_FOUND,
                        Refusal::NoRoom => Status::OUT_OF_RESOURCE,
                        Refusal::NoAnswer => Status::UNREACHABLE,
                    });
                    *found = None;
                }
            }
        }
        if call.again_ns.is_some_and(|again_ns| again_ns <= now_ns) {
            call.again_ns = None;
            let missing = call.names.iter_mut().filter(|sought| sought.number.is_none() && sought.found.is_none());
            for sought in missing {
                let wish = Wish { name: sought.name.clone(), verb: Verb::LookUp };
                sought.number = server.ask(self.rank, wish, now_ns).ok();
            }
        }
        let is_late = call.deadline_ns.is_some_and(|deadline_ns| deadline_ns <= now_ns);
        if call.names.iter().any(|sought| sought.number.is_some()) || call.again_ns.is_some() && !is_late {
            return false;
        }
        let found = call.names.iter().filter(|sought| sought.found.is_some()).count();
        // Of several that are looked up those are told that are there.
        let status = match call.failed {
            _ if is_late && found < call.names.len() => Status::TIMEOUT,
            Some(status) if !call.looks_up || found == 0 => status,
            _ => Status::SUCCESS,
        };
        let mut answer = Writer::new(dialect);
        answer.status(status);
        if call.looks_up && status == Status::SUCCESS {
            let space = server.space_name().as_bytes();
            let values: Vec<_> = call
                .names
                .iter()
                .filter_map(|sought| Some((&sought.name, of_kept(sought.found.as_deref()?, dialect)?)))
                .collect();
            answer.packed(1).size(values.len());
            if !values.is_empty() {
                answer.packed(values.len());
            }
            for (name, (rank, value)) in values {
                answer.process(Process { space, rank }).text(name).put(value);
            }
        }
        self.say(call.tag, &answer);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pmix::Reader;

    #[test]
    fn what_is_kept_is_as_it_was() {
        let bytes = kept(7, Dialect::Short, Kind::UINT32, &[0x85, 1]);
        let (rank, value) = of_kept(&bytes, Dialect::Short).expect("as kept");
        let mut reader = Reader::new(value, Dialect::Short);
        assert_eq!((rank, reader.u16(), reader.u32()), (7, Ok(14), Ok(133)));
        assert_eq!(of_kept(&bytes, Dialect::Wide), None);
        assert_eq!(of_kept(&bytes[..4], Dialect::Short), None);
    }
}
