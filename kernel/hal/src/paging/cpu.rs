//! What page tables need of the processor. On the host there is none to tell.

#[cfg(target_os = "none")]
pub(super) use self::machine::{flush, kernel_root, leave_root, load_root};

#[cfg(not(target_os = "none"))]
pub(super) use self::nothing::{flush, kernel_root, leave_root, load_root};

#[cfg(target_os = "none")]
mod machine {
    use core::sync::atomic::{AtomicU64, Ordering};

    use x86_64::registers::control::{Cr3, Cr3Flags};
    use x86_64::structures::paging::PhysFrame;
    use x86_64::{PhysAddr, VirtAddr};

    use crate::addr::UserPage;

    /// Physical address of the top-level table the kernel started with; 0 until somebody asked for it.
    static KERNEL_ROOT: AtomicU64 = AtomicU64::new(0);

    /// Physical address of the top-level table that has the kernel's half. The first call must come before any
    /// program's table was loaded, which making that table sees to.
    pub(in super::super) fn kernel_root() -> Option<u64> {
        let known = KERNEL_ROOT.load(Ordering::Relaxed);
        if known != 0 {
            return Some(known);
        }
        let root = current();
        KERNEL_ROOT.store(root, Ordering::Relaxed);
        Some(root)
    }

    /// Makes the table at `root` the core's, if it is not.
    ///
    /// # Safety
    /// It has the kernel's half as every other table has it, and lives until another is loaded.
    #[inline]
    pub(in super::super) unsafe fn load_root(root: u64) {
        if current() != root {
            let frame = PhysFrame::containing_address(PhysAddr::new_truncate(root));
            // SAFETY: by the caller.
            unsafe { Cr3::write(frame, Cr3Flags::empty()) };
        }
    }

    /// Stops using the table at `root`, which is about to go.
    pub(in super::super) fn leave_root(root: u64) {
        if current() == root
            && let Some(kernel) = kernel_root()
        {
            // SAFETY: the kernel's own table has the kernel's half and is never freed.
            unsafe { load_root(kernel) };
        }
    }

    /// Forgets a page of the table at `root` if the core uses that table.
    pub(in super::super) fn flush(root: u64, page: UserPage) {
        if current() == root {
            x86_64::instructions::tlb::flush(VirtAddr::new_truncate(page.address()));
        }
    }

    /// Physical address of the table the core uses.
    #[inline]
    fn current() -> u64 {
        Cr3::read().0.start_address().as_u64()
    }
}

#[cfg(not(target_os = "none"))]
mod nothing {
    use crate::addr::UserPage;

    /// There is no kernel's half.
    pub(in super::super) fn kernel_root() -> Option<u64> {
        None
    }

    /// No processor uses the tables.
    ///
    /// # Safety
    /// None needed; the signature is the machine's.
    pub(in super::super) unsafe fn load_root(_root: u64) {}

    /// No processor uses the table.
    pub(in super::super) fn leave_root(_root: u64) {}

    /// No processor remembers anything.
    pub(in super::super) fn flush(_root: u64, _page: UserPage) {}
}
