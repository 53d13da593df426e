//! What gdb's protocol asks of a machine, done by questions to the rank's node.

use std::future::Future;
use std::io;
use std::num::NonZeroUsize;
use std::time::Duration;

use anyhow::Context;
use coppice_api::inspect::debug::{BREAKPOINTS, BreakAt, BreakOn, Go, PLANTED_MAX, Stop, Why};
use coppice_api::inspect::held::{HeldProcess, HeldThread, MEMORY_BYTES_MAX, MappedArea};
use coppice_api::inspect::{Answer, Question};
use coppice_api::job::KillOrder;
use gdbstub::arch::Arch;
use gdbstub::common::{Signal, Tid};
use gdbstub::stub::{DisconnectReason, MultiThreadStopReason};
use gdbstub::target::ext::auxv::{Auxv, AuxvOps};
use gdbstub::target::ext::base::BaseOps;
use gdbstub::target::ext::base::multithread::{
    MultiThreadBase, MultiThreadResume, MultiThreadResumeOps, MultiThreadSchedulerLocking,
    MultiThreadSchedulerLockingOps, MultiThreadSingleStep, MultiThreadSingleStepOps,
};
use gdbstub::target::ext::breakpoints::{
    Breakpoints, BreakpointsOps, HwBreakpoint, HwBreakpointOps, HwWatchpoint, HwWatchpointOps, SwBreakpoint,
    SwBreakpointOps, WatchKind,
};
use gdbstub::target::{TargetError, TargetResult};
use tokio::runtime::Handle;
use tokio::time::sleep;

use super::connection::{Came, Connection};
use super::registers::{DESCRIPTION, Registers};
use super::signals;
use crate::held::HeldRank;

/// The signal that ends a program whatever it does.
const SIGKILL: u8 = 9;

/// Where [`HeldThread::registers`] has the instruction pointer.
const RIP: usize = 16;

/// How often, and with which pauses, the service node is asked how a rank ended that its node does not have any more.
const END_ASKS_MAX: u32 = 50;
const END_PAUSE: Duration = Duration::from_millis(100);

/// How often the node is asked what the rank has stopped for: soon at first, for whoever makes steps, and then in
/// pauses that double. (A node answers few questions at a time: none of them is to wait for a program.)
const STOP_PAUSE_MIN: Duration = Duration::from_millis(1);
const STOP_PAUSE_MAX: Duration = Duration::from_millis(100);

/// What the protocol has to say of a stop.
pub(super) type StopReason = MultiThreadStopReason<u64>;

/// What is waited for while the rank goes on.
pub(super) enum Happened {
    /// Gdb sent something, or is gone.
    Came(Came),
    /// The rank stands, or has ended.
    Stop(StopReason),
}

/// x86-64 as gdb has it.
pub(super) enum X86_64 {}

impl Arch for X86_64 {
    type Usize = u64;
    type Registers = Registers;
    type BreakpointKind = usize;
    type RegId = ();

    fn target_description_xml() -> Option<&'static str> {
        Some(DESCRIPTION)
    }
}

/// A rank that is debugged.
pub(super) struct Target {
    runtime: Handle,
    rank: HeldRank,
    /// What was told of it when it last stood.
    process: HeldProcess,
    threads: Vec<HeldThread>,
    areas: Vec<MappedArea>,
    /// Those that gdb has set by the processor's means, and those in the program's instructions.
    breakpoints: Vec<BreakAt>,
    planted: Vec<u64>,
    /// How it is to go on next.
    go: Go,
    /// The thread that is named in that.
    named: Option<u32>,
}

impl Target {
    /// Has the rank stand.
    pub(super) fn attach(rank: HeldRank, runtime: Handle) -> anyhow::Result<Self> {
        let process = runtime.block_on(rank.hold())?;
        let (threads, areas, breakpoints, planted) = Default::default();
        let mut target =
            Self { runtime, rank, process, threads, areas, breakpoints, planted, go: Go::default(), named: None };
        target.look()?;
        Ok(target)
    }

    fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// Takes note of what the rank is, which stands.
    fn look(&mut self) -> anyhow::Result<()> {
        self.threads = self.wait(self.rank.threads())?;
        self.areas = self.wait(self.rank.areas())?;
        Ok(())
    }

