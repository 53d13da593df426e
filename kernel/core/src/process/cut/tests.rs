//! A leader and a rank at all points of a cut.

use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec;
use core::mem::ManuallyDrop;

use super::{Cut, ENDED, Member, OVERTAKEN, Phase, Way};
use crate::executor::{self, timeout};
use crate::process::testing::Bench;

/// A rank, and a cut of it that somebody called 1 leads.
fn begun() -> (Bench, Arc<Cut>) {
    let bench = Bench::new(&[]);
    let cut = Arc::new(Cut::none());
    let network = Arc::clone(&bench.process.node.network);
    assert!(cut.begin(1, vec![bench.process.hold()], network, 1000).is_ok());
    (bench, cut)
}

/// What comes of waiting for a while.
fn soon<T: Send + 'static>(waits: impl Future<Output = T> + Send + 'static) -> Option<T> {
    executor::run_to_end(timeout(1_000_000, waits)).expect("a deadline").ok()
}

fn arrived(cut: &Arc<Cut>) -> Option<Result<(), &'static str>> {
    let cut = Arc::clone(cut);
    let arrived = soon(async move { cut.arrived().await });
    arrived.map(|arrived| arrived.map_err(|why| if why == ENDED { ENDED } else { "something else" }))
}

fn way(cut: &Arc<Cut>, phase: Phase) -> Option<Way> {
    // One that looks, and is not counted.
    let member = ManuallyDrop::new(Member { cut: Arc::clone(cut), is_done: false });
    soon(async move { member.next(phase).await })
}

/// It becomes a member when ranks are to become data.
fn taken(bench: &Bench, cut: &Arc<Cut>) -> Option<Member> {
    let (cut, process) = (Arc::clone(cut), Arc::clone(&bench.process));
    soon(async move { cut.wanted(&process).await }).map(|(_, member)| member)
}

fn enter(cut: &Cut, from: Phase, phase: Phase) {
    assert_eq!(cut.enter(from, phase), Ok(()));
}

#[test]
fn it_is_of_one_leader() {
    let (bench, cut) = begun();
    let network = Arc::clone(&bench.process.node.network);
    assert!(cut.begin(2, vec![], network, 1000).is_err());
    assert_eq!((cut.phase_of(1), cut.phase_of(2)), (Phase::Stopped, Phase::None));
    cut.end();
    assert!(!cut.is_under_way() && cut.network().is_none());
    assert_eq!(cut.phase_of(1), Phase::None);
}

#[test]
fn a_step_is_done_when_all_have_arrived() {
    let (bench, cut) = begun();
    assert!(taken(&bench, &cut).is_none());
    enter(&cut, Phase::Stopped, Phase::Record);
    let member = taken(&bench, &cut).expect("it is wanted");
    assert!(taken(&bench, &cut).is_none());
    assert_eq!(arrived(&cut), None);
    member.arrive(Ok(()));
    assert_eq!((arrived(&cut), way(&cut, Phase::Forget)), (Some(Ok(())), None));
    enter(&cut, Phase::Record, Phase::Forget);
    assert_eq!((arrived(&cut), way(&cut, Phase::Forget)), (None, Some(Way::On)));
    member.arrive(Err("no memory".to_string()));
    assert_eq!(arrived(&cut), Some(Err("something else")));
    enter(&cut, Phase::Forget, Phase::Make);
    enter(&cut, Phase::Make, Phase::Go);
    member.done();
    let cut = Arc::clone(&cut);
    assert_eq!(soon(async move { cut.done().await }), Some(Ok(())));
}

#[test]
fn nobody_waits_for_who_has_ended() {
    let (bench, cut) = begun();
    cut.ended(&bench.process);
    assert_eq!((arrived(&cut), cut.is_deserted()), (Some(Err(ENDED)), Some(false)));
    let (bench, cut) = begun();
    enter(&cut, Phase::Stopped, Phase::Record);
    let member = taken(&bench, &cut).expect("it is wanted");
    enter(&cut, Phase::Record, Phase::Forget);
    // A member tells by being dropped.
    cut.ended(&bench.process);
    assert_eq!((arrived(&cut), cut.is_deserted()), (None, None));
    drop(member);
    assert_eq!((arrived(&cut), cut.is_deserted()), (Some(Err(ENDED)), Some(true)));
}

#[test]
fn when_it_is_given_up_all_go_on_with_what_they_had() {
    let (_bench, cut) = begun();
    enter(&cut, Phase::Stopped, Phase::Record);
    // Nobody was taken down yet: the rank is held no more, and nobody waits for it.
    cut.give_up();
    let given_up = Arc::clone(&cut);
    assert_eq!(soon(async move { given_up.done().await }), Some(Ok(())));
    let (bench, cut) = begun();
    enter(&cut, Phase::Stopped, Phase::Record);
    let member = taken(&bench, &cut).expect("it is wanted");
    cut.give_up();
    assert_eq!(way(&cut, Phase::Forget), Some(Way::Back));
    member.done();
    let given_up = Arc::clone(&cut);
    assert_eq!(soon(async move { given_up.done().await }), Some(Ok(())));
    // Whoever is late finds nothing any more, and does not wait either.
    cut.end();
    assert_eq!(
        [Phase::Forget, Phase::Make, Phase::Go].map(|phase| way(&cut, phase)),
        [Some(Way::Back), Some(Way::On), Some(Way::On)]
    );
}

/// A rank that leaves says why, if it can, and nobody goes on with what is over.
#[test]
fn what_could_not_be_done_is_told() {
    let (bench, cut) = begun();
    enter(&cut, Phase::Stopped, Phase::Record);
    let member = taken(&bench, &cut).expect("it is wanted");
    member.arrive(Err("no memory".to_string()));
    drop(member);
    assert_eq!((arrived(&cut), cut.is_deserted()), (Some(Err("something else")), Some(false)));
    cut.end();
    assert_eq!(cut.enter(Phase::Record, Phase::Forget), Err(OVERTAKEN.to_string()));
    assert!(!cut.is_under_way());
}

#[test]
fn whoever_leads_has_to_be_heard_of() {
    let (_bench, cut) = begun();
    let until_ns = executor::now_ns() + 500_000;
    cut.renew(until_ns);
    let overdue = |by| {
        let cut = Arc::clone(&cut);
        soon(async move { cut.overdue(by).await })
    };
    assert_eq!((overdue(2), overdue(1)), (Some(false), Some(true)));
    cut.renew(executor::now_ns() + 10_000_000);
    assert_eq!(overdue(1), None);
    cut.end();
    assert_eq!(overdue(1), Some(false));
}
