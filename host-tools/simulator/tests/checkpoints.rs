//! Checkpoints in a whole cluster, in which somebody dies at each step of making one.

use coppice_simulator::cluster::{Options, Trial, Tried, Victim, try_all, try_one, try_some};

/// Steps of checkpoints that are made by themselves.
const AUTOMATIC_STEPS: u64 = 4;
/// Steps at which each victim dies in every test run, evenly: all of them take minutes.
const STEPS: u64 = 24;

const VICTIMS: [Victim; 5] =
    [Victim::Node(0), Victim::AllNodes, Victim::IoNode(0), Victim::IoNode(1), Victim::ServiceNode];

fn options() -> Options {
    Options { nodes: 2, pset_size: 1, users: 0, ..Options::default() }
}

fn try_steps(trial: Trial, victims: &[Victim], at_most: u64) -> Tried {
    try_all(1, &options(), trial, victims, at_most).unwrap_or_else(|failure| {
        let start = failure.trace.len().saturating_sub(40);
        panic!("{}\n{failure}", failure.trace[start..].join("\n"))
    })
}

/// Each victim's job went on from the old one, and from the new one.
fn has_seen_both(tried: &Tried, victims: &[Victim]) {
    for victim in victims {
        for number in [1, 2] {
            assert!(tried.from.contains_key(&(*victim, number)), "{victim:?} {number}: {tried:?}");
        }
    }
}

#[test]
fn a_job_goes_on_from_what_was_cut() {
    for has_regions in [true, false] {
        let trial = Trial { has_regions, ..Trial::default() };
        let (_, newest) = try_one(1, &options(), trial).expect("holds");
        let (_, older) = try_one(1, &options(), Trial { from: Some(1), ..trial }).expect("holds");
        assert_eq!((newest.from, older.from), (2, 1));
        assert!(newest.lines.iter().all(|(rank, line)| *line > older.lines[rank]), "{newest:?} {older:?}");
    }
}

#[test]
fn ranks_that_leave_a_barrier_leave_it_together_when_they_go_on() {
    let trial = Trial { talks: true, ..Trial::default() };
    for seed in 0..4 {
        for from in [None, Some(1)] {
            let (_, outcome) = try_one(seed, &options(), Trial { from, ..trial }).expect("holds");
            assert_eq!(outcome.from, from.unwrap_or(2));
        }
    }
}

#[test]
fn whoever_dies_there_is_the_old_one_or_the_new_one() {
    let (some, others) = VICTIMS.split_at(2);
    let beside = std::thread::spawn(|| try_steps(Trial::default(), some, STEPS));
    let tried = try_steps(Trial::default(), others, STEPS);
    println!("{tried:?}");
    has_seen_both(&tried, others);
    let tried = beside.join().expect("holds");
    println!("{tried:?}");
    has_seen_both(&tried, some);
}

#[test]
fn a_job_that_loses_a_node_goes_on_by_itself() {
    let trial = Trial { is_automatic: true, ..Trial::default() };
    let tried = try_steps(trial, &[Victim::Node(1), Victim::AllNodes, Victim::IoNode(0)], AUTOMATIC_STEPS);
    assert!(tried.from.keys().all(|(_, from)| *from > 1), "they are made anew again and again: {tried:?}");
}

/// Users hear of the end of the last job while its nodes are still to be told of it.
#[test]
fn what_nodes_are_told_last_is_waited_for() {
    try_some(59).expect("holds");
}

/// All steps, in all ways.
#[test]
#[ignore = "takes minutes"]
fn whoever_dies_anywhere_there_is_the_old_one_or_the_new_one() {
    for (copies, talks) in [(false, false), (true, false), (false, true)] {
        let trial = Trial { copies, talks, ..Trial::default() };
        let (some, others) = VICTIMS.split_at(2);
        let beside = std::thread::spawn(move || try_steps(trial, some, u64::MAX));
        try_steps(trial, others, u64::MAX);
        beside.join().expect("holds");
    }
    try_steps(Trial { has_regions: false, ..Trial::default() }, &VICTIMS, u64::MAX);
}
