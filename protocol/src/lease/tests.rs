//! The table against what is promised, with parties that keep to the rules.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};

use super::limits::FILE_VERSIONS_MAX;
use super::{Access, FileId, Grant, Lease, Leases, Recall, Stamp};
use crate::ship::{FileStatus, Timestamp};

const FILE: FileId = FileId { device: 1, inode: 2 };
/// Seconds at which files were changed here.
const THEN: i64 = 1_000;
/// Long after that.
const NOW_NS: u64 = 2_000_000_000_000;

fn stamp(size: u64) -> Stamp {
    changed_at(size, THEN)
}

fn changed_at(size: u64, seconds: i64) -> Stamp {
    let changed = Timestamp { seconds, nanoseconds: 1 };
    Stamp::of(&FileStatus { size, changed, ..FileStatus::default() })
}

fn open(leases: &mut Leases<u8>, party: u8, access: Access) -> Option<Grant> {
    assert_eq!(leases.open(party, FILE, access), []);
    assert!(leases.may_go_on(party, FILE, access));
    let (grant, worthless) = leases.grant(party, FILE, stamp(5), NOW_NS);
    assert_eq!(worthless, []);
    grant
}

fn close(leases: &mut Leases<u8>, party: u8, access: Access, stamp: Stamp) {
    leases.close(party, FILE, access, Some(stamp), NOW_NS);
}

#[test]
fn readers_share_and_who_writes_is_alone() {
    let mut leases = Leases::default();
    let [one, two] = [1, 2].map(|party| open(&mut leases, party, Access::Read).expect("nobody writes"));
    assert_eq!((one.lease, two.lease), (Lease::Shared, Lease::Shared));
    assert_eq!((two.known, two.version), (one.version, one.version), "they read the same");
    let recalls = leases.open(3, FILE, Access::Write);
    let of = |recall: &Recall<u8>| (recall.party, recall.number);
    assert_eq!(recalls.iter().map(of).collect::<Vec<_>>(), [(1, one.number), (2, two.number)]);
    assert!(!leases.may_go_on(3, FILE, Access::Write));
    assert_eq!(leases.open(4, FILE, Access::Write), [], "they were asked already");
    assert!(leases.returned(1, FILE, one.number) && !leases.returned(1, FILE, one.number));
    assert_eq!(leases.recalled(2).collect::<Vec<_>>(), [recalls[1]]);
    assert_eq!(leases.gone(2), [FILE]);
    assert!(leases.may_go_on(3, FILE, Access::Write));
    assert_eq!(leases.grant(3, FILE, stamp(5), NOW_NS), (None, Vec::new()), "it is not alone");
    assert_eq!(leases.gone(4), [FILE]);
    close(&mut leases, 1, Access::Read, stamp(5));
    close(&mut leases, 3, Access::Write, stamp(6));
    assert_eq!(leases.count(), 0, "nobody saw who wrote what");
    let alone = open(&mut leases, 3, Access::Write).expect("alone");
    assert_eq!((alone.lease, alone.known), (Lease::Sole, alone.version), "nothing is known");
}

#[test]
fn what_was_read_is_true_until_somebody_may_have_written() {
    let mut leases = Leases::default();
    let read = open(&mut leases, 1, Access::Read).expect("alone");
    close(&mut leases, 1, Access::Read, stamp(5));
    let again = open(&mut leases, 1, Access::Read).expect("alone");
    assert_eq!((again.known, again.version), (read.version, read.version));
    assert!(again.number > read.number);
    close(&mut leases, 1, Access::Read, stamp(5));
    // Another writes: it knows what was there before, and who reads it then does not.
    let written = open(&mut leases, 2, Access::Write).expect("alone");
    assert_eq!(written.known, read.version);
    assert!(written.version > read.version);
    close(&mut leases, 2, Access::Write, stamp(9));
    leases.open(1, FILE, Access::Read);
    let (after, _) = leases.grant(1, FILE, stamp(9), NOW_NS);
    assert_eq!(after.map(|grant| (grant.known, grant.version)), Some((written.version, written.version)));
    close(&mut leases, 1, Access::Read, stamp(9));
    // The host has changed it.
    leases.open(1, FILE, Access::Read);
    let (changed, _) = leases.grant(1, FILE, stamp(10), NOW_NS);
    assert!(changed.is_some_and(|grant| grant.known > written.version));
}

#[test]
fn times_of_a_moment_ago_tell_nothing() {
    let mut leases = Leases::default();
    let just_now = changed_at(5, 2_000);
    leases.open(1, FILE, Access::Read);
    assert!(leases.grant(1, FILE, just_now, NOW_NS).0.is_some());
    leases.open(2, FILE, Access::Read);
    assert_eq!(leases.grant(2, FILE, just_now, NOW_NS).1, [], "as good as what the other knows");
    for party in [1, 2] {
        leases.close(party, FILE, Access::Read, Some(just_now), NOW_NS);
    }
    assert_eq!(leases.count(), 0);
    // The same, but closed later: it may have been changed just behind what was read first.
    const LATER_NS: u64 = NOW_NS + 100_000_000;
    leases.open(1, FILE, Access::Read);
    assert!(leases.grant(1, FILE, just_now, NOW_NS).0.is_some());
    leases.close(1, FILE, Access::Read, Some(just_now), LATER_NS);
    assert_eq!(leases.count(), 0);
    // Opened later.
    leases.open(1, FILE, Access::Read);
    assert!(leases.grant(1, FILE, just_now, LATER_NS).0.is_some());
    leases.close(1, FILE, Access::Read, Some(just_now), LATER_NS);
    assert_eq!(leases.count(), 1);
}

