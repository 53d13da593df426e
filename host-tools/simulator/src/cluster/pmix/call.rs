//! Calls as clients of OpenPMIx write them, without descriptions.

use coppice_protocol::pmix::{Dialect, Process, Status, Value, Writer, rank};

use super::cards::{Puts, key};
use super::{Ask, Course, Fence, Speaker, Want};

/// `pmix_scope_t`.
const LOCAL: u8 = 1;
const REMOTE: u8 = 2;
const GLOBAL: u8 = 3;
/// `pmix_data_range_t`: all of the job, and the ranks that are named.
const RANGE_NAMESPACE: u8 = 3;
const RANGE_CUSTOM: u8 = 6;
/// The code of events that ranks tell each other.
pub(super) const EVENT: i32 = -3007;
/// The code under which they ask for ends of ranks.
pub(super) const ENDED: i32 = Status::PROC_TERMINATED.0;
/// What an event has its number under.
pub(super) const NUMBER: &str = "number";
/// What a rank has the job ended with.
const ABORTS_WITH: i32 = 7;

/// The first words of a client: who it is.
pub(in crate::cluster) fn greeting(course: &Course, speaker: &Speaker<'_>) -> Vec<u8> {
    let (version, module) = if course.is_wide { ("3.2.3", "v3") } else { ("4.2.2", "v41") };
    let mut body = b"native\0".to_vec();
    body.extend_from_slice(&0_u32.to_be_bytes());
    body.push(0);
    body.extend_from_slice(speaker.space.as_bytes());
    body.push(0);
    body.extend_from_slice(&speaker.rank.to_be_bytes());
    for text in [version, module] {
        body.extend_from_slice(text.as_bytes());
        body.push(0);
    }
    // It describes nothing, and keeps what it knows in a table.
    body.extend_from_slice(b"\x01hash\0");
    let mut bytes = (-1_i32).to_le_bytes().to_vec();
    bytes.extend_from_slice(&u32::MAX.to_le_bytes());
    bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&body);
    bytes
}

/// A call with this tag.
pub(in crate::cluster) fn message(tag: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = 0_u32.to_be_bytes().to_vec();
    bytes.extend_from_slice(&tag.to_be_bytes());
    bytes.extend_from_slice(&(body.len() as u32).to_be_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(body);
    bytes
}

/// What a call says, without its tag.
pub(in crate::cluster) fn bytes_of(course: &Course, speaker: &Speaker<'_>, ask: Ask) -> Vec<u8> {
    let Speaker { rank, size, space } = *speaker;
    let dialect = course.dialect();
    let space = space.as_bytes();
    match ask {
        Ask::Greet => Vec::new(),
        Ask::Init => command(dialect, 0).into_bytes(),
        Ask::Abort => {
            let mut call = command(dialect, 1);
            call.status(Status(ABORTS_WITH)).packed(1).text(b"enough of it").packed(1).size(0);
            call.into_bytes()
        }
        Ask::Commit(round) => commit(dialect, &course.puts(rank, round)),
        Ask::Fence(fence) => self::fence(course, size, space, fence),
        Ask::Get(of, want) => {
            let mut call = command(dialect, 4);
            call.packed(1).text(space).packed(1).u32(of);
            let hasty = [("pmix.timeout", Value::Number(1))];
            infos(&mut call, if want == Want::Never { &hasty } else { &[] });
            call.packed(1).text(key(want).as_bytes());
            call.into_bytes()
        }
        Ask::Finalize => command(dialect, 5).into_bytes(),
        Ask::Publish(round) => {
            let (name, value) = course.published(rank, round);
            let mut call = command(dialect, 6);
            call.packed(1).u32(0);
            infos(&mut call, &[(&name, Value::Text(&value))]);
            call.into_bytes()
        }
        Ask::LookUp(of, round) => {
            let (name, _) = course.published(of, round);
            let mut call = command(dialect, 7);
            call.packed(1).u32(0).packed(1).size(1).packed(1).text(name.as_bytes());
            infos(&mut call, &[]);
            call.into_bytes()
        }
        Ask::Notify(number) => notify(course, size, space, number),
        Ask::Register => {
            let mut call = command(dialect, 13);
            call.packed(1).size(2).packed(2).i32(EVENT).i32(ENDED);
            infos(&mut call, &[]);
            call.into_bytes()
        }
        Ask::Query => {
            let mut call = command(dialect, 15);
            call.packed(1).size(1).packed(1).i32(1).text(b"pmix.qry.ns").size(0);
            call.into_bytes()
        }
    }
}

fn command(dialect: Dialect, number: u8) -> Writer {
    let mut writer = Writer::new(dialect);
    writer.packed(1).byte(number);
    writer
}

fn infos(call: &mut Writer, infos: &[(&str, Value<'_>)]) {
    call.packed(1).size(infos.len());
    if !infos.is_empty() {
        call.packed(infos.len());
    }
    for (key, value) in infos {
        call.info(key, value);
    }
}

fn commit(dialect: Dialect, puts: &Puts) -> Vec<u8> {
    let mut call = command(dialect, 2);
    let Puts { everywhere, near, far } = puts;
    let scoped = |pair: &(String, String)| vec![pair.clone()];
    for (scope, pairs) in [(LOCAL, scoped(near)), (REMOTE, scoped(far)), (GLOBAL, everywhere.clone())] {
        let mut bucket = Writer::new(dialect);
        for (key, value) in &pairs {
            bucket.pair(key, &Value::Text(value));
        }
        call.packed(1).byte(scope).packed(1).byte(1).object(bucket.bytes());
    }
    call.into_bytes()
}

fn fence(course: &Course, size: u32, space: &[u8], fence: Fence) -> Vec<u8> {
    let mut call = command(course.dialect(), 3);
    let members: Vec<u32> = match fence {
        Fence::Whole(_) => vec![rank::WILDCARD],
        // In whatever order.
        Fence::Low(_) | Fence::High(_) => course.members(fence, size).rev().collect(),
    };
    call.packed(1).size(members.len()).packed(members.len());
    for rank in members {
        call.process(Process { space, rank });
    }
    let collect = [("pmix.collect", Value::Truth(true))];
    infos(&mut call, if course.collects(fence) { &collect } else { &[] });
    call.into_bytes()
}

fn notify(course: &Course, size: u32, space: &[u8], number: u64) -> Vec<u8> {
    let mut call = command(course.dialect(), 12);
    let told = (0..size).filter(|rank| Course::is_meant(number, *rank)).map(|rank| Process { space, rank });
    let told: Vec<Process<'_>> = told.collect();
    let is_for_all = number.is_multiple_of(2) || told.is_empty();
    let range = if is_for_all { RANGE_NAMESPACE } else { RANGE_CUSTOM };
    call.status(Status(EVENT)).packed(1).byte(range);
    let said = (NUMBER, Value::Number(u32::try_from(number).unwrap_or(u32::MAX)));
    let both = [said, ("pmix.evrange", Value::Processes(&told))];
    infos(&mut call, if is_for_all { &both[..1] } else { &both });
    call.into_bytes()
}
