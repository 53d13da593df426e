//! What ranks are told unasked.

use coppice_protocol::control::Exit;
use coppice_protocol::ids::Rank;
use coppice_protocol::limits::{
    PMI_ASK_NS, PMIX_EVENT_BYTES_MAX, PMIX_EVENTS_KEPT_MAX, PMIX_EVENTS_KEPT_NS, PMIX_EVENTS_UNDER_WAY_MAX,
    PMIX_HANDLERS_MAX,
};
use coppice_protocol::pmi::Event;
use coppice_protocol::pmix::{Dialect, Kind, Process, Reader, Status, Value, rank};

use crate::nodes::{Nodes, SPACE, Told};

/// `pmix_data_range_t`.
const RESOURCE_MANAGER: u8 = 1;
const LOCAL: u8 = 2;
const NAMESPACE: u8 = 3;
const SESSION: u8 = 4;
const GLOBAL: u8 = 5;
const CUSTOM: u8 = 6;
const PROCESS_LOCAL: u8 = 7;

/// Events of a program's own.
const ONE: i32 = -3001;
const OTHER: i32 = -3002;

fn codes(told: &[Told]) -> Vec<i32> {
    told.iter().map(|told| told.code).collect()
}

/// All ranks ask for these.
fn all_ask(nodes: &mut Nodes, codes: &[i32]) {
    let call = nodes.register(codes);
    for rank in nodes.ranks() {
        assert_eq!(nodes.ask_status(rank, &call), Status::SUCCESS);
    }
}

#[test]
fn who_has_asked_for_it_is_told_wherever_he_is() {
    for (dialect, range) in [(Dialect::Short, GLOBAL), (Dialect::Wide, NAMESPACE), (Dialect::Short, SESSION)] {
        let mut nodes = Nodes::new(&[2, 1, 1, 2, 1], dialect);
        for rank in [0, 1, 3, 4, 6] {
            let call = nodes.register(&[ONE, -4000]);
            assert_eq!(nodes.ask_status(rank, &call), Status::SUCCESS);
        }
        let said = nodes.notify(ONE, range, &[("mine", Value::Number(7)), ("text", Value::Text("enough"))]);
        assert_eq!(nodes.ask_status(4, &said), Status::SUCCESS);
        nodes.settle();
        for rank in nodes.ranks() {
            let told = nodes.told(rank);
            // Who says it has handled it, and who has not asked for it is left alone.
            assert_eq!(told.len(), usize::from([0, 1, 3, 6].contains(&rank)), "{rank}");
            for Told { code, source, infos, range: as_said } in told {
                assert_eq!((code, source, as_said), (ONE, (SPACE.to_vec(), 4), range));
                let mine = Reader::new(&infos["mine"].1, dialect).u32();
                assert_eq!((infos.len(), infos["mine"].0, mine), (2, Kind::UINT32, Ok(7)));
            }
        }
        nodes.settle();
        assert!(nodes.servers.iter().all(|server| server.poll_timeout().is_none()), "nothing is left behind");
        assert!(nodes.servers.iter().all(|server| server.is_settled()));
    }
}

