//! The format of a log: records, one behind the other.
//!
//! A record is sixteen bytes (kind, three zeros, and as little-endian `u32` rank, length and a check: half of the XXH3
//! of the body, seeded with kind and rank), and that many bytes. The first says what the file is, then come pieces of
//! output in the order in which they came, where a rank and stream have their own; behind the last may be a record that
//! says why nothing more is kept, and one that says that the log is whole. A log whose last record is not whole was
//! being written when its writer died: it ends before that.

use std::io::{self, ErrorKind, Read};

use coppice_api::output::OutputCut;
use coppice_protocol::ids::JobId;
use coppice_protocol::ship::Stream;
use twox_hash::XxHash3_64;

use super::Summary;
use crate::limits::LOG_RECORD_BYTES_MAX;

/// Length of what stands before each record's body, bytes.
pub const HEADER_BYTES: usize = 16;

/// What the first record says, before the job's number.
const MAGIC: &[u8; 16] = b"coppice output 1";

/// Length of the first record, bytes.
pub const START_BYTES: u64 = (HEADER_BYTES + MAGIC.len() + 8) as u64;

/// Length of the records that may be behind the output, bytes.
pub const LAST_WORDS_BYTES: u64 = CUT_BYTES + END_BYTES;
const CUT_BYTES: u64 = (HEADER_BYTES + 1) as u64;
/// Length of the last record of a log that is whole, bytes.
pub const END_BYTES: u64 = (HEADER_BYTES + 17) as u64;

const START: u8 = 1;
const OUTPUT: u8 = 2;
const ERROR: u8 = 3;
const CUT: u8 = 4;
const END: u8 = 5;

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The first.
    Start(JobId),
    /// Something that a rank wrote.
    Output {
        /// The rank.
        rank: u32,
        /// Its stream.
        stream: Stream,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Nothing is kept from here on.
    Cut(OutputCut),
    /// The last of a log that is whole.
    End(Summary),
}

/// Puts the first record of a log behind other bytes.
pub fn put_start(into: &mut Vec<u8>, job: JobId) {
    put(into, START, 0, &[&MAGIC[..], &job.0.to_le_bytes()].concat());
}

/// Puts output behind other bytes.
pub fn put_output(into: &mut Vec<u8>, rank: u32, stream: Stream, bytes: &[u8]) {
    put(into, if stream == Stream::Error { ERROR } else { OUTPUT }, rank, bytes);
}

/// Puts why nothing more is kept behind other bytes.
pub fn put_cut(into: &mut Vec<u8>, cut: OutputCut) {
    put(into, CUT, 0, &[number_of(Some(cut))]);
}

/// Puts the last record of a log behind other bytes.
pub fn put_end(into: &mut Vec<u8>, summary: &Summary) {
    let Summary { bytes, dropped, cut } = summary;
    put(into, END, 0, &[&bytes.to_le_bytes()[..], &dropped.to_le_bytes(), &[number_of(*cut)]].concat());
}

fn put(into: &mut Vec<u8>, kind: u8, rank: u32, body: &[u8]) {
    into.extend_from_slice(&[kind, 0, 0, 0]);
    into.extend_from_slice(&rank.to_le_bytes());
    // Never longer than a record may be.
    into.extend_from_slice(&u32::try_from(body.len()).unwrap_or(u32::MAX).to_le_bytes());
    into.extend_from_slice(&check(kind, rank, body).to_le_bytes());
    into.extend_from_slice(body);
}

fn check(kind: u8, rank: u32, body: &[u8]) -> u32 {
    let seed = u64::from(kind) | u64::from(rank) << 32;
    let [b0, b1, b2, b3, ..] = XxHash3_64::oneshot_with_seed(seed, body).to_le_bytes();
    u32::from_le_bytes([b0, b1, b2, b3])
}

const CUTS: [(u8, OutputCut); 5] = [
    (1, OutputCut::Limit),
    (2, OutputCut::Logs),
    (3, OutputCut::Disk),
    (4, OutputCut::ServiceNode),
    (5, OutputCut::Late),
];

fn number_of(cut: Option<OutputCut>) -> u8 {
    CUTS.iter().find(|(_, of)| Some(*of) == cut).map_or(0, |(number, _)| *number)
}

fn cut_of(number: u8) -> Option<OutputCut> {
    CUTS.iter().find(|(of, _)| *of == number).map(|(_, cut)| *cut)
}

/// What stands at a place of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// A record of so many bytes with its header.
    Record(Record, u64),
    /// Nothing, or the beginning of a record that goes on behind the end.
    End,
    /// No record.
    Damaged,
}

/// Reads what comes next of a log of which so many bytes are left.
///
/// # Errors
/// Of the system.
pub fn next(log: &mut impl Read, left: u64) -> io::Result<Next> {
    let mut header = [0; HEADER_BYTES];
    let Some(body_left) = left.checked_sub(HEADER_BYTES as u64) else { return Ok(Next::End) };
    match log.read_exact(&mut header) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(Next::End),
        read => read?,
    }
    let [kind, z0, z1, z2, r0, r1, r2, r3, l0, l1, l2, l3, c0, c1, c2, c3] = header;
    let rank = u32::from_le_bytes([r0, r1, r2, r3]);
    let length = u32::from_le_bytes([l0, l1, l2, l3]);
    if length as usize > LOG_RECORD_BYTES_MAX || [z0, z1, z2] != [0; 3] {
        return Ok(Next::Damaged);
    }
    if u64::from(length) > body_left {
        return Ok(Next::End);
    }
    let mut body = vec![0; length as usize];
    match log.read_exact(&mut body) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(Next::End),
        read => read?,
    }
    let is_sound = check(kind, rank, &body) == u32::from_le_bytes([c0, c1, c2, c3]);
    let record = if is_sound { record(kind, rank, body) } else { None };
    Ok(match record {
        Some(record) => Next::Record(record, HEADER_BYTES as u64 + u64::from(length)),
        // The system may have come to write the length of the file, and not what is in it.
        None if u64::from(length) == body_left => Next::End,
        None => Next::Damaged,
    })
}

