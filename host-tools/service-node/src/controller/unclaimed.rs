//! Streams of jobs that ended before anybody took their output, or their trace.
//!
//! Whoever submits a job asks for its streams next; a short job may be over by then. They are kept a while.

use std::collections::BTreeMap;
use std::time::Instant;

use coppice_protocol::ids::JobId;

use crate::feed::Feed;
use crate::limits::{ATTACH_TIME_MAX, UNCLAIMED_MAX};

/// Streams that wait for their readers, and until when.
#[derive(Debug, Default)]
pub(super) struct Unclaimed {
    feeds: BTreeMap<JobId, (Feed, Instant)>,
}

impl Unclaimed {
    /// Keeps the stream of a job that has just ended, if whoever runs it has not come yet. At most [`UNCLAIMED_MAX`];
    /// the oldest go first.
    pub(super) fn keep(&mut self, job: JobId, feed: Feed, now: Instant) {
        if !feed.is_awaited() {
            return;
        }
        while self.feeds.len() >= UNCLAIMED_MAX {
            self.feeds.pop_first();
        }
        self.feeds.insert(job, (feed, now + ATTACH_TIME_MAX));
    }

    /// The stream of a job, once.
    pub(super) fn take(&mut self, job: JobId) -> Option<Feed> {
        self.feeds.remove(&job).map(|(feed, _)| feed)
    }

    /// When [`Self::expire`] has something to do.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.feeds.values().map(|(_, until)| *until).min()
    }

    /// Forgets streams that nobody wants.
    pub(super) fn expire(&mut self, now: Instant) {
        self.feeds.retain(|_, (_, until)| *until > now);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use coppice_protocol::ids::JobId;

    use super::Unclaimed;
    use crate::feed::Feed;
    use crate::limits::{ATTACH_TIME_MAX, UNCLAIMED_MAX};

    #[test]
    fn a_stream_waits_for_its_reader_and_not_for_ever() {
        let now = Instant::now();
        let mut unclaimed = Unclaimed::default();
        let mut taken = Feed::owned();
        let _reader = taken.attach();
        unclaimed.keep(JobId(1), taken, now);
        unclaimed.keep(JobId(2), Feed::owned(), now);
        unclaimed.keep(JobId(3), Feed::owned(), now);
        unclaimed.keep(JobId(4), Feed::default(), now);
        assert!(unclaimed.take(JobId(4)).is_none(), "nobody was to have it");
        assert!(unclaimed.take(JobId(1)).is_none(), "somebody had it");
        assert!(unclaimed.take(JobId(2)).is_some_and(|mut feed| feed.attach().is_some()));
        assert!(unclaimed.take(JobId(2)).is_none(), "taken twice");
        assert_eq!(unclaimed.deadline(), Some(now + ATTACH_TIME_MAX));
        unclaimed.expire(now + ATTACH_TIME_MAX);
        assert!(unclaimed.take(JobId(3)).is_none() && unclaimed.deadline().is_none());
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many() {
        let now = Instant::now();
        let mut unclaimed = Unclaimed::default();
        (0..=UNCLAIMED_MAX as u64).for_each(|job| unclaimed.keep(JobId(job), Feed::owned(), now));
        assert!(unclaimed.take(JobId(0)).is_none() && unclaimed.take(JobId(1)).is_some());
    }
}
