//! The node's queue of RAS events. Whoever notices something reports it; the agent sends it when it can.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;

use coppice_protocol::limits::{RAS_QUEUE_MAX, RAS_TEXT_BYTES_MAX};
use coppice_protocol::ras::{RasEvent, RasKind, Severity};

use crate::executor::WaitQueue;
use crate::sync::{LockLevel, Mutex};

/// Events that wait to be sent. At its limit the oldest go, and how many did is told.
pub struct RasQueue {
    waiting: Mutex<Waiting>,
    changed: WaitQueue,
}

struct Waiting {
    events: VecDeque<RasEvent>,
    lost: u64,
}

/// The queue of this node.
static QUEUE: RasQueue = RasQueue::new();

/// The queue of this node.
#[must_use]
pub fn queue() -> &'static RasQueue {
    &QUEUE
}

/// Queues an event of this node to be sent. Its text is cut at [`RAS_TEXT_BYTES_MAX`].
pub fn report(event: RasEvent) {
    QUEUE.push(event);
}

impl RasQueue {
    /// An empty queue.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            waiting: Mutex::new(LockLevel::Outbox, Waiting { events: VecDeque::new(), lost: 0 }),
            changed: WaitQueue::new(),
        }
    }

    /// Queues an event.
    pub fn push(&self, mut event: RasEvent) {
        cut(&mut event.text, RAS_TEXT_BYTES_MAX);
        {
            let mut waiting = self.waiting.lock();
            if waiting.events.len() >= RAS_QUEUE_MAX {
                waiting.events.pop_front();
                waiting.lost += 1;
            }
            waiting.events.push_back(event);
        }
        self.changed.wake_all();
    }

    /// Takes the next event to send: first the news that some were lost, then the oldest.
    pub fn pop(&self) -> Option<RasEvent> {
        let mut waiting = self.waiting.lock();
        let lost = core::mem::take(&mut waiting.lost);
        if lost == 0 { waiting.events.pop_front() } else { Some(events_lost(lost)) }
    }

    /// Waits for the next event to send. Cancel-safe.
    pub async fn next(&self) -> RasEvent {
        self.changed.wait_until(|| self.pop()).await
    }
}

impl Default for RasQueue {
    fn default() -> Self {
        Self::new()
    }
}

fn events_lost(lost: u64) -> RasEvent {
    RasEvent {
        severity: Severity::Warn,
        kind: RasKind::EventsLost,
        job: None,
        rank: None,
        address: None,
        instruction: None,
        text: format!("{lost} events were lost while the node could not send them"),
    }
}

/// Shortens `text` to at most `bytes_max` bytes, between characters.
pub(crate) fn cut(text: &mut String, bytes_max: usize) {
    if text.len() > bytes_max {
        text.truncate(text.floor_char_boundary(bytes_max));
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use coppice_protocol::limits::RAS_QUEUE_MAX;
    use coppice_protocol::ras::RasKind;

    use super::{RasQueue, cut, events_lost};

    #[test]
    fn the_oldest_go_and_are_counted() {
        let queue = RasQueue::new();
        for number in 0..RAS_QUEUE_MAX as u64 + 3 {
            queue.push(events_lost(number));
        }
        let first = queue.pop().map(|event| (event.kind, event.text));
        assert_eq!(first, Some((RasKind::EventsLost, events_lost(3).text)));
        let rest: alloc::vec::Vec<_> = core::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(rest.len(), RAS_QUEUE_MAX);
        assert_eq!(rest[0].text, events_lost(3).text);
    }

    #[test]
    fn texts_are_cut_between_characters() {
        let mut text = String::from("aé");
        cut(&mut text, 2);
        assert_eq!(text, "a");
    }
}