#[test]
fn a_range_is_kept_to() {
    let mut nodes = Nodes::new(&[2, 2], Dialect::Short);
    all_ask(&mut nodes, &[ONE]);
    let two = [Process { space: SPACE, rank: 1 }, Process { space: SPACE, rank: 2 }, Process { space: b"k9", rank: 3 }];
    let all = [Process { space: SPACE, rank: rank::WILDCARD }];
    let custom = |processes| [("pmix.evrange", Value::Processes(processes))];
    for (range, infos, wanted) in [
        (LOCAL, &[][..], &[1][..]),
        (RESOURCE_MANAGER, &[], &[]),
        (PROCESS_LOCAL, &[], &[]),
        (CUSTOM, &custom(&two), &[1, 2]),
        (CUSTOM, &custom(&all), &[1, 2, 3]),
        (CUSTOM, &[("pmix.evrange", Value::Process(Process { space: SPACE, rank: 3 }))], &[3]),
        (CUSTOM, &custom(&[]), &[]),
        (0, &[], &[1, 2, 3]),
    ] {
        let said = nodes.notify(ONE, range, infos);
        assert_eq!(nodes.ask_status(0, &said), Status::SUCCESS, "{range}");
        nodes.settle();
        let told: Vec<u32> = (1..4).filter(|rank| !nodes.told(*rank).is_empty()).collect();
        assert_eq!(told, wanted, "{range} {infos:?}");
    }
    for (range, infos) in
        [(CUSTOM, &[][..]), (CUSTOM, &[("pmix.evrange", Value::Number(1))]), (LOCAL, &custom(&two)), (99, &[])]
    {
        let said = nodes.notify(ONE, range, infos);
        assert_eq!(nodes.ask_status(0, &said), Status::BAD_PARAM, "{range} {infos:?}");
    }
}

#[test]
fn whoever_asks_for_whatever_happens_hears_what_is_for_all() {
    let mut nodes = Nodes::new(&[1, 1, 1], Dialect::Short);
    let (all, one) = (nodes.register(&[]), nodes.register(&[ONE]));
    assert_eq!((nodes.ask_status(1, &all), nodes.ask_status(2, &one)), (Status::SUCCESS, Status::SUCCESS));
    let not_for_all = [("pmix.evnondef", Value::Truth(true))];
    for said in [nodes.notify(ONE, GLOBAL, &not_for_all), nodes.notify(OTHER, GLOBAL, &[])] {
        assert_eq!(nodes.ask_status(0, &said), Status::SUCCESS);
    }
    nodes.settle();
    assert_eq!((codes(&nodes.told(1)), codes(&nodes.told(2))), (vec![OTHER], vec![ONE]));
    // Asked for no longer.
    let (no_more, said) = (nodes.deregister(&[i32::MIN]), nodes.notify(OTHER, GLOBAL, &[]));
    nodes.call(1, &no_more);
    assert_eq!((nodes.hear(1), nodes.ask_status(0, &said)), (Vec::new(), Status::SUCCESS));
    nodes.settle();
    assert_eq!(nodes.told(1), []);
}

#[test]
fn who_asks_later_is_told_what_has_come_once_and_not_for_ever() {
    let mut nodes = Nodes::new(&[2, 1], Dialect::Short);
    for (code, infos) in [(ONE, &[][..]), (OTHER, &[]), (ONE, &[("pmix.evnocache", Value::Truth(true))])] {
        let said = nodes.notify(code, GLOBAL, infos);
        assert_eq!(nodes.ask_status(0, &said), Status::SUCCESS);
        nodes.settle();
    }
    let (one, all) = (nodes.register(&[ONE]), nodes.register(&[]));
    for rank in [1, 2] {
        for (call, wanted) in [(&one, &[ONE][..]), (&one, &[]), (&all, &[OTHER])] {
            let tag = nodes.call(rank, call);
            // First the answer, then what has come.
            let heard = nodes.hear(rank);
            assert_eq!(heard.iter().map(|(tag, _)| *tag).collect::<Vec<_>>()[0], tag);
            let told: Vec<Told> = heard[1..].iter().map(|(_, body)| nodes.understand(body)).collect();
            assert_eq!(codes(&told), wanted, "{rank}");
        }
    }
    nodes.call(0, &one);
    assert_eq!(nodes.told(0), []);
    let mut nodes = Nodes::new(&[2], Dialect::Short);
    let said = nodes.notify(ONE, GLOBAL, &[]);
    assert_eq!(nodes.ask_status(0, &said), Status::SUCCESS);
    nodes.now_ns += PMIX_EVENTS_KEPT_NS + 1;
    assert_eq!(nodes.ask_status(1, &one), Status::SUCCESS);
}

