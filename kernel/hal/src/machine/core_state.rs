//! What belongs to a core, found through segment `gs` while the kernel runs.
//!
//! While a program runs, `gs` is the program's; `swapgs` on the way in and out exchanges the two.

use alloc::boxed::Box;
use core::arch::asm;
use core::cell::{Cell, UnsafeCell};
use core::mem::offset_of;
use core::ptr;
use core::sync::atomic::{AtomicU32, AtomicU64};

use x86_64::VirtAddr;
use x86_64::registers::model_specific::GsBase;

use super::descriptors::{Gdt, Stacks};
use super::{KERNEL_STACK_BYTES, heap};
use crate::CORES_MAX;
use crate::attention::Attention;
use crate::paging::InUse;
use crate::user::UserThread;
use crate::user::fpu::Loaded;

/// What cores want of each other.
pub(crate) static ATTENTION: [Attention; CORES_MAX] = [const { Attention::of(AtomicU32::new(0)) }; CORES_MAX];

/// State of one core.
#[repr(C)]
pub(crate) struct Core {
    /// Address of this structure, so that it can be read through `gs`.
    this: Cell<*const Core>,
    /// Kernel stack pointer while a program runs.
    pub(crate) kernel_stack: Cell<u64>,
    /// The thread that runs.
    pub(crate) thread: Cell<*mut UserThread>,
    /// The program's stack pointer for a moment on the way in.
    pub(crate) user_stack: Cell<u64>,
    /// What of a thread is in the registers.
    pub(crate) loaded: Loaded,
    /// The page table it uses.
    pub(crate) table: InUse,
    /// Number of the core.
    pub(crate) index: usize,
    /// What the others want of it.
    pub(crate) attention: &'static Attention,
    /// Interrupts that came: bits of [`super::irq`].
    pub(super) pending: AtomicU32,
    /// When the alarm is to go off; `u64::MAX` for never.
    pub(super) alarm_ns: AtomicU64,
    /// Its descriptor table and task state.
    pub(super) gdt: UnsafeCell<Gdt>,
    /// Its extra stacks.
    stacks: Cell<Option<&'static Stacks>>,
    /// Lowest address of its kernel stack; 0: not known.
    pub(super) stack_bottom: Cell<u64>,
}

impl Core {
    /// A core that has not started.
    const fn new(index: usize) -> Self {
        Self {
            this: Cell::new(ptr::null()),
            kernel_stack: Cell::new(0),
            thread: Cell::new(ptr::null_mut()),
            user_stack: Cell::new(0),
            loaded: Loaded::nothing(),
            table: InUse::kernels(),
            index,
            attention: &ATTENTION[index],
            pending: AtomicU32::new(0),
            alarm_ns: AtomicU64::new(u64::MAX),
            gdt: UnsafeCell::new(Gdt::new()),
            stacks: Cell::new(None),
            stack_bottom: Cell::new(0),
        }
    }

    /// The core this runs on.
    #[inline]
    pub(crate) fn current() -> &'static Core {
        let this: *const Core;
        // SAFETY: the kernel runs with its `gs` from `Core::start` on, which is the first thing it does; the structure
        // is never freed, and not `Sync`, so the reference stays on this core.
        unsafe {
            asm!("mov {}, gs:[{this}]", out(reg) this, this = const offset_of!(Core, this),
                options(nostack, preserves_flags, pure, readonly));
            &*this
        }
    }

    /// Wipes what the way in keeps of a program's registers.
    pub(super) fn scrub_entry(&self) {
        self.thread.set(ptr::null_mut());
        self.user_stack.set(0);
        if let Some(stacks) = self.stacks.get() {
            stacks.scrub();
        }
    }

    /// Address behind its kernel stack.
    pub(super) fn stack_top(&self) -> u64 {
        self.stack_bottom.get() + KERNEL_STACK_BYTES
    }

    /// Makes this the state of the core that runs, and sets up its descriptor tables.
    pub(super) fn start(&'static self) {
        self.this.set(self);
        // SAFETY: nobody uses this table yet: the core has only just got it.
        let gdt = unsafe { &mut *self.gdt.get() };
        if let Some(stacks) = self.stacks.get() {
            gdt.load(stacks);
        }
        GsBase::write(VirtAddr::from_ptr(self));
    }
}

/// State of the core the machine starts with.
struct BootCore(Core);

// SAFETY: a core's state is used by that core alone.
unsafe impl Sync for BootCore {}

static BOOT_CORE: BootCore = BootCore(Core::new(0));

static BOOT_STACKS: Stacks = Stacks::new();

/// State for another core, with a number and stacks of its own, the kernel stack being the one with number `stack`: a
/// core that does not come up leaves its number to the next one, but not its stack. `None` if there is no memory.
pub(super) fn for_another(index: usize, stack: usize) -> Option<&'static Core> {
    let bottom = heap::map_stack(stack, KERNEL_STACK_BYTES)?;
    let core: &'static Core = Box::leak(Box::new(Core::new(index)));
    core.stack_bottom.set(bottom);
    core.stacks.set(Some(Stacks::take()));
    Some(core)
}

/// Sets up the core the machine starts with, whose kernel stack begins at `stack_bottom`. To be called once, before
/// anything else.
pub(super) fn start_boot_core(stack_bottom: u64) {
    BOOT_CORE.0.stack_bottom.set(stack_bottom);
    BOOT_CORE.0.stacks.set(Some(&BOOT_STACKS));
    BOOT_CORE.0.start();
}
