//! What ranks do hangs together: they come to the same fences, wait for nothing that nobody does, and say what a server
//! understands.

use coppice_protocol::pmix::{Dialect, Greeting, Process, Reader, Request};

use super::{Act, Ask, Course, Fence, Loss, Reply, Speaker, Told, Want, bytes_of, greeting, read_answer};

const COURSE: Course = Course {
    rounds: 3,
    mark: 7,
    keys: 2,
    value_bytes: 40,
    pause_ns: 100,
    per_node: 2,
    is_wide: false,
    notifier: 2,
    loser: 0,
    loses_at: 0,
    loses_how: 0,
    outlives: false,
};

fn acts(course: &Course, rank: u32, size: u32) -> Vec<Act> {
    let speaker = Speaker { rank, size, space: "k1" };
    (0..10_000).map_while(|index| course.act(&speaker, index)).collect()
}

fn asks(course: &Course, rank: u32, size: u32) -> Vec<Ask> {
    let asks = acts(course, rank, size).into_iter().filter_map(|act| match act {
        Act::Ask(ask) | Act::AskAndEnd(ask, true) => Some(ask),
        _ => None,
    });
    asks.collect()
}

#[test]
fn all_members_come_to_each_fence_in_the_same_order() {
    for size in 1..8 {
        let fences = |rank| {
            let all = asks(&COURSE, rank, size).into_iter().filter_map(|ask| match ask {
                Ask::Fence(fence) => Some(fence),
                _ => None,
            });
            all.collect::<Vec<Fence>>()
        };
        let rounds = (0..COURSE.rounds).flat_map(|round| [Fence::Low(round), Fence::High(round), Fence::Whole(round)]);
        let all: Vec<Fence> = rounds.chain([Fence::Whole(COURSE.rounds)]).collect();
        for rank in 0..size {
            let own: Vec<Fence> =
                all.iter().copied().filter(|fence| COURSE.members(*fence, size).contains(&rank)).collect();
            assert_eq!(fences(rank), own, "rank {rank} of {size}");
        }
    }
}

#[test]
fn what_is_got_and_looked_up_is_put_and_published() {
    for size in 1..8 {
        let all: Vec<Vec<Ask>> = (0..size).map(|rank| asks(&COURSE, rank, size)).collect();
        for ask in all.iter().flatten() {
            let (of, wanted) = match *ask {
                Ask::Get(of, Want::Once(round, number)) if number < COURSE.keys => (of, Ask::Commit(round)),
                Ask::Get(of, Want::Again(number)) if number < COURSE.keys => (of, Ask::Commit(0)),
                Ask::Get(of, Want::Scoped) => (of, Ask::Commit(0)),
                Ask::Get(_, Want::Never) => continue,
                Ask::Get(..) => panic!("nobody puts that: {ask:?}"),
                Ask::LookUp(0, 0) => continue,
                Ask::LookUp(of, round) => (of, Ask::Publish(round)),
                _ => continue,
            };
            assert!(all[of as usize].contains(&wanted), "{ask:?}");
        }
        let events = all.iter().flatten().filter(|ask| matches!(ask, Ask::Notify(_))).count() as u64;
        assert_eq!(events, if size > 1 { COURSE.events() } else { 0 });
    }
}

