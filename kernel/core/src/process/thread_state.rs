//! What a thread has besides its registers: what others may look at and change while it runs or waits.

use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::task::Waker;

use coppice_hal::heap::block_bytes;

use crate::errno::Errno;
use crate::executor::{self, Phase, RunTime};
use crate::process::activity::Deeds;
use crate::process::call_files::CallFiles;
use crate::process::futexes::Sleeper;
use crate::process::hold::{PendingCall, ThreadImage};
use crate::process::remembered::OfThread;
use crate::quota::{Charge, Kind};
use crate::sync::{LockLevel, Mutex};

/// What a thread has besides its registers.
pub(crate) struct ThreadState {
    pub(crate) tid: u32,
    /// Its name, up to 15 bytes and zeros.
    pub(crate) name: Mutex<[u8; 16]>,
    /// Where its end is to be announced (set_tid_address(2)), or 0.
    pub(crate) clear_tid: AtomicU64,
    /// Cores it may run on, a bit each.
    pub(crate) affinity: AtomicU64,
    /// The core it runs on.
    core: AtomicUsize,
    /// Wakes its task.
    waker: Mutex<Option<Waker>>,
    /// Somebody wants it to look at what was changed.
    attention: AtomicBool,
    /// What it has used of the processor, and what it does.
    pub(crate) clock: Arc<RunTime>,
    /// What it has done.
    pub(crate) deeds: Deeds,
    /// Where the list of locks it holds starts (set_robust_list(2)); 0: nowhere.
    pub(crate) robust_list: AtomicU64,
    /// Its place among those that sleep at words of memory.
    pub(crate) sleeper: Arc<Sleeper>,
    /// What it set that changes nothing.
    pub(crate) remembered: OfThread,
    /// Number of the call it waits in, or [`NO_CALL`].
    call: AtomicU64,
    /// What there is to know of that call besides its registers.
    pending: Mutex<PendingCall>,
    /// What that call is about.
    call_files: CallFiles,
    /// What it is, while it is held.
    image: Mutex<Option<Box<ThreadImage>>>,
    /// What that call makes the kernel keep while it waits, bytes. It is charged where the thread is.
    kept: AtomicUsize,
    /// What the thread is charged with.
    charge: Charge,
}

/// What a thread's state takes of the heap, bytes.
pub(crate) const STATE_BYTES: usize = {
    const ARC_BYTES: usize = 2 * size_of::<usize>();
    let shared = block_bytes(ARC_BYTES + size_of::<RunTime>()) + block_bytes(ARC_BYTES + size_of::<Sleeper>());
    block_bytes(ARC_BYTES + size_of::<ThreadState>()) + shared
};

/// No system call has this number.
const NO_CALL: u64 = u64::MAX;

impl ThreadState {
    /// A thread that starts on `core` and may run on those of `affinity`, with what was charged for it.
    pub(crate) fn new(tid: u32, name: [u8; 16], core: usize, affinity: u64, charge: Charge) -> Self {
        Self {
            tid,
            name: Mutex::new(LockLevel::Fact, name),
            clear_tid: AtomicU64::new(0),
            affinity: AtomicU64::new(affinity),
            core: AtomicUsize::new(core),
            waker: Mutex::new(LockLevel::Waiters, None),
            attention: AtomicBool::new(false),
            clock: Arc::default(),
            deeds: Deeds::default(),
            robust_list: AtomicU64::new(0),
            sleeper: Arc::default(),
            remembered: OfThread::default(),
            call: AtomicU64::new(NO_CALL),
            pending: Mutex::new(LockLevel::Fact, PendingCall::default()),
            call_files: CallFiles::none(),
            image: Mutex::new(LockLevel::Fact, None),
            kept: AtomicUsize::new(0),
            charge,
        }
    }

    /// The core it runs on.
    pub(crate) fn core(&self) -> usize {
        self.core.load(Ordering::Relaxed)
    }

    /// Its task is this one now, on this core.
    pub(crate) fn runs_as(&self, waker: &Waker, core: usize) {
        self.core.store(core, Ordering::Relaxed);
        *self.waker.lock() = Some(waker.clone());
    }

