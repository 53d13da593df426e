//! Pages that are not those of the program: none is ever run or read, whatever was changed between the store's disk and
//! the node. The test is the node's I/O node here.

use coppice_protocol::control::{Exit, RankReport, ToIoNode, ToNode};
use coppice_protocol::ids::{JobId, ProgramId};
use coppice_protocol::ras::{RasEvent, RasKind};
use coppice_protocol::retain::Discard;
use coppice_tests::guests::{Toolchain, program};
use coppice_tests::rig::{self, Damage, Rig, Wire};

const PAGE_BYTES: usize = 4096;

/// Runs a program that is not on the node, and gives its report and the damage that was found.
async fn run(rig: &Rig, control: &Wire, job: u64, program: ProgramId) -> (RankReport, Vec<RasEvent>) {
    control.order(&ToNode::Discard(Discard { request: job, program: None })).await;
    while !matches!(control.next().await, Some(ToIoNode::Discarded(answer)) if answer.request == job) {}
    control.order(&ToNode::Launch(rig.launch(job, program, false, &[&job.to_string()]))).await;
    rig.end_input();
    let (mut ended, mut found) = (None, Vec::new());
    loop {
        match control.next_or_event().await {
            Some(ToIoNode::Ended(mut ends)) if ends.reports[0].job == JobId(job) => ended = ends.reports.pop(),
            Some(ToIoNode::Ras(event)) if event.kind == RasKind::DamagedProgram => found.push(event),
            Some(ToIoNode::Ras(_) | ToIoNode::Launched { .. }) => {}
            other => panic!("{other:?} where a job should end"),
        }
        // Events and reports have no order among each other.
        if let Some(report) = ended.take_if(|report| report.exit == Exit::Status(0) || !found.is_empty()) {
            return (report, found);
        }
    }
}

#[test]
fn no_page_is_used_that_is_not_the_programs() {
    rig::run(async {
        let mut rig = Rig::boot();
        let file = program("worked_p0", Toolchain::Bare);
        let pages = std::fs::read(&file).expect("program").len().div_ceil(PAGE_BYTES);
        assert!(pages > 2);
        let id = rig.add_program(&file);
        let (control, _) = rig.connected().await;
        let bytes = (0..pages).map(|page| Damage::Byte(page * PAGE_BYTES + 77));
        // The root is sent with no pages.
        let nodes = (1..2 * pages - 1).map(Damage::Node);
        let mut ends = Vec::new();
        for (job, damage) in (1..).zip(bytes.chain(nodes)) {
            rig.damage(id, damage);
            let (report, found) = run(&rig, &control, 2 * job, id).await;
            let output = rig.output();
            rig.damage(id, damage);
            match &report.exit {
                // Nobody wanted what is damaged.
                Exit::Status(0) => assert_eq!((found.len(), &*output), (0, "ready\n"), "{damage:?}"),
                Exit::NotStarted | Exit::Signal(7) => {
                    let reason = report.reason.as_deref().unwrap_or_default();
                    assert!(!found.is_empty() && found[0].text.contains("not what its hash says"), "{damage:?}");
                    assert!(reason.contains("not the program's"), "{reason}");
                }
                other => panic!("{other:?} with {damage:?}"),
            }
            ends.push(report.exit);
            // As it was, the program runs.
            let (report, found) = run(&rig, &control, 2 * job + 1, id).await;
            assert_eq!((report.exit, found.len(), &*rig.output()), (Exit::Status(0), 0, "ready\n"));
        }
        assert_eq!(ends[0], Exit::NotStarted, "the headers are on the first page");
        assert!(ends.contains(&Exit::Signal(7)), "{ends:?}");
    });
}
