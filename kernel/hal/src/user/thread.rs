//! A program's thread as the machine sees it.

use super::{Registers, UserExit};
use crate::addr::USER_END;
use crate::paging::PageTable;

#[cfg(target_os = "none")]
use super::entry::{self, Trap};
#[cfg(target_os = "none")]
use super::fpu::FpuState;
#[cfg(target_os = "none")]
use crate::machine::core_state::Core;

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
        }
    }

    /// Gives the core to the thread in the address space of `table` until it comes back.
    #[cfg(target_os = "none")]
    #[inline]
    pub fn enter(&mut self, table: &PageTable) -> UserExit {
        if self.regs.rip >= USER_END {
            return BAD_ADDRESS;
        }
        table.activate();
        let core = Core::current();
        if core.loaded.differs(&self.regs, &self.fpu) {
            self.load(core);
        }
        // SAFETY: the table is active, has the kernel's half and stays for the length of the call; the thread's bases
        // and vector registers are loaded; `rip` is in the program's half.
        let vector = unsafe { entry::enter_user(self) };
        if vector == entry::SYSCALL { UserExit::Syscall } else { entry::explain(vector, &self.trap, &self.regs) }
    }

    /// There is no way into a program on the host.
    ///
    /// # Panics
    /// Unless the thread has an instruction pointer no program can have.
    #[cfg(not(target_os = "none"))]
    pub fn enter(&mut self, _table: &PageTable) -> UserExit {
        if self.regs.rip >= USER_END {
            return BAD_ADDRESS;
        }
        unreachable!("programs run on a node only")
    }

    /// Loads what is the processor's own of this thread.
    #[cfg(target_os = "none")]
    #[cold]
    #[inline(never)]
    fn load(&mut self, core: &Core) {
        core.loaded.load(&mut self.regs, &self.fpu);
    }

    /// Puts the vector registers away, so that the thread may go on on another core.
    pub fn save_fpu(&mut self) {
        #[cfg(target_os = "none")]
        Core::current().loaded.save(&self.fpu);
    }
}
