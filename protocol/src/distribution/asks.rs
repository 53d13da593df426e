//! What a member has asked others for and not yet got.

use alloc::vec::Vec;

use crate::limits::ASKS_PER_MEMBER_MAX;

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    /// `None` if any piece will do.
    pub(super) piece: Option<u32>,
    pub(super) of: u32,
    pub(super) at_ns: u64,
    /// When it was asked of that one first, ns.
    pub(super) since_ns: u64,
    /// Nothing is expected after that.
    pub(super) until_ns: u64,
    /// Who was asked lacks it, and sends it by itself when it has it.
    pub(super) is_to_come: bool,
    /// Something of the answer came, or of one to a later question: what has not come is lost, and nobody is to blame.
    pub(super) is_heard: bool,
}

/// All of them, at most [`ASKS_PER_MEMBER_MAX`], and how long answers take.
#[derive(Debug)]
pub(super) struct Asks {
    asked: Vec<Asked>,
    /// The least time that an answer is given, ns.
    least_ns: u64,
    /// What others may take beside that, ns.
    stall_ns: u64,
    /// Smoothed time of answers and its deviation, ns (RFC 6298, section 2). 0 before the first.
    answer_ns: u64,
    deviation_ns: u64,
    /// Doubled with each answer that did not come.
    patience: u32,
    /// How many may be asked for now: halved when an answer does not come, one more with each that does, as TCP's
    /// window is (RFC 5681, section 3.1).
    window: usize,
    /// It is not halved again before then, ns.
    halved_until_ns: u64,
}

/// Most doublings of the time that answers are given.
const PATIENCE_MAX: u32 = 2;
/// Answers are never waited for longer than so often the least time, before that is doubled.
const LEAST_TIMES_MAX: u64 = 8;

impl Asks {
    pub(super) const fn new(least_ns: u64, stall_ns: u64) -> Self {
        Self {
            asked: Vec::new(),
            least_ns,
            stall_ns,
            answer_ns: 0,
            deviation_ns: 0,
            patience: 0,
            window: ASKS_PER_MEMBER_MAX,
            halved_until_ns: 0,
        }
    }

    /// How long an answer may take of who does not stand still, ns.
    pub(super) fn patience_ns(&self) -> u64 {
        let usual_ns = self.answer_ns + 4 * self.deviation_ns;
        usual_ns.clamp(self.least_ns, LEAST_TIMES_MAX * self.least_ns + self.stall_ns) << self.patience
    }

    pub(super) fn is_full(&self) -> bool {
        self.asked.len() >= self.window
    }

    pub(super) fn len(&self) -> usize {
        self.asked.len()
    }

    /// How many were asked of somebody.
    pub(super) fn count_of(&self, of: u32) -> usize {
        self.asked.iter().filter(|asked| asked.of == of).count()
    }

    pub(super) fn has(&self, piece: u32) -> bool {
        self.asked.iter().any(|asked| asked.piece == Some(piece))
    }

    /// Whether a piece was asked for and is not only waited for.
    pub(super) fn expects(&self, piece: u32) -> bool {
        self.asked.iter().any(|asked| asked.piece == Some(piece) && !asked.is_to_come)
    }

    /// Notes one. Whether there is room for it.
    pub(super) fn add(&mut self, piece: Option<u32>, of: u32, now_ns: u64) -> bool {
        self.add_again(piece, of, now_ns, now_ns)
    }

    /// The same for what was asked before.
    pub(super) fn add_again(&mut self, piece: Option<u32>, of: u32, since_ns: u64, now_ns: u64) -> bool {
        if self.is_full() || self.asked.try_reserve(1).is_err() {
            return false;
        }
        let until_ns = now_ns.saturating_add(self.patience_ns());
        self.asked.push(Asked { piece, of, at_ns: now_ns, since_ns, until_ns, is_to_come: false, is_heard: false });
        true
    }

    /// A packet of a piece came from somebody: what was asked of it is on its way.
    pub(super) fn heard(&mut self, piece: u32, from: u32, now_ns: u64) {
        let patience_ns = self.least_ns;
        self.asked.retain(|asked| !(asked.is_to_come && asked.of == from && asked.piece == Some(piece)));
        let is_meant = |asked: &&mut Asked| asked.of == from && asked.piece == Some(piece);
        let Some(asked) = self.asked.iter_mut().find(is_meant) else { return };
        (asked.until_ns, asked.is_heard) = (asked.until_ns.max(now_ns.saturating_add(patience_ns)), true);
        let at_ns = asked.at_ns;
        // Answers come in the order of the questions.
        for earlier in self.asked.iter_mut().filter(|other| other.of == from && other.at_ns < at_ns) {
            if !earlier.is_to_come {
                (earlier.until_ns, earlier.is_heard) = (now_ns, true);
            }
        }
    }

