//! What page tables need of the processor. On the host there is none to tell.

#[cfg(target_os = "none")]
pub(crate) use self::machine::{InUse, forget_retired, is_forgotten, load_kernel, may_halt, retired, root_of_kernel};
#[cfg(target_os = "none")]
pub(super) use self::machine::{
    assert_unused, catch_up, flush, kernel_root, leave, load, others, pause, resume, rouse,
};

#[cfg(not(target_os = "none"))]
pub(super) use self::nothing::{assert_unused, flush, kernel_root, leave, others, pause, resume, rouse};
#[cfg(not(target_os = "none"))]
pub(crate) use self::nothing::{is_forgotten, retired};

#[cfg(target_os = "none")]
mod machine {
    use alloc::sync::Arc;
    use core::cell::{Cell, RefCell};
    use core::ptr;
    use core::sync::atomic::{AtomicU64, Ordering};

    use x86_64::registers::control::{Cr3, Cr3Flags};
    use x86_64::structures::paging::PhysFrame;
    use x86_64::{PhysAddr, VirtAddr};

    use super::super::Root;
    use crate::CORES_MAX;
    use crate::addr::UserPage;
    use crate::epochs::Epochs;
    use crate::machine::apic;
    use crate::machine::core_state::{ATTENTION, Core};

    /// Which core remembers what of tables that are out of reach.
    static EPOCHS: Epochs<CORES_MAX> = Epochs::of(AtomicU64::new(0), [const { AtomicU64::new(0) }; CORES_MAX]);

    /// Physical address of the top-level table the kernel started with; 0 until somebody asked for it.
    static KERNEL_ROOT: AtomicU64 = AtomicU64::new(0);

    /// Physical address of the top-level table that has the kernel's half. The first call comes when the machine is set
    /// up, with that table loaded.
    pub(in super::super) fn kernel_root() -> Option<u64> {
        Some(root_of_kernel())
    }

    /// As [`kernel_root`].
    pub(crate) fn root_of_kernel() -> u64 {
        let known = KERNEL_ROOT.load(Ordering::Relaxed);
        if known != 0 {
            return known;
        }
        let root = Cr3::read().0.start_address().as_u64();
        KERNEL_ROOT.store(root, Ordering::Relaxed);
        root
    }

    /// Makes the kernel's own table the core's, which has some other one from the way here.
    pub(crate) fn load_kernel() {
        // SAFETY: the kernel's own table has the kernel's half and is never freed.
        unsafe { write(root_of_kernel()) };
    }

    /// The table that a core uses.
    pub(crate) struct InUse {
        /// The table, to compare with; null for the kernel's own. [`InUse::holder`] keeps it alive.
        root: Cell<*const Root>,
        holder: RefCell<Option<Arc<Root>>>,
    }

    impl InUse {
        /// The kernel's own.
        pub(crate) const fn kernels() -> Self {
            Self { root: Cell::new(ptr::null()), holder: RefCell::new(None) }
        }

        /// Whether it is this one.
        #[inline]
        fn is(&self, root: &Root) -> bool {
            ptr::eq(self.root.get(), root)
        }
    }

    /// Makes a table the core's, if it is not.
    #[inline]
    pub(in super::super) fn load(root: &Arc<Root>) {
        let in_use = &Core::current().table;
        if !in_use.is(root) {
            switch(in_use, root);
        }
    }

    /// Makes a table the core's.
    #[cold]
    fn switch(in_use: &InUse, root: &Arc<Root>) {
        let core = Core::current().index;
        root.users.join(core);
        let time = EPOCHS.forgetting();
        // SAFETY: its kernel's half is that of every table, so the kernel's code, stack and data stay where they are;
        // the core holds it from here on.
        unsafe { write(root.address()) };
        EPOCHS.forgot(core, time);
        in_use.root.set(Arc::as_ptr(root));
        let before = in_use.holder.borrow_mut().replace(Arc::clone(root));
        if let Some(before) = before {
            before.users.part(core);
        }
    }

    /// Forgets a table, which is the core's, as soon as it is not being changed.
    pub(in super::super) fn catch_up(root: &Root) {
        root.users.wait();
        let time = EPOCHS.forgetting();
        // SAFETY: the table that is loaded anyway.
        unsafe { write(root.address()) };
        EPOCHS.forgot(Core::current().index, time);
    }

    /// Forgets what was retired since the core last forgot anything. To be called where the core has nothing to do for
    /// the moment, or goes from one thing to the next, so that nobody's frames wait for it for long.
    #[inline]
    pub(crate) fn forget_retired() {
        let core = Core::current();
        if EPOCHS.is_behind(core.index) {
            forget(core);
        }
    }

