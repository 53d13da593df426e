//! What ranks ask about their job and its processes (`PMIx_Query_info`), all of which the node of the rank knows.
//!
//! A node knows what has become of its own ranks. Of those of others it knows where they are, and says nothing of their
//! state.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use super::client::Client;
use super::dialect::Dialect;
use super::information::host_name;
use super::key;
use super::kind::Kind;
use super::reader::{Info, Process, Read, Reader};
use super::request::list;
use super::status::Status;
use super::writer::{Value, Writer};
use crate::ids::Rank;
use crate::limits::{PMIX_INFORMED_RANKS_MAX, PMIX_INFOS_MAX, PMIX_MESSAGE_BYTES_MAX, PMIX_QUERIES_MAX};
use crate::pmi::Server;

/// What is asked for, and about what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query<'a> {
    /// The keys.
    pub keys: Vec<&'a [u8]>,
    /// What narrows them.
    pub qualifiers: Vec<Info<'a>>,
}

/// `pmix_proc_state_t`: what has become of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State(pub(crate) u8);

impl State {
    /// Nobody here knows.
    pub(crate) const UNDEFINED: Self = Self(0);
    /// It runs.
    pub(crate) const RUNNING: Self = Self(5);
    /// It runs, and has spoken with its server.
    pub(crate) const CONNECTED: Self = Self(6);
    /// It has ended as it should.
    pub(crate) const TERMINATED: Self = Self(20);
    /// It could not be started.
    pub(crate) const FAILED_TO_START: Self = Self(53);
    /// A signal has ended it.
    pub(crate) const ABORTED_BY_SIG: Self = Self(54);
    /// Its exit status is not 0.
    pub(crate) const TERM_NON_ZERO: Self = Self(62);
}

/// The program of a job, and the ids of its processes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    pub(crate) path: Vec<u8>,
    /// The id of the first rank's process, and the highest that one may have.
    pub(crate) ids: (u32, u32),
}

impl Program {
    fn id(&self, rank: Rank) -> u32 {
        let (first, last) = self.ids;
        first.saturating_add(rank.0).min(last)
    }
}

/// Keys that are answered.
const KEYS: [&[u8]; 8] = [
    key::QUERY_NAMESPACES,
    key::QUERY_JOB_STATUS,
    key::QUERY_PROC_TABLE,
    key::QUERY_LOCAL_PROC_TABLE,
    key::QUERY_NUM_PSETS,
    key::QUERY_PSET_NAMES,
    key::QUERY_GROUP_MEMBERSHIP,
    key::QUERY_SUPPORTED_KEYS,
];

impl<'a> Query<'a> {
    /// All that follow.
    pub(super) fn parse_all(reader: &mut Reader<'a>) -> Read<Vec<Self>> {
        list(reader, PMIX_QUERIES_MAX, Self::parse)
    }

    fn parse(reader: &mut Reader<'a>) -> Read<Self> {
        let count = usize::try_from(reader.i32()?).map_err(|_| Status::UNPACK_FAILURE)?;
        if count > PMIX_QUERIES_MAX {
            return Err(Status::OUT_OF_RESOURCE);
        }
        let keys = (0..count).map(|_| reader.text()).collect::<Read<_>>()?;
        let count = reader.size()?;
        if count > PMIX_INFOS_MAX {
            return Err(Status::OUT_OF_RESOURCE);
        }
        let qualifiers = (0..count).map(|_| reader.info()).collect::<Read<_>>()?;
        Ok(Self { keys, qualifiers })
    }