    /// Has it stand for longer. It must not have gone on meanwhile: gdb would not know.
    pub(super) fn keep(&mut self) -> anyhow::Result<()> {
        self.wait(self.rank.keep())
    }

    /// Has it stand wherever it is, as gdb's user wants.
    pub(super) fn interrupt(&mut self) -> anyhow::Result<StopReason> {
        if let Err(error) = self.wait(self.rank.hold()) {
            return self.wait(end_of(&self.rank)).ok_or(error);
        }
        self.look()?;
        let first = self.threads.first().map_or(1, |thread| thread.tid);
        Ok(StopReason::SignalWithThread { tid: tid(first), signal: Signal::SIGINT })
    }

    /// Waits until the rank stands or has ended, or gdb says something.
    pub(super) fn happens(&mut self, connection: &mut Connection) -> anyhow::Result<Happened> {
        let stop = self.wait(async {
            tokio::select! {
                came = connection.next() => came.map(Err).context("cannot hear gdb"),
                stop = stop_of(&self.rank) => stop.map(Ok),
            }
        })?;
        let stop = match stop {
            Err(came) => return Ok(Happened::Came(came)),
            Ok(Stands::Stopped(stop)) => stop,
            Ok(Stands::Ended(reason)) => return Ok(Happened::Stop(reason)),
        };
        self.look()?;
        Ok(Happened::Stop(self.reason(stop)))
    }

    fn reason(&self, stop: Stop) -> StopReason {
        let at = tid(stop.tid);
        match stop.why {
            Why::Signal(signal) => StopReason::SignalWithThread { tid: at, signal: signals::of_linux(signal) },
            Why::Step => StopReason::SignalWithThread { tid: at, signal: Signal::SIGTRAP },
            Why::Breakpoint => {
                let rip = self.thread(at).map(|thread| thread.registers[RIP]);
                let is_planted = rip.is_some_and(|rip| self.planted.contains(&rip));
                if is_planted { StopReason::SwBreak(at) } else { StopReason::HwBreak(at) }
            }
            Why::Touched(BreakAt { address, on, .. }) => {
                let kind = if on == BreakOn::Write { WatchKind::Write } else { WatchKind::ReadWrite };
                StopReason::Watch { tid: at, kind, addr: address }
            }
        }
    }

    fn thread(&self, at: Tid) -> Option<&HeldThread> {
        self.threads.iter().find(|thread| tid(thread.tid) == at)
    }

    /// Gdb is done with it.
    pub(super) fn let_go(&mut self, reason: &DisconnectReason) -> anyhow::Result<()> {
        if matches!(reason, DisconnectReason::Kill) {
            let (client, job) = (self.rank.client(), self.rank.job);
            self.wait(client.kill(job, KillOrder { signal: SIGKILL }))?;
        }
        Ok(())
    }

    /// Bytes from there on that may be read, up to `most`.
    fn readable(&self, address: u64, most: u64) -> u64 {
        let mut at = address;
        let end = address.saturating_add(most);
        for area in self.areas.iter().filter(|area| area.read && area.end > address) {
            if area.start > at || at >= end {
                break;
            }
            at = area.end;
        }
        at.min(end) - address
    }
}

/// Adds one, if there are not as many as there may be.
fn add<T>(to: &mut Vec<T>, one: T, most: usize) -> bool {
    let has_room = to.len() < most;
    if has_room {
        to.push(one);
    }
    has_room
}

fn remove<T: PartialEq>(from: &mut Vec<T>, one: &T) -> bool {
    let place = from.iter().position(|other| other == one);
    place.map(|place| from.remove(place)).is_some()
}

/// A thread's number as the protocol has it.
fn tid(of: u32) -> Tid {
    NonZeroUsize::new(of as usize).unwrap_or(NonZeroUsize::MIN)
}

fn number(of: Tid) -> u32 {
    u32::try_from(of.get()).unwrap_or(u32::MAX)
}

/// The rank does not go on.
enum Stands {
    Stopped(Stop),
    Ended(StopReason),
}

