//! A service node that did not run hears first what has happened meanwhile. Until then it does not know whether
//! somebody is silent, or nobody came for something: answers, and calls of its users, lie there unheard, and what is
//! due may be seen before them.

use std::time::Instant;

use crate::limits::{HEARING_TIME, HEARINGS_MAX, LATE_TIME_MAX};

/// What is done about being late.
#[derive(Debug, Default)]
pub(super) struct Hearing {
    /// Nothing is due before then.
    until: Option<Instant>,
    /// Times in a row that it was late.
    times: u32,
}

impl Hearing {
    /// When to do what is due at this time.
    pub(super) fn deadline(&self, due: Option<Instant>) -> Option<Instant> {
        due.max(self.until.filter(|_| due.is_some()))
    }

    /// Whether it is heard first, instead of doing what is due since that time.
    pub(super) fn is_first(&mut self, due: Option<Instant>, now: Instant) -> bool {
        let Some(deadline) = self.deadline(due) else { return false };
        if deadline > now {
            return self.until.is_some_and(|until| until > now);
        }
        if deadline + LATE_TIME_MAX >= now || self.times >= HEARINGS_MAX {
            *self = Self::default();
            return false;
        }
        self.times += 1;
        self.until = Some(now + HEARING_TIME);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::Hearing;
    use crate::limits::{HEARING_TIME, HEARINGS_MAX, LATE_TIME_MAX};

    #[test]
    fn who_is_late_hears_first_and_then_does_what_is_due() {
        let (mut hearing, due) = (Hearing::default(), Instant::now());
        let late = due + LATE_TIME_MAX + Duration::from_millis(1);
        assert!(hearing.is_first(Some(due), late));
        assert_eq!(hearing.deadline(Some(due)), Some(late + HEARING_TIME));
        assert!(hearing.is_first(Some(due), late + HEARING_TIME / 2), "it hears still");
        assert!(!hearing.is_first(Some(due), late + HEARING_TIME));
        assert_eq!(hearing.deadline(Some(due)), Some(due));
        assert_eq!(hearing.deadline(None), None);
    }

    #[test]
    fn who_is_in_time_does_what_is_due() {
        let (mut hearing, due) = (Hearing::default(), Instant::now());
        assert!(!hearing.is_first(Some(due), due + LATE_TIME_MAX));
        assert!(!hearing.is_first(None, due));
        assert!(!hearing.is_first(Some(due), due - LATE_TIME_MAX));
    }

    #[test]
    fn who_is_always_late_does_what_is_due_in_the_end() {
        let (mut hearing, due) = (Hearing::default(), Instant::now());
        let mut now = due;
        for _ in 0..HEARINGS_MAX {
            now = now.max(hearing.deadline(Some(due)).expect("something is due")) + LATE_TIME_MAX * 2;
            assert!(hearing.is_first(Some(due), now));
        }
        assert!(!hearing.is_first(Some(due), now + HEARING_TIME + LATE_TIME_MAX * 2));
    }
}
