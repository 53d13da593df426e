//! What a traced rank did: records on their way from its node to whoever traces it.
//!
//! A record has numbers and bytes as the program had them, and no words: what they mean is looked up in the
//! [table of calls](crate::syscalls) by whoever shows them. Records follow one another in a stream of bytes, each
//! behind its length; where the stream is cut into pieces says nothing.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::ids::Rank;
use crate::syscalls::Kind;

/// Longest record, bytes: two paths of the greatest length, and what else there is to say.
pub const RECORD_BYTES_MAX: usize = 10 * 1024;

/// So much of what a program reads and writes is in a record, bytes.
pub const EXCERPT_BYTES: usize = 32;

/// So many pieces of what a program writes in pieces are in a record.
pub const PIECES_MAX: usize = 8;

/// Length of an entry of `struct iovec`, bytes.
pub const PIECE_BYTES: usize = 16;

/// Length of `struct sigaction` as the kernel has it, bytes: handler, flags, restorer, mask.
const ACTION_BYTES: u64 = 32;

/// Whom to trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Traced {
    /// Nobody.
    None,
    /// One rank.
    Rank(Rank),
    /// All ranks.
    All,
}

impl Traced {
    /// Whether that rank is to be traced.
    #[must_use]
    pub fn has(self, rank: Rank) -> bool {
        match self {
            Self::None => false,
            Self::Rank(one) => one == rank,
            Self::All => true,
        }
    }
}

/// Something that a thread did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Which thread.
    pub tid: u32,
    /// When, by the node's clock, ns since 1970.
    pub at_ns: u64,
    /// What.
    pub event: Event,
}

/// What a thread did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// It waits in a call.
    Waits(CallRecord),
    /// A call is over. If it waited, that was said.
    Called {
        /// Which.
        call: CallRecord,
        /// How long it took, ns.
        took_ns: u64,
        /// What came of it.
        outcome: Outcome,
    },
    /// It goes on in a signal's handler.
    Signal {
        /// The signal.
        signal: u32,
        /// `si_code`: who sent it, or what happened.
        code: i32,
        /// The fields of `siginfo_t` behind that, 16 bytes: who sent it, or the address.
        fields: [u8; 16],
    },
    /// The process is at its end, by itself.
    Exited {
        /// With this status.
        status: u8,
    },
    /// The process was ended by a signal.
    Killed {
        /// Which.
        signal: u8,
    },
}

/// A call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRecord {
    /// Its number.
    pub number: u64,
    /// The registers with its arguments.
    pub arguments: [u64; 6],
    /// What was where arguments point to, as far as it could be read.
    pub excerpts: Vec<Excerpt>,
}

/// What an argument points to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Excerpt {
    /// Which argument, from 0.
    pub argument: u8,
    /// The bytes. A text is without its zero. Pieces are their entries (of [`PIECE_BYTES`]), and then what is in each.
    pub bytes: Vec<u8>,
}

/// What came of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// A result, or an error's number with a minus.
    Result(u64),
    /// A signal came first; the call is made again, perhaps.
    Interrupted {
        /// It is, whatever was said for the signal.
        again: bool,
    },
    /// The thread does not come back.
    Gone,
}

/// What is to be read of a program's memory for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A text that ends with a zero.
    Text(u64),
    /// Bytes.
    Bytes {
        /// From where.
        address: u64,
        /// How many.
        length: usize,
    },
    /// Entries of `struct iovec`, and some of what each is about.
    Pieces {
        /// From where.
        address: u64,
        /// How many.
        count: usize,
        /// Bytes in all of them together, if they are not full.
        filled: usize,
    },
}

impl Wanted {
    /// What is wanted for an argument of this kind; `result` is the call's if it has one and did not fail.
    #[must_use]
    pub fn of(kind: Kind, index: usize, arguments: &[u64; 6], result: Option<u64>) -> Option<Self> {
        let address = *arguments.get(index)?;
        let given = |other: u8| arguments.get(usize::from(other)).copied().unwrap_or(0);
        let bytes = |length: u64, max: usize| {
            let length = usize::try_from(length).map_or(max, |length| length.min(max));
            Some(Self::Bytes { address, length })
        };
        if address == 0 {
            return None;
        }
        match kind {
            Kind::Path => Some(Self::Text(address)),
            Kind::In(length) => bytes(given(length), EXCERPT_BYTES),
            Kind::Out => bytes(result?, EXCERPT_BYTES),
            Kind::OutText => bytes(result?.saturating_sub(1), crate::limits::PATH_BYTES_MAX),
            Kind::Time => bytes(16, 16),
            Kind::Pair | Kind::SetOut => result.and_then(|_| bytes(8, 8)),
            Kind::Set => bytes(8, 8),
            Kind::Action => bytes(ACTION_BYTES, EXCERPT_BYTES),
            Kind::ActionOut => result.and_then(|_| bytes(ACTION_BYTES, EXCERPT_BYTES)),
            Kind::Iovec(count) => {
                let count = usize::try_from(given(count)).map_or(PIECES_MAX, |count| count.min(PIECES_MAX));
                Some(Self::Pieces { address, count, filled: usize::MAX })
            }
            Kind::OutIovec(count) => {
                let count = usize::try_from(given(count)).map_or(PIECES_MAX, |count| count.min(PIECES_MAX));
                Some(Self::Pieces { address, count, filled: usize::try_from(result?).unwrap_or(usize::MAX) })
            }
            _ => None,
        }
    }
}

