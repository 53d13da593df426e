//! Orders to retain that come at the wrong moment, twice, damaged or from nobody: each has a defined answer and leaves
//! the node as it was. The test is the node's I/O node here.

use coppice_protocol::control::{Exit, RankReport, ToIoNode, ToNode};
use coppice_protocol::ids::{Generation, JobId, ProgramId};
use coppice_protocol::retain::{Discard, Discarded, Retain, RetainOutcome, Retained, RetainedProgram};
use coppice_tests::guests::{Toolchain, program};
use coppice_tests::physical::Pattern;
use coppice_tests::rig::{self, GENERATION, Rig, Wire};

/// The node with two programs that it can load: those of the worked example.
struct Stage {
    rig: Rig,
    control: Wire,
    p0: ProgramId,
    p1: ProgramId,
    /// How often the node has come back.
    connections: u64,
}

impl Stage {
    async fn set_up() -> Self {
        Self::on(Rig::boot()).await
    }

    async fn on(mut rig: Rig) -> Self {
        let [p0, p1] = ["worked_p0", "worked_p1"].map(|name| rig.add_program(&program(name, Toolchain::Bare)));
        let (control, _) = rig.connected().await;
        Self { rig, control, p0, p1, connections: 0 }
    }

    /// Starts a program of the worked example and waits until it is ready.
    async fn start(&self, job: u64, program: ProgramId, use_retained: bool, arguments: &[&str]) {
        self.start_until("ready\n", job, program, use_retained, arguments).await;
    }

    /// Starts a program and waits until it has written this.
    async fn start_until(&self, text: &str, job: u64, program: ProgramId, use_retained: bool, arguments: &[&str]) {
        self.control.order(&ToNode::Launch(self.rig.launch(job, program, use_retained, arguments))).await;
        match self.control.next().await {
            Some(ToIoNode::Launched { job: launched, .. }) => assert_eq!(launched, JobId(job)),
            other => panic!("{other:?} for a launch"),
        }
        self.rig.wait_for_output(text).await;
    }

    /// The report of a job that is about to end.
    async fn end(&self, job: u64) -> RankReport {
        loop {
            match self.control.next().await {
                Some(ToIoNode::Ended(mut ends)) if ends.reports[0].job == JobId(job) => return ends.reports.remove(0),
                // Said again on a new connection.
                Some(ToIoNode::Launched { job: launched, .. }) if launched == JobId(job) => {}
                other => panic!("{other:?} where a job should end"),
            }
        }
    }

    /// Runs a program to its end.
    async fn run(&self, job: u64, program: ProgramId, use_retained: bool) -> RankReport {
        self.start(job, program, use_retained, &[&job.to_string()]).await;
        self.rig.end_input();
        let report = self.end(job).await;
        assert_eq!(report.exit, Exit::Status(0), "{report:?}");
        report
    }

    async fn retain(&self, job: u64, generation: Generation, program: ProgramId) -> RetainOutcome {
        self.control.order(&order(job, generation, program)).await;
        match self.control.next().await {
            Some(ToIoNode::Retained(Retained { job: answered, program: of, outcome })) => {
                assert_eq!((answered, of), (JobId(job), program));
                outcome
            }
            other => panic!("{other:?} for an order to retain"),
        }
    }

    async fn discard(&self, request: u64, program: Option<ProgramId>) -> Discarded {
        self.control.order(&ToNode::Discard(Discard { request, program })).await;
        match self.control.next().await {
            Some(ToIoNode::Discarded(answer)) if answer.request == request => answer,
            other => panic!("{other:?} for an order to discard"),
        }
    }

    /// What the node holds, the last one first.
    async fn held(&self) -> Vec<ProgramId> {
        let answer = self.discard(99, Some(ProgramId([0; 32]))).await;
        assert_eq!(answer.given_back, []);
        answer.still_held.iter().map(|held: &RetainedProgram| held.program).collect()
    }

    /// Waits until the node breaks the connection off and has made a new one.
    async fn broken_off(&mut self) {
        loop {
            match self.control.next().await {
                Some(ToIoNode::Retained(answer)) => panic!("{answer:?} where the node should break the connection off"),
                Some(_) => {}
                None => break,
            }
        }
        self.reconnected().await;
    }