    /// It has no task any more.
    pub(crate) fn stops(&self) {
        let waker = self.waker.lock().take();
        drop(waker);
    }

    /// Lets the thread's task run, wherever it waits, and brings it back from the program.
    pub(super) fn rouse(&self) {
        let waker = self.waker.lock().clone();
        if let Some(waker) = waker {
            waker.wake();
            executor::interrupt(self.core());
        }
    }

    /// Lets the thread look at what was changed, before it enters the program or as soon as it comes back.
    pub(crate) fn call_attention(&self) {
        self.attention.store(true, Ordering::Release);
        self.rouse();
    }

    /// Whether there is something to look at.
    #[inline]
    pub(crate) fn has_attention(&self) -> bool {
        self.attention.load(Ordering::Acquire)
    }

    /// The thread has looked, but not at everything.
    pub(crate) fn leave_attention(&self) {
        self.attention.store(true, Ordering::Release);
    }

    /// The thread looks now.
    pub(crate) fn take_attention(&self) {
        self.attention.store(false, Ordering::Release);
    }

    /// It starts to make a call that may wait.
    pub(crate) fn begin_call(&self, number: u64) {
        self.call.store(number, Ordering::Relaxed);
        // Unless it says something else.
        self.waits_for(Phase::File);
        *self.pending.lock() = PendingCall::default();
    }

    /// It makes a call again that it made when it was held.
    pub(crate) fn take_up_call(&self, number: u64, pending: PendingCall) {
        self.call.store(number, Ordering::Relaxed);
        self.waits_for(Phase::File);
        *self.pending.lock() = PendingCall { taken_up: true, ..pending };
    }

    /// What there is to know of the call that it makes besides its registers.
    pub(crate) fn pending(&self) -> PendingCall {
        *self.pending.lock()
    }

    /// Notes how far the call is, or until when it waits.
    pub(crate) fn note(&self, change: impl FnOnce(&mut PendingCall)) {
        change(&mut self.pending.lock());
    }

    /// It is held, as this.
    pub(crate) fn show(&self, image: Box<ThreadImage>) {
        *self.image.lock() = Some(image);
    }

    /// It is held no more; what it is to be.
    pub(crate) fn take_image(&self) -> Option<Box<ThreadImage>> {
        self.image.lock().take()
    }

    /// Looks at what it is, if it is held.
    pub(crate) fn with_image<R>(&self, look: impl FnOnce(&ThreadImage) -> R) -> Option<R> {
        self.image.lock().as_deref().map(look)
    }

    /// Changes what it is, if it is held.
    pub(crate) fn change_image<R>(&self, change: impl FnOnce(&mut ThreadImage) -> R) -> Option<R> {
        self.image.lock().as_deref_mut().map(change)
    }

    /// Whether it is held.
    pub(crate) fn is_held(&self) -> bool {
        self.image.lock().is_some()
    }

    /// The call is done, and is not made again as it was.
    pub(crate) fn end_call(&self) {
        self.leave_call();
        self.call_files.let_go();
    }

    /// The call is left, perhaps to be made again.
    pub(crate) fn leave_call(&self) {
        self.call.store(NO_CALL, Ordering::Relaxed);
        let kept = self.kept.swap(0, Ordering::Relaxed);
        if kept > 0 {
            self.charge.quota().give_back(Kind::Object, kept);
        }
    }

    /// The open files that it is about.
    pub(crate) const fn call_files(&self) -> &CallFiles {
        &self.call_files
    }

    /// The call is about to allocate so many bytes, which it keeps until its end at most.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn keep(&self, bytes: usize) -> Result<(), Errno> {
        let bytes = block_bytes(bytes);
        self.charge.quota().take(Kind::Object, bytes)?;
        self.kept.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Charges for something else of the thread's.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn charge(&self, bytes: usize) -> Result<Charge, Errno> {
        self.charge.quota().charge(bytes)
    }

    /// The call it waits in.
    pub(crate) fn in_call(&self) -> Option<u64> {
        Some(self.call.load(Ordering::Relaxed)).filter(|number| *number != NO_CALL)
    }
}

impl Drop for ThreadState {
    fn drop(&mut self) {
        // If the process ended while it waited.
        self.end_call();
    }
}