async fn stop_of(rank: &HeldRank) -> anyhow::Result<Stands> {
    let mut pause = STOP_PAUSE_MIN;
    loop {
        match rank.ask(Question::Stop).await {
            Ok(Answer::Stopped(Some(stop))) => return Ok(Stands::Stopped(stop)),
            Ok(Answer::Stopped(None)) => {
                sleep(pause).await;
                pause = (2 * pause).min(STOP_PAUSE_MAX);
            }
            Ok(_) => return rank.odd(),
            Err(error) => return end_of(rank).await.map(Stands::Ended).ok_or(error),
        }
    }
}

/// How the rank has ended, if it has.
async fn end_of(rank: &HeldRank) -> Option<StopReason> {
    for _ in 0..END_ASKS_MAX {
        let job = rank.client().job(rank.job).await.ok()?;
        if let Some(report) = job.rank_reports.iter().find(|report| report.rank == rank.rank) {
            return Some(match (report.exit, report.signal) {
                (Some(status), _) => StopReason::Exited(status),
                (None, signal) => StopReason::Terminated(signals::of_linux(signal.unwrap_or(SIGKILL))),
            });
        }
        sleep(END_PAUSE).await;
    }
    None
}

/// What cannot be done now, and does not end the protocol, which has no words for why.
fn not_done<T>(error: anyhow::Error) -> TargetResult<T, Target> {
    eprintln!("coppice: {error:#}");
    Err(TargetError::NonFatal)
}

impl gdbstub::target::Target for Target {
    type Arch = X86_64;
    type Error = anyhow::Error;

    fn base_ops(&mut self) -> BaseOps<'_, X86_64, anyhow::Error> {
        BaseOps::MultiThread(self)
    }

    fn support_breakpoints(&mut self) -> Option<BreakpointsOps<'_, Self>> {
        Some(self)
    }

    fn support_auxv(&mut self) -> Option<AuxvOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadBase for Target {
    fn read_registers(&mut self, registers: &mut Registers, tid: Tid) -> TargetResult<(), Self> {
        *registers = self.thread(tid).map(Registers::of).ok_or(())?;
        Ok(())
    }

    fn write_registers(&mut self, registers: &Registers, tid: Tid) -> TargetResult<(), Self> {
        let set = self.thread(tid).map(|thread| registers.set(thread)).ok_or(())?;
        match self.wait(self.rank.ask(Question::Set(set))) {
            Ok(Answer::Changed) => self.look().or_else(not_done),
            Ok(_) => self.rank.odd().or_else(not_done),
            Err(error) => not_done(error),
        }
    }

    fn read_addrs(&mut self, address: u64, data: &mut [u8], _: Tid) -> TargetResult<usize, Self> {
        let length = self.readable(address, data.len() as u64);
        let mut done = 0;
        while done < length {
            let part = match self.wait(self.rank.memory(address + done, length - done)) {
                Ok(part) => part,
                Err(error) => return not_done(error),
            };
            let (zeros, bytes) = (part.zeros as usize, &part.bytes);
            let place = &mut data[done as usize..][..zeros + bytes.len()];
            place[..zeros].fill(0);
            place[zeros..].copy_from_slice(bytes);
            done += place.len() as u64;
        }
        if length == 0 { Err(TargetError::NonFatal) } else { Ok(length as usize) }
    }

    fn write_addrs(&mut self, address: u64, data: &[u8], _: Tid) -> TargetResult<(), Self> {
        for (number, part) in data.chunks(MEMORY_BYTES_MAX).enumerate() {
            let address = address.wrapping_add((number * MEMORY_BYTES_MAX) as u64);
            match self.wait(self.rank.ask(Question::Write { address, bytes: part.into() })) {
                Ok(Answer::Changed) => {}
                Ok(_) => return self.rank.odd().or_else(not_done),
                Err(error) => return not_done(error),
            }
        }
        Ok(())
    }

    fn list_active_threads(&mut self, thread_is_active: &mut dyn FnMut(Tid)) -> anyhow::Result<()> {
        self.threads.iter().for_each(|thread| thread_is_active(tid(thread.tid)));
        Ok(())
    }

    fn support_resume(&mut self) -> Option<MultiThreadResumeOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadResume for Target {
    fn resume(&mut self) -> anyhow::Result<()> {
        let mut go = std::mem::take(&mut self.go);
        for (slot, at) in go.breakpoints.iter_mut().zip(&self.breakpoints) {
            *slot = Some(*at);
        }
        // Gdb may set several at one instruction.
        go.planted = self.planted.clone();
        go.planted.sort_unstable();
        go.planted.dedup();
        match self.wait(self.rank.ask(Question::Go(go)))? {
            Answer::Goes => Ok(()),
            _ => self.rank.odd(),
        }
    }

    fn clear_resume_actions(&mut self) -> anyhow::Result<()> {
        (self.go, self.named) = (Go::default(), None);
        Ok(())
    }

    fn set_resume_action_continue(&mut self, tid: Tid, signal: Option<Signal>) -> anyhow::Result<()> {
        self.named.get_or_insert(number(tid));
        self.go.signal = signal.map(|_| number(tid)).or(self.go.signal);
        Ok(())
    }

    fn support_single_step(&mut self) -> Option<MultiThreadSingleStepOps<'_, Self>> {
        Some(self)
    }

    fn support_scheduler_locking(&mut self) -> Option<MultiThreadSchedulerLockingOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadSingleStep for Target {
    fn set_resume_action_step(&mut self, tid: Tid, signal: Option<Signal>) -> anyhow::Result<()> {
        (self.named, self.go.step) = (Some(number(tid)), Some(number(tid)));
        self.go.signal = signal.map(|_| number(tid)).or(self.go.signal);
        Ok(())
    }
}

impl MultiThreadSchedulerLocking for Target {
    fn set_resume_action_scheduler_lock(&mut self) -> anyhow::Result<()> {
        self.go.only = self.named;
        Ok(())
    }
}

impl Breakpoints for Target {
    fn support_sw_breakpoint(&mut self) -> Option<SwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_breakpoint(&mut self) -> Option<HwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_watchpoint(&mut self) -> Option<HwWatchpointOps<'_, Self>> {
        Some(self)
    }
}

