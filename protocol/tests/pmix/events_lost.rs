//! What ranks are told unasked, when something is lost on its way, and across checkpoints.

use coppice_protocol::limits::PMI_ASK_NS;
use coppice_protocol::pmix::{Dialect, Status};
use proptest::collection::vec;
use proptest::prelude::any;
use proptest::{prop_assert_eq, proptest};

use crate::nodes::Nodes;

const GLOBAL: u8 = 5;
const FIRST: i32 = -5000;

/// All ranks ask for all events.
fn listening(counts: &[u32]) -> Nodes {
    let mut nodes = Nodes::new(counts, Dialect::Short);
    let ask = nodes.register(&[]);
    for rank in nodes.ranks() {
        assert_eq!(nodes.ask_status(rank, &ask), Status::SUCCESS);
    }
    nodes
}

/// A rank says the next thing that it says.
fn says(nodes: &mut Nodes, rank: u32, said: &mut [i32]) {
    let code = FIRST - 100 * rank as i32 - said[rank as usize];
    said[rank as usize] += 1;
    let call = nodes.notify(code, GLOBAL, &[]);
    nodes.call(rank, &call);
}

/// What each rank hears is added to what it has heard.
fn hear(nodes: &mut Nodes, heard: &mut [Vec<i32>], answers: &mut [usize]) {
    for rank in nodes.ranks() {
        for (tag, body) in nodes.hear(rank) {
            if tag == 0 {
                heard[rank as usize].push(nodes.understand(&body).code);
            } else {
                assert_eq!(nodes.status(&body), Status::SUCCESS);
                answers[rank as usize] += 1;
            }
        }
    }
}

/// Whether everybody has heard all that others have said, each once and in order.
fn is_as_said(said: &[i32], heard: &[Vec<i32>]) -> Result<(), String> {
    for (by, heard) in heard.iter().enumerate() {
        for (of, count) in said.iter().enumerate() {
            let first = FIRST - 100 * of as i32;
            let of_it: Vec<i32> = heard.iter().copied().filter(|code| (first - 99..=first).contains(code)).collect();
            let wanted: Vec<i32> = (0..if of == by { 0 } else { *count }).map(|number| first - number).collect();
            if of_it != wanted {
                return Err(format!("rank {by} has heard {of_it:?} of rank {of}, not {wanted:?}"));
            }
        }
    }
    Ok(())
}

proptest! {
    /// Whatever is lost, everybody is told everything once, and what one rank says in its order.
    #[test]
    fn whatever_is_lost_is_said_again(
        counts in vec(1_u32..3, 2..6),
        who in vec(any::<proptest::sample::Index>(), 1..20),
        lost in vec(any::<bool>(), 0..10),
        passes in vec(any::<bool>(), 20),
    ) {
        let mut nodes = listening(&counts);
        let size = nodes.ranks().len();
        let (mut said, mut heard, mut answers) = (vec![0; size], vec![Vec::new(); size], vec![0; size]);
        let mut lost = lost.into_iter();
        for (who, passes) in who.iter().zip(passes) {
            says(&mut nodes, who.index(size) as u32, &mut said);
            if passes {
                nodes.settle_but(|| lost.next().unwrap_or(false));
                nodes.pass(PMI_ASK_NS / 2);
                hear(&mut nodes, &mut heard, &mut answers);
            }
        }
        for _ in 0..24 {
            nodes.settle_but(|| lost.next().unwrap_or(false));
            nodes.pass(PMI_ASK_NS / 2);
            hear(&mut nodes, &mut heard, &mut answers);
        }
        prop_assert_eq!(is_as_said(&said, &heard), Ok(()));
        prop_assert_eq!(nodes.servers.iter().filter_map(|server| server.poll_timeout()).count(), 0);
    }

    /// Wherever a checkpoint is made, and whatever is on its way then, everybody is told everything once.
    #[test]
    fn one_goes_on_from_what_was_written_down(
        counts in vec(1_u32..3, 2..5),
        before in vec((any::<proptest::sample::Index>(), 0_usize..6), 0..8),
        meanwhile in vec(0_usize..6, 5),
        after in vec(any::<proptest::sample::Index>(), 0..4),
        hears in any::<bool>(),
    ) {
        let mut nodes = listening(&counts);
        let size = nodes.ranks().len();
        let (mut said, mut heard, mut answers) = (vec![0; size], vec![Vec::new(); size], vec![0; size]);
        for (who, frames) in before {
            says(&mut nodes, who.index(size) as u32, &mut said);
            nodes.deliver(frames);
        }
        if hears {
            hear(&mut nodes, &mut heard, &mut answers);
        }
        let mut nodes = nodes.again(&meanwhile);
        nodes.run_again();
        for who in after {
            says(&mut nodes, who.index(size) as u32, &mut said);
        }
        for _ in 0..8 {
            nodes.settle();
            nodes.pass(PMI_ASK_NS / 2);
            hear(&mut nodes, &mut heard, &mut answers);
        }
        prop_assert_eq!(is_as_said(&said, &heard), Ok(()));
        let made: Vec<usize> = said.iter().map(|count| *count as usize).collect();
        prop_assert_eq!(answers, made);
    }

    /// Who is written down and goes on himself misses nothing either.
    #[test]
    fn one_goes_on_after_it_was_written_down(
        counts in vec(1_u32..3, 2..5),
        frames in vec(0_usize..9, 5),
        who in vec(any::<proptest::sample::Index>(), 1..8),
    ) {
        let mut nodes = listening(&counts);
        let size = nodes.ranks().len();
        let (mut said, mut heard, mut answers) = (vec![0; size], vec![Vec::new(); size], vec![0; size]);
        for who in who {
            says(&mut nodes, who.index(size) as u32, &mut said);
        }
        for (node, frames) in frames.into_iter().enumerate().take(counts.len()) {
            let _ = nodes.servers[node].record();
            nodes.deliver(frames);
        }
        nodes.run_again();
        for _ in 0..8 {
            nodes.settle();
            nodes.pass(PMI_ASK_NS / 2);
            hear(&mut nodes, &mut heard, &mut answers);
        }
        prop_assert_eq!(is_as_said(&said, &heard), Ok(()));
    }
}
