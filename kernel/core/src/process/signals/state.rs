//! What the signals of a process do, as a state machine: dispositions, and of each thread its mask, its pending signals
//! and where its handlers run. Nothing here waits, runs or ends anything; the methods say who is to look at its signals
//! ([`Signals::next`]), and what comes of it.

mod actions;
pub(super) mod record;
mod upcoming;

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::outcome::{Delivery, Next, Outcome, Target};
use super::pending::Pending;
use crate::abi::signal::{AlternateStack, SI_USER, SignalAction, SignalInfo};
use crate::abi::signal_set::{REAL_TIME_MIN, SIGCONT, SIGKILL, SIGNAL_MAX, SIGSEGV, SignalSet};
use crate::errno::Errno;
use crate::files::SignalBoard;
use crate::limits::{SIGNAL_BYTES, SIGNALS_FREE, SIGNALS_QUEUED_MAX};
use crate::quota::{Counted, Kind, Quota};

const SIG_DFL: u64 = 0;
const SIG_IGN: u64 = 1;

/// What the processor said of a thread's last fault; 0 before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FaultContext {
    /// The processor's number of the exception.
    pub(crate) vector: u64,
    /// Its error code.
    pub(crate) error: u64,
    /// The address of the last page fault.
    pub(crate) address: u64,
}

/// What a thread has of its own.
#[derive(Debug)]
struct Thread {
    blocked: SignalSet,
    /// What is blocked again after the call that the thread makes.
    saved: Option<SignalSet>,
    /// What it waits for in rt_sigtimedwait(2): those run no handler.
    awaited: SignalSet,
    pending: Pending,
    /// Interrupted the call that the thread makes.
    taken: Option<Delivery>,
    stack: AlternateStack,
    fault: FaultContext,
}

/// What a frame says of the thread besides its registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Context {
    /// What is blocked when the handler returns.
    pub(crate) mask: SignalSet,
    pub(crate) stack: AlternateStack,
    pub(crate) fault: FaultContext,
}

/// The signals of a process.
#[derive(Debug)]
pub(crate) struct Signals {
    actions: [SignalAction; SIGNAL_MAX as usize],
    shared: Pending,
    /// By their ids. There is always one but before the first and after the last.
    threads: BTreeMap<u32, Thread>,
    /// Pending signals with what they say.
    queued: usize,
    /// What those are charged with.
    charged: Counted,
    /// How many may be.
    queue_limit: usize,
    stopped: bool,
    /// Signals that end the process and leave a core file do so when their thread has looked at them, not at once.
    core_file: bool,
    /// All that end it do so then: a debugger is to hear of them first.
    debugged: bool,
    /// Threads with a lower id had their turn to get the process's signals.
    turn: u32,
    /// Where those look that read signals, once there are any.
    board: Option<Arc<SignalBoard>>,
}

impl Signals {
    /// As a new program finds them: everything default, nothing pending, and its first thread, which blocks nothing.
    #[cfg(test)]
    pub(crate) fn new(first: u32) -> Self {
        Self::counted(first, Counted::new(SIGNAL_BYTES, SIGNALS_FREE))
    }

    fn counted(first: u32, charged: Counted) -> Self {
        let mut signals = Self {
            actions: [SignalAction::default(); SIGNAL_MAX as usize],
            shared: Pending::default(),
            threads: BTreeMap::new(),
            queued: 0,
            charged,
            queue_limit: SIGNALS_QUEUED_MAX,
            stopped: false,
            core_file: false,
            debugged: false,
            turn: 0,
            board: None,
        };
        signals.join(first, SignalSet::NONE);
        signals
    }

    /// The same, whose pending signals are charged to `quota`.
    pub(crate) fn charged(first: u32, quota: &Arc<Quota>) -> Self {
        let mut charged = Counted::new(SIGNAL_BYTES, SIGNALS_FREE);
        charged.charge_to(quota, Kind::Object);
        Self::counted(first, charged)
    }