    /// The text that a qualifier has.
    fn text(&self, key: &[u8], dialect: Dialect) -> Option<&'a [u8]> {
        let info = self.qualifiers.iter().find(|info| info.key == key && info.kind == Kind::STRING)?;
        Reader::new(info.value, dialect).text().ok()
    }

    /// Writes the answer about a key, if there is one.
    fn answer(&self, wanted: &[u8], server: &Server, answer: &mut Writer, dialect: Dialect) -> Result<(), Status> {
        let space = server.space_name();
        let is_ours = self.text(key::NSPACE, dialect).is_none_or(|named| named == space.as_bytes());
        let name = core::str::from_utf8(wanted).map_err(|_| Status::BAD_PARAM)?;
        let ranks = server.placement().size();
        match wanted {
            key::QUERY_NAMESPACES => answer.info(name, &Value::Text(space)),
            key::QUERY_NUM_PSETS => answer.info(name, &Value::Size(0)),
            key::QUERY_PSET_NAMES => answer.info(name, &Value::Text("")),
            key::QUERY_SUPPORTED_KEYS => {
                let all: Vec<&str> = KEYS.iter().filter_map(|key| core::str::from_utf8(key).ok()).collect();
                answer.info(name, &Value::Text(&all.join(",")))
            }
            key::QUERY_GROUP_MEMBERSHIP => {
                let group = self.text(key::GROUP_ID, dialect).ok_or(Status::BAD_PARAM)?;
                let members = server.group(group).ok_or(Status::NOT_FOUND)?;
                let process = |rank: &Rank| Process { space: space.as_bytes(), rank: rank.0 };
                answer.info(name, &Value::Processes(&members.iter().map(process).collect::<Vec<_>>()))
            }
            // There is one job.
            key::QUERY_JOB_STATUS | key::QUERY_PROC_TABLE | key::QUERY_LOCAL_PROC_TABLE if !is_ours => {
                return Err(Status::NOT_FOUND);
            }
            key::QUERY_JOB_STATUS => answer.info(name, &Value::Status(server.job_status())),
            key::QUERY_PROC_TABLE if ranks <= PMIX_INFORMED_RANKS_MAX => table(answer, name, 0..ranks, server),
            key::QUERY_PROC_TABLE => return Err(Status::OUT_OF_RESOURCE),
            key::QUERY_LOCAL_PROC_TABLE => {
                let place = server.placement().place(server.here()).ok_or(Status::NOT_FOUND)?;
                table(answer, name, place.first.0..place.first.0.saturating_add(place.count), server)
            }
            _ => return Err(Status::NOT_SUPPORTED),
        };
        Ok(())
    }
}

/// An array of `pmix_proc_info_t`.
fn table<'w>(answer: &'w mut Writer, name: &str, ranks: Range<u32>, server: &Server) -> &'w mut Writer {
    let (space, program) = (server.space_name().as_bytes(), server.program());
    answer.text(name.as_bytes()).u32(0).u16(Kind::DATA_ARRAY.0).u16(Kind::PROC_INFO.0).size(ranks.len());
    for rank in ranks.map(Rank) {
        let placement = server.placement();
        let host = placement.index_of_rank(rank).map_or_else(String::new, |index| host_name(placement, index));
        answer.process(Process { space, rank: rank.0 }).text(host.as_bytes()).text(&program.path);
        // A process id says what it is.
        answer.u16(Kind::UINT32.0).u32(program.id(rank)).byte(server.state_of(rank).0);
    }
    answer
}

impl Client {
    /// Answers what the rank asks about its job. Of several things that it asks for it hears those that there are.
    pub(super) fn answer_query(&mut self, tag: u32, queries: &[Query<'_>], dialect: Dialect, server: &Server) {
        let (mut infos, mut found, mut missing) = (Writer::new(dialect), 0, None);
        let wanted = queries.iter().flat_map(|query| query.keys.iter().map(move |key| (query, *key)));
        let mut status = Status::SUCCESS;
        for (number, (query, key)) in wanted.enumerate() {
            if number >= PMIX_QUERIES_MAX || infos.bytes().len() > PMIX_MESSAGE_BYTES_MAX {
                status = Status::OUT_OF_RESOURCE;
                break;
            }
            match query.answer(key, server, &mut infos, dialect) {
                Ok(()) => found += 1,
                Err(why) => missing = missing.or(Some(why)),
            }
        }
        status = match missing {
            _ if status != Status::SUCCESS => status,
            Some(_) if found > 0 => Status::QUERY_PARTIAL_SUCCESS,
            Some(why) => why,
            None if found == 0 => Status::BAD_PARAM,
            None => status,
        };
        let is_told = matches!(status, Status::SUCCESS | Status::QUERY_PARTIAL_SUCCESS);
        let mut answer = Writer::new(dialect);
        answer.status(status).packed(1).size(if is_told { found } else { 0 });
        if is_told {
            answer.packed(found).put(infos.bytes());
        }
        self.say(tag, &answer);
    }
}
