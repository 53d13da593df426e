//! What ranks of a job do to files that all of them use, as it follows from their script: which is opened when, and
//! what is read, written, appended, cut and renamed. Everything that is written says who wrote it and as which one of
//! his, so that who reads it knows how old it is.

use super::queue::MILLISECOND_NS;
use super::world::World;
use crate::random::Random;

/// Things that a rank does in a round.
const DEEDS: u64 = 9;
/// Rounds of a job.
const ROUNDS_MAX: u64 = 8;
/// Longest pause between two things, ns.
const PAUSE_NS_MAX: u64 = 300 * MILLISECOND_NS;
/// Words of a record, and bytes between the beginnings of two, at most.
const WORDS_MAX: u64 = 80;
const APART_MAX: u64 = 9000;
/// How often a rank writes in a round.
const WRITES_PER_MILLE: u64 = 600;
/// Bytes of a log that are read.
pub(super) const LOG_BYTES_MAX: u64 = 0x2000;
/// Bytes of an entry of the log.
pub(super) const ENTRY_BYTES: u64 = 16;
/// Every so-many-th job only gives a file other names, and looks at them.
const NAMES_EVERY: u64 = 4;
/// Names that a file goes through.
pub(super) const NAMES: u64 = 3;

const O_RDWR: u64 = 0o2;
const O_CREAT: u64 = 0o100;
const O_APPEND: u64 = 0o2000;

/// One of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SharedFile {
    /// Each rank has a record of its own in it, which all read.
    Records,
    /// All append to it.
    Log,
    /// The first rank cuts it and lets it grow, all look how long it is.
    Length,
    /// The first rank gives it one of [`NAMES`] after the other, all look at these. Nobody opens it.
    Named,
}

impl SharedFile {
    /// All of them.
    pub(super) const ALL: [Self; 4] = [Self::Records, Self::Log, Self::Length, Self::Named];
}

/// Something that a rank does. What it writes has a number, higher than all that it has written before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    Pause(u64),
    Open(SharedFile, u64),
    /// Writes its record.
    Write(u64),
    /// Reads a rank's record.
    Read(u32),
    Append(u64),
    ReadLog,
    Cut(u64),
    LookAtLength,
    /// Gives the named file its next name; how often by then.
    Rename(u64),
    /// Looks whether there is something of that name.
    LookAtName(u64),
    Sync,
    Close,
}

/// See this module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sharing {
    /// How often a file is opened. 0: there are none.
    pub rounds: u64,
    /// What tells it from those of other jobs.
    pub mark: u64,
    /// Words of a record.
    pub words: u64,
    /// Bytes between the beginnings of two.
    pub apart: u64,
    pub pause_ns: u64,
}

/// Numbers that say all of it.
pub(super) const SHARING_NUMBERS: usize = 5;

/// A word that says whose it is, and which.
pub(super) fn word(rank: u32, number: u64) -> u64 {
    u64::from(rank) << 32 | number
}

/// The file's length that is the first rank's with this number: each has another.
pub(super) fn length_of(number: u64) -> u64 {
    if number == 0 { 0 } else { 1 + number * 577 % 6007 }
}

impl Sharing {
    pub(super) fn numbers(&self) -> [u64; SHARING_NUMBERS] {
        let Self { rounds, mark, words, apart, pause_ns } = *self;
        [rounds, mark, words, apart, pause_ns]
    }

    pub(super) fn of([rounds, mark, words, apart, pause_ns]: [u64; SHARING_NUMBERS]) -> Self {
        Self { rounds, mark, words, apart, pause_ns }
    }

    /// Where a rank's record is, and how long, bytes.
    pub(super) fn record(&self, rank: u32) -> (u64, u64) {
        (u64::from(rank) * self.apart, self.words * 8)
    }

    /// What a rank of so many does as its `at`th thing. `None`: it is done.
    pub(super) fn deed(&self, rank: u32, size: u32, at: u64) -> Option<Deed> {
        let round = at / DEEDS;
        if round >= self.rounds {
            return None;
        }
        let (file, writes) = self.round(rank, round);
        let mut random = self.chance(rank, at + 0x8000);
        let number = at + 1;
        Some(match at % DEEDS {
            0 => Deed::Pause(random.delay(self.pause_ns)),
            1 | 3 | 5 | 7 | 8 if file == SharedFile::Named => Deed::LookAtName(random.between(0, NAMES - 1)),
            3 | 5 => Deed::Pause(random.delay(self.pause_ns)),
            1 => {
                let writing = if writes { O_RDWR } else { 0 };
                let appending = if file == SharedFile::Log { O_APPEND } else { 0 };
                Deed::Open(file, O_CREAT | writing | appending)
            }
            // Nothing that failed is to go unheard.
            7 if writes && (round + 1 == self.rounds || random.chance(200)) => Deed::Sync,
            7 => Deed::Pause(random.delay(self.pause_ns)),
            8 => Deed::Close,
            _ => {
                let writes = writes && random.chance(WRITES_PER_MILLE);
                match (file, writes) {
                    (SharedFile::Records, true) => Deed::Write(number),
                    (SharedFile::Records, false) => Deed::Read(random.between(0, u64::from(size) - 1) as u32),
                    (SharedFile::Log, true) => Deed::Append(number),
                    (SharedFile::Log, false) => Deed::ReadLog,
                    (SharedFile::Length, true) => Deed::Cut(number),
                    (SharedFile::Length, false) => Deed::LookAtLength,
                    (SharedFile::Named, true) => {
                        Deed::Rename(1 + (0..at).filter(|before| self.renames(*before)).count() as u64)
                    }
                    (SharedFile::Named, false) => Deed::LookAtName(random.between(0, NAMES - 1)),
                }
            }
        })
    }

    fn chance(&self, rank: u32, of: u64) -> Random {
        Random::new(self.mark << 32 ^ u64::from(rank) << 16 ^ of)
    }

    /// Which file a rank uses in a round, and whether it writes.
    fn round(&self, rank: u32, round: u64) -> (SharedFile, bool) {
        let mut random = self.chance(rank, round * DEEDS);
        // A node looks a few times before it keeps what it is told: some jobs do nothing else.
        let is_of_names = self.mark.is_multiple_of(NAMES_EVERY);
        let file = SharedFile::ALL[[0, 0, 1, 2, 3][if is_of_names { 4 } else { random.length(0, 4) }]];
        let is_of_first = matches!(file, SharedFile::Length | SharedFile::Named);
        (file, random.chance(WRITES_PER_MILLE) && (!is_of_first || rank == 0))
    }

    /// Whether what the first rank does as its `at`th thing is [`Deed::Rename`].
    fn renames(&self, at: u64) -> bool {
        self.round(0, at / DEEDS) == (SharedFile::Named, true)
            && matches!(at % DEEDS, 2 | 4 | 6)
            && self.chance(0, at + 0x8000).chance(WRITES_PER_MILLE)
    }
}

impl World {
    /// What ranks do to files that they share.
    pub(super) fn any_sharing(&mut self) -> Sharing {
        self.talks += 1;
        let words = self.random.between(1, WORDS_MAX);
        Sharing {
            rounds: self.random.between(2, ROUNDS_MAX),
            mark: self.talks,
            words,
            // No word lies in two pages: of one that is being written who reads it may find a part.
            apart: self.random.between(words, APART_MAX / 8) * 8,
            pause_ns: self.random.delay(PAUSE_NS_MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::length_of;

    #[test]
    fn lengths_tell_who_cut() {
        let lengths: BTreeSet<u64> = (0..200).map(length_of).collect();
        assert_eq!(lengths.len(), 200);
    }
}