fn record(kind: u8, rank: u32, body: Vec<u8>) -> Option<Record> {
    match kind {
        START => {
            let job = body.strip_prefix(MAGIC)?;
            Some(Record::Start(JobId(u64::from_le_bytes(job.try_into().ok()?))))
        }
        OUTPUT => Some(Record::Output { rank, stream: Stream::Output, bytes: body }),
        ERROR => Some(Record::Output { rank, stream: Stream::Error, bytes: body }),
        CUT => match &*body {
            [number] => cut_of(*number).map(Record::Cut),
            _ => None,
        },
        END => {
            let (bytes, rest) = body.split_first_chunk::<8>()?;
            let (dropped, cut) = rest.split_first_chunk::<8>()?;
            let [cut] = cut else { return None };
            let (bytes, dropped) = (u64::from_le_bytes(*bytes), u64::from_le_bytes(*dropped));
            Some(Record::End(Summary { bytes, dropped, cut: cut_of(*cut) }))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use coppice_api::output::OutputCut;
    use coppice_protocol::ids::JobId;
    use coppice_protocol::ship::Stream;
    use proptest::collection::vec;
    use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};

    use super::{END_BYTES, LAST_WORDS_BYTES, Next, Record, START_BYTES, Summary, next};
    use super::{put_cut, put_end, put_output, put_start};

    fn cut() -> impl Strategy<Value = OutputCut> {
        use OutputCut::{Disk, Late, Limit, Logs, ServiceNode};
        prop_oneof![Just(Limit), Just(Logs), Just(Disk), Just(ServiceNode), Just(Late)]
    }

    fn record() -> impl Strategy<Value = Record> {
        let stream = prop_oneof![Just(Stream::Output), Just(Stream::Error)];
        prop_oneof![
            1 => any::<u64>().prop_map(|job| Record::Start(JobId(job))),
            6 => (any::<u32>(), stream, vec(any::<u8>(), 0..200))
                .prop_map(|(rank, stream, bytes)| Record::Output { rank, stream, bytes }),
            1 => cut().prop_map(Record::Cut),
            1 => (any::<u64>(), any::<u64>(), proptest::option::of(cut()))
                .prop_map(|(bytes, dropped, cut)| Record::End(Summary { bytes, dropped, cut })),
        ]
    }

    fn put(into: &mut Vec<u8>, record: &Record) {
        match record {
            Record::Start(job) => put_start(into, *job),
            Record::Output { rank, stream, bytes } => put_output(into, *rank, *stream, bytes),
            Record::Cut(cut) => put_cut(into, *cut),
            Record::End(summary) => put_end(into, summary),
        }
    }

    /// All whole records, and what is behind them.
    fn all(mut log: &[u8]) -> (Vec<Record>, Next) {
        let mut records = Vec::new();
        loop {
            let left = log.len() as u64;
            match next(&mut log, left).expect("memory") {
                Next::Record(record, _) => records.push(record),
                end => return (records, end),
            }
        }
    }

    proptest! {
        #[test]
        fn a_log_that_is_torn_anywhere_has_all_that_is_whole(records in vec(record(), 0..20), torn in any::<u16>()) {
            let (mut log, mut ends) = (Vec::new(), vec![0]);
            for record in &records {
                put(&mut log, record);
                ends.push(log.len());
            }
            prop_assert_eq!(all(&log), (records.clone(), Next::End));
            log.truncate(usize::from(torn) % (log.len() + 1));
            let whole = ends.iter().filter(|end| **end <= log.len()).count() - 1;
            prop_assert_eq!(all(&log), (records[..whole].to_vec(), Next::End));
        }

        #[test]
        fn no_damage_goes_unseen(records in vec(record(), 1..20), at in any::<u32>(), bit in 0..8_u32) {
            let mut log = Vec::new();
            records.iter().for_each(|record| put(&mut log, record));
            let at = at as usize % log.len();
            log[at] ^= 1 << bit;
            let (found, _) = all(&log);
            prop_assert!(found.len() < records.len() && records.starts_with(&found));
        }

        #[test]
        fn arbitrary_bytes_never_panic(log in vec(any::<u8>(), 0..500)) {
            drop(all(&log));
        }
    }

    #[test]
    fn what_a_log_has_besides_output_is_as_long_as_is_said() {
        let (mut start, mut cut, mut end) = (Vec::new(), Vec::new(), Vec::new());
        put_start(&mut start, JobId(7));
        put_cut(&mut cut, OutputCut::Disk);
        put_end(&mut end, &Summary::default());
        assert_eq!((start.len() as u64, end.len() as u64), (START_BYTES, END_BYTES));
        assert_eq!((cut.len() + end.len()) as u64, LAST_WORDS_BYTES);
        // Of what the system did not come to write there may be zeros.
        assert_eq!(all(&[0; 16]).1, Next::End);
        assert_eq!(all(&[0; 4096]).1, Next::Damaged);
    }
}
