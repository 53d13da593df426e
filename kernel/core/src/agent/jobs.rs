//! The process that runs on the node, if one does, and the last ones that did.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_protocol::control::{Exit, Launch, RankReport, ToIoNode};
use coppice_protocol::ids::{Generation, JobId, Rank};
use coppice_protocol::retain::{Discard, Discarded, RankRetention, Retain, RetainOutcome, Retained};
use spin::Mutex;

use super::Processes;
use super::outbox::{Outbox, Started};
use super::retain::Answers;
use crate::executor;
use crate::limits::REPORTS_KEPT_MAX;
use crate::ship::Ship;

/// Launches, kills, and remembers.
pub(super) struct Jobs<P> {
    processes: P,
    ship: Ship,
    outbox: Arc<Outbox>,
    ledger: Arc<Mutex<Ledger>>,
    /// This boot of the node.
    generation: Generation,
    /// Orders to retain that were carried out.
    retained: Answers,
}

/// What ran and what runs.
#[derive(Default)]
struct Ledger {
    running: Option<(JobId, Rank)>,
    /// Reports of the last processes, oldest first, for orders that come twice.
    ended: VecDeque<RankReport>,
}

impl Ledger {
    fn report_of(&self, job: JobId) -> Option<RankReport> {
        self.ended.iter().rev().find(|report| report.job == job).cloned()
    }

    fn end(&mut self, report: RankReport) {
        self.running = None;
        if self.ended.len() >= REPORTS_KEPT_MAX {
            self.ended.pop_front();
        }
        self.ended.push_back(report);
    }
}

impl<P: Processes> Jobs<P> {
    pub(super) fn new(processes: P, ship: Ship, outbox: Arc<Outbox>, generation: Generation) -> Self {
        Self { processes, ship, outbox, ledger: Arc::default(), generation, retained: Answers::default() }
    }

    /// Cuts the node back to one program's pages, and answers. An order that comes twice is answered as the first one
    /// was.
    pub(super) fn retain(&mut self, order: Retain) {
        let Retain { job, generation, program } = order;
        let outcome = if generation != self.generation {
            RetainOutcome::OtherBoot(self.generation)
        } else if let Some(earlier) = self.retained.to(job, program) {
            earlier
        } else if let Some((busy, _)) = self.ledger.lock().running {
            RetainOutcome::Busy(busy)
        } else {
            let outcome = self.processes.retain(program).map_or(RetainOutcome::Absent, RetainOutcome::Kept);
            self.retained.remember(Retained { job, program, outcome });
            outcome
        };
        self.outbox.push(ToIoNode::Retained(Retained { job, program, outcome }));
    }

    /// Gives retained pages back, and answers.
    pub(super) fn discard(&self, order: Discard) {
        let given_back = self.processes.discard(order.program);
        let answer = Discarded { request: order.request, given_back, still_held: self.processes.held() };
        self.outbox.push(ToIoNode::Discarded(answer));
    }

    /// Starts a process, unless it runs or ran already; then the order came twice and is answered as the first one was
    /// or will be.
    pub(super) fn launch(&mut self, launch: Launch) {
        let (job, rank) = (launch.job, launch.rank);
        let mut ledger = self.ledger.lock();
        if ledger.running == Some((job, rank)) {
            return;
        }
        if let Some(report) = ledger.report_of(job).filter(|report| report.rank == rank) {
            self.outbox.ended(report);
            return;
        }
        if let Some((busy, _)) = ledger.running {
            self.outbox.ended(self.not_started(job, rank, format!("node is busy with job {busy}")));
            return;
        }
        ledger.running = Some((job, rank));
        drop(ledger);
        if let Err(error) = self.start(launch) {
            let report = self.not_started(job, rank, format!("node has no room for a process: {error}"));
            self.ledger.lock().end(report.clone());
            self.outbox.ended(report);
        }
    }

    fn start(&self, launch: Launch) -> Result<(), executor::TooManyTasks> {
        let (job, rank) = (launch.job, launch.rank);
        let client = self.ship.client(job, rank);
        let started = Started::new(&self.outbox, job, rank);
        let process = self.processes.launch(launch, client.clone(), started);
        let (outbox, ledger, ship) = (Arc::clone(&self.outbox), Arc::clone(&self.ledger), self.ship.clone());
        executor::spawn(async move {
            let report = process.await;
            client.release();
            // Whoever hears of the end may rely on nothing of the process being left.
            ship.scrub().await;
            ledger.lock().end(report.clone());
            outbox.ended(report);
        })
        .map(|_| ())
    }

    /// Ends a job's process. If it does not run, says how it ended, or that this node does not know it.
    pub(super) fn kill(&mut self, job: JobId, signal: u8) {
        let (running, report) = {
            let ledger = self.ledger.lock();
            (ledger.running, ledger.report_of(job))
        };
        match (running, report) {
            (Some((running, _)), _) if running == job => self.processes.kill(job, signal),
            (_, Some(report)) => self.outbox.push(ToIoNode::Ended(report)),
            (_, None) => log::info!("agent: told to kill job {job}, which this node does not know"),
        }
    }

    /// The report of a process that was never made.
    fn not_started(&self, job: JobId, rank: Rank, reason: String) -> RankReport {
        RankReport {
            job,
            rank,
            exit: Exit::NotStarted,
            reason: Some(reason),
            launch_ns: 0,
            run_ns: 0,
            page_faults: 0,
            instruction_faults: 0,
            pages_fetched: 0,
            pages_peak: 0,
            bytes_written: 0,
            bytes_read: 0,
            syscalls: Vec::new(),
            retention: RankRetention { held: self.processes.held(), ..RankRetention::default() },
        }
    }
}