#[test]
fn calls_are_what_a_server_understands() {
    for is_wide in [false, true] {
        let course = Course { is_wide, ..COURSE };
        let speaker = Speaker { rank: 1, size: 4, space: "k1" };
        let dialect = if is_wide { Dialect::Wide } else { Dialect::Short };
        let first = greeting(&course, &speaker);
        let greeted = Greeting::parse(&first[16..]).expect("a greeting");
        assert_eq!((greeted.process, greeted.dialect), (Process { space: b"k1", rank: 1 }, dialect));
        for ask in asks(&course, 1, 4).into_iter().chain([Ask::Abort]).filter(|ask| *ask != Ask::Greet) {
            let bytes = bytes_of(&course, &speaker, ask);
            let request = Request::parse(Reader::new(&bytes, dialect)).expect("a call");
            let is_it = match (ask, &request) {
                (Ask::Init, Request::Job) | (Ask::Commit(_), Request::Commit(_)) => true,
                (Ask::Fence(fence), Request::Fence { collect, .. }) => *collect == course.collects(fence),
                (Ask::Get(of, want), Request::Get(get)) => {
                    get.of.rank == of && get.timeout_s.is_some() == (want == Want::Never)
                }
                (Ask::Publish(_) | Ask::LookUp(..), Request::Named(_)) => true,
                (Ask::Register, Request::Register(codes)) => codes.len() == 2,
                (Ask::Notify(_), Request::Notify(notify)) => !notify.infos.is_empty(),
                (Ask::Query, Request::Query(_)) | (Ask::Finalize, Request::Finalize) => true,
                (Ask::Abort, Request::Abort { .. }) => true,
                _ => false,
            };
            assert!(is_it, "{ask:?} is {request:?}");
        }
    }
}

#[test]
fn only_what_a_rank_has_put_is_its_card() {
    for is_near in [false, true] {
        let cards: Vec<_> = (0..=COURSE.rounds).map(|commits| COURSE.card(1, commits, is_near)).collect();
        for (commits, card) in (0..).zip(&cards) {
            assert_eq!(COURSE.commits_of(1, card, is_near), Some(commits));
            assert_eq!(COURSE.commits_of(0, card, is_near), (commits == 0).then_some(0));
            assert_eq!(COURSE.commits_of(1, card, !is_near), (commits == 0).then_some(0));
        }
        let mut mixed = cards[2].clone();
        mixed.extend(cards[1].clone());
        assert_eq!(COURSE.commits_of(1, &mixed, is_near), None);
    }
}

#[test]
fn who_goes_away_says_no_more_than_it_is_to() {
    for (how, loss) in (0..).zip(Loss::ALL) {
        for outlives in [false, true] {
            let course = Course { loser: 2, loses_at: 12, loses_how: how, outlives, ..COURSE };
            let (others, own) = (acts(&course, 0, 3), acts(&course, 1, 3));
            assert_eq!(others, acts(&COURSE, 0, 3));
            assert!(own.len() < others.len(), "{loss:?}");
            assert_eq!(course.must_fail(3), !(outlives && loss.is_an_end()), "{loss:?}");
            assert_eq!(Course::of(course.numbers()), course);
            let is_awaited = outlives && loss.is_an_end();
            assert_eq!(course.awaits(0), (0, is_awaited.into()), "who notifies has gone");
        }
    }
    assert!(Loss::ALL[..Loss::OUTLIVED].iter().all(|loss| loss.is_an_end()));
    assert_eq!(COURSE.awaits(1), (0, 0), "nobody is told what it says itself");
    assert_eq!([COURSE.awaits(0), COURSE.awaits(2), COURSE.awaits(3)], [(5, 0), (5, 0), (4, 0)]);
}

#[test]
fn an_answer_that_nobody_can_mean_is_none() {
    let speaker = Speaker { rank: 0, size: 3, space: "k1" };
    let mut status = coppice_protocol::pmix::Writer::new(Dialect::Short);
    status.status(coppice_protocol::pmix::Status::SUCCESS);
    let read = |ask, bytes: &[u8]| read_answer(&COURSE, &speaker, ask, bytes);
    assert_eq!(read(Ask::Commit(0), status.bytes()), Ok(Reply::Status(0)));
    assert!(read(Ask::Get(1, Want::Scoped), status.bytes()).is_err());
    status.byte(0);
    assert!(read(Ask::Commit(0), status.bytes()).is_err());
    assert!(super::read_told(&COURSE, &speaker, status.bytes()).is_err());
    assert_ne!(Told::End(1, super::Source::Own), Told::Event(1, 0));
}