    /// So many signals are not pending any more.
    fn taken(&mut self, count: usize) {
        self.queued -= count;
        self.charged.settle(self.queued);
    }

    /// A thread starts, with the signals blocked that its creator has.
    pub(crate) fn join(&mut self, id: u32, blocked: SignalSet) {
        let thread = Thread {
            blocked,
            saved: None,
            awaited: SignalSet::NONE,
            pending: Pending::default(),
            taken: None,
            stack: AlternateStack::NONE,
            fault: FaultContext::default(),
        };
        self.threads.insert(id, thread);
    }

    /// A thread is at its end. Gives the threads that are to look at their signals in its place.
    pub(crate) fn leave(&mut self, id: u32) -> Vec<u32> {
        let Some(thread) = self.threads.remove(&id) else { return Vec::new() };
        self.taken(thread.pending.queued());
        self.post(false);
        self.pass_on(thread.blocked.others())
    }

    /// Whether there is such a thread.
    pub(crate) fn has(&self, id: u32) -> bool {
        self.threads.contains_key(&id)
    }

    /// From now on no more signals are queued than this, and [`SIGNALS_QUEUED_MAX`].
    pub(crate) fn limit_queue(&mut self, limit: u64) {
        self.queue_limit = usize::try_from(limit).map_or(SIGNALS_QUEUED_MAX, |limit| limit.min(SIGNALS_QUEUED_MAX));
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// `ESRCH`: no such thread. `EINVAL`: no such signal. `EAGAIN`: [`SIGNALS_QUEUED_MAX`] are pending, or there is no
    /// memory, and this one cannot be sent without what it says.
    pub(crate) fn send(&mut self, target: Target, info: SignalInfo) -> Result<Outcome, Errno> {
        let signal = info.signal;
        check(signal)?;
        // Linux looks at the first thread, too, when a signal is for the process.
        let looked_at = match target {
            Target::Process => self.threads.values().next(),
            Target::Thread(id) => self.threads.get(&id),
        };
        let Some(thread) = looked_at else { return Err(Errno::ESRCH) };
        let is_kept = thread.blocked.or(thread.awaited).contains(signal);
        if signal == SIGKILL {
            return Ok(Outcome::End(SIGKILL));
        }
        let goes_on = signal == SIGCONT && self.stopped;
        if signal == SIGCONT {
            self.forget(SignalSet::STOPPING);
            self.stopped = false;
        } else if SignalSet::STOPPING.contains(signal) {
            self.forget(SignalSet::of(SIGCONT));
        }
        let all_or = |outcome| if goes_on { Outcome::CallAll } else { outcome };
        // One that is blocked is kept even if it is ignored: the disposition may change before it is unblocked.
        if !is_kept && self.is_ignored(signal) {
            return Ok(all_or(Outcome::Ignored));
        }
        let taker = self.taker(target, signal);
        let awaits = |id| self.threads.get(&id).is_some_and(|thread: &Thread| thread.awaited.contains(signal));
        if taker.is_some_and(|id| !awaits(id)) && !self.stopped && self.ends(signal) && !self.is_told_first(signal) {
            return Ok(Outcome::End(signal));
        }
        let is_new = self.add(target, info)?;
        Ok(all_or(taker.filter(|_| is_new).map_or(Outcome::Nothing, Outcome::Call)))
    }

    /// Adds a signal to those that are pending. Says whether that changes anything.
    fn add(&mut self, target: Target, info: SignalInfo) -> Result<bool, Errno> {
        let pending = match target {
            Target::Process => &mut self.shared,
            Target::Thread(id) => &mut self.threads.get_mut(&id).ok_or(Errno::ESRCH)?.pending,
        };
        if pending.has(&info) {
            return Ok(false);
        }
        // There are few timers, each is there once, and its signal was charged with it.
        let is_timer = info.timer_id().is_some();
        let mut is_room = || self.queued < self.queue_limit && self.charged.cover(self.queued + 1).is_ok();
        if is_timer || is_room() {
            pending.push(info);
            self.queued += 1;
        } else if info.signal < REAL_TIME_MIN || info.code == SI_USER {
            pending.mark(info.signal);
        } else {
            return Err(Errno::EAGAIN);
        }
        self.post(true);
        Ok(true)
    }

    /// Where it is said what is pending, for those that read signals.
    pub(crate) fn board(&mut self, quota: &Arc<Quota>) -> Arc<SignalBoard> {
        let board = Arc::clone(self.board.get_or_insert_with(|| Arc::new(SignalBoard::new(quota))));
        self.post(false);
        board
    }

    /// Says what is pending; a signal `came`, or went.
    fn post(&self, came: bool) {
        if let Some(board) = &self.board {
            board.post(self.threads.values().fold(self.shared.set(), |all, thread| all.or(thread.pending.set())), came);
        }
    }

    /// The thread that is to take a signal: of a process's, one that waits for it, else the first one, else each in
    /// turn.
    fn taker(&mut self, target: Target, signal: u32) -> Option<u32> {
        let takes = |thread: &Thread| thread.awaited.contains(signal) || !thread.blocked.contains(signal);
        if let Target::Thread(id) = target {
            return self.threads.get(&id).filter(|thread| takes(thread)).map(|_| id);
        }
        if let Some((id, _)) = self.threads.iter().find(|(_, thread)| thread.awaited.contains(signal)) {
            return Some(*id);
        }
        let is_free = |thread: &Thread| takes(thread) && thread.taken.is_none() && thread.saved.is_none();
        if let Some((id, _)) = self.threads.iter().next().filter(|(_, thread)| is_free(thread)) {
            return Some(*id);
        }
        let next = self.threads.range(self.turn..).chain(self.threads.range(..self.turn));
        let id = next.clone().find(|(_, thread)| is_free(thread)).or_else(|| next.clone().find(|(_, of)| takes(of)));
        let id = *id?.0;
        self.turn = id + 1;
        Some(id)
    }

    /// The threads that are to take the process's pending signals among `signals`, which another thread no longer does.
    fn pass_on(&mut self, signals: SignalSet) -> Vec<u32> {
        let mut left = self.shared.set().and(signals);
        let mut takers = Vec::new();
        while let Some(signal) = left.first() {
            left = left.and(SignalSet::of(signal).others());
            if let Some(id) = self.taker(Target::Process, signal)
                && !takers.contains(&id)
            {
                takers.push(id);
            }
        }
        takers
    }

    /// What a thread has to do next.
    pub(crate) fn next(&mut self, id: u32) -> Next {
        let Some(thread) = self.threads.get_mut(&id) else { return Next::Nothing };
        if let Some(taken) = thread.taken.take() {
            return Next::Handler(taken);
        }
        if self.stopped {
            return Next::Stop { since_now: false };
        }
        while let Some(info) = self.take_unblocked(id) {
            let signal = info.signal;
            if self.is_ignored(signal) {
                continue;
            }
            if self.has_handler(signal) {
                return Next::Handler(self.take_handler(info));
            }
            if SignalSet::STOPPING.contains(signal) {
                self.stopped = true;
                return Next::Stop { since_now: true };
            }
            return Next::End(signal);
        }
        Next::Nothing
    }

    /// As [`Self::next`], of a thread that waits in a call: a handler is left for when the call has ended.
    pub(crate) fn interrupt(&mut self, id: u32) -> Next {
        let next = self.next(id);
        if let (Next::Handler(delivery), Some(thread)) = (next, self.threads.get_mut(&id)) {
            thread.taken = Some(delivery);
        }
        next
    }

    /// Whether [`Self::next`] has something to say.
    pub(crate) fn concerns(&self, id: u32) -> bool {
        let Some(thread) = self.threads.get(&id) else { return false };
        let unblocked = thread.blocked.or(thread.awaited).others();
        self.stopped || thread.taken.is_some() || !self.pending(id).and(unblocked).is_empty()
    }

    fn take_unblocked(&mut self, id: u32) -> Option<SignalInfo> {
        let thread = self.threads.get(&id)?;
        let unblocked = thread.blocked.or(thread.awaited).others();
        self.take(id, unblocked)
    }

    /// Takes a pending signal of `wanted` that a thread may take.
    pub(crate) fn take(&mut self, id: u32, wanted: SignalSet) -> Option<SignalInfo> {
        let thread = self.threads.get_mut(&id)?;
        let (info, had_room) = thread.pending.take(wanted).or_else(|| self.shared.take(wanted))?;
        self.taken(usize::from(had_room));
        self.post(false);
        Some(info)
    }

    /// A signal that is to run its handler now.
    fn take_handler(&mut self, info: SignalInfo) -> Delivery {
        let kept = &mut self.actions[info.signal as usize - 1];
        let action = *kept;
        if action.flags & SignalAction::RESETHAND != 0 {
            kept.handler = SIG_DFL;
        }
        Delivery { info, action }
    }

    /// A thread has caused a signal by what it did. Gives its handler, unless there is none or it is blocked: then the
    /// process is at its end.
    pub(crate) fn fault(&mut self, id: u32, info: SignalInfo, context: FaultContext) -> Option<Delivery> {
        let thread = self.threads.get_mut(&id)?;
        // As on Linux, what other faults say of the address stays.
        let address = if context.vector == PAGE_FAULT { context.address } else { thread.fault.address };
        thread.fault = FaultContext { address, ..context };
        (!self.fault_ends(id, info.signal)).then(|| self.take_handler(info))
    }

    /// A frame could not be written. Gives the handler of the `SIGSEGV` that this means, as [`Self::fault`] does.
    pub(crate) fn bad_frame(&mut self, id: u32, of: u32) -> Option<Delivery> {
        let thread = self.threads.get(&id)?;
        let runs = of != SIGSEGV && !thread.blocked.contains(SIGSEGV) && self.has_handler(SIGSEGV);
        runs.then(|| self.take_handler(SignalInfo::kernel(SIGSEGV)))
    }

    /// What the frame of a handler says of its thread.
    pub(crate) fn context(&self, id: u32) -> Context {
        self.threads.get(&id).map_or(
            Context { mask: SignalSet::NONE, stack: AlternateStack::NONE, fault: FaultContext::default() },
            |thread| Context { mask: thread.saved.unwrap_or(thread.blocked), stack: thread.stack, fault: thread.fault },
        )
    }

    /// A thread enters a handler. Gives the threads that are to look at their signals because it blocks some now.
    pub(crate) fn enter(&mut self, id: u32, delivery: &Delivery) -> Vec<u32> {
        let Some(thread) = self.threads.get_mut(&id) else { return Vec::new() };
        if thread.stack.flags & AlternateStack::AUTODISARM != 0 {
            thread.stack = AlternateStack::NONE;
        }
        let own = match delivery.action.flags & SignalAction::NODEFER {
            0 => SignalSet::of(delivery.info.signal),
            _ => SignalSet::NONE,
        };
        thread.saved = None;
        let blocked = thread.blocked.or(SignalSet(delivery.action.mask)).or(own);
        self.set_blocked(id, blocked)
    }

    /// What a thread blocks.
    pub(crate) fn blocked(&self, id: u32) -> SignalSet {
        self.threads.get(&id).map_or(SignalSet::NONE, |thread| thread.blocked)
    }

    /// Sets what a thread blocks. Gives the threads that are to look at their signals, perhaps itself.
    pub(crate) fn set_blocked(&mut self, id: u32, blocked: SignalSet) -> Vec<u32> {
        let Some(thread) = self.threads.get_mut(&id) else { return Vec::new() };
        let blocked = blocked.blockable();
        let newly = blocked.and(thread.blocked.others());
        thread.blocked = blocked;
        let mut called = self.pass_on(newly);
        if self.concerns(id) && !called.contains(&id) {
            called.push(id);
        }
        called
    }

    /// Sets what a thread blocks until [`Self::restore`], or until a handler returns. As [`Self::set_blocked`].
    pub(crate) fn block_for_call(&mut self, id: u32, blocked: SignalSet) -> Vec<u32> {
        if let Some(thread) = self.threads.get_mut(&id) {
            thread.saved = Some(thread.saved.unwrap_or(thread.blocked));
        }
        self.set_blocked(id, blocked)
    }

    /// Undoes [`Self::block_for_call`], unless a handler is to run first. As [`Self::set_blocked`].
    pub(crate) fn restore(&mut self, id: u32) -> Vec<u32> {
        let saved = self.threads.get_mut(&id).filter(|thread| thread.taken.is_none());
        match saved.and_then(|thread| thread.saved.take()) {
            Some(saved) => self.set_blocked(id, saved),
            None => Vec::new(),
        }
    }

    /// A thread waits for these signals now, or for none any more.
    pub(crate) fn set_awaited(&mut self, id: u32, awaited: SignalSet) -> Vec<u32> {
        let Some(thread) = self.threads.get_mut(&id) else { return Vec::new() };
        let before = core::mem::replace(&mut thread.awaited, awaited);
        self.pass_on(before.and(awaited.others()))
    }

    /// Where a thread's handlers run that ask for it.
    pub(crate) fn stack(&self, id: u32) -> AlternateStack {
        self.threads.get(&id).map_or(AlternateStack::NONE, |thread| thread.stack)
    }

    /// Sets where a thread's handlers run that ask for it.
    pub(crate) fn set_stack(&mut self, id: u32, stack: AlternateStack) {
        if let Some(thread) = self.threads.get_mut(&id) {
            thread.stack = stack;
        }
    }

    /// Signals of a thread and of its process that wait.
    pub(crate) fn pending(&self, id: u32) -> SignalSet {
        self.own_pending(id).or(self.shared.set())
    }

    /// Those of them that are the thread's own.
    pub(crate) fn own_pending(&self, id: u32) -> SignalSet {
        self.threads.get(&id).map_or(SignalSet::NONE, |thread| thread.pending.set())
    }

    /// Whether the process is stopped.
    pub(crate) const fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Forgets the pending signals of a timer that is no more.
    pub(crate) fn forget_timer(&mut self, id: u32) {
        let own: usize = self.threads.values_mut().map(|thread| thread.pending.forget_timer(id)).sum();
        let shared = self.shared.forget_timer(id);
        self.taken(own + shared);
        self.post(false);
    }

    fn forget(&mut self, signals: SignalSet) {
        let own: usize = self.threads.values_mut().map(|thread| thread.pending.forget(signals)).sum();
        let shared = self.shared.forget(signals);
        self.taken(own + shared);
        self.post(false);
    }

    /// Signals that wait for any thread.
    pub(crate) const fn pending_shared(&self) -> SignalSet {
        self.shared.set()
    }

    /// Signals that are set to be ignored, and those that have handlers.
    pub(crate) fn handled(&self) -> (SignalSet, SignalSet) {
        let set = |wanted: fn(u64) -> bool| {
            let signals = (1..=SIGNAL_MAX).filter(|signal| wanted(self.actions[*signal as usize - 1].handler));
            signals.fold(SignalSet::NONE, |set, signal| set.or(SignalSet::of(signal)))
        };
        (set(|handler| handler == SIG_IGN), set(|handler| handler > SIG_IGN))
    }
}

/// The processor's number of a page fault.
pub(crate) const PAGE_FAULT: u64 = 14;

/// A signal's index, if there is such a signal.
fn check(signal: u32) -> Result<usize, Errno> {
    if (1..=SIGNAL_MAX).contains(&signal) { Ok(signal as usize - 1) } else { Err(Errno::EINVAL) }
}
