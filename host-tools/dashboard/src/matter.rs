//! What is known of a job.

use coppice_api::checkpoint::CheckpointView;
use coppice_api::overlay::{OverlayView, RankProfileView};
use coppice_explain::Evidence;

/// Ranks that have a row of their own in charts.
pub const RANKS_DRAWN_MAX: u32 = 64;

/// All that a page about a job is made of. What is not known is empty.
#[derive(Clone, Debug)]
pub struct Matter {
    /// What is looked at to explain it.
    pub evidence: Evidence,
    /// Its overlay, as far as there is one now.
    pub overlay: Option<OverlayView>,
    /// What was recorded of single ranks: those of [`drawn_ranks`].
    pub ranks: Vec<RankProfileView>,
    /// Checkpoints that there are of it.
    pub checkpoints: Vec<CheckpointView>,
    /// Functions that its ranks were in most often, the most first.
    pub functions: Vec<Function>,
    /// A flame graph, as a file of its own (SVG).
    pub flame_graph: Option<Vec<u8>>,
    /// The end of its output.
    pub output: Option<Output>,
}

/// A function, and how often ranks were in it when somebody looked.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// What it is called.
    pub name: String,
    /// How much of all samples had it innermost, in percent.
    pub itself: f64,
    /// How much of them had it anywhere.
    pub with_callees: f64,
}

/// Some of a job's output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// What there is of it.
    pub bytes: Vec<u8>,
    /// How many bytes were before that.
    pub before: u64,
}

impl Output {
    /// Leaves no more than so many bytes, the last ones.
    pub(crate) fn keep_the_end(&mut self, bytes: usize) {
        let more = self.bytes.len().saturating_sub(bytes);
        self.bytes.drain(..more);
        self.before += more as u64;
    }
}

/// Which ranks of so many are drawn: all, or some that are as far from each other.
#[must_use]
pub fn drawn_ranks(ranks: u32) -> Vec<u32> {
    let drawn = ranks.min(RANKS_DRAWN_MAX);
    let of = |place: u32| u64::from(place) * u64::from(ranks) / u64::from(drawn.max(1));
    (0..drawn).map(|place| u32::try_from(of(place)).unwrap_or(u32::MAX)).collect()
}

#[cfg(test)]
mod tests {
    use super::{Output, RANKS_DRAWN_MAX, drawn_ranks};

    #[test]
    fn the_end_of_output_is_kept() {
        let mut output = Output { bytes: b"abcdef".to_vec(), before: 1 };
        output.keep_the_end(9);
        output.keep_the_end(2);
        assert_eq!(output, Output { bytes: b"ef".to_vec(), before: 5 });
    }

    #[test]
    fn some_of_many_ranks_are_drawn() {
        assert!(drawn_ranks(0).is_empty());
        assert_eq!(drawn_ranks(3), [0, 1, 2]);
        for ranks in [65, 1000, u32::MAX] {
            let drawn = drawn_ranks(ranks);
            assert!(drawn.len() == RANKS_DRAWN_MAX as usize && drawn.is_sorted_by(|one, other| one < other));
            assert!(drawn.iter().all(|rank| *rank < ranks) && *drawn.last().expect("one") >= ranks / 64 * 62);
        }
    }
}
