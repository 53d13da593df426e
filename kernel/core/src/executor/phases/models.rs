//! A model of somebody who looks at a task that runs and waits on another core.

use alloc::sync::Arc;

use shuttle::thread;

use super::{Phase, PhaseTimes, Phases};
use crate::executor::check;
use crate::sync::atomic::{AtomicU64, Ordering};

#[test]
fn who_looks_sees_all_time_and_none_twice() {
    check(|| {
        let shared = Arc::new((AtomicU64::new(1), Phases::new()));
        let looks = Arc::clone(&shared);
        let looking = thread::spawn(move || {
            let (clock, phases) = &*looks;
            let mut before = PhaseTimes::default();
            for _ in 0..3 {
                let from_ns = clock.load(Ordering::SeqCst);
                let times = phases.times(from_ns);
                let until_ns = clock.load(Ordering::SeqCst);
                let sum_ns: u64 = times.iter().sum();
                assert!((from_ns - 1..until_ns).contains(&sum_ns), "{times:?}: from {from_ns} to {until_ns}");
                assert!([Phase::User, Phase::Kernel].iter().all(|of| times[*of as usize] >= before[*of as usize]));
                before = times;
            }
        });
        let (clock, phases) = &*shared;
        let after = |ns: u64| clock.fetch_add(ns, Ordering::SeqCst) + ns;
        phases.turn_to(Some(Phase::Kernel), 1, true);
        phases.turn_to(Some(Phase::User), after(10), false);
        phases.turn_to(Some(Phase::Kernel), after(1000), false);
        phases.turn_to(Some(Phase::Sleep), after(100), false);
        phases.woken(after(10_000));
        phases.turn_to(Some(Phase::Kernel), after(100_000), true);
        // A clock that stands says where the rest goes.
        clock.fetch_add(1, Ordering::SeqCst);
        looking.join().expect("no panic");
        let mut expected = PhaseTimes::default();
        for (phase, ns) in [(Phase::User, 1000), (Phase::Kernel, 110), (Phase::Sleep, 10_000), (Phase::Ready, 100_000)]
        {
            expected[phase as usize] = ns;
        }
        assert_eq!(phases.times(111_111), expected);
    });
}
