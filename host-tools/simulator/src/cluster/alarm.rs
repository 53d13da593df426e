//! When it is looked whether something is due at somebody. What is due is mostly put off again and again: a look that
//! comes too early costs less than to plan one for each of these times.

/// The next look at somebody.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Alarm {
    /// It is planned for then, ns. Others that were planned for later do not count.
    planned_ns: Option<u64>,
}

impl Alarm {
    /// Something is due next at that time, if at all. Gives when to look, if that is to be planned, ns.
    pub(super) fn set(&mut self, due_ns: Option<u64>, now_ns: u64) -> Option<u64> {
        let at_ns = due_ns?.max(now_ns);
        if self.planned_ns.is_some_and(|planned_ns| planned_ns <= at_ns) {
            return None;
        }
        self.planned_ns = Some(at_ns);
        Some(at_ns)
    }

    /// A look that was planned is there. Whether it counts and something is due.
    pub(super) fn rings(&mut self, due_ns: Option<u64>, now_ns: u64) -> bool {
        if self.planned_ns.is_none_or(|planned_ns| planned_ns > now_ns) {
            return false;
        }
        self.planned_ns = None;
        due_ns.is_some_and(|due_ns| due_ns <= now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::Alarm;

    #[test]
    fn what_is_put_off_is_looked_at_early_and_what_comes_sooner_in_time() {
        let mut alarm = Alarm::default();
        assert_eq!(alarm.set(None, 1), None);
        assert_eq!(alarm.set(Some(10), 1), Some(10));
        assert_eq!(alarm.set(Some(20), 2), None, "a look comes before that");
        assert!(!alarm.rings(Some(20), 10), "too early");
        assert_eq!(alarm.set(Some(20), 10), Some(20));
        assert_eq!(alarm.set(Some(15), 11), Some(15));
        assert!(alarm.rings(Some(15), 15));
        assert_eq!(alarm.set(Some(30), 15), Some(30));
        assert!(!alarm.rings(Some(30), 20), "it is not the look that counts");
        assert_eq!(alarm.set(Some(30), 20), None);
        assert!(alarm.rings(Some(30), 31), "whoever was stopped does it later");
        assert_eq!(alarm.set(Some(5), 31), Some(31), "it is due already");
    }
}
