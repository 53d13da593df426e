//! What the ranks of users' jobs have to do with PMIx.

use coppice_protocol::limits::{PMI_BYTES_PER_JOB_MAX, PMI_SILENCE_NS};

use super::pmix::{Course, Loss, SPOKEN};
use super::queue::SECOND_NS;
use super::world::World;

/// Rounds of a job, and keys that each of its ranks puts in each.
const ROUNDS_MAX: u64 = 3;
const KEYS_MAX: u64 = 3;
/// How often one of its ranks notifies the others, goes away, and the job goes on then.
const NOTIFIES_PER_MILLE: u64 = 700;
const LOSES_PER_MILLE: u64 = 350;
const OUTLIVES_PER_MILLE: u64 = 600;
/// A pause that is longer than a node may be silent, ns.
const LONG_PAUSE_NS: u64 = PMI_SILENCE_NS + 5 * SECOND_NS;
/// What a pair takes beyond its value, about, bytes.
const PAIR_BYTES: u64 = 128;

impl World {
    /// What so many ranks do with PMIx, so many of them on a node.
    pub(super) fn any_course(&mut self, ranks: u32, ranks_per_node: u32) -> Course {
        self.talks += 1;
        let (rounds, keys) = (self.random.between(1, ROUNDS_MAX), self.random.between(1, KEYS_MAX));
        // Half of what all ranks may put, all together.
        let puts = rounds * (2 * keys + 1) * u64::from(ranks);
        let bytes_max = (PMI_BYTES_PER_JOB_MAX as u64 / 2 / puts).saturating_sub(PAIR_BYTES);
        let wanted = if self.random.chance(100) { 900 } else { 60 };
        let course = Course {
            rounds,
            mark: self.talks,
            keys,
            value_bytes: self.random.delay(wanted.min(bytes_max)),
            pause_ns: if self.random.chance(50) { LONG_PAUSE_NS } else { self.random.delay(SECOND_NS) },
            per_node: ranks_per_node.into(),
            is_wide: self.random.chance(300),
            ..Course::default()
        };
        let notifies = self.random.chance(NOTIFIES_PER_MILLE);
        let notifier = if notifies { self.random.between(1, u64::from(ranks)) } else { 0 };
        let course = Course { notifier, ..course };
        if !self.random.chance(LOSES_PER_MILLE) {
            return course;
        }
        let outlives = self.random.chance(OUTLIVES_PER_MILLE);
        let ways = if outlives { Loss::OUTLIVED } else { Loss::ALL.len() } as u64;
        Course {
            loser: self.random.between(1, u64::from(ranks)),
            loses_at: self.random.between(SPOKEN, course.last_round_ends() - 1),
            loses_how: self.random.between(0, ways - 1),
            outlives,
            ..course
        }
    }
}