    /// A piece is there, from whomever.
    pub(super) fn got(&mut self, piece: u32, from: u32, now_ns: u64) {
        let answered = |asked: &Asked| match asked.piece {
            Some(of) => of == piece,
            None => asked.of == from,
        };
        let Some(index) = self.asked.iter().position(answered) else { return };
        let asked = self.asked.swap_remove(index);
        if asked.of == from && !asked.is_to_come {
            self.measure(now_ns.saturating_sub(asked.at_ns));
        }
    }

    fn measure(&mut self, took_ns: u64) {
        if self.answer_ns == 0 {
            (self.answer_ns, self.deviation_ns) = (took_ns, took_ns / 2);
        } else {
            self.deviation_ns = (3 * self.deviation_ns + self.answer_ns.abs_diff(took_ns)) / 4;
            self.answer_ns = (7 * self.answer_ns + took_ns) / 8;
        }
        self.patience = 0;
        self.window = (self.window + 1).min(ASKS_PER_MEMBER_MAX);
    }

    /// Who was asked for a piece does not have it. Gives what was asked, if it was asked.
    pub(super) fn refused(&mut self, piece: Option<u32>, by: u32) -> Option<Asked> {
        let index = self.asked.iter().position(|asked| asked.of == by && asked.piece == piece)?;
        self.window = (self.window + 1).min(ASKS_PER_MEMBER_MAX);
        Some(self.asked.swap_remove(index))
    }

    /// Who was asked sends the piece when it has it: it is waited for a while.
    pub(super) fn wait_for(&mut self, piece: u32, of: u32, since_ns: u64, now_ns: u64) {
        let until_ns = now_ns.saturating_add(2 * self.least_ns);
        if !self.is_full() && self.asked.try_reserve(1).is_ok() {
            let piece = Some(piece);
            self.asked.push(Asked { piece, of, at_ns: now_ns, since_ns, until_ns, is_to_come: true, is_heard: true });
        }
    }

    /// One whose time is over.
    pub(super) fn overdue(&mut self, now_ns: u64) -> Option<Asked> {
        let index = self.asked.iter().position(|asked| asked.until_ns <= now_ns)?;
        let asked = self.asked.swap_remove(index);
        if !asked.is_heard {
            if self.halved_until_ns <= now_ns {
                self.halved_until_ns = now_ns.saturating_add(self.patience_ns());
                self.window = (self.window / 2).max(1);
            }
            self.patience = (self.patience + 1).min(PATIENCE_MAX);
        }
        Some(asked)
    }

    /// When the next one's time is over, ns.
    pub(super) fn due_ns(&self) -> Option<u64> {
        self.asked.iter().map(|asked| asked.until_ns).min()
    }
}

#[cfg(test)]
mod tests {
    use super::Asks;

    #[test]
    fn what_was_asked_before_something_that_came_is_lost_and_nobody_to_blame() {
        let mut asks = Asks::new(1000, 0);
        let asked = [(1, 7, 0), (2, 8, 1), (3, 7, 2), (4, 7, 3)];
        assert!(asked.into_iter().all(|(piece, of, at_ns)| asks.add(Some(piece), of, at_ns)));
        asks.heard(3, 7, 10);
        let lost = asks.overdue(10).expect("the first");
        assert_eq!((lost.piece, lost.of, lost.is_heard), (Some(1), 7, true));
        assert_eq!(asks.overdue(10), None, "others may still answer");
        assert!(asks.overdue(1001).is_some_and(|asked| asked.piece == Some(2) && !asked.is_heard));
    }

    #[test]
    fn what_is_to_come_is_waited_for_until_some_of_it_comes() {
        let mut asks = Asks::new(1000, 0);
        asks.wait_for(5, 7, 0, 0);
        assert!(asks.has(5) && !asks.expects(5));
        asks.heard(5, 8, 1);
        assert!(asks.has(5), "that was not from there");
        asks.heard(5, 7, 2);
        assert!(!asks.has(5), "what of it is missing can be asked for");
    }
}