    /// Waits for the node's next connection, and until it has repeated there what may have been lost.
    async fn reconnected(&mut self) {
        self.control = self.rig.connected().await.0;
        self.connections += 1;
        let (request, program) = (1000 + self.connections, Some(ProgramId([0; 32])));
        self.control.order(&ToNode::Discard(Discard { request, program })).await;
        let is_it = |message| matches!(message, ToIoNode::Discarded(answer) if answer.request == request);
        while !is_it(self.control.next().await.expect("an answer")) {}
    }
}

fn order(job: u64, generation: Generation, program: ProgramId) -> ToNode {
    ToNode::Retain(Retain { job: JobId(job), generation, program })
}

#[test]
fn every_order_to_retain_has_a_defined_answer() {
    rig::run(async {
        let stage = Stage::set_up().await;
        let (p0, p1) = (stage.p0, stage.p1);
        // Of an unknown program: nothing changes.
        assert_eq!(stage.retain(1, GENERATION, p0).await, RetainOutcome::Absent);
        assert_eq!(stage.run(2, p0, true).await.retention.found, 0);
        assert_eq!(stage.run(3, p1, true).await.retention.found, 0);
        assert_eq!(stage.retain(4, GENERATION, ProgramId([9; 32])).await, RetainOutcome::Absent);
        assert_eq!(stage.held().await, [p1, p0]);
        // For another boot: nothing changes.
        for generation in [0, GENERATION.0 - 1, GENERATION.0 + 1, u32::MAX] {
            let outcome = stage.retain(5, Generation(generation), p0).await;
            assert_eq!(outcome, RetainOutcome::OtherBoot(GENERATION));
        }
        assert_eq!(stage.held().await, [p1, p0]);
        // Twice: carried out once, answered the same.
        let first = stage.retain(6, GENERATION, p0).await;
        let RetainOutcome::Kept(counts) = first else { panic!("{first:?}") };
        assert_eq!((counts.kept, counts.discarded), (3, 1), "{counts:?}");
        assert_eq!(stage.held().await, [p0]);
        assert_eq!(stage.retain(6, GENERATION, p0).await, first);
        let outcome = stage.retain(7, GENERATION, p0).await;
        assert!(matches!(outcome, RetainOutcome::Kept(counts) if (counts.kept, counts.discarded) == (3, 0)));

        // While a process runs on the table: of this program and of others, nothing changes; nor by a discard.
        let _ = stage.rig.pages_sent();
        stage.start(8, p0, true, &["8"]).await;
        for program in [p0, p1] {
            assert_eq!(stage.retain(9, GENERATION, program).await, RetainOutcome::Busy(JobId(8)));
        }
        assert_eq!(stage.discard(1, None).await.given_back, []);
        stage.rig.end_input();
        let report = stage.end(8).await;
        assert_eq!((report.exit, report.retention.found, report.counters.pages_fetched), (Exit::Status(0), 3, 0));
        assert_eq!(stage.rig.pages_sent(), 0);

        // A launch that does not want the table loads the program, and leaves it for the next.
        let report = stage.run(10, p0, false).await;
        assert_eq!((report.retention.found, report.counters.pages_fetched), (0, 3));
        // One page of headers besides.
        assert_eq!(stage.rig.pages_sent(), 4);
        assert_eq!(stage.run(11, p0, true).await.retention.found, 3);

        // Given back, all of it; a second time there is nothing; and the program can still be run.
        let given_back = stage.discard(2, None).await.given_back;
        assert_eq!(given_back.iter().map(|held| (held.program, held.pages)).collect::<Vec<_>>(), [(p0, 3)]);
        let again = stage.discard(3, None).await;
        assert_eq!((again.given_back, again.still_held), (vec![], vec![]));
        assert_eq!(stage.retain(12, GENERATION, p0).await, RetainOutcome::Absent);
        assert_eq!(stage.run(12, p0, true).await.retention.found, 0);
    });
}

