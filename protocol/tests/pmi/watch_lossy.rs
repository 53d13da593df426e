//! Nodes that watch each other over a network that loses much: nobody is taken for dead of whom something was heard,
//! and the dead are found.

use coppice_protocol::limits::PMI_WATCH_NS;
use proptest::prelude::{ProptestConfig, any};
use proptest::{prop_assert, proptest};

use crate::watching::Watching;

const SECOND_NS: u64 = 1_000_000_000;

/// Somebody who lives was taken for dead, and who was the first to do so had heard nothing of it for too long.
fn first_false_alarm(watching: &Watching) -> Option<Result<(), String>> {
    let &(by, of, at_ns) = watching.known.iter().find(|(_, of, _)| !watching.dead.contains(of))?;
    let heard_ns = watching.heard.get(&(by, of)).copied().unwrap_or(0);
    let silence_ns = at_ns - heard_ns;
    let is_true = silence_ns >= 2 * PMI_WATCH_NS;
    Some(if is_true { Ok(()) } else { Err(format!("{by} has heard of {of} {silence_ns} ns before")) })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn who_is_heard_is_not_dead_and_the_dead_are_found(
        nodes in 2_usize..13, lost_percent in 0_usize..=20, seed in any::<u64>(),
        dies in any::<proptest::sample::Index>(), after_s in 1_u64..540,
    ) {
        let mut watching = Watching::losing(nodes, lost_percent, seed);
        watching.pass(after_s * SECOND_NS);
        let dead = dies.index(nodes);
        if first_false_alarm(&watching).is_none() {
            watching.kill(dead);
            watching.pass((600 - after_s) * SECOND_NS);
        }
        match first_false_alarm(&watching) {
            Some(alarm) => prop_assert!(alarm.is_ok(), "{alarm:?}"),
            None => prop_assert!(watching.all_know(), "{dead} of {nodes}"),
        }
    }
}

/// News come to all however bad the network is.
#[test]
fn news_are_said_again() {
    for seed in 0..40 {
        let mut watching = Watching::outliving(12);
        watching.pass(20 * SECOND_NS);
        watching.kill(7);
        watching.pass(2 * PMI_WATCH_NS - SECOND_NS);
        watching.lose(60, seed);
        let took_ns = watching.until_known(PMI_WATCH_NS);
        assert!(took_ns.is_some(), "{seed}");
    }
}
