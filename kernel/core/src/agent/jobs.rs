//! The processes that run on the node, and the last ones that did.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};

use coppice_protocol::broadcast::Broadcast;
use coppice_protocol::control::{Exit, Launch, Order, OverlayOrder, RankReport, Signal, ToIoNode};
use coppice_protocol::ids::{Generation, JobId, NodeId, Rank};
use coppice_protocol::inspect::held::NotTold;
use coppice_protocol::inspect::{Answer, Inspect, Inspected};
use coppice_protocol::keep::{Keep, KeepOutcome, Kept};
use coppice_protocol::limits::OVERLAY_MESSAGE_BYTES_MAX;
use coppice_protocol::overlay::Up;
use coppice_protocol::ras::{RasEvent, RasKind, Severity};
use coppice_protocol::retain::{Discard, Discarded, HeldAs, Retain, RetainOutcome, Retained};
use coppice_protocol::signal::{SIGKILL, SIGNAL_MAX};
use coppice_protocol::spawn::{Joined, Spawned};
use coppice_protocol::trace::Traced;

use super::Processes;
use super::keeps::{self, Keeps, Switch};
use super::ledger::{Entry, Ledger};
use super::outbox::{Outbox, Started};
use super::retain::Answers;
use crate::executor::{self, WaitQueue};
use crate::limits::{DELIVER_NS_MAX, DELIVER_SAID_NS, INSPECTIONS_MAX};
use crate::ras::RasQueue;
use crate::ship::{Delivery, Ship};
use crate::sync::{LockLevel, Mutex};

/// Launches, kills, and remembers.
pub(super) struct Jobs<P> {
    processes: Arc<P>,
    ship: Ship,
    outbox: Arc<Outbox>,
    ras: &'static RasQueue,
    ranks: Arc<Ranks>,
    /// This boot of the node.
    generation: Generation,
    /// Orders to retain that were carried out.
    retained: Answers,
    /// Files that are to be kept.
    keeps: Arc<Keeps>,
    /// Questions about ranks that are being answered.
    inspections: Arc<AtomicUsize>,
}

/// One of the [`INSPECTIONS_MAX`] places for questions that are being answered.
struct Place(Arc<AtomicUsize>);