#[test]
fn a_rank_that_ends_without_a_word_is_told_of() {
    for (exit, status, code) in [
        (Exit::Signal(9), Status::PROC_ABORTED_BY_SIG, 137),
        (Exit::Status(3), Status::PROC_TERM_WO_SYNC, 3),
        (Exit::Status(0), Status::PROC_TERM_WO_SYNC, 0),
    ] {
        let mut nodes = Nodes::new(&[2, 2], Dialect::Short);
        // Each is told once, under the narrowest name that he has asked for.
        let asked = [vec![status.0, Status::PROC_ABORTED.0], vec![Status::PROC_ABORTED.0], vec![]];
        for (rank, asked) in [0, 2, 3].into_iter().zip(&asked) {
            let call = nodes.register(asked);
            assert_eq!(nodes.ask_status(rank, &call), Status::SUCCESS);
        }
        nodes.servers[0].rank_ended(Rank(1), exit, nodes.now_ns);
        nodes.settle();
        for (rank, wanted) in [(0, status), (2, Status::PROC_ABORTED), (3, status)] {
            let told = nodes.told(rank);
            assert_eq!((codes(&told), told[0].source.clone()), (vec![wanted.0], (b"coppice".to_vec(), 0)), "{rank}");
            let value = |key: &str| Reader::new(&told[0].infos[key].1, Dialect::Short);
            assert_eq!(value("pmix.evproc").process(), Ok(Process { space: SPACE, rank: 1 }));
            assert_eq!(value("pmix.proc.term.status").i32(), Ok(status.0));
            assert_eq!(value("pmix.exit.code").int(), Ok(code));
        }
    }
}

#[test]
fn who_has_finalized_or_is_killed_with_all_is_not_told_of() {
    let mut nodes = Nodes::new(&[2, 1], Dialect::Short);
    all_ask(&mut nodes, &[]);
    let finalize = nodes.command(5);
    assert_eq!(nodes.ask_status(1, &finalize), Status::SUCCESS);
    nodes.servers[0].rank_ended(Rank(1), Exit::Status(4), nodes.now_ns);
    nodes.servers[0].set_ending();
    nodes.servers[0].rank_ended(Rank(0), Exit::Signal(9), nodes.now_ns);
    nodes.settle();
    assert_eq!(nodes.told(2), []);
}

#[test]
fn an_abort_is_told_of() {
    let mut nodes = Nodes::new(&[1, 1], Dialect::Wide);
    all_ask(&mut nodes, &[]);
    let mut abort = nodes.command(1);
    abort.packed(1).i32(6).packed(1).text(b"enough");
    assert_eq!(nodes.ask_status(0, &abort), Status::SUCCESS);
    nodes.settle();
    assert_eq!(codes(&nodes.told(1)), [Status::REQUESTED_ABORT.0]);
    assert!(matches!(nodes.events[..], [Event::Abort { code: 6, .. }]));
}

#[test]
fn there_are_limits() {
    let mut nodes = Nodes::new(&[1, 1], Dialect::Short);
    let many: Vec<i32> = (0..PMIX_HANDLERS_MAX as i32).map(|code| code - 9000).collect();
    let (most, more) = (nodes.register(&many), nodes.register(&[ONE]));
    assert_eq!((nodes.ask_status(0, &most), nodes.ask_status(0, &more)), (Status::SUCCESS, Status::OUT_OF_RESOURCE));
    // It is asked for what was asked for before, and nothing else.
    assert_eq!(nodes.ask_status(0, &most), Status::SUCCESS);
    let long = "x".repeat(PMIX_EVENT_BYTES_MAX);
    let said = nodes.notify(ONE, GLOBAL, &[("text", Value::Text(&long))]);
    assert_eq!(nodes.ask_status(0, &said), Status::OUT_OF_RESOURCE);
    // Nobody answers.
    let (far, near) = (nodes.notify(ONE, GLOBAL, &[]), nodes.notify(ONE, LOCAL, &[]));
    for _ in 0..PMIX_EVENTS_UNDER_WAY_MAX {
        assert_eq!(nodes.ask_status(0, &far), Status::SUCCESS);
    }
    assert!(!nodes.servers[0].is_settled());
    assert_eq!((nodes.ask_status(0, &far), nodes.ask_status(0, &near)), (Status::OUT_OF_RESOURCE, Status::SUCCESS));
    nodes.settle();
    assert_eq!(nodes.ask_status(0, &far), Status::SUCCESS);
}

