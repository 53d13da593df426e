//! Which pages of a file are asked for: those that a read needs, and those that it will.
//!
//! Several readers go through a file at a time, each in its own way; [`Ahead`] follows [`STREAMS`] of them. One that
//! goes on where it stopped has a window before it that doubles, up to [`AHEAD_PAGES_MAX`], and that is filled again
//! while it is still half full. One that goes on by the same step, forwards or backwards, has its next few reads there.
//! Who does neither gets what it asks for.

use core::ops::Range;

/// Readers of a file that are followed; a new one takes the place of the one that has read nothing for longest.
const STREAMS: usize = 4;

/// First window of a stream, pages.
const WINDOW_PAGES_MIN: u64 = 8;

/// Largest window, pages: what is asked for while a reader uses what it has.
const AHEAD_PAGES_MAX: u64 = 256;

/// Reads that are there before they are made, of a stream with steps.
const STEPS_AHEAD: i64 = 4;

/// Steps that are alike before anybody believes in them.
const STEPS_ALIKE: u32 = 2;

/// A reader. Pages are counted from the file's start.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    /// Where its last read began, and the page behind it.
    last: u64,
    next: u64,
    /// From one read's beginning to the next, and how often it was that before.
    step: i64,
    alike: u32,
    /// How far is asked for ahead, and the first page that was not asked for.
    window: u64,
    asked: u64,
    /// When it has read last.
    used: u64,
}

/// Those of one file.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    streams: [Stream; STREAMS],
    reads: u64,
}

impl Ahead {
    /// Somebody reads these pages of a file of `end` pages. Gives what is to be asked for, as far as it is not there or
    /// on its way, what is needed first; the second only if there is room for it.
    pub(super) fn read(&mut self, pages: Range<u64>, end: u64) -> [Range<u64>; 2] {
        self.reads += 1;
        let reads = self.reads;
        let length = pages.end - pages.start;
        let follows = |stream: &Stream| {
            let is_next = (stream.next.saturating_sub(1)..=stream.next).contains(&pages.start);
            let by_step = stream.last.checked_add_signed(stream.step) == Some(pages.start) && stream.step != 0;
            stream.used > 0 && (is_next || by_step)
        };
        let near = |stream: &Stream| {
            let distance = stream.last.abs_diff(pages.start);
            stream.used > 0 && distance < 4 * AHEAD_PAGES_MAX
        };
        let found = self.streams.iter().position(follows).or_else(|| self.streams.iter().position(near));
        let oldest = || (0..STREAMS).min_by_key(|at| self.streams.get(*at).map_or(0, |stream| stream.used));
        let Some(index) = found.or_else(oldest) else { return [pages.clone(), pages.end..pages.end] };
        let is_known = found.is_some();
        let Some(stream) = self.streams.get_mut(index) else { return [pages.clone(), pages.end..pages.end] };
        let is_next = is_known && (stream.next.saturating_sub(1)..=stream.next).contains(&pages.start);
        let begins = !is_known && pages.start == 0;
        if !is_known {
            *stream = Stream { window: WINDOW_PAGES_MIN / 2, asked: pages.end, ..Stream::default() };
        }
        let step = i64::try_from(pages.start).unwrap_or(i64::MAX) - i64::try_from(stream.last).unwrap_or(i64::MAX);
        stream.alike = if is_known && step == stream.step && step != 0 { stream.alike + 1 } else { 0 };
        stream.step = if is_known { step } else { 0 };
        (stream.last, stream.next, stream.used) = (pages.start, stream.next.max(pages.end), reads);
        if !is_next {
            stream.next = pages.end;
        }
        let ahead = if is_next || begins {
            // More is asked for when half of it is used.
            let left = stream.asked.saturating_sub(pages.end);
            if left * 2 > stream.window {
                pages.end..pages.end
            } else {
                stream.window = (stream.window * 2).max(length).min(AHEAD_PAGES_MAX);
                let from = stream.asked.max(pages.end);
                stream.asked = pages.end + stream.window;
                from..stream.asked
            }
        } else if stream.alike >= STEPS_ALIKE {
            let to = pages.start.checked_add_signed(step.saturating_mul(STEPS_AHEAD)).unwrap_or(0);
            to..to + length
        } else {
            (stream.window, stream.asked) = (WINDOW_PAGES_MIN / 2, pages.end);
            pages.end..pages.end
        };
        let cut = |range: Range<u64>| range.start.min(end)..range.end.min(end);
        [cut(pages), cut(ahead)]
    }
}

impl Ahead {
    /// What was to be asked for last was not, from a page on.
    pub(super) fn stops_before(&mut self, page: u64) {
        let last = self.streams.iter_mut().filter(|stream| stream.used > 0).max_by_key(|stream| stream.used);
        if let Some(stream) = last {
            stream.asked = stream.asked.min(page.max(stream.next));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{AHEAD_PAGES_MAX, Ahead};

    /// What was not asked for when it was read, of reads of so many pages each.
    fn missed(reads: impl Iterator<Item = u64>, length: u64, end: u64) -> Vec<u64> {
        let mut ahead = Ahead::default();
        let mut asked = std::collections::BTreeSet::new();
        let mut missed = Vec::new();
        for start in reads {
            let needed: Vec<u64> = (start..start + length).collect();
            if needed.iter().any(|page| !asked.contains(page)) {
                missed.push(start);
            }
            for range in ahead.read(start..start + length, end) {
                assert!(range.end <= end);
                asked.extend(range);
            }
        }
        missed
    }

    use alloc::vec::Vec;

    #[test]
    fn who_goes_on_has_what_comes_next() {
        assert_eq!(missed(0..1000, 1, 1000), [0]);
        assert_eq!(missed((0..1000).step_by(32), 32, 1024), [0]);
        // From anywhere: once it is clear.
        assert!(missed(500..1000, 1, 1000).len() <= 2);
        let mut ahead = Ahead::default();
        let most =
            (0..4000).map(|page| ahead.read(page..page + 1, 5000)[1].clone()).map(|range| range.end - range.start);
        assert!(most.max().is_some_and(|most| most <= AHEAD_PAGES_MAX));
    }

    #[test]
    fn steps_are_followed_forwards_and_backwards() {
        // The first few, until it is clear, and those that were to be asked for before.
        assert!(missed((0..1000).step_by(10), 1, 1000).len() <= 8);
        assert!(missed((0..1000).rev(), 1, 1000).len() <= 8);
        assert!(missed((0..100).rev().map(|at| at * 7), 2, 1000).len() <= 8);
    }

    #[test]
    fn several_go_through_a_file_at_a_time() {
        let reads = (0..200).flat_map(|page| [page, 10_000 + page, 50_000 + page]);
        assert!(missed(reads, 1, 100_000).len() <= 9);
    }

    #[test]
    fn who_jumps_about_gets_what_it_asks_for() {
        let mut ahead = Ahead::default();
        let mut at = 12_345_u64;
        for _ in 0..1000 {
            at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let page = at >> 40;
            let [needed, more] = ahead.read(page..page + 1, 1 << 24);
            assert_eq!((needed, more.is_empty()), (page..page + 1, true));
        }
    }
}
