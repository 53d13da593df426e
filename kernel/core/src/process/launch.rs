//! From a launch message to a report.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering};

use coppice_protocol::control::{Launch, RankReport};
use coppice_protocol::retain::{RankRetention, WalkCounts};
use coppice_protocol::syscalls;
use spin::Mutex;

use crate::clock;
use crate::executor::{self, Either};
use crate::files::{Closer, Descriptor, Descriptors, Input, Object, OpenFile, flags};
use crate::memory::Retention;
use crate::pmi::{PMI_DESCRIPTOR, Seat};
use crate::process::counts::Counts;
use crate::process::load::{self, Prepared};
use crate::process::signals::Signals;
use crate::process::state::Account;
use crate::process::thread::Thread;
use crate::process::{End, Identity, JobOnNode, KillSwitch, NodeFacts, Process, ThreadState, report};
use crate::ship::Client;

/// Starts a process and runs it to its end, or until `switch` is used; everything it had is gone when the future is
/// done. `seat` is its place at PMI. `started` is called right before its first instruction.
pub(crate) fn launch(
    order: Launch,
    client: Client,
    job: Arc<JobOnNode>,
    node: NodeFacts,
    seat: Seat,
    switch: KillSwitch,
    started: impl FnOnce() + Send + 'static,
) -> impl Future<Output = RankReport> + Send + 'static {
    let ordered_ns = clock::monotonic_ns();
    let retention = Arc::clone(&node.retention);
    let node = NodeFacts { quota: Arc::new(node.quota.share(load::on_the_node(&order))), ..node };
    async move {
        let order = Launch { environment: seat.environment(&order.environment), ..order };
        let mut life = Life { seat, counts: Counts::new(), process: None, thread: None, launch_ns: 0, run_ns: 0 };
        let run = life.run(&order, client, job, node, ordered_ns, started);
        let end = match executor::race(switch.killed(), run).await {
            Either::First(signal) => life.killed(signal),
            Either::Second(end) => end,
        };
        // Before its descriptors are closed: that it ended says more.
        life.seat.ended(end.exit);
        let report = life.report(&order, end, &retention);
        life.into_seat().leave().await;
        report
    }
}

/// A process from beginning to end, as far as it came.
struct Life {
    seat: Seat,
    counts: Counts,
    process: Option<Arc<Process>>,
    thread: Option<Arc<ThreadState>>,
    /// Launch message → first instruction, ns.
    launch_ns: u64,
    /// First instruction → end, ns.
    run_ns: u64,
}

impl Life {
    async fn run(
        &mut self,
        order: &Launch,
        client: Client,
        job: Arc<JobOnNode>,
        node: NodeFacts,
        ordered_ns: u64,
        started: impl FnOnce() + Send,
    ) -> End {
        let Prepared { image, directory } = match load::prepare(order, &client, &job, &node).await {
            Ok(prepared) => prepared,
            Err(reason) => return End::not_started(reason),
        };
        let (space, stack) = match load::load(order, &image, &job, &node) {
            Ok(loaded) => loaded,
            Err(reason) => return End::not_started(reason),
        };
        let identity = Identity::of(order);
        let process = Arc::new(Process {
            name: Mutex::new(identity.name()),
            identity,
            job,
            node,
            closer: Closer::new(client.clone()),
            files: Mutex::new(descriptors(&client, &self.seat)),
            client,
            space: Mutex::new(space),
            directory: Mutex::new(directory),
            umask: AtomicU32::new(order.umask & 0o777),
            signals: Mutex::new(Signals::new()),
            account: Account::new(),
        });
        process.job.join(&process);
        let state = Arc::new(ThreadState::first(&process.identity));
        self.process = Some(Arc::clone(&process));
        self.thread = Some(Arc::clone(&state));
        self.launch_ns = clock::monotonic_ns().saturating_sub(ordered_ns);
        started();
        let end = Thread::new(&process, &state, &mut self.counts, image.entry, stack).run().await;
        self.run_ns = process.account.run_ns();
        end
    }

    /// Somebody ended the process while it waited or ran.
    fn killed(&mut self, signal: u8) -> End {
        let end = End::signal(signal);
        let (Some(process), Some(thread)) = (&self.process, &self.thread) else { return end };
        self.run_ns = process.account.run_ns();
        process.files.lock().break_connections();
        let done = thread.completed.load(Ordering::Relaxed);
        match thread.in_call() {
            Some(number) => {
                let name = i32::try_from(number).ok().and_then(syscalls::name).unwrap_or("unknown");
                let so_far = if done > 0 { format!(", {done} bytes done") } else { String::new() };
                end.because(format!("killed in system call {name}{so_far}"))
            }
            None => end,
        }
    }

    /// Cuts back what is left of the process and says what became of it.
    fn report(&self, order: &Launch, end: End, retention: &Retention) -> RankReport {
        let Some(process) = &self.process else {
            return report::of_nothing(order, end, retention.held());
        };
        process.closer.abandon();
        let report = report::of(process, &self.counts, end, self.launch_ns, self.run_ns);
        RankReport { retention: cut_back(process, retention), ..report }
    }

    /// What is left when the process is gone.
    fn into_seat(self) -> Seat {
        self.seat
    }
}

/// What the first thread finds open: the standard streams and PMI.
fn descriptors(client: &Client, seat: &Seat) -> Descriptors {
    let mut files = Descriptors::standard(Input::new(client.clone()));
    let file = Arc::new(OpenFile::object(Object::Pmi(seat.endpoint()), flags::O_RDWR));
    // There is room for it.
    let _ = files.replace(PMI_DESCRIPTOR, Descriptor { file, close_on_exec: false });
    files
}

/// Cuts the page table of a process that has ended back to the program's own pages, and leaves it to the node.
fn cut_back(process: &Process, retention: &Retention) -> RankRetention {
    process.job.leave(process);
    let mut space = process.space.lock();
    let found = space.stats().pages_found;
    let start_ns = clock::monotonic_ns();
    let (counts, table) = space.cut_back();
    let mut walk = WalkCounts { walk_ns: clock::monotonic_ns().saturating_sub(start_ns), ..counts };
    if let Some(table) = table {
        walk.zeroed += retention.keep(table, walk);
    }
    RankRetention { found, walk, held: retention.held() }
}
