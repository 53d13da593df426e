//! From a launch message to a report: starting processes, and ending them.

mod cut;
mod frozen;
mod inspect;
mod interpreter;
mod kill;
mod load;
mod report;
mod restore;
mod table;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU32;

use coppice_hal::frames::FramePool;
use coppice_hal::user::UserThread;
use coppice_protocol::control::{Order, RankReport};
use coppice_protocol::ids::{JobId, Rank};
use coppice_protocol::retain::{RankRetention, WalkCounts};
use coppice_protocol::syscalls;
use coppice_protocol::text::ByteString;

use self::frozen::TakenDown;
pub use self::frozen::freeze_every;
pub(crate) use self::kill::KillSwitch;
use self::load::Prepared;
pub use self::table::ProcessTable;

use crate::abi::signal::SignalInfo;
use crate::abi::signal_set::SIGKILL;
use crate::clock;
use crate::errno::Errno;
use crate::executor::{self, Either};
use crate::files::counters::Offered;
use crate::files::locks::Locks;
use crate::files::{Closer, Descriptor, Descriptors, Input, Object, OpenFile, Turns, flags};
use crate::limits::SETTLE_NS_MAX;
use crate::memory::Retention;
use crate::net;
use crate::pmi::{PMI_DESCRIPTOR, Seat};
use crate::process::clock::ProcessClock;
use crate::process::counts::Counts;
use crate::process::resources::ResourceLimits;
use crate::process::sent_to::SentTo;
use crate::process::signals::{Signals, Target};
use crate::process::timers::Timers;
use crate::process::trace::{self, Trace};
use crate::process::{Account, End, Identity, JobOnNode, NodeFacts, Process};
use crate::quota::Quota;
use crate::ship::Client;
use crate::sync::{LockLevel, Mutex};
use crate::thread;

/// Starts a process and runs it to its end, or until `switch` is used; everything it had is gone when the future is
/// done. `seat` is its place at PMI. `started` is called right before its first instruction.
pub(crate) fn launch(
    order: Order,
    client: Client,
    job: Arc<JobOnNode>,
    node: NodeFacts,
    seat: Seat,
    switch: KillSwitch,
    started: impl FnOnce() + Send + 'static,
) -> impl Future<Output = RankReport> + Send + 'static {
    let ordered_ns = clock::monotonic_ns();
    let (frames, retention) = (node.frames, Arc::clone(&node.retention));
    let nodes_quota = Arc::clone(&node.quota);
    let quota = Arc::new(node.quota.share(load::on_the_node(&order)));
    let node = NodeFacts { quota, servers: seat.servers(), ..node };
    async move {
        let (id, rank) = (order.job, order.rank);
        let own = Own { environment: seat.environment(&order.own_environment()) };
        let entered = net::job::enter(&order, &*node.network, &nodes_quota);
        job.is_in_network(&*node.network, &nodes_quota);
        let shared = Arc::clone(&job);
        let mut life = Life { seat, process: None, launch_ns: 0, run_ns: 0 };
        let facts = Facts { client, job, node, ordered_ns };
        let starting = async {
            entered.map_err(End::not_started)?;
            facts
                .job
                .staging
                .ready(&order, facts.job.as_tenant(), facts.node.as_site())
                .await
                .map_err(End::not_started)?;
            life.start(&order, &own, facts, &switch, started).await
        };
        let begun = executor::race(switch.killed(), starting).await;
        // What it is to know is on its stack.
        drop((order, own));
        let end = match begun {
            Either::First(signal) => End::signal(signal),
            Either::Second(Err(end)) => end,
            Either::Second(Ok(process)) => life.run(process, &switch).await,
        };
        if let Some(process) = &life.process {
            life.run_ns = process.account.run_ns();
        }
        // Before its descriptors are closed: that it ended says more.
        life.seat.ended(end.exit);
        // Other nodes may still want staged files of this one, unless the job is being ended.
        executor::race(switch.killed(), shared.staging.settle()).await;
        // What is not kept by now was the checkpoint of a job that is not whole any more.
        shared.saving.give_up("a rank came to its end before it was kept");
        shared.saving.idle().await;
        shared.saving.forget();
        let transfers = shared.staging.counts();
        drop(shared);
        let report = life.report((id, rank), end, &retention).await;
        let report = RankReport { barriers: life.seat.barriers(), transfers, ..report };
        life.into_seat().leave().await;
        // What the last rank of the job leaves with it is gone before its end is known.
        taken_apart(frames, retention).await;
        report
    }
}

