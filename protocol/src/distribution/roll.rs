//! Home's list of who is whole, who is asked for a sign of life, and who is lost.

use alloc::vec::Vec;

use super::ranges::MemberRanges;
use crate::limits::PROBES_MAX;

/// How often somebody is asked who does not answer.
const TRIES: u8 = 6;
/// Most doublings of the time between questions to who does not.
const UNANSWERED_DOUBLINGS_MAX: u8 = 3;
/// Who answers is lost, too, if it has got nothing more for so long, ns.
const STANDSTILL_NS: u64 = 2_000_000_000;
/// The same as times that an answer may take, and so often it has to have said so.
const STANDSTILL_TIMES: u64 = 16;
const STANDSTILLS: u8 = 3;
/// Most doublings of the time between questions to who answers.
const DOUBLINGS_MAX: u8 = 8;

/// A member that was asked.
#[derive(Debug)]
struct Probe {
    member: u32,
    /// Questions since it last answered.
    unanswered: u8,
    /// Answers since it last had more, and when that was, ns.
    standstills: u8,
    since_ns: u64,
    pieces: u32,
    due_ns: u64,
}

/// See this module.
#[derive(Debug)]
pub(super) struct Roll {
    members: u32,
    /// Whole, or lost.
    settled: MemberRanges,
    lost: Vec<u32>,
    probes: Vec<Probe>,
    /// Nobody is asked before then, ns.
    pub(super) quiet_until_ns: u64,
}

impl Roll {
    pub(super) const fn new(members: u32) -> Self {
        Self { members, settled: MemberRanges::none(), lost: Vec::new(), probes: Vec::new(), quiet_until_ns: u64::MAX }
    }

    /// These are whole. Whether that is news.
    pub(super) fn add(&mut self, first: u32, last: u32) -> bool {
        let is_news = self.settled.add(first.max(1), last.min(self.members));
        if is_news {
            self.probes.retain(|probe| !(first..=last).contains(&probe.member));
        }
        is_news
    }

    /// Nothing more is to be expected of anybody.
    pub(super) fn is_complete(&self) -> bool {
        self.settled.covers(1, self.members)
    }

    /// How many are whole or lost but for these.
    pub(super) fn settled_but(&self, others: impl Iterator<Item = u32>) -> u32 {
        let others = others.filter(|other| self.settled.covers(*other, *other)).count();
        self.settled.count() - others as u32
    }

    pub(super) fn lost(&self) -> &[u32] {
        &self.lost
    }

    /// A member said something, whatever it is.
    pub(super) fn is_alive(&mut self, member: u32) {
        self.probes.iter_mut().filter(|probe| probe.member == member).for_each(|probe| probe.unanswered = 0);
    }

    /// A member that was asked has so many pieces.
    pub(super) fn answered(&mut self, member: u32, pieces: u32, now_ns: u64) {
        let Some(probe) = self.probes.iter_mut().find(|probe| probe.member == member) else { return };
        probe.unanswered = 0;
        if pieces > probe.pieces {
            (probe.standstills, probe.since_ns, probe.pieces) = (0, now_ns, pieces);
        } else {
            probe.standstills = (probe.standstills + 1).min(DOUBLINGS_MAX);
        }
    }

    pub(super) fn due_ns(&self) -> Option<u64> {
        if self.is_complete() {
            return None;
        }
        let next = self.probes.iter().map(|probe| probe.due_ns).min();
        Some(next.unwrap_or(self.quiet_until_ns).max(self.quiet_until_ns)).filter(|due_ns| *due_ns < u64::MAX)
    }

    /// Whom to ask now: answers may take `patience_ns`, more with each that did not come, and `stall_ns` besides. Those
    /// that never answer, or never get any further, are lost.
    pub(super) fn probe(&mut self, now_ns: u64, patience_ns: u64, stall_ns: u64) -> Vec<u32> {
        if now_ns < self.quiet_until_ns {
            return Vec::new();
        }
        let is_lost = |probe: &Probe| {
            let patience_ns = STANDSTILL_NS + STANDSTILL_TIMES * patience_ns + stall_ns;
            let still_until_ns = probe.since_ns.saturating_add(patience_ns);
            let stands = probe.standstills >= STANDSTILLS && still_until_ns <= now_ns;
            probe.due_ns <= now_ns && (probe.unanswered >= TRIES || stands)
        };
        for probe in self.probes.iter().filter(|probe| is_lost(probe)) {
            self.settled.add(probe.member, probe.member);
            self.lost.push(probe.member);
        }
        self.probes.retain(|probe| !is_lost(probe));
        let mut from = 1;
        while self.probes.len() < PROBES_MAX {
            let Some(member) = self.settled.first_missing(from, self.members) else { break };
            from = member + 1;
            if self.probes.iter().all(|probe| probe.member != member) {
                self.probes.push(Probe {
                    member,
                    unanswered: 0,
                    standstills: 0,
                    since_ns: now_ns,
                    pieces: 0,
                    due_ns: now_ns,
                });
            }
        }
        let mut asked = Vec::new();
        for probe in self.probes.iter_mut().filter(|probe| probe.due_ns <= now_ns) {
            let doublings = probe.unanswered.min(UNANSWERED_DOUBLINGS_MAX).max(probe.standstills);
            let wait_ns = (patience_ns << doublings) + stall_ns;
            probe.due_ns = now_ns.saturating_add(wait_ns);
            probe.unanswered += 1;
            asked.push(probe.member);
        }
        asked
    }
}

#[cfg(test)]
mod tests {
    use super::{Roll, STANDSTILL_NS, TRIES};

    #[test]
    fn who_never_answers_is_lost_and_who_gets_no_further_too() {
        let mut roll = Roll::new(3);
        roll.quiet_until_ns = 0;
        roll.add(1, 1);
        let (mut now_ns, mut asked) = (0, 0);
        while let Some(due_ns) = roll.due_ns() {
            now_ns = due_ns.max(now_ns);
            for member in roll.probe(now_ns, 1_000_000, 0) {
                asked += 1;
                if member == 2 {
                    roll.answered(2, 5, now_ns);
                }
            }
            assert!(asked < 100);
        }
        assert_eq!(roll.lost(), [3, 2]);
        assert!(now_ns >= STANDSTILL_NS && asked > u32::from(TRIES));
    }

    #[test]
    fn nobody_is_asked_who_was_heard_of() {
        let mut roll = Roll::new(200);
        roll.quiet_until_ns = 10;
        assert_eq!((roll.due_ns(), roll.probe(9, 1, 0).len()), (Some(10), 0));
        assert!(roll.add(2, 199) && !roll.add(5, 9));
        assert_eq!(roll.probe(10, 1, 0), [1, 200]);
        assert!(roll.add(0, 1) && roll.add(200, u32::MAX) && roll.is_complete());
        assert_eq!((roll.due_ns(), roll.lost()), (None, &[][..]));
    }
}