const fn at_instruction(address: u64) -> BreakAt {
    BreakAt { address, on: BreakOn::Execute, length: 1 }
}

impl SwBreakpoint for Target {
    fn add_sw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(add(&mut self.planted, address, PLANTED_MAX))
    }

    fn remove_sw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(remove(&mut self.planted, &address))
    }
}

impl HwBreakpoint for Target {
    fn add_hw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(add(&mut self.breakpoints, at_instruction(address), BREAKPOINTS))
    }

    fn remove_hw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(remove(&mut self.breakpoints, &at_instruction(address)))
    }
}

/// None, if the processor cannot have it.
fn watched(address: u64, length: u64, kind: WatchKind) -> Option<BreakAt> {
    let on = match kind {
        WatchKind::Write => BreakOn::Write,
        WatchKind::ReadWrite => BreakOn::Access,
        WatchKind::Read => return None,
    };
    let length = u8::try_from(length).ok().filter(|length| [1, 2, 4, 8].contains(length))?;
    address.is_multiple_of(length.into()).then_some(BreakAt { address, on, length })
}

impl HwWatchpoint for Target {
    fn add_hw_watchpoint(&mut self, address: u64, length: u64, kind: WatchKind) -> TargetResult<bool, Self> {
        Ok(watched(address, length, kind).is_some_and(|at| add(&mut self.breakpoints, at, BREAKPOINTS)))
    }

    fn remove_hw_watchpoint(&mut self, address: u64, length: u64, kind: WatchKind) -> TargetResult<bool, Self> {
        Ok(watched(address, length, kind).is_some_and(|at| remove(&mut self.breakpoints, &at)))
    }
}

impl Auxv for Target {
    fn get_auxv(&self, offset: u64, length: usize, buffer: &mut [u8]) -> TargetResult<usize, Self> {
        let from = usize::try_from(offset).map_err(io::Error::other)?;
        let rest = self.process.auxiliary.get(from..).unwrap_or_default();
        let part = &rest[..rest.len().min(length).min(buffer.len())];
        buffer[..part.len()].copy_from_slice(part);
        Ok(part.len())
    }
}
