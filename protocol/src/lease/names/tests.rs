//! The table against what is promised, with nodes that keep to the rules.

use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::{Strategy, prop_assert, prop_assert_eq, prop_oneof, proptest};

use super::super::limits::{LOOKS_AFTER_RECALL, LOOKS_BEFORE_LEASE};
use super::{Mark, Names};

fn look_often(names: &mut Names<u8>, party: u8, times: u32) -> Option<Mark> {
    for _ in 0..times {
        assert_eq!(names.look(party), None);
    }
    names.look(party)
}

#[test]
fn who_looks_at_much_gets_a_lease_and_who_changes_something_has_it_asked_back() {
    let mut names = Names::default();
    let mark = look_often(&mut names, 1, LOOKS_BEFORE_LEASE).expect("it is time");
    assert_eq!(names.still(1, mark), (true, true));
    assert_eq!(names.change(2), (vec![(1, mark.number)], None));
    assert!(!names.may_change(2) && names.may_change(1), "its own is in nobody's way");
    assert_eq!((names.still(1, mark), names.look(1)), ((false, false), None), "it is asked for");
    assert_eq!(names.change(3), (vec![], None), "it was asked for before");
    assert_eq!(names.recalled(1), Some(mark.number));
    assert!(!names.returned(1, mark.number + 1) && names.returned(1, mark.number));
    assert!(names.may_change(2));
    assert_eq!(look_often(&mut names, 1, 2 * LOOKS_AFTER_RECALL), None, "changes are under way");
    names.changed(2);
    names.changed(3);
    let later = names.look(1).expect("it is time");
    assert!(later.number > mark.number);
    names.change(2);
    names.changed(2);
    assert!(names.returned(1, later.number));
    assert!(look_often(&mut names, 1, LOOKS_AFTER_RECALL).is_some(), "so many are enough");
}

#[test]
fn its_own_changes_leave_a_party_its_lease_and_its_look_ups_beside_them_nothing() {
    let mut names = Names::default();
    let before = look_often(&mut names, 1, LOOKS_BEFORE_LEASE).expect("it is time");
    let (recalls, of_change) = names.change(1);
    let of_change = of_change.expect("nothing else is under way");
    assert!(recalls.is_empty() && names.may_change(1));
    assert_eq!((names.look(1), names.still(1, before)), (None, (false, false)));
    assert_eq!(names.still(1, of_change), (true, true));
    assert_eq!(names.change(1), (vec![], None));
    assert_eq!(names.still(1, of_change), (false, false), "another went with it");
    names.changed(1);
    names.changed(1);
    let after = names.look(1).expect("nothing is under way");
    names.wrote();
    assert_eq!(names.still(1, after), (true, false), "what was written is in no attributes that were told before");
}

#[test]
fn nobody_waits_for_who_is_gone() {
    let mut names = Names::default();
    look_often(&mut names, 1, LOOKS_BEFORE_LEASE).expect("it is time");
    names.change(1);
    names.change(2);
    assert!(names.gone(1) && !names.gone(1) && names.may_change(2));
    names.changed(2);
    assert_eq!(look_often(&mut names, 3, LOOKS_BEFORE_LEASE), None, "what it changes goes on");
    names.changed(1);
    assert!(names.look(3).is_some());
    assert!(names.gone(3) && !names.gone(2));
    assert!(names.parties.is_empty() && names.changing == 0);
}

/// What nodes do to something that all see.
#[derive(Clone, Copy, Debug)]
enum Step {
    Look,
    Find,
    Hear,
    Change,
    Make,
    Told,
    Recalled,
    End,
}

fn step() -> impl Strategy<Value = Step> {
    let just = proptest::strategy::Just;
    prop_oneof![
        4 => just(Step::Look),
        4 => just(Step::Find),
        4 => just(Step::Hear),
        1 => just(Step::Change),
        2 => just(Step::Make),
        2 => just(Step::Told),
        3 => just(Step::Recalled),
        1 => just(Step::End),
    ]
}

/// A node: what it keeps, and what is on its way.
#[derive(Default)]
struct Node {
    kept: Option<u64>,
    /// Up to this number leases are worth nothing.
    void: u64,
    epoch: u64,
    changes: u32,
    /// A look-up: its mark, what was found, and the epoch when it began if no change was under way.
    look: Option<(Option<Mark>, Option<u64>, Option<u64>)>,
    /// A change: whether it is made.
    change: Option<bool>,
    recall: Option<u64>,
}

proptest! {
    /// Whatever is kept is what is so.
    #[test]
    fn what_is_kept_is_true(steps in proptest::collection::vec((0..3_u8, step()), 1..400)) {
        let mut names = Names::default();
        let mut nodes: Vec<Node> = (0..3).map(|_| Node::default()).collect();
        let mut now = 0;
        for (party, step) in steps {
            let node = &mut nodes[usize::from(party)];
            match step {
                Step::Look if node.look.is_none() => {
                    node.look = Some((names.look(party), None, (node.changes == 0).then_some(node.epoch)));
                }
                Step::Find => {
                    if let Some((_, found, _)) = &mut node.look {
                        found.get_or_insert(now);
                    }
                }
                Step::Hear => {
                    if let Some((mark, Some(found), began)) = node.look {
                        node.look = None;
                        let is_known = mark.filter(|mark| names.still(party, *mark).0);
                        if is_known.is_some_and(|mark| mark.number > node.void) && began == Some(node.epoch) {
                            node.kept = Some(found);
                        }
                    }
                }
                Step::Change if node.change.is_none() => {
                    (node.changes, node.kept) = (1, None);
                    node.epoch += 1;
                    node.change = Some(false);
                    for (other, number) in names.change(party).0 {
                        nodes[usize::from(other)].recall = Some(number);
                    }
                }
                Step::Make if node.change == Some(false) && names.may_change(party) => {
                    now += 1;
                    node.change = Some(true);
                }
                Step::Told if node.change == Some(true) => {
                    names.changed(party);
                    (node.change, node.changes) = (None, 0);
                }
                Step::Recalled => {
                    if let Some(number) = node.recall.take() {
                        (node.kept, node.void) = (None, number);
                        prop_assert!(names.returned(party, number));
                    }
                }
                Step::End => {
                    names.gone(party);
                    if node.change.is_some() {
                        names.changed(party);
                    }
                    *node = Node::default();
                }
                _ => {}
            }
            for node in &nodes {
                if let Some(kept) = node.kept {
                    prop_assert_eq!(kept, now);
                }
            }
            let has_waiting = nodes.iter().any(|node| node.change == Some(false));
            let is_asked = nodes.iter().any(|node| node.recall.is_some());
            let may_go = (0..3).any(|party| nodes[usize::from(party)].change == Some(false) && names.may_change(party));
            prop_assert!(!has_waiting || is_asked || may_go, "somebody waits for nothing");
        }
    }
}