/// Orders come while every core has a thread that never calls: first one, which no other's turn ends, then several.
#[test]
fn orders_are_answered_while_threads_spin_on_every_core() {
    rig::run(async {
        let stage = Stage::on(Rig::boot_with_cores(2)).await;
        let spins = stage.rig.add_program(&program("hostile_threads", Toolchain::Glibc));
        let p0 = stage.p0;
        stage.run(1, p0, true).await;
        let mut kept = 0;
        for (job, threads, others) in [(2, "2", vec![p0]), (3, "8", vec![])] {
            stage.start_until("spinning\n", job, spins, true, &["spin", threads]).await;
            for program in [spins, p0] {
                assert_eq!(stage.retain(10 + job, GENERATION, program).await, RetainOutcome::Busy(JobId(job)));
            }
            assert_eq!(stage.discard(job, Some(spins)).await.given_back, []);
            assert_eq!(stage.held().await, others);
            stage.control.order(&ToNode::Kill { job: JobId(job) }).await;
            let report = stage.end(job).await;
            // The second time it ran on what was kept.
            assert_eq!((report.exit, report.retention.found), (Exit::Signal(9), kept), "{report:?}");
            assert_eq!(stage.held().await, [&[spins], &others[..]].concat());

            let outcome = stage.retain(20 + job, GENERATION, spins).await;
            let RetainOutcome::Kept(counts) = outcome else { panic!("{outcome:?}") };
            assert!(counts.kept > 0 && counts.discarded == others.len() as u64, "{counts:?}");
            kept = counts.kept;
        }
        assert_eq!(stage.held().await, [spins]);
    });
}

#[test]
fn damaged_and_replayed_orders_change_nothing() {
    rig::run(async {
        let mut stage = Stage::set_up().await;
        let (p0, p1) = (stage.p0, stage.p1);
        stage.run(1, p0, true).await;
        stage.run(2, p1, true).await;
        // One bit wrong: in the sequence number, in the message's number, in the MAC, in the body.
        for at in [16, 24, 40, 55, 56, 60] {
            let mut bytes = stage.control.frame_of(0, &order(3, GENERATION, p0), &[]);
            bytes[at] ^= 1;
            stage.control.write(&bytes).await;
            stage.broken_off().await;
            assert_eq!(stage.held().await, [p1, p0], "byte {at}");
        }
        // A frame that was taken once is not taken again, neither on its connection nor on another one.
        let taken = stage.control.frame_of(0, &order(4, GENERATION, ProgramId([3; 32])), &[]);
        stage.control.write(&taken).await;
        let answer = stage.control.next().await;
        assert!(matches!(answer, Some(ToIoNode::Retained(Retained { outcome: RetainOutcome::Absent, .. }))));
        for connection in 0..2 {
            stage.control.write(&taken).await;
            stage.broken_off().await;
            assert_eq!(stage.held().await, [p1, p0], "connection {connection}");
        }
        // An order that nobody sent for this session: what would discard a table, recorded on one connection before it
        // was broken off, and played on the next.
        let recorded = stage.control.frame_of(0, &order(5, GENERATION, p0), &[]);
        stage.control.abort();
        stage.reconnected().await;
        stage.control.write(&recorded).await;
        stage.broken_off().await;
        assert_eq!(stage.held().await, [p1, p0]);

        // The node is unharmed, in the same boot.
        let outcome = stage.retain(6, GENERATION, p0).await;
        assert!(matches!(outcome, RetainOutcome::Kept(counts) if (counts.kept, counts.discarded) == (3, 1)));
        let report = stage.run(6, p0, true).await;
        assert_eq!(
            (report.retention.found, report.counters.pages_fetched, report.counters.instruction_faults),
            (3, 0, 0)
        );
        assert!(!stage.rig.console().contains("panic"), "{}", stage.rig.console());
    });
}

/// The node loses its links while a program runs that waits for the I/O node, and while one runs that needs nobody.
#[test]
fn nothing_is_left_after_links_were_lost() {
    rig::run(async {
        let mut stage = Stage::set_up().await;
        let p0 = stage.p0;
        for (job, arguments) in [(51_001, &["51001"][..]), (51_002, &["51002", "spin"])] {
            stage.start(job, p0, true, arguments).await;
            let pattern = Pattern::of_seed(job);
            assert!(!stage.rig.memory().pages_with(&pattern).is_empty());
            stage.rig.cut_ship();
            stage.control.abort();
            stage.control = stage.rig.connected().await.0;
            if arguments.len() > 1 {
                // It runs on: links come back. Now it is ended.
                assert!(!stage.rig.memory().pages_with(&pattern).is_empty());
                stage.control.order(&ToNode::Kill { job: JobId(job) }).await;
                assert_eq!(stage.end(job).await.exit, Exit::Signal(9));
            } else {
                // What it waits for comes on the new connection.
                stage.rig.end_input();
                assert_eq!(stage.end(job).await.exit, Exit::Status(0));
            }
            stage.rig.memory().assert_none(&pattern, "links were lost");
        }
        assert_eq!(stage.run(3, p0, true).await.retention.found, 3);
    });
}
