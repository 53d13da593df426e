//! Random histories against a model that knows nothing of threads' turns: what was sent is taken once, in order, by a
//! thread that may take it, and nothing else is.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};

use super::{FIRST, SECOND, THIRD, handled};
use crate::abi::signal::SignalInfo;
use crate::abi::signal_set::SignalSet;
use crate::process::signals::{Next, Outcome, Signals, Target};

const THREADS: [u32; 3] = [FIRST, SECOND, THIRD];

#[derive(Clone, Copy, Debug)]
enum Step {
    Send { to: Option<usize>, signal: u32 },
    Block { thread: usize, mask: u64 },
    Look { thread: usize },
    Return { thread: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Few of each kind, so that they meet.
    let signal = prop_oneof![10..13_u32, 34..37_u32];
    let step = prop_oneof![
        (proptest::option::of(0..3_usize), signal).prop_map(|(to, signal)| Step::Send { to, signal }),
        (0..3_usize, any::<u64>()).prop_map(|(thread, mask)| Step::Block { thread, mask }),
        (0..3_usize).prop_map(|thread| Step::Look { thread }),
        (0..3_usize).prop_map(|thread| Step::Return { thread }),
    ];
    proptest::collection::vec(step, 0..200)
}

fn index(id: u32) -> usize {
    THREADS.iter().position(|known| *known == id).expect("one of them")
}

proptest! {
    #[test]
    fn nothing_is_lost_doubled_or_overtaken(steps in steps()) {
        let mut signals = Signals::new(FIRST);
        signals.join(SECOND, SignalSet::NONE);
        signals.join(THIRD, SignalSet::NONE);
        for signal in 1..=64 {
            let _ = signals.set_action(signal, handled(0));
        }
        // By whom it is for (`None`: any) and number: what waits, as sender ids, in order.
        let mut waiting: BTreeMap<(Option<usize>, u32), Vec<u32>> = BTreeMap::new();
        let mut masks = [0_u64; 3];
        let mut called = [false; 3];
        for (sender, step) in (1..).zip(steps) {
            match step {
                Step::Send { to, signal } => {
                    let queue = waiting.entry((to, signal)).or_default();
                    if signal >= 32 || queue.is_empty() {
                        queue.push(sender);
                    }
                    let target = to.map_or(Target::Process, |thread| Target::Thread(THREADS[thread]));
                    match signals.send(target, SignalInfo::user(signal, sender, 0)) {
                        Ok(Outcome::Call(id)) => called[index(id)] = true,
                        Ok(Outcome::Nothing) => {}
                        other => panic!("{other:?}"),
                    }
                }
                Step::Block { thread, mask } => {
                    masks[thread] = mask;
                    for id in signals.set_blocked(THREADS[thread], SignalSet(mask)) {
                        called[index(id)] = true;
                    }
                }
                Step::Look { thread } => {
                    called[thread] = false;
                    while let Next::Handler(delivery) = signals.next(THREADS[thread]) {
                        let signal = delivery.info.signal;
                        prop_assert!(!SignalSet(masks[thread]).blockable().contains(signal), "{} is blocked", signal);
                        let own = waiting.get(&(Some(thread), signal)).is_some_and(|queue| !queue.is_empty());
                        let from = if own { Some(thread) } else { None };
                        let queue = waiting.get_mut(&(from, signal)).expect("it was sent");
                        prop_assert_eq!(delivery.info, SignalInfo::user(signal, queue.remove(0), 0));
                    }
                }
                Step::Return { thread } => {
                    prop_assert!(signals.restore(THREADS[thread]).is_empty());
                    prop_assert!(signals.leave(77).is_empty());
                }
            }
            // Whatever a thread may take, somebody was called for.
            for ((to, signal), queue) in &waiting {
                let takes = |thread: usize| !SignalSet(masks[thread]).blockable().contains(*signal);
                let may = (0..3).filter(|thread| to.is_none_or(|to| to == *thread) && takes(*thread));
                let may: Vec<_> = may.collect();
                if !queue.is_empty() && !may.is_empty() {
                    prop_assert!(may.iter().any(|thread| called[*thread]), "nobody looks for {} of {:?}", signal, to);
                }
            }
        }
    }
}