/// What a launch says of one rank, and not of the others here.
struct Own {
    environment: Vec<ByteString>,
}

/// What a process starts with.
struct Facts {
    client: Client,
    job: Arc<JobOnNode>,
    node: NodeFacts,
    /// When the launch was ordered, ns.
    ordered_ns: u64,
}

/// A process from beginning to end, as far as it came.
struct Life {
    seat: Seat,
    process: Option<Arc<Process>>,
    /// Launch message → first instruction, ns.
    launch_ns: u64,
    /// First instruction → end, ns.
    run_ns: u64,
}

impl Life {
    /// Makes the process and starts its first thread.
    async fn start(
        &mut self,
        order: &Order,
        own: &Own,
        Facts { client, job, node, ordered_ns }: Facts,
        switch: &KillSwitch,
        started: impl FnOnce() + Send,
    ) -> Result<Arc<Process>, End> {
        if let Some(from) = order.restores().map_err(|error| End::not_started(error.to_string()))? {
            let Self { seat, process: mine, launch_ns, .. } = self;
            let made_it = |made: &Arc<Process>| {
                made.follow_tracer(made.job.is_traced(order.rank, order.is_traced()));
                *mine = Some(Arc::clone(made));
                *launch_ns = clock::monotonic_ns().saturating_sub(ordered_ns);
                started();
            };
            // In a box: few begin like that.
            let restored =
                Box::pin(restore::restore(order, from, Facts { client, job, node, ordered_ns }, seat, switch, made_it));
            return restored.await.map_err(End::not_started);
        }
        let no_memory = |_| End::not_started(String::from("the node has no memory for a process"));
        let mut charge = node.quota.charge(Identity::bytes(order)).map_err(no_memory)?;
        let _launching = node.quota.charge(load::strings_bytes(order, &own.environment)).map_err(no_memory)?;
        let identity = Identity::of(order);
        let cores = identity.cores(&order.world, executor::cores());
        charge.grow(Process::bytes(cores)).map_err(no_memory)?;
        let prepared = load::prepare(order, &client, &job, &node).await.map_err(End::not_started)?;
        let closer = Closer::new(client.clone(), Arc::clone(&job.cache));
        // In a box: most programs have none.
        let interpreter =
            Box::pin(prepared.interpreter(order, &closer, &node.quota)).await.map_err(End::not_started)?;
        let Prepared { image, directory } = prepared;
        let parts = (&image, interpreter.as_ref());
        let (space, stack) = load::load(order, &own.environment, parts, &job, &node).map_err(End::not_started)?;
        let files = descriptors(&client, &self.seat, &node.quota).map_err(no_memory)?;
        let process = Arc::new(Process {
            threads: Arc::new(identity.threads(&order.world, thread::LIFE_BYTES)),
            signals: Mutex::new(LockLevel::Signals, Signals::charged(identity.pid, &node.quota)),
            clock: ProcessClock::new(),
            timers: Timers::new(),
            locks: Locks::new(&node.quota),
            cores,
            identity,
            job,
            offered: Offered::none(&node.quota),
            node,
            closer,
            files: Mutex::new(LockLevel::Descriptors, files),
            client,
            space: Mutex::new(LockLevel::Space, space),
            directory: Mutex::new(LockLevel::Fact, directory),
            umask: AtomicU32::new(order.umask & 0o777),
            limits: ResourceLimits::new(),
            account: Account::new(),
            remembered: Default::default(),
            own_page: Turns::new(),
            charge,
            counts: Counts::default(),
            own_address: spin::Once::new(),
            profile: crate::process::profile::Profile::none(),
            trace: Trace::new(),
            sent_to: SentTo::none(),
        });
        if process.identity.core_file {
            process.signals.lock().leave_cores();
        }
        process.job.join(&process);
        process.follow_tracer(process.job.is_traced(order.rank, order.is_traced()));
        self.process = Some(Arc::clone(&process));
        // From here on signals go to the process; what came before is in the switch. It looks when it begins.
        if let Some(signal) = switch.take_stop() {
            let info = SignalInfo::user(signal.into(), Identity::PARENT, 0);
            let _ = process.signals.lock().send(Target::Process, info);
        }
        let mut entry = image.entry;
        if let Some(interpreter) = &interpreter {
            entry = interpreter.image.entry;
            let cleared = Box::pin(interpreter.clear(&process)).await;
            cleared.map_err(|why| End::not_started(format!("{}: {why}", order.path)))?;
        }
        self.launch_ns = clock::monotonic_ns().saturating_sub(ordered_ns);
        let first = process.threads.add(process.identity.name(), process.cores, &process.node.quota);
        let first = first.map_err(|errno| End::not_started(format!("its first thread cannot be made: {errno}")))?;
        started();
        let user = UserThread::new(entry, stack);
        thread::start(Arc::clone(&process), first, user)
            .map_err(|error| End::not_started(format!("its first thread cannot be started: {error}")))?;
        Ok(process)
    }

