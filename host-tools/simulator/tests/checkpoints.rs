//! Checkpoints in a whole cluster, in which somebody dies at each step of making one.

use coppice_simulator::cluster::{Options, Trial, Tried, Victim, try_all, try_one};

/// Steps at which each victim dies in every test run, evenly: all of them take minutes.
const STEPS: u64 = 14;

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