impl Place {
    /// None, if all are taken.
    fn among(taken: &Arc<AtomicUsize>) -> Option<Self> {
        let more = |count: usize| (count < INSPECTIONS_MAX).then_some(count + 1);
        let found = taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        found.is_ok().then(|| Self(Arc::clone(taken)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The ranks of the node's job.
struct Ranks {
    ledger: Mutex<Ledger>,
    /// Told when ranks that ended are wiped away.
    wiped: WaitQueue,
}

impl Default for Ranks {
    fn default() -> Self {
        Self { ledger: Mutex::new(LockLevel::Agent, Ledger::default()), wiped: WaitQueue::new() }
    }
}

impl<P: Processes + 'static> Jobs<P> {
    pub(super) fn new(
        processes: P,
        ship: Ship,
        outbox: Arc<Outbox>,
        ras: &'static RasQueue,
        generation: Generation,
    ) -> Self {
        let processes = Arc::new(processes);
        Self {
            processes,
            ship,
            outbox,
            ras,
            ranks: Arc::default(),
            generation,
            retained: Answers::default(),
            keeps: Arc::default(),
            inspections: Arc::default(),
        }
    }

    /// Cuts the node back to one program's pages, and answers. An order that comes twice is answered as the first one
    /// was.
    pub(super) fn retain(&mut self, order: Retain) {
        let Retain { job, generation, program } = order;
        let outcome = if generation != self.generation {
            RetainOutcome::OtherBoot(self.generation)
        } else if let Some(earlier) = self.retained.to(job, program) {
            earlier
        } else if let Some(busy) = self.ranks.ledger.lock().job() {
            RetainOutcome::Busy(busy)
        } else {
            let outcome = self.processes.retain(program).map_or(RetainOutcome::Absent, RetainOutcome::Kept);
            self.retained.remember(Retained { job, program, outcome });
            outcome
        };
        self.outbox.push(ToIoNode::Retained(Retained { job, program, outcome }));
    }

    /// Has a file come to be kept, and answers when it is there, or will not be. An order that comes twice is answered
    /// as the first one was or will be.
    pub(super) fn keep(&self, order: Keep) {
        let request = order.transfer.request;
        if order.generation != self.generation {
            let outcome = KeepOutcome::OtherBoot(self.generation);
            return self.outbox.push(ToIoNode::Kept(Kept { request, outcome, held: self.processes.held() }));
        }
        let outcome = match self.keeps.enter(request) {
            keeps::Entry::New(switch) => match self.begin_keeping(order, switch) {
                Ok(_) => return,
                Err(error) => {
                    self.keeps.left(request);
                    KeepOutcome::Refused(format!("the node has no room for its transfer: {error}"))
                }
            },
            keeps::Entry::Known => return,
            keeps::Entry::Answered(outcome) => outcome,
            keeps::Entry::Refused(reason) => KeepOutcome::Refused(reason),
        };
        self.outbox.push(ToIoNode::Kept(Kept { request, outcome, held: self.processes.held() }));
    }

    fn begin_keeping(&self, order: Keep, switch: Arc<Switch>) -> Result<executor::TaskHandle, executor::TooManyTasks> {
        let request = order.transfer.request;
        let (keeps, outbox, processes) =
            (Arc::clone(&self.keeps), Arc::clone(&self.outbox), Arc::clone(&self.processes));
        let (told, ship, ranks) = (Arc::clone(&self.keeps), self.ship.clone(), Arc::clone(&self.ranks));
        let of_told = Arc::clone(&self.processes);
        let tell = move |outcome: KeepOutcome| {
            told.answered(request, &outcome);
            outbox.push(ToIoNode::Kept(Kept { request, outcome, held: of_told.held() }));
        };
        let coming = self.processes.keep(order, Box::new(tell));
        executor::spawn(async move {
            executor::race(switch.is_used(), coming).await;
            processes.freed().await;
            wipe(&ranks, &ship).await;
            keeps.left(request);
        })
    }

    /// The node leaves the transfer of a file that is to be kept.
    pub(super) fn end_keep(&self, request: u64) {
        self.keeps.end(request);
    }

    /// Gives retained pages back, and answers once their memory is free: whoever asked for it may rely on it.
    pub(super) fn discard(&self, order: Discard) {
        let given_back = self.processes.discard(order.program);
        let answer = Discarded { request: order.request, given_back, still_held: self.processes.held() };
        let (processes, outbox, later) = (Arc::clone(&self.processes), Arc::clone(&self.outbox), answer.clone());
        let (ranks, ship) = (Arc::clone(&self.ranks), self.ship.clone());
        let freeing = executor::spawn(async move {
            processes.freed().await;
            if later.given_back.iter().any(|held| held.held_as == HeldAs::File) {
                wipe(&ranks, &ship).await;
            }
            // What ended meanwhile may have left something.
            outbox.push(ToIoNode::Discarded(Discarded { still_held: processes.held(), ..later }));
        });
        if let Err(error) = freeing {
            log::warn!("agent: nobody waits until what was given back is free: {error}");
            self.outbox.push(ToIoNode::Discarded(answer));
        }
    }

    /// Starts processes, but those that run or ran already: for them the order came twice, and is answered as the first
    /// one was or will be. Others have their turn between two of them; no other order is heard before all are started.
    pub(super) async fn launch(&mut self, launch: Launch) {
        let launch = Arc::new(launch);
        let job = launch.job;
        // All are known before the first of them begins.
        let entries: Vec<_> = {
            let mut ledger = self.ranks.ledger.lock();
            launch.ranks().map(|rank| (rank, ledger.enter(job, rank))).collect()
        };
        let mut orders = Vec::new();
        for (rank, entry) in entries {
            match entry {
                Entry::New => {
                    orders.push((Order::new(Arc::clone(&launch), rank), Started::new(&self.outbox, job, rank)))
                }
                Entry::Known => {}
                Entry::Ended(report) => self.outbox.ended(&report, false),
                Entry::Refused(reason) => self.outbox.ended(&Self::not_started(job, rank, reason), false),
            }
        }
        for (order, started) in orders {
            let rank = order.rank;
            executor::yield_now().await;
            if let Err(error) = self.start(order, started) {
                self.ship.client(job, rank).release();
                let report = Self::not_started(job, rank, format!("node has no room for a process: {error}"));
                let is_last = self.ranks.ledger.lock().end(&report);
                self.outbox.ended(&report, is_last);
            }
        }
    }

    fn start(&self, order: Order, started: Started) -> Result<(), executor::TooManyTasks> {
        let (job, rank) = (order.job, order.rank);
        let client = self.ship.client(job, rank);
        let process = self.processes.launch(order, client.clone(), started);
        let (outbox, ranks, ship) = (Arc::clone(&self.outbox), Arc::clone(&self.ranks), self.ship.clone());
        let ras = self.ras;
        executor::spawn(async move {
            ranks.wiped.wait_until(|| ranks.ledger.lock().begin(rank)).await;
            let mut report = process.await;
            client.release();
            if ranks.ledger.lock().gone(rank) {
                // Whoever hears of the job's last end may rely on nothing of it being left. Until then what the ended
                // ranks left is among the job's own.
                let late = || ras.push(undelivered(job));
                if ship.scrub(&late).await == Delivery::BrokenOff {
                    let seconds = DELIVER_NS_MAX / 1_000_000_000;
                    let lost = || format!("what it or others here sent last was not read for {seconds} s and is lost");
                    report.reason.get_or_insert_with(lost);
                }
                ranks.ledger.lock().wiped();
                ranks.wiped.wake_all();
            }
            let is_last = ranks.ledger.lock().end(&report);
            outbox.ended(&report, is_last);
        })
        .map(|_| ())
    }

    /// Ends a job's processes. Says again how those ended that do not run any more, or that this node knows none.
    pub(super) fn kill(&mut self, job: JobId) {
        let (runs, reports) = {
            let ledger = self.ranks.ledger.lock();
            (ledger.job() == Some(job), ledger.reports_of(job).collect::<Vec<_>>())
        };
        if runs {
            self.processes.kill(job, SIGKILL);
            self.ship.stop_delivering();
        } else if reports.is_empty() {
            log::info!("agent: told to kill job {job}, which this node does not know");
        }
        reports.into_iter().for_each(|report| self.outbox.ended(&report, false));
    }

    /// Sends a job's processes a signal. An order that comes twice is obeyed once.
    pub(super) fn signal(&mut self, order: Signal) {
        let Signal { job, sequence, signal } = order;
        if self.ranks.ledger.lock().take_signal(job, sequence) && (1..=SIGNAL_MAX).contains(&signal) {
            self.processes.kill(job, signal);
        }
    }

    /// Answers a question about a rank, in a task of its own: it may have to wait for threads or pages.
    pub(super) fn inspect(&self, inspect: Inspect) {
        let request = inspect.request;
        let begun = Place::among(&self.inspections).map(|place| {
            let (outbox, answer) = (Arc::clone(&self.outbox), self.processes.inspect(inspect));
            executor::spawn(async move {
                // Nothing that must be told is to be forgotten for it.
                outbox.offer(ToIoNode::Inspected(Inspected { request, answer: answer.await }));
                drop(place);
            })
        });
        if !matches!(begun, Some(Ok(_))) {
            let answer = Answer::NotTold(NotTold::Busy);
            self.outbox.offer(ToIoNode::Inspected(Inspected { request, answer }));
        }
    }

    /// A file that ranks of a job read is broadcast.
    pub(super) fn broadcast(&self, order: Broadcast) {
        self.processes.broadcast(order);
    }

    /// Has what these ranks of a job do printed from now on, and what the others do not.
    pub(super) fn trace(&self, job: JobId, traced: Traced) {
        self.processes.trace(job, traced);
    }

    /// So many checkpoints of a job were made, and a rank of it may ask for one again.
    pub(super) fn checkpointed(&self, job: JobId, made: u64) {
        self.processes.checkpointed(job, made);
    }

    /// A node of a job is gone, and these ranks with it.
    pub(super) fn node_lost(&self, job: JobId, node: NodeId, ranks: &[Rank]) {
        self.processes.node_lost(job, node, ranks);
    }

    /// Nodes have come to the network of a job. Says so when they are known here, and nothing if they cannot be:
    /// whoever is to reach them is not started then.
    pub(super) fn joined(&self, joined: Joined) {
        let (job, wanted) = (joined.job, joined.count());
        let nodes = self.processes.joined(joined);
        if nodes >= wanted {
            self.outbox.push(ToIoNode::Joined { job, nodes });
        } else {
            log::warn!("agent: job {job} has {nodes} nodes in its network, and was told of some up to {wanted}");
        }
    }

    /// This came of what a rank wanted to be started.
    pub(super) fn spawned(&self, spawned: Spawned) {
        self.processes.spawned(spawned);
    }

    /// The front end of a job's overlay says something. What there is to say to it is no loss when much else is.
    pub(super) fn overlay(&self, order: OverlayOrder) {
        let (outbox, job) = (Arc::clone(&self.outbox), order.job);
        let say = move |message: Up| {
            let said = message.encode();
            if said.len() <= OVERLAY_MESSAGE_BYTES_MAX {
                outbox.offer(ToIoNode::Overlay { job, said });
            }
        };
        self.processes.overlay(order, Arc::new(say));
    }

    /// No rank of a job runs anywhere.
    pub(super) fn forget(&self, job: JobId) {
        // All of it is given up now; whether what worked for it has come to its end is nobody's business here.
        drop(executor::spawn(self.processes.forget(job)));
    }

    /// A message is about to be sent. If it says what this node holds, that is what it holds now: it may have been made
    /// or first sent before others, on a connection that was lost, and the last one is believed.
    pub(super) fn say_held_now(&self, message: &mut ToIoNode) {
        let held = match message {
            ToIoNode::Ended(ends) => &mut ends.held,
            ToIoNode::Kept(kept) => &mut kept.held,
            ToIoNode::Discarded(discarded) => &mut discarded.still_held,
            _ => return,
        };
        *held = self.processes.held();
    }

    /// The report of a process that was never made.
    fn not_started(job: JobId, rank: Rank, reason: String) -> RankReport {
        RankReport { reason: Some(reason), ..RankReport::ended(job, rank, Exit::NotStarted) }
    }
}

/// Wipes what files that came to be kept left in the kernel. If a job is here, that is done at its end.
async fn wipe(ranks: &Ranks, ship: &Ship) {
    if ranks.wiped.wait_until(|| ranks.ledger.lock().begin_wiping()).await {
        // Nobody is here who could have sent anything to others.
        ship.scrub(&|| {}).await;
        ranks.ledger.lock().wiped();
        ranks.wiped.wake_all();
    }
}

/// The event that says what the end of a job's last rank here waits for.
fn undelivered(job: JobId) -> RasEvent {
    let left = DELIVER_NS_MAX.saturating_sub(DELIVER_SAID_NS) / 1_000_000_000;
    let text = format!("its ranks here have ended, and what they sent is not read; it is given up in {left} s");
    let (severity, kind) = (Severity::Info, RasKind::Undelivered);
    RasEvent { severity, kind, job: Some(job), rank: None, address: None, instruction: None, text }
}
