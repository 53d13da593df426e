//! A thread that is held ([`crate::process::hold`]).

use alloc::sync::Arc;

use super::Thread;
use crate::process::futexes::Asleep;
use crate::process::hold::{Position, ThreadImage};
use crate::process::threads::Threads;

/// A thread that lies at a word while it is held. If it goes then, it gets up, unless all of its process is to be data:
/// then it is written down where it lies.
struct Lying<'a>(Option<Asleep<'a>>, &'a Threads);

impl Lying<'_> {
    fn stay(mut self) {
        if let Some(asleep) = self.0.take() {
            asleep.stay();
        }
    }
}

impl Drop for Lying<'_> {
    fn drop(&mut self) {
        if let Some(asleep) = self.0.take()
            && self.1.is_dissolved()
        {
            asleep.stay();
        }
    }
}

impl Thread {
    /// Shows what the thread is and waits until nobody holds it. Gives where it goes on, as what it may have been made
    /// meanwhile.
    pub(super) async fn be_held(&mut self) -> Position {
        let position = self.held_at.take().unwrap_or(Position::Program);
        // What came while it was held, or data, is to be looked at.
        self.state.leave_attention();
        if !self.process.threads.hold.is_asked_of(self.state.tid) {
            return position;
        }
        // It lies where it lies; if the thread ends here, it gets up.
        let (process, state) = (Arc::clone(&self.process), Arc::clone(&self.state));
        let asleep = matches!(position, Position::Asleep { .. });
        let lying = asleep.then(|| Lying(Some(process.job.futexes.asleep(&state.sleeper)), &process.threads));
        let shown = self.on_own_clock(position);
        self.end_step();
        self.state.show(ThreadImage::of(&mut self.user, shown));
        self.process.threads.hold.tell();
        self.process.threads.hold.over(self.state.tid).await;
        let image = self.state.take_image();
        // Nobody else takes it, unless a debugger has the thread go elsewhere: then it gets up.
        if let Some(lying) = lying
            && image.as_ref().is_none_or(|image| matches!(image.position, Position::Asleep { .. }))
        {
            lying.stay();
        }
        let Some(image) = image else { return position };
        // What was refused stays as it was: who changed the image has been told.
        let _ = image.apply(&mut self.user);
        if self.process.threads.hold.debugger.is_there() {
            self.follow_debugger();
        }
        self.on_node_clock(image.position)
    }

    /// What is said of a place by the clock of the node, by that of the process.
    fn on_own_clock(&self, position: Position) -> Position {
        match position {
            Position::Asleep { until_ns, always } => {
                Position::Asleep { until_ns: self.process.clock.of_node(until_ns), always }
            }
            other => other,
        }
    }

    /// The other way round.
    pub(super) fn on_node_clock(&self, position: Position) -> Position {
        match position {
            Position::Asleep { until_ns, always } => {
                Position::Asleep { until_ns: self.process.clock.on_node(until_ns), always }
            }
            other => other,
        }
    }
}