#[test]
fn who_has_only_read_need_not_say_what_it_was_in_the_end() {
    let mut leases = Leases::default();
    let read = open(&mut leases, 1, Access::Read).expect("alone");
    leases.close(1, FILE, Access::Read, None, NOW_NS);
    let again = open(&mut leases, 2, Access::Read).expect("alone");
    assert_eq!(again.known, read.version);
    assert_eq!(leases.gone(2), [FILE]);
    let third = open(&mut leases, 1, Access::Read).expect("alone");
    assert_eq!(third.known, read.version);
    leases.close(1, FILE, Access::Read, None, NOW_NS);
    // The host has changed it meanwhile.
    leases.open(2, FILE, Access::Read);
    let changed = leases.grant(2, FILE, stamp(6), NOW_NS).0.expect("alone");
    assert!(changed.known > read.version);
    leases.close(2, FILE, Access::Read, None, NOW_NS);
    // Who wrote has to.
    let written = open(&mut leases, 1, Access::Write).expect("alone");
    leases.close(1, FILE, Access::Write, None, NOW_NS);
    let after = open(&mut leases, 2, Access::Read).expect("alone");
    assert!(after.known > written.version);
}

#[test]
fn a_host_that_changes_a_file_makes_leases_worthless() {
    let mut leases = Leases::default();
    let one = open(&mut leases, 1, Access::Read).expect("alone");
    leases.open(2, FILE, Access::Read);
    let (two, worthless) = leases.grant(2, FILE, stamp(6), NOW_NS);
    assert_eq!(worthless, [Recall { party: 1, file: FILE, number: one.number }]);
    assert!(two.is_some_and(|two| two.known > one.version));
}

#[test]
fn who_looks_at_a_file_sees_what_the_host_did() {
    let mut leases = Leases::default();
    let one = open(&mut leases, 1, Access::Read).expect("alone");
    assert!(leases.is_shared(FILE));
    assert_eq!(leases.looked(FILE, stamp(5), NOW_NS), []);
    let worthless = [Recall { party: 1, file: FILE, number: one.number }];
    assert_eq!(leases.looked(FILE, stamp(6), NOW_NS), worthless);
    assert_eq!(leases.looked(FILE, stamp(7), NOW_NS), [], "it was asked for");
    assert!(leases.returned(1, FILE, one.number) && !leases.is_shared(FILE));
    assert_eq!(leases.gone(1), [FILE]);
    assert!(open(&mut leases, 1, Access::Write).is_some());
    assert_eq!(leases.looked(FILE, stamp(8), NOW_NS), [], "it writes itself");
}

#[test]
fn who_is_to_give_a_lease_back_gets_no_other_before() {
    let mut leases = Leases::default();
    let first = open(&mut leases, 1, Access::Write).expect("alone");
    let wanted = leases.look(2, FILE);
    assert_eq!(wanted, [Recall { party: 1, file: FILE, number: first.number }]);
    assert_eq!(open(&mut leases, 1, Access::Write), None, "nobody would ask for it");
    assert!(!leases.may_go_on(2, FILE, Access::Read));
    assert!(leases.returned(1, FILE, first.number) && leases.may_go_on(2, FILE, Access::Read));
    assert!(open(&mut leases, 1, Access::Write).is_some());
}

#[test]
fn so_many_versions_are_known() {
    let mut leases = Leases::default();
    for inode in 0..FILE_VERSIONS_MAX as u64 + 3 {
        let file = FileId { device: 1, inode };
        leases.open(1_u8, file, Access::Read);
        assert!(leases.grant(1, file, stamp(5), NOW_NS).0.is_some());
        leases.close(1, file, Access::Read, Some(stamp(5)), NOW_NS);
    }
    assert_eq!(leases.count(), FILE_VERSIONS_MAX);
}

/// What a party does next.
#[derive(Clone, Debug)]
enum Step {
    Open(u8, bool),
    Close(u8, bool),
    /// It looks at the file without opening it.
    Look(u8),
    /// It hears that a lease is wanted back.
    Hear(u8),
    Write(u8),
    Gone(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..3_u8, any::<bool>()).prop_map(|(party, writes)| Step::Open(party, writes)),
        (0..3_u8, any::<bool>()).prop_map(|(party, writes)| Step::Close(party, writes)),
        (0..3_u8).prop_map(Step::Look),
        (0..3_u8).prop_map(Step::Hear),
        (0..3_u8).prop_map(Step::Write),
        (0..3_u8).prop_map(Step::Gone),
    ]
}