    /// Waits for the end of the process, however often it is frozen until then.
    async fn run(&mut self, mut process: Arc<Process>, switch: &KillSwitch) -> End {
        let (mut times, mut took_ns, mut worked_ns, mut bytes) = (0_u64, 0_u64, 0_u64, 0);
        loop {
            let runs = cut::Runs(&process);
            let ran = run_and_say(&process, switch).await;
            core::mem::forget(runs);
            let mut down = match ran {
                Ran::ToItsEnd(end) => {
                    cut::ended(&process);
                    if let Some(each_ns) = took_ns.checked_div(times) {
                        let (rank, job) = (process.identity.rank, process.identity.job);
                        log::info!(
                            "rank {rank} of job {job} was taken apart {times} times, each took {each_ns} ns, in which \
                             its core worked for {} ns, the last record {bytes} bytes",
                            worked_ns / times
                        );
                    }
                    return end;
                }
                Ran::Down(down) => down,
            };
            times += 1;
            let (begun_ns, idle_ns) = (clock::monotonic_ns(), executor::idle_ns());
            // Nobody else has it.
            self.process = None;
            // In a box, as this much rarer case is not to make all others as large.
            let (rank, job) = (process.identity.rank, process.identity.job);
            let seat = &self.seat;
            let again = async {
                match down.in_cut.take() {
                    Some(member) => cut::again(process, down, member, (switch, seat)).await,
                    None => frozen::again(process, down, switch).await,
                }
            };
            (process, bytes) = match Box::pin(again).await {
                Ok(again) => again,
                Err(error) => {
                    log::error!("rank {rank} of job {job} is gone: it could not be frozen: {error}");
                    return End::signal(SIGKILL as u8).because(format!("it could not be frozen: {error}"));
                }
            };
            let elapsed_ns = clock::monotonic_ns().saturating_sub(begun_ns);
            took_ns += elapsed_ns;
            worked_ns += elapsed_ns.saturating_sub(executor::idle_ns().saturating_sub(idle_ns));
            self.process = Some(Arc::clone(&process));
        }
    }

    /// Cuts back what is left of the process and says what became of it.
    async fn report(&self, (job, rank): (JobId, Rank), end: End, retention: &Arc<Retention>) -> RankReport {
        let Some(process) = &self.process else {
            return report::of_nothing(job, rank, end);
        };
        process.closer.abandon();
        let mut report = report::of(process, end, self.launch_ns, self.run_ns);
        process.job.ended(process);
        // Its descriptors may hold files for a while yet; nothing that was in these is to be left then.
        if process.job.processes().is_empty()
            && let Some(errno) = process.job.cache.end()
        {
            report.reason.get_or_insert_with(|| format!("what it wrote to a file is lost: {errno}"));
        }
        // What was asked for and nobody waits for any more, as to read ahead, is charged until it is given up.
        process.client.release();
        let retention = match executor::in_turns(cut_back(Arc::clone(process), Arc::clone(retention))).await {
            Ok(retained) => retained,
            // There are too many tasks for it to have one of its own.
            Err(_) => cut_back(Arc::clone(process), Arc::clone(retention)).await,
        };
        RankReport { retention, ..report }
    }

    /// What is left when the process is gone.
    fn into_seat(self) -> Seat {
        self.seat
    }
}

/// Ends a process that nobody waits for any more.
struct Watched<'a>(&'a Process);

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.0.end(End::signal(SIGKILL as u8));
    }
}

/// How far a process ran.
enum Ran {
    /// To its end.
    ToItsEnd(End),
    /// Until it was taken down to be data.
    Down(TakenDown),
}