    #[cold]
    fn forget(core: &Core) {
        let time = EPOCHS.forgetting();
        if !core.table.root.get().is_null() {
            // What is changed just now may be remembered again as it was; the core is told of that by its word.
            // SAFETY: the table that is loaded anyway.
            unsafe { Cr3::write(Cr3::read().0, Cr3Flags::empty()) };
        }
        EPOCHS.forgot(core.index, time);
    }

    /// The core has said that it halts ([`crate::attention::Attention::halt`]): whether it may, or has to forget
    /// something first.
    pub(crate) fn may_halt() -> bool {
        !EPOCHS.is_behind_at_last(Core::current().index)
    }

    /// Tables are out of reach: what time that is.
    pub(crate) fn retired() -> u64 {
        EPOCHS.retire()
    }

    /// Whether none of these cores, a bit each, remembers what was retired at that time.
    pub(crate) fn is_forgotten(time: u64, cores: u64) -> bool {
        EPOCHS.is_over(time, cores)
    }

    /// The other cores that may remember something of a table, a bit each.
    pub(in super::super) fn others(root: &Root) -> u64 {
        root.users.cores() & !(1 << Core::current().index)
    }

    /// Has those of them that are halted look up, so that they forget what was retired. The others do before they next
    /// go into a program, halt, or turn to something else.
    pub(in super::super) fn rouse(root: &Root) {
        let others = others(root);
        for core in (0..CORES_MAX).filter(|core| others >> core & 1 != 0) {
            if ATTENTION[core].is_halted() {
                apic::interrupt(core);
            }
        }
    }

    /// Has all other cores that use a table leave the programs they run on it, and stay out until [`resume`].
    pub(in super::super) fn pause(root: &Root) {
        root.users.pause(Core::current().index, |core| &ATTENTION[core], apic::interrupt);
    }

    /// Lets them in again; they forget the table first.
    pub(in super::super) fn resume(root: &Root) {
        root.users.resume();
    }

    /// Nobody is to use a table any more.
    ///
    /// # Panics
    /// If somebody does.
    pub(in super::super) fn assert_unused(root: &Root) {
        assert!(!root.users.any(), "a page table ends that a core uses");
    }

    /// Goes over to the kernel's own table if this is the core's.
    pub(in super::super) fn leave(root: &Root) {
        let in_use = &Core::current().table;
        if in_use.is(root) {
            let time = EPOCHS.forgetting();
            load_kernel();
            EPOCHS.forgot(Core::current().index, time);
            in_use.root.set(ptr::null());
            root.users.part(Core::current().index);
            let before = in_use.holder.borrow_mut().take();
            drop(before);
        }
    }

    /// Forgets a page of a table if it is the core's, and where tables are, of whatever page (SDM volume 3, 4.10.4.1;
    /// AMD's processors do the same as long as EFER.TCE is off). A page that was not there needs no forgetting: what is
    /// not present is never remembered; and a right that was only given at worst causes a fault, which forgets.
    pub(in super::super) fn flush(root: &Root, page: UserPage) {
        if Core::current().table.is(root) {
            x86_64::instructions::tlb::flush(VirtAddr::new_truncate(page.address()));
        }
    }

    /// Loads a table, and forgets everything of the last one: there are no global pages and no address-space numbers.
    ///
    /// # Safety
    /// It has the kernel's half as every other table has it, and lives until another is loaded.
    unsafe fn write(root: u64) {
        let frame = PhysFrame::containing_address(PhysAddr::new_truncate(root));
        // SAFETY: by the caller.
        unsafe { Cr3::write(frame, Cr3Flags::empty()) };
    }
}

#[cfg(not(target_os = "none"))]
mod nothing {
    use super::super::Root;
    use crate::addr::UserPage;

    /// There is no kernel's half.
    pub(in super::super) fn kernel_root() -> Option<u64> {
        None
    }

    /// No processor uses the table.
    pub(in super::super) fn leave(_root: &Root) {}

    /// No processor uses the table.
    pub(in super::super) fn pause(_root: &Root) {}

    /// No processor uses the table.
    pub(in super::super) fn resume(_root: &Root) {}

    /// No processor uses the table.
    pub(in super::super) fn others(_root: &Root) -> u64 {
        0
    }

    /// No processor uses the table.
    pub(in super::super) fn rouse(_root: &Root) {}

    /// There is no time.
    pub(crate) fn retired() -> u64 {
        0
    }

    /// No processor remembers anything.
    pub(crate) fn is_forgotten(_time: u64, _cores: u64) -> bool {
        true
    }

    /// No processor uses the table.
    pub(in super::super) fn assert_unused(_root: &Root) {}

    /// No processor remembers anything.
    pub(in super::super) fn flush(_root: &Root, _page: UserPage) {}
}
