//! What nodes ask for, and the answer to it, which both ends work out alike.

use coppice_protocol::ids::{JobId, ProgramId, Rank};
use coppice_protocol::limits::{BULK_BYTES_MAX, PAGES_PER_REQUEST_MAX};
use coppice_protocol::ship::{Call, FileStatus, Handle, Location, Owner, Reply, Request};

use crate::random::Random;

/// A request and the bulk bytes behind it.
pub(crate) fn request(random: &mut Random) -> (Request, Vec<u8>) {
    let file = Handle(random.between(0, 1000) as u32);
    let offset = random.next();
    let (call, bulk) = match random.between(0, 5) {
        0 => (Call::Read { file, offset, length: length(random) as u32 }, Vec::new()),
        1 => {
            let count = random.between(1, u64::from(PAGES_PER_REQUEST_MAX)) as u16;
            (Call::Pages { program: ProgramId(random.bytes()), first: 3, count }, Vec::new())
        }
        2 => (Call::Write { file, offset: Some(offset >> 1) }, vec![offset as u8; length(random)]),
        3 => (Call::Stat { at: location(random), follow: true }, Vec::new()),
        4 => (Call::ReadLink(location(random)), Vec::new()),
        _ => (Call::Close(file), Vec::new()),
    };
    let owner = Owner { job: JobId(1), rank: Rank(random.between(0, 64) as u32) };
    (Request { owner, call }, bulk)
}

/// Mostly little, sometimes the most there can be.
fn length(random: &mut Random) -> usize {
    match random.between(0, 9) {
        0 => BULK_BYTES_MAX,
        1 | 2 => random.length(0, BULK_BYTES_MAX),
        _ => random.length(0, 2000),
    }
}

fn location(random: &mut Random) -> Location {
    Location { directory: None, path: b"/p\xffth".repeat(random.length(1, 200)).into() }
}

/// The answer to a request that came with so many bulk bytes, and the bulk bytes behind it.
pub(crate) fn answer(request: &Request, bulk_bytes: usize) -> (Reply, Vec<u8>) {
    match &request.call {
        Call::Read { offset, length, .. } => (Reply::Data, vec![*offset as u8; *length as usize]),
        Call::Pages { program, count, .. } => {
            let beside = vec![program.0; usize::from(*count)];
            (Reply::Pages { beside }, vec![program.0[0]; usize::from(*count) * 4096])
        }
        Call::Write { offset, .. } => {
            let end = offset.unwrap_or_default() + bulk_bytes as u64;
            (Reply::Written { bytes: bulk_bytes as u32, end }, Vec::new())
        }
        Call::Stat { at, .. } => {
            let status = FileStatus { size: at.path.len() as u64, ..FileStatus::default() };
            (Reply::Status(status), Vec::new())
        }
        Call::ReadLink(at) => (Reply::Data, at.path.as_bytes().to_vec()),
        _ => (Reply::Done, Vec::new()),
    }
}