/// As [`run`], while what the process does is printed, if it is traced.
async fn run_and_say(process: &Arc<Process>, switch: &KillSwitch) -> Ran {
    let running = async {
        let end = match run(process, switch).await {
            Ran::ToItsEnd(end) => end,
            down @ Ran::Down(_) => {
                // What is being printed now must not be lost with whoever prints it.
                if process.trace.is_on() {
                    executor::race(switch.killed(), process.trace.printed()).await;
                }
                return down;
            }
        };
        if process.trace.is_on() {
            process.trace.add(process.identity.pid, trace::end(end.exit));
            // As with what the process printed itself, its user has as long as he likes, unless he ends the job.
            executor::race(switch.killed(), process.trace.printed()).await;
        }
        Ran::ToItsEnd(end)
    };
    match executor::race(running, process.trace.print(&process.client)).await {
        Either::First(ran) => ran,
        Either::Second(never) => match never {},
    }
}

/// Waits for the end of a process that runs, or ends it if `switch` is used. No thread of it is left then.
async fn run(process: &Arc<Process>, switch: &KillSwitch) -> Ran {
    let watched = Watched(process);
    // Its last thread may go on another core before the one who takes it down has looked.
    let down = executor::race(frozen::taken_down(process), frozen::cut(process));
    let running = executor::race(down, process.threads.ended());
    let mut ended = None;
    match executor::race(switch.killed(), running).await {
        Either::First(signal) => {
            let end = killed(process, signal);
            process.end(end.clone());
            // It was ended from outside: its peers need not hear what it sent.
            process.files.lock().break_connections();
            ended = Some(end);
        }
        Either::Second(Either::First(Either::First(down) | Either::Second(down))) => return Ran::Down(down),
        Either::Second(Either::Second(())) => {}
    }
    let was_ended = ended.is_some();
    let mut end = process.threads.gone().await;
    // It was about to be frozen.
    if process.threads.is_dissolved()
        && let Some(ended) = ended
    {
        end = ended;
    }
    // What it wrote is there when its end is heard of, or its end says that it is not: whoever ends it does not wait
    // for a disk that does not answer.
    let settled = Box::pin(process.job.cache.settled_for(process.client.owner()));
    if was_ended {
        let _ = executor::timeout(SETTLE_NS_MAX, settled).await;
    } else {
        executor::race(switch.killed(), settled).await;
    }
    process.timers.stop();
    drop(watched);
    Ran::ToItsEnd(end)
}

/// The end of a process that somebody ends while it waits or runs.
fn killed(process: &Process, signal: u8) -> End {
    let end = End::signal(signal);
    let threads = process.threads.all();
    let [thread] = threads.as_slice() else { return end };
    let done = thread.pending().done;
    match thread.in_call() {
        Some(number) => {
            let name = i32::try_from(number).ok().and_then(syscalls::name).unwrap_or("unknown");
            let so_far = if done > 0 { format!(", {done} bytes done") } else { String::new() };
            end.because(format!("killed in system call {name}{so_far}"))
        }
        None => end,
    }
}

/// What the first thread finds open: the standard streams and PMI.
///
/// # Errors
/// `ENOMEM`.
fn descriptors(client: &Client, seat: &Seat, quota: &Arc<Quota>) -> Result<Descriptors, Errno> {
    let mut files = Descriptors::standard(Input::new(client.clone(), quota), quota);
    let file = Arc::new(OpenFile::object(Object::Service(Box::new(seat.endpoint()?)), flags::O_RDWR));
    // There is room for it.
    let _ = files.replace(PMI_DESCRIPTOR, Descriptor { file, close_on_exec: false });
    Ok(files)
}

/// Cuts the page table of a process that has ended back to the program's own pages, and leaves it to the node.
async fn cut_back(process: Arc<Process>, retention: Arc<Retention>) -> RankRetention {
    let (found, mut cut) = {
        let mut space = process.space.lock();
        (space.stats().pages_found, space.begin_cut())
    };
    let mut walk_ns = 0;
    let (counts, table) = loop {
        let start_ns = clock::monotonic_ns();
        let done = process.space.lock().cut_on(&mut cut);
        walk_ns += clock::monotonic_ns().saturating_sub(start_ns);
        match done {
            Some(result) => break result,
            None => executor::yield_now().await,
        }
    };
    let mut walk = WalkCounts { walk_ns, ..counts };
    if let Some(table) = table {
        walk.zeroed += retention.keep(table, walk);
    }
    RankRetention { found, walk }
}

/// Waits until nothing is left of what nobody needs any more, and takes part in the work, in turns with the programs.
/// No core uses a table of it any more, so none of its frames has to wait.
pub(crate) async fn taken_apart(frames: &'static FramePool, retention: Arc<Retention>) {
    let others = Arc::clone(&retention);
    if executor::in_turns(async move { others.reaper().free(frames).await }).await.is_err() {
        retention.reaper().free(frames).await;
    }
}
