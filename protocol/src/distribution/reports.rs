//! How home learns who is whole: each member says so of all below it in the first tree at once, and where somebody does
//! not answer the way leads to the next one above.

use super::estimate::HOME;
use super::ranges::MemberRanges;
use crate::limits::REPORT_RANGES_MAX;

/// How often somebody is told before the next one above is.
const TRIES: u8 = 3;
/// Most doublings of the time between them.
const DOUBLINGS_MAX: u8 = 8;
/// Ranges that a member keeps.
const RANGES_KEPT_MAX: usize = 4 * REPORT_RANGES_MAX;

/// What a member knows of itself and those below it, and whom it has told.
#[derive(Debug)]
pub(super) struct Reports {
    /// First and last of those below, the member included.
    span: (u32, u32),
    whole: MemberRanges,
    /// How many of them were told and confirmed.
    confirmed: u32,
    /// Who is told.
    pub(super) above: u32,
    tries: u8,
    /// When that one was told first, ns.
    told_ns: u64,
    /// When the next word is due, ns. `None`: nothing is to be told.
    due_ns: Option<u64>,
    /// From when on the others below are not waited for, ns.
    patient_until_ns: u64,
}

impl Reports {
    pub(super) const fn new(span: (u32, u32), above: u32) -> Self {
        let whole = MemberRanges::none();
        Self { span, whole, confirmed: 0, above, tries: 0, told_ns: 0, due_ns: None, patient_until_ns: u64::MAX }
    }

    /// The member is whole, and waits so long for those below it.
    pub(super) fn is_whole(&mut self, me: u32, now_ns: u64, patience_ns: u64) {
        self.patient_until_ns = now_ns.saturating_add(patience_ns);
        self.add(me, me, now_ns);
    }

    /// These are whole. What is not below the member is nobody's business here.
    pub(super) fn add(&mut self, first: u32, last: u32, now_ns: u64) {
        let (low, high) = self.span;
        // Home asks for those of whom it does not hear.
        let is_full = self.whole.ranges().len() >= RANGES_KEPT_MAX;
        if is_full || !self.whole.add(first.max(low), last.min(high)) {
            return;
        }
        let at_ns = if self.whole.covers(low, high) { now_ns } else { self.patient_until_ns.max(now_ns) };
        self.due_ns = Some(self.due_ns.map_or(at_ns, |due_ns| due_ns.min(at_ns)));
    }

    pub(super) const fn due_ns(&self) -> Option<u64> {
        match self.due_ns {
            // Before it is whole itself, it waits.
            Some(u64::MAX) => None,
            due_ns => due_ns,
        }
    }

    /// Whom to tell now what. It is told again later, to the next above if nobody confirms it: `above` gives that one.
    pub(super) fn next(
        &mut self,
        now_ns: u64,
        patience_ns: u64,
        stall_ns: u64,
        above: impl Fn(u32) -> u32,
    ) -> Option<(u32, MemberRanges)> {
        self.due_ns.filter(|due_ns| *due_ns <= now_ns)?;
        // It may stand still.
        let is_silent = self.tries >= TRIES && now_ns >= self.told_ns.saturating_add(stall_ns);
        if is_silent && self.above != HOME {
            (self.above, self.tries) = (above(self.above), 0);
        }
        if self.tries == 0 {
            self.told_ns = now_ns;
        }
        self.tries = self.tries.saturating_add(1);
        self.due_ns = Some(now_ns.saturating_add(patience_ns << self.tries.min(DOUBLINGS_MAX)));
        Some((self.above, self.some()))
    }

    /// What is known, as far as a message has room.
    pub(super) fn some(&self) -> MemberRanges {
        let mut some = MemberRanges::none();
        self.whole.ranges().iter().take(REPORT_RANGES_MAX).for_each(|(first, last)| {
            some.add(*first, *last);
        });
        some
    }

    /// The same for somebody who asks whether `me` is whole, for which there may not have been room: then that alone.
    pub(super) fn some_with(&self, me: u32) -> MemberRanges {
        let mut some = self.some();
        if !some.covers(me, me) {
            some = MemberRanges::none();
            some.add(me, me);
        }
        some
    }

    /// Who was told has heard of so many.
    pub(super) fn confirmed(&mut self, from: u32, count: u32) {
        if from != self.above {
            return;
        }
        self.tries = 0;
        self.confirmed = self.confirmed.max(count);
        if self.confirmed >= self.some().count() {
            self.due_ns = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Reports;

    #[test]
    fn it_waits_for_those_below_but_not_for_ever() {
        let mut reports = Reports::new((1, 3), 4);
        reports.add(1, 1, 5);
        assert_eq!(reports.due_ns(), None, "it is not whole itself");
        reports.is_whole(2, 10, 100);
        assert_eq!(reports.due_ns(), Some(110));
        assert!(reports.next(109, 7, 0, |_| 8).is_none());
        let (to, ranges) = reports.next(110, 7, 0, |_| 8).expect("it is time");
        assert_eq!((to, ranges.ranges()), (4, &[(1, 2)][..]));
        reports.confirmed(4, 2);
        assert_eq!(reports.due_ns(), None);
        reports.add(3, 9, 200);
        assert_eq!(reports.next(200, 7, 0, |_| 8).map(|(_, ranges)| ranges.ranges().to_vec()), Some([(1, 3)].into()));
    }

    #[test]
    fn who_is_asked_says_that_it_is_whole_whatever_else_it_knows() {
        let mut reports = Reports::new((1, 1000), 0);
        (1..1000).step_by(2).for_each(|member| reports.add(member, member, 0));
        reports.is_whole(500, 0, 0);
        for me in [1, 500, 999] {
            assert!(reports.some_with(me).covers(me, me), "{me}");
        }
        assert!(reports.some_with(1).count() > 1);
    }

    #[test]
    fn who_does_not_answer_is_passed_over() {
        let mut reports = Reports::new((3, 3), 2);
        reports.is_whole(3, 0, 0);
        let mut told = alloc::vec::Vec::new();
        let mut now_ns = 0;
        for _ in 0..9 {
            told.extend(reports.next(now_ns, 1, 0, |above| if above == 2 { 4 } else { 0 }).map(|(to, _)| to));
            now_ns = reports.due_ns().expect("nobody has confirmed it");
        }
        assert_eq!(told, [2, 2, 2, 4, 4, 4, 0, 0, 0]);
    }
}
