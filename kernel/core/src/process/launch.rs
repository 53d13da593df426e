//! From a launch message to a report.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};

use coppice_hal as hal;
use coppice_protocol::control::{Launch, RankReport};
use coppice_protocol::program::{self, ProgramImage};
use coppice_protocol::ship::{Call, Location, Reply};
use coppice_protocol::syscalls;
use spin::Mutex;

use crate::clock;
use crate::errno::Errno;
use crate::executor::{self, Either};
use crate::files::{Closer, Descriptors, pipeline::Pipeline, special};
use crate::memory::{AddressSpace, StartInfo};
use crate::process::counts::Counts;
use crate::process::signals::Signals;
use crate::process::state::Account;
use crate::process::thread::Thread;
use crate::process::{End, Identity, KillSwitch, NodeFacts, Process, ThreadState, report};
use crate::random;
use crate::ship::Client;

/// Starts a process and runs it to its end, or until `switch` is used; everything it had is gone when the future is
/// done. `started` is called right before its first instruction.
pub fn launch(
    order: Launch,
    client: Client,
    node: NodeFacts,
    switch: KillSwitch,
    started: impl FnOnce() + Send + 'static,
) -> impl Future<Output = RankReport> + Send + 'static {
    let ordered_ns = clock::monotonic_ns();
    async move {
        let mut life = Life { counts: Counts::new(), process: None, thread: None, launch_ns: 0, run_ns: 0 };
        let run = life.run(&order, client, node, ordered_ns, started);
        let end = match executor::race(switch.killed(), run).await {
            Either::First(signal) => life.killed(signal),
            Either::Second(end) => end,
        };
        life.report(&order, end)
    }
}

/// A process from beginning to end, as far as it came.
struct Life {
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
        node: NodeFacts,
        ordered_ns: u64,
        started: impl FnOnce() + Send,
    ) -> End {
        let (image, directory) = match prepare(order, &client).await {
            Ok(prepared) => prepared,
            Err(reason) => return End::not_started(reason),
        };
        let (space, stack) = match load(order, &image, &node) {
            Ok(loaded) => loaded,
            Err(reason) => return End::not_started(reason),
        };
        let identity = Identity::of(order);
        let process = Arc::new(Process {
            name: Mutex::new(identity.name()),
            identity,
            node,
            closer: Closer::new(client.clone()),
            client,
            space: Mutex::new(space),
            files: Mutex::new(Descriptors::standard()),
            directory: Mutex::new(directory),
            umask: AtomicU32::new(order.umask & 0o777),
            signals: Mutex::new(Signals::new()),
            account: Account::new(),
        });
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

    fn report(self, order: &Launch, end: End) -> RankReport {
        match &self.process {
            Some(process) => {
                process.closer.abandon();
                report::of(process, &self.counts, end, self.launch_ns, self.run_ns)
            }
            None => report::of_nothing(order, end),
        }
    }
}

/// Reads the program's headers and finds the working directory, both at once.
async fn prepare(order: &Launch, client: &Client) -> Result<(ProgramImage, String), String> {
    let mut calls = Pipeline::new();
    calls.push(client.call(Call::Pages { program: order.program, first: 0, count: 1 }, Vec::new()));
    let directory = match special::locate("/", &order.directory, 0) {
        // The root needs no asking, nor does what the kernel makes itself.
        Ok(special::Place::Shipped(path)) if path != "/" => {
            calls.push(client.call(Call::Resolve(Location { directory: None, path }), Vec::new()));
            None
        }
        Ok(special::Place::Shipped(path)) => Some(path),
        Ok(special::Place::Special(node)) if node.is_directory() => Some(node.path()),
        Ok(special::Place::Special(_)) => return Err(bad_directory(order, Errno::ENOTDIR)),
        Err(errno) => return Err(bad_directory(order, errno)),
    };
    let (_, header) = calls.next().await.map_err(|errno| format!("program could not be read: {errno}"))?;
    let image = program::parse(&header, order.program_bytes).map_err(|error| format!("{}: {error}", order.path))?;
    let directory = match directory {
        Some(directory) => directory,
        None => match calls.next().await {
            Ok((Reply::Path(path), _)) => path,
            Ok(_) => return Err(bad_directory(order, Errno::EIO)),
            Err(errno) => return Err(bad_directory(order, errno)),
        },
    };
    Ok((image, directory))
}

fn bad_directory(order: &Launch, errno: Errno) -> String {
    format!("working directory {}: {errno}", order.directory)
}

/// Makes the address space with the program and its start stack. Gives the stack pointer too.
fn load(order: &Launch, image: &ProgramImage, node: &NodeFacts) -> Result<(AddressSpace, u64), String> {
    let mut space = AddressSpace::new(node.frames).map_err(|error| format!("{}: {error}", order.path))?;
    space.load_image(image, order.program).map_err(|error| format!("{}: {error}", order.path))?;
    let info = StartInfo {
        arguments: &order.arguments,
        environment: &order.environment,
        path: &order.path,
        random: random::bytes(),
        user: order.user,
        group: order.group,
        features: hal::cpu::hwcap().into(),
        features2: 0,
    };
    let stack = space.build_stack(&info).map_err(|errno| format!("arguments and environment: {errno}"))?;
    Ok((space, stack))
}
