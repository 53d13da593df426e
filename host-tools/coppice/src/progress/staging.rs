//! Shows how far files are on their way to nodes, if that takes a while.

use std::time::{Duration, Instant};

use coppice_api::stream::StagingProgress;
use indicatif::ProgressBar;

use crate::progress;

/// What is over sooner after the first word of it is not worth a bar. That word comes a moment after the begin.
const PATIENCE: Duration = Duration::from_millis(750);

/// Cleared when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Bar {
    since: Option<Instant>,
    bar: Option<ProgressBar>,
}

impl Bar {
    /// It is said how far they are.
    pub(crate) fn show(&mut self, progress: &StagingProgress, now: Instant) {
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) < PATIENCE {
            return;
        }
        let StagingProgress { bytes, total, whole, nodes } = *progress;
        let bar = self.bar.get_or_insert_with(|| progress::bytes(total));
        bar.set_position(bytes.min(total));
        bar.set_message(match whole {
            0 => format!("staging for {}", coppice_api::counted(nodes, "node")),
            whole => format!("staging, {whole} of {} done", coppice_api::counted(nodes, "node")),
        });
    }

    /// They are there, or nobody waits for them any more.
    pub(crate) fn clear(&mut self) {
        self.since = None;
        self.bar.take().iter().for_each(ProgressBar::finish_and_clear);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use coppice_api::stream::StagingProgress;

    use super::{Bar, PATIENCE};

    #[test]
    fn a_short_transfer_has_no_bar_and_a_long_one_until_ranks_run() {
        let (mut bar, begin) = (Bar::default(), Instant::now());
        let progress = |bytes, whole| StagingProgress { bytes, total: 100, whole, nodes: 8 };
        bar.show(&progress(1, 0), begin);
        bar.show(&progress(50, 0), begin + PATIENCE / 2);
        assert!(bar.bar.is_none());
        bar.show(&progress(70, 0), begin + PATIENCE);
        let shown = bar.bar.clone().expect("there");
        assert_eq!((shown.position(), shown.length()), (70, Some(100)));
        assert_eq!(shown.message(), "staging for 8 nodes");
        bar.show(&progress(700, 3), begin + 2 * PATIENCE);
        assert_eq!((shown.position(), shown.message()), (100, "staging, 3 of 8 nodes done".to_owned()));
        bar.clear();
        assert!(bar.bar.is_none() && shown.is_finished());
        // Whatever comes late is the begin of another.
        bar.show(&progress(100, 8), begin + 3 * PATIENCE);
        assert!(bar.bar.is_none());
    }
}