impl Record {
    /// Adds the record to a stream. One that is too long, which none is, is left out.
    pub fn write(&self, stream: &mut Vec<u8>) {
        let Ok(bytes) = postcard::to_allocvec(self) else { return };
        let Some(length) = u16::try_from(bytes.len()).ok().filter(|_| bytes.len() <= RECORD_BYTES_MAX) else { return };
        stream.extend_from_slice(&length.to_le_bytes());
        stream.extend_from_slice(&bytes);
    }
}

/// A stream of records is not one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what a node says of a traced rank is no record")]
pub struct NoRecord;

/// Takes a stream of records apart.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    /// What came and is not a whole record yet.
    bytes: Vec<u8>,
}

impl Reader {
    /// The next piece of the stream came. Gives the records that are whole now.
    ///
    /// # Errors
    /// [`NoRecord`]: the stream is damaged, and nothing can be made of what follows.
    pub fn read(&mut self, piece: &[u8]) -> Result<Vec<Record>, NoRecord> {
        self.bytes.extend_from_slice(piece);
        let (mut records, mut at) = (Vec::new(), 0);
        while let Some((length, rest)) = self.bytes.get(at..).and_then(|rest| rest.split_first_chunk::<2>()) {
            let length = usize::from(u16::from_le_bytes(*length));
            if length > RECORD_BYTES_MAX {
                return Err(NoRecord);
            }
            let Some(bytes) = rest.get(..length) else { break };
            records.push(postcard::from_bytes(bytes).map_err(|_| NoRecord)?);
            at += 2 + length;
        }
        self.bytes.drain(..at);
        Ok(records)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use proptest::collection::vec;
    use proptest::prelude::{Strategy, any, prop_oneof};
    use proptest::{prop_assert_eq, proptest};

    use super::{CallRecord, Event, Excerpt, NoRecord, Outcome, Reader, Record, Wanted};
    use crate::syscalls::Kind;

    fn calls() -> impl Strategy<Value = CallRecord> {
        let excerpts = vec((any::<u8>(), vec(any::<u8>(), 0..100)), 0..3);
        (any::<u64>(), any::<[u64; 6]>(), excerpts).prop_map(|(number, arguments, excerpts)| CallRecord {
            number,
            arguments,
            excerpts: excerpts.into_iter().map(|(argument, bytes)| Excerpt { argument, bytes }).collect(),
        })
    }

    fn records() -> impl Strategy<Value = Record> {
        let event = prop_oneof![
            calls().prop_map(Event::Waits),
            (calls(), any::<u64>(), any::<u64>()).prop_map(|(call, took_ns, result)| Event::Called {
                call,
                took_ns,
                outcome: Outcome::Result(result)
            }),
            any::<u8>().prop_map(|status| Event::Exited { status }),
        ];
        (any::<u32>(), any::<u64>(), event).prop_map(|(tid, at_ns, event)| Record { tid, at_ns, event })
    }

    proptest! {
        #[test]
        fn records_come_out_as_they_went_in_however_they_are_cut(
            records in vec(records(), 0..20),
            cuts in vec(1..50_usize, 1..20),
        ) {
            let mut stream = Vec::new();
            records.iter().for_each(|record| record.write(&mut stream));
            let (mut reader, mut found, mut rest) = (Reader::default(), Vec::new(), &stream[..]);
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, later) = rest.split_at((*cut).min(rest.len()));
                found.extend(reader.read(piece).expect("records"));
                rest = later;
            }
            prop_assert_eq!(found, records);
        }

        #[test]
        fn anything_else_is_refused_or_waited_for(bytes in vec(any::<u8>(), 0..200)) {
            let _ = Reader::default().read(&bytes);
        }
    }

    #[test]
    fn a_record_is_not_longer_than_it_may_be() {
        assert_eq!(Reader::default().read(&[0xff, 0xff]), Err(NoRecord));
        let excerpts = vec![Excerpt { argument: 1, bytes: vec![1; 70_000] }];
        let call = CallRecord { number: 1, arguments: [0; 6], excerpts };
        let mut stream = Vec::new();
        Record { tid: 1, at_ns: 2, event: Event::Waits(call) }.write(&mut stream);
        assert_eq!(stream, []);
    }

    #[test]
    fn what_is_wanted_follows_from_the_kind() {
        let arguments = [3, 0x1000, 100, 0, 0, 0];
        let wanted = |kind, index, result| Wanted::of(kind, index, &arguments, result);
        assert_eq!(wanted(Kind::Path, 1, None), Some(Wanted::Text(0x1000)));
        assert_eq!(wanted(Kind::Path, 3, None), None);
        assert_eq!(wanted(Kind::In(2), 1, None), Some(Wanted::Bytes { address: 0x1000, length: 32 }));
        assert_eq!(wanted(Kind::Out, 1, None), None);
        assert_eq!(wanted(Kind::Out, 1, Some(5)), Some(Wanted::Bytes { address: 0x1000, length: 5 }));
        assert_eq!(
            wanted(Kind::Iovec(2), 1, None),
            Some(Wanted::Pieces { address: 0x1000, count: 8, filled: usize::MAX })
        );
        assert_eq!(wanted(Kind::OutIovec(2), 1, None), None);
        assert_eq!(
            wanted(Kind::OutIovec(2), 1, Some(5)),
            Some(Wanted::Pieces { address: 0x1000, count: 8, filled: 5 })
        );
        assert_eq!(wanted(Kind::Fd, 0, Some(5)), None);
    }
}
