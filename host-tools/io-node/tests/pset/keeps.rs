//! Files that nodes are to keep: ordered, sent from here if their home is here, and over when the service node says so.

use coppice_io_node::limits::TRANSFERS_MAX;
use coppice_protocol::control::{ToIoNode, ToNode};
use coppice_protocol::ids::{Generation, PsetId};
use coppice_protocol::keep::{Keep, KeepFile, KeepOutcome, Kept, KeptTransfer};
use coppice_protocol::pset::{FromPset, ToPset};

use crate::common::{NODE, Pset, identity, run};
use crate::staging::{Member, stage};

const WHOLE: KeepOutcome = KeepOutcome::Whole { was_here: false };

/// An order to have the pset's first node keep a file that lies there, and what is in that.
fn order(pset: &Pset, request: u64) -> (KeepFile, Vec<u8>) {
    let (spec, file) = stage(pset);
    let staging = *spec.staging.unwrap();
    let transfer = KeptTransfer { request, world: spec.world, staging };
    (KeepFile { transfer, nodes: vec![NODE], file: spec.staged_files[0].clone() }, file)
}

fn keep(generation: u32, order: &KeepFile) -> ToNode {
    ToNode::Keep(Keep { generation: Generation(generation), node: NODE, transfer: order.transfer.clone() })
}

#[test]
fn a_node_is_told_gets_the_file_and_answers() {
    run(async {
        let (mut pset, node) = Pset::with_node().await;
        let (order, file) = order(&pset, 7);
        let (port, clock) = pset.open_distribution();
        pset.send(ToPset::Keep(order.clone())).await;
        assert_eq!(node.control.message().await, keep(1, &order));
        let (roster, key) = (order.transfer.roster().unwrap(), order.transfer.key());
        let (plan, content) = (order.transfer.plan(&roster).unwrap(), order.content().unwrap());
        let mut member = Member::of(plan, key, roster, content, (port, clock));
        assert!(member.get().await == file);
        for outcome in [WHOLE, KeepOutcome::Refused("w".into())] {
            let answer = Kept { request: 7, outcome, held: Vec::new() };
            node.control.send(0, &ToIoNode::Kept(answer.clone()), &[]);
            match pset.receive().await {
                FromPset::Kept { node: NODE, answer: passed_on } => assert_eq!(passed_on, answer),
                other => panic!("{other:?}"),
            }
        }
        pset.send(ToPset::EndKeep { request: 7 }).await;
        assert_eq!(node.control.message().await, ToNode::EndKeep { request: 7 });
    });
}

#[test]
fn a_node_that_comes_back_is_told_again_until_it_has_answered_or_it_is_over() {
    run(async {
        let (mut pset, node) = Pset::with_node().await;
        let orders = [7, 8, 9].map(|request| order(&pset, request).0);
        for order in &orders {
            pset.send(ToPset::Keep(order.clone())).await;
            assert_eq!(node.control.message().await, keep(1, order));
        }
        node.control.send(0, &ToIoNode::Kept(Kept { request: 8, outcome: WHOLE, held: Vec::new() }), &[]);
        assert!(matches!(pset.receive().await, FromPset::Kept { .. }));
        node.control.abort();
        pset.send(ToPset::EndKeep { request: 7 }).await;
        let control = pset.connect_control(identity(1)).await;
        assert_eq!(control.message().await, keep(1, &orders[2]));
        pset.send(ToPset::EndKeep { request: 9 }).await;
        // To be told more often than once does no harm.
        let mut last = control.message().await;
        while last == keep(1, &orders[2]) {
            last = control.message().await;
        }
        assert_eq!(last, ToNode::EndKeep { request: 9 });
    });
}

#[test]
fn a_file_that_cannot_be_sent_is_said_and_one_that_has_its_home_elsewhere_may_be_missing() {
    run(async {
        let (mut pset, node) = Pset::with_node().await;
        let (good, _) = order(&pset, 1);
        let mut elsewhere = good.clone();
        (elsewhere.transfer.request, elsewhere.file) = (2, "/no/such/file".into());
        elsewhere.transfer.staging.home = PsetId(5);
        let missing = KeepFile {
            file: "/no/such/file".into(),
            transfer: KeptTransfer { request: 3, ..good.transfer.clone() },
            ..good.clone()
        };
        let mut shorter = good.clone();
        shorter.transfer.request = 4;
        shorter.transfer.staging.files[0].bytes -= 1;
        for bad in [&elsewhere, &missing, &shorter] {
            pset.send(ToPset::Keep(bad.clone())).await;
            assert_eq!(node.control.message().await, keep(1, bad));
        }
        let mut failed = Vec::new();
        for _ in 0..2 {
            match pset.receive().await {
                FromPset::KeepFailed { request, reason } => {
                    assert!(reason.contains("cannot read staged file") && !reason.contains('\n'), "{reason}");
                    failed.push(request);
                }
                other => panic!("{other:?}"),
            }
        }
        failed.sort_unstable();
        assert_eq!(failed, [3, 4]);
    });
}

#[test]
fn there_are_only_so_many_at_once_and_those_that_end_make_room() {
    run(async {
        let (mut pset, node) = Pset::with_node().await;
        let (good, _) = order(&pset, 0);
        let most = TRANSFERS_MAX as u64;
        let numbered =
            |request| KeepFile { transfer: KeptTransfer { request, ..good.transfer.clone() }, ..good.clone() };
        for request in 0..=most {
            pset.send(ToPset::Keep(numbered(request))).await;
        }
        match pset.receive().await {
            FromPset::KeepFailed { request, reason } => {
                assert_eq!(request, most);
                assert!(reason.contains(&most.to_string()) && !reason.contains('\n'), "{reason}");
            }
            other => panic!("{other:?}"),
        }
        for request in [5, 5, most + 9] {
            pset.send(ToPset::EndKeep { request }).await;
        }
        pset.send(ToPset::Keep(numbered(most + 1))).await;
        pset.send(ToPset::EndKeep { request: most + 1 }).await;
        let mut told = Vec::new();
        while told.last() != Some(&(most + 1, true)) {
            match node.control.message().await {
                ToNode::Keep(order) => told.push((order.transfer.request, false)),
                ToNode::EndKeep { request } => told.push((request, true)),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(told.iter().filter(|(_, is_end)| *is_end).count(), 2, "each is ended once");
        assert!(told.contains(&(most + 1, false)));
    });
}