/// A party as it should be.
#[derive(Debug, Default)]
struct Model {
    /// Handles to read and to write, and opens that wait.
    handles: [u32; 2],
    waits: Vec<Access>,
    /// It waits to see what the file is.
    looks: bool,
    grant: Option<Grant>,
    /// Numbers of leases that are wanted back, of which it has not heard yet.
    wanted: VecDeque<u64>,
    /// It has opened the file to write while others had it, and kept a lease to read: what is in the file then is new
    /// to everybody else.
    writes_with_others: bool,
    /// What it has read of which version.
    knows: Option<(u64, u64)>,
}

/// A party hears that a lease is wanted back, and gives it back unless it has a later one.
fn hear(leases: &mut Leases<u8>, party: u8, model: &mut Model) {
    let Some(number) = model.wanted.pop_front() else { return };
    if model.grant.is_none_or(|grant| grant.number <= number) {
        model.grant = None;
        leases.returned(party, FILE, number);
    }
}

proptest! {
    /// Nobody ever knows anything of the file that is not so, and nobody waits for nothing.
    #[test]
    fn who_has_a_lease_knows_what_is_in_the_file(steps in proptest::collection::vec(step(), 1..60)) {
        let mut leases = Leases::<u8>::default();
        let mut models: BTreeMap<u8, Model> = (0..3).map(|party| (party, Model::default())).collect();
        // What is in the file: its length counts its changes.
        let mut content = 1;
        let mut recalls: Vec<Recall<u8>> = Vec::new();
        for step in steps {
            match step {
                Step::Open(party, writes) => {
                    let access = if writes { Access::Write } else { Access::Read };
                    recalls.extend(leases.open(party, FILE, access));
                    models.entry(party).or_default().waits.push(access);
                }
                Step::Look(party) => {
                    recalls.extend(leases.look(party, FILE));
                    models.entry(party).or_default().looks = true;
                }
                Step::Hear(party) => hear(&mut leases, party, models.entry(party).or_default()),
                Step::Close(party, writes) => {
                    let model = models.entry(party).or_default();
                    let access = if writes { Access::Write } else { Access::Read };
                    if model.handles[usize::from(writes)] > 0 {
                        model.handles[usize::from(writes)] -= 1;
                        leases.close(party, FILE, access, Some(stamp(content)), NOW_NS);
                    }
                    if model.handles == [0, 0] && model.waits.is_empty() {
                        model.grant = None;
                    }
                }
                Step::Write(party) => {
                    let model = models.entry(party).or_default();
                    if model.handles[1] > 0 {
                        content += 1;
                        model.knows = model.grant.map(|grant| (grant.version, content));
                        let readers = models.iter().filter(|(other, model)| **other != party && model.grant.is_some());
                        prop_assert_eq!(readers.count(), 0, "somebody has a lease of what is written");
                    }
                }
                Step::Gone(party) => {
                    leases.gone(party);
                    models.insert(party, Model::default());
                }
            }
            // Who only looks is answered before anybody else gets a lease.
            for (party, model) in &mut models {
                model.looks &= !leases.may_go_on(*party, FILE, Access::Read);
            }
            let mut worthless_of = Vec::new();
            for (party, model) in &mut models {
                loop {
                    let may_go = |access: &Access| leases.may_go_on(*party, FILE, *access);
                    let Some(at) = model.waits.iter().position(may_go) else { break };
                    let access = model.waits.remove(at);
                    model.handles[usize::from(access == Access::Write)] += 1;
                    let (grant, worthless) = leases.grant(*party, FILE, stamp(content), NOW_NS);
                    worthless_of.extend(worthless.iter().map(|recall| recall.party));
                    recalls.extend(worthless);
                    model.writes_with_others |= access == Access::Write && grant.is_none() && model.grant.is_some();
                    if let Some(grant) = grant {
                        model.writes_with_others = false;
                        let still = model.knows.filter(|(version, _)| *version == grant.known);
                        prop_assert!(still.is_none_or(|(_, known)| known == content), "{:?} is not {content}", still);
                        model.knows = Some((grant.version, content));
                    }
                    model.grant = grant.or(model.grant);
                }
            }
            for party in worthless_of {
                let model = models.entry(party).or_default();
                prop_assert!(core::mem::take(&mut model.writes_with_others), "the host does nothing here");
            }
            for Recall { party, number, .. } in recalls.drain(..) {
                models.entry(party).or_default().wanted.push_back(number);
            }
        }
        // Once all have heard what was said, nobody waits.
        for (party, model) in &mut models {
            while !model.wanted.is_empty() {
                hear(&mut leases, *party, model);
            }
        }
        for (party, model) in &models {
            prop_assert!(model.waits.iter().all(|access| leases.may_go_on(*party, FILE, *access)));
            prop_assert!(!model.looks || leases.may_go_on(*party, FILE, Access::Read), "it looks in vain");
        }
    }
}
