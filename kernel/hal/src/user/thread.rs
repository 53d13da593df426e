//! A program's thread as the machine sees it.

use super::{Breakpoints, Registers, UserExit};
use crate::addr::USER_END;
use crate::paging::TableHandle;

use alloc::sync::Arc;
#[cfg(not(target_os = "none"))]
use alloc::{boxed::Box, vec};

#[cfg(not(target_os = "none"))]
use super::{extended, simulated};

#[cfg(target_os = "none")]
use super::entry::{self, Trap};
#[cfg(target_os = "none")]
use super::fpu::FpuState;
#[cfg(target_os = "none")]
use crate::attention::Entry;
#[cfg(target_os = "none")]
use crate::machine::core_state::Core;
#[cfg(target_os = "none")]
use crate::machine::diagnosis;

/// The exception of an instruction pointer that no program can have.
const BAD_ADDRESS: UserExit = UserExit::Exception { vector: super::vector::GENERAL_PROTECTION, error: 0 };

/// A thread of a program: its registers, and its vector registers while another thread has the processor's.
///
/// The processor's vector registers follow the threads by themselves: they are put away when another thread is entered
/// on the same core. [`UserThread::save_fpu`] is needed only before a thread moves to another core, or before its
/// vector registers are looked at.
#[repr(C)]
pub struct UserThread {
    /// The integer registers.
    pub regs: Registers,
    /// What the processor said when the thread came back with an exception.
    #[cfg(target_os = "none")]
    pub(super) trap: Trap,
    /// The vector registers.
    #[cfg(target_os = "none")]
    fpu: FpuState,
    /// The vector registers, which no processor has.
    #[cfg(not(target_os = "none"))]
    area: Box<[u8]>,
    /// Where it stops for a debugger.
    breakpoints: Option<Arc<Breakpoints>>,
}

impl UserThread {
    /// A thread that will start at `entry` with the stack pointer `stack`, everything else as a new program finds it.
    #[must_use]
    pub fn new(entry: u64, stack: u64) -> Self {
        Self::with_registers(Registers::start(entry, stack))
    }

    /// A thread that goes on with these integer registers, all of them, and with new vector registers.
    #[must_use]
    pub fn with_registers(regs: Registers) -> Self {
        Self {
            regs,
            #[cfg(target_os = "none")]
            trap: Trap::restore_all(),
            #[cfg(target_os = "none")]
            fpu: FpuState::new(),
            #[cfg(not(target_os = "none"))]
            area: {
                let mut area = vec![0; extended::bytes()];
                extended::reset(&mut area);
                area.into_boxed_slice()
            },
            breakpoints: None,
        }
    }

    /// Sees to it that the thread goes on with all of its integer registers as they are, also with those that a system
    /// call destroys.
    pub fn restore_all(&mut self) {
        #[cfg(target_os = "none")]
        {
            self.trap = Trap::restore_all();
        }
    }

    /// Where the thread stops for a debugger, if it has one.
    #[must_use]
    pub fn breakpoints(&self) -> Option<&Breakpoints> {
        self.breakpoints.as_deref()
    }

    /// Has it stop there, or nowhere.
    pub fn set_breakpoints(&mut self, breakpoints: Option<Arc<Breakpoints>>) {
        // What is loaded is loaded again before the thread is next entered.
        self.save_fpu();
        self.breakpoints = breakpoints;
    }

    /// Shows `f` the bytes of the vector registers, which it may change to what the processor can load.
    pub(super) fn with_area<R>(&mut self, f: impl FnOnce(&mut [u8]) -> R) -> R {
        #[cfg(target_os = "none")]
        {
            self.save_fpu();
            self.fpu.with_bytes(f)
        }
        #[cfg(not(target_os = "none"))]
        f(&mut self.area)
    }

    /// Gives the core to the thread in the address space of `table` until it comes back.
    // On the way of every call, from one loop for threads that are traced and one for all others.
    #[cfg(target_os = "none")]
    #[inline(always)]
    pub fn enter(&mut self, table: &TableHandle) -> UserExit {
        if self.regs.rip >= USER_END {
            return BAD_ADDRESS;
        }
        table.activate();
        let core = Core::current();
        if core.loaded.differs(&self.regs, &self.fpu) {
            self.load(core);
        }
        loop {
            match core.attention.enter() {
                Entry::Granted => {}
                Entry::Kicked => {
                    diagnosis::stop_if_ending();
                    return UserExit::Interrupt;
                }
                Entry::Stale => {
                    table.catch_up();
                    continue;
                }
            }
            // SAFETY: the table is active, has the kernel's half and stays for the length of the call; the thread's
            // bases and vector registers are loaded; `rip` is in the program's half.
            let vector = unsafe { entry::enter_user(self) };
            core.attention.leave();
            if vector == entry::SYSCALL {
                return UserExit::Syscall;
            }
            // Other cores interrupt this one to say what is in its word.
            if let Some(exit) = entry::explain(vector, &self.trap, &self.regs) {
                return exit;
            }
        }
    }

    /// There is no way into a program on the host, but one who plays it ([`super::simulated`]).
    ///
    /// # Panics
    /// If there is none, unless the thread has an instruction pointer no program can have.
    #[cfg(not(target_os = "none"))]
    pub fn enter(&mut self, table: &TableHandle) -> UserExit {
        if self.regs.rip >= USER_END {
            return BAD_ADDRESS;
        }
        simulated::play(&mut self.regs, table).expect("programs run on a node only")
    }

    /// Loads what is the processor's own of this thread.
    #[cfg(target_os = "none")]
    #[cold]
    #[inline(never)]
    fn load(&mut self, core: &Core) {
        core.loaded.load(&mut self.regs, &self.fpu, self.breakpoints.as_deref());
    }

    /// Puts the vector registers away, so that the thread may go on on another core.
    pub fn save_fpu(&mut self) {
        #[cfg(target_os = "none")]
        Core::current().loaded.save(&self.fpu);
    }
}
