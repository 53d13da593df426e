//! A node that does nothing but to say that ranks run and have ended.

use coppice_io_node::machine::LineId;
use coppice_protocol::control::{
    Ends, Exit, Launch, MemoryStatus, NodeStatus, RankCounters, RankReport, SyscallCount, ToIoNode, ToNode,
};
use coppice_protocol::ids::{JobId, ProgramId, Rank};
use coppice_protocol::ranks::Ranks;
use coppice_protocol::retain::{HeldAs, RankRetention, RetainedProgram, WalkCounts};
use coppice_protocol::session::{Event, Session};

use super::{Fault, Traffic};

/// Different system calls that a rank has made: as many as a small MPI program makes.
const SYSCALLS: i32 = 24;

/// One of its connections.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) line: LineId,
    pub(super) session: Session,
}

/// Ranks that run.
#[derive(Debug)]
struct Running {
    job: JobId,
    ranks: Ranks,
    program: ProgramId,
    until_ns: u64,
}

/// See this module.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) control: Wire,
    pub(super) ship: Wire,
    fault: Option<Fault>,
    /// How long its ranks run, ns.
    lasts_ns: u64,
    was_told: bool,
    is_ready: bool,
    running: Option<Running>,
    held: Option<RetainedProgram>,
}

impl Node {
    pub(super) fn new(control: Wire, ship: Wire, lasts_ns: u64, fault: Option<Fault>) -> Self {
        Self { control, ship, fault, lasts_ns, was_told: false, is_ready: false, running: None, held: None }
    }

    /// When its ranks end, ns.
    pub(super) fn due_ns(&self) -> Option<u64> {
        self.running.as_ref().map(|running| running.until_ns)
    }

    /// Ranks that it has.
    pub(super) fn ranks(&self) -> u64 {
        self.running.as_ref().map_or(0, |running| running.ranks.count())
    }

    /// It takes no part any more.
    pub(super) fn is_silent(&self) -> bool {
        self.fault == Some(Fault::Silent) && self.was_told
    }

    /// Looks at what came, and answers.
    pub(super) fn listen(&mut self, now_ns: u64, traffic: &mut Traffic) {
        while self.ship.session.poll_event().is_some() {}
        while let Some(event) = self.control.session.poll_event() {
            let Event::Frame(frame) = event else { continue };
            if let Ok(order) = frame.message::<ToNode>() {
                if !matches!(order, ToNode::Ping { .. }) {
                    traffic.messages_down += 1;
                    traffic.bytes_down += postcard::to_allocvec(&order).map_or(0, |bytes| bytes.len() as u64);
                }
                self.obey(order, now_ns, traffic);
            }
        }
        if !self.is_ready && self.control.session.is_established() && self.ship.session.is_established() {
            self.is_ready = true;
            let memory = MemoryStatus { total: 64 << 20, kernel: 4 << 20, free: 60 << 20, retained: 0 };
            let status = NodeStatus { kernel: "0.1".into(), boot_ns: 1000, boot_idle_ns: 400, cores: 2, memory };
            self.say(&ToIoNode::Ready(status), traffic);
        }
    }

    fn obey(&mut self, order: ToNode, now_ns: u64, traffic: &mut Traffic) {
        match order {
            ToNode::Ping { sequence, .. } if !self.is_silent() => {
                let memory = MemoryStatus { total: 64 << 20, kernel: 4 << 20, free: 60 << 20, retained: 0 };
                let _ = self.control.session.send(0, &ToIoNode::Pong { sequence, memory }, &[]);
            }
            ToNode::Launch(launch) => {
                self.was_told = true;
                if self.fault.is_none() {
                    self.launch(&launch, now_ns, traffic);
                }
            }
            ToNode::Kill { job } if self.running.as_ref().is_some_and(|running| running.job == job) => {
                self.end(Exit::Signal(9), traffic);
            }
            _ => {}
        }
    }

    fn launch(&mut self, launch: &Launch, now_ns: u64, traffic: &mut Traffic) {
        let ranks: Ranks = launch.ranks().collect();
        let until_ns = now_ns.saturating_add(self.lasts_ns);
        self.running = Some(Running { job: launch.job, ranks: ranks.clone(), program: launch.program, until_ns });
        self.say(&ToIoNode::Launched { job: launch.job, ranks }, traffic);
    }

    /// Its ranks end if it is time.
    pub(super) fn advance(&mut self, now_ns: u64, traffic: &mut Traffic) {
        if self.due_ns().is_some_and(|due_ns| due_ns <= now_ns) {
            self.end(Exit::Status(0), traffic);
        }
    }

    fn end(&mut self, exit: Exit, traffic: &mut Traffic) {
        let Some(Running { job, ranks, program, .. }) = self.running.take() else { return };
        self.held = Some(RetainedProgram { program, pages: 120, bytes: 500_000, held_as: HeldAs::Table });
        let held = || self.held.into_iter().collect();
        let mut all: Vec<Ends> = Vec::new();
        for rank in ranks.of_job(u32::MAX) {
            let report = report(job, rank, exit, self.lasts_ns);
            match all.last_mut() {
                Some(ends) if ends.has_room_for(&report) => ends.reports.push(report),
                _ => all.push(Ends { held: held(), reports: vec![report] }),
            }
        }
        for ends in all {
            self.say(&ToIoNode::Ended(ends), traffic);
        }
    }

    fn say(&mut self, message: &ToIoNode, traffic: &mut Traffic) {
        traffic.messages_up += 1;
        traffic.bytes_up += postcard::to_allocvec(message).map_or(0, |bytes| bytes.len() as u64);
        // Its queue is never long.
        let _ = self.control.session.send(0, message, &[]);
    }
}

/// What a rank of a small MPI program says at its end; the numbers differ from rank to rank.
fn report(job: JobId, rank: Rank, exit: Exit, lasts_ns: u64) -> RankReport {
    let number = u64::from(rank.0);
    let count =
        |call: i32| SyscallCount { number: call * 7, calls: number % 13 + u64::from(call.unsigned_abs()), unknown: 0 };
    let counters = RankCounters {
        launch_ns: 2_000_000 + number * 11,
        run_ns: lasts_ns.saturating_add(number * 131),
        page_faults: 150 + number % 10,
        instruction_faults: 60,
        pages_fetched: if number.is_multiple_of(64) { 120 } else { 0 },
        pages_peak: 400 + number % 7,
        bytes_written: 30,
        bytes_read: 1000,
        ..RankCounters::default()
    };
    let walk = WalkCounts { kept: 120, dropped: 200 + number % 9, zeroed: 210, discarded: 0, walk_ns: 90_000 + number };
    RankReport {
        counters,
        syscalls: (0..SYSCALLS).map(count).collect(),
        retention: RankRetention { found: 110, walk },
        barriers: 3,
        ..RankReport::ended(job, rank, exit)
    }
}