#[test]
fn who_does_not_read_misses_the_oldest() {
    let mut nodes = Nodes::new(&[2], Dialect::Short);
    let ask = nodes.register(&[]);
    assert_eq!(nodes.ask_status(1, &ask), Status::SUCCESS);
    let before = nodes.servers[0].memory_bytes();
    for code in 0..3 * PMIX_EVENTS_KEPT_MAX as i32 {
        let said = nodes.notify(-4000 - code, LOCAL, &[]);
        assert_eq!(nodes.ask_status(0, &said), Status::SUCCESS);
    }
    assert!(nodes.servers[0].memory_bytes() < before + 300 * PMIX_EVENTS_KEPT_MAX);
    let told = codes(&nodes.told(1));
    let wanted = (2 * PMIX_EVENTS_KEPT_MAX as i32..3 * PMIX_EVENTS_KEPT_MAX as i32).map(|code| -4000 - code);
    assert!(told.iter().copied().eq(wanted), "{told:?}");
}

#[test]
fn a_node_that_has_gone_is_not_waited_for() {
    let mut nodes = Nodes::new(&[1, 1], Dialect::Short);
    let said = nodes.notify(ONE, GLOBAL, &[]);
    assert_eq!(nodes.ask_status(0, &said), Status::SUCCESS);
    for _ in 0..5 {
        assert!(nodes.servers[0].poll_timeout().is_some());
        nodes.pass(PMI_ASK_NS);
    }
    assert!(nodes.servers[0].is_settled(), "the end of the job does not wait for it");
    for _ in 0..6 {
        nodes.pass(PMI_ASK_NS);
    }
    assert!(nodes.servers[0].is_settled());
    for number in 0..2 * PMIX_EVENTS_UNDER_WAY_MAX {
        assert_eq!(nodes.ask_status(0, &said), Status::SUCCESS, "{number}");
    }
    // If it comes after all, it hears what was said last, in order, and no more than there was room for.
    let ask = nodes.register(&[]);
    assert_eq!(nodes.ask_status(1, &ask), Status::SUCCESS);
    for code in [-4001, -4002] {
        let said = nodes.notify(code, GLOBAL, &[]);
        assert_eq!(nodes.ask_status(0, &said), Status::SUCCESS);
    }
    for _ in 0..8 {
        nodes.settle();
        nodes.pass(PMI_ASK_NS);
    }
    let told = codes(&nodes.told(1));
    // The first one was on its way already.
    assert_eq!((told.len(), told.last_chunk()), (PMIX_EVENTS_UNDER_WAY_MAX + 1, Some(&[-4001, -4002])));
}

#[test]
fn a_node_between_that_has_gone_is_gone_round() {
    // From node 0 to node 3 the way goes by node 2; from there back by node 1.
    for gone in [1, 2] {
        let mut nodes = Nodes::new(&[1; 4], Dialect::Short);
        all_ask(&mut nodes, &[ONE]);
        let said = nodes.notify(ONE, GLOBAL, &[]);
        assert_eq!(nodes.ask_status(0, &said), Status::SUCCESS);
        for _ in 0..4 {
            nodes.settle_without(gone);
            nodes.pass(PMI_ASK_NS);
        }
        assert_eq!(codes(&nodes.told(3)), [ONE], "{gone}");
        assert!((0..4).filter(|node| *node != gone).all(|node| nodes.servers[node].is_settled()), "{gone}");
    }
}
