//! What a job is, of a seed: the ranks, and how it ends. What its ranks do they decide themselves, of the same seed.

use std::time::Duration;

/// Numbers of ranks, small ones more often.
const RANKS: [u32; 12] = [1, 1, 1, 2, 2, 3, 4, 4, 8, 16, 24, 64];
/// Of so many jobs one waits to be killed.
const KILLED: u64 = 4;
/// A job is killed at any moment up to this time after its command began.
const KILL_MICROSECONDS_MAX: u64 = 400_000;

/// Who ends a job that does not end by itself, and when.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kill {
    /// The command that runs it dies.
    Command(Duration),
    /// `coppice kill`.
    Operator(Duration),
}

/// One job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) seed: u64,
    pub(super) ranks: u32,
    pub(super) kill: Option<Kill>,
}

impl Job {
    pub(super) fn of(seed: u64) -> Self {
        let mut state = seed;
        let mut below = |end: u64| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (mixed ^ (mixed >> 31)) % end
        };
        let ranks = RANKS[below(RANKS.len() as u64) as usize];
        let after = Duration::from_micros(below(KILL_MICROSECONDS_MAX));
        let kill = match below(2 * KILLED) {
            0 => Some(Kill::Command(after)),
            1 => Some(Kill::Operator(after)),
            _ => None,
        };
        Self { seed, ranks, kill }
    }

    /// The program's arguments.
    pub(super) fn arguments(&self) -> Vec<String> {
        let hang = self.kill.map(|_| "hang".to_owned());
        hang.into_iter().chain([format!("seed={}", self.seed)]).collect()
    }
}
