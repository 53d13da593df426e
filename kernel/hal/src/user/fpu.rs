//! The vector registers of threads (x87, SSE, AVX, AVX-512). The kernel is built without any, so they stay in the
//! processor until another thread is entered on the core.
//!
//! They are put away with XSAVE in its standard format, which signal frames have too: not compacted (XSAVEC, XSAVES),
//! and not only what has changed (XSAVEOPT), as the bytes are also looked at and replaced. A processor without XSAVE
//! has FXSAVE, whose 512 bytes are the same as the first of XSAVE's; a header is put behind them that says that all are
//! meant.

use alloc::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use alloc::sync::Arc;
use core::arch::asm;
use core::cell::{Cell, RefCell};
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use x86_64::VirtAddr;
use x86_64::registers::model_specific::{FsBase, KernelGsBase};

use super::extended::{HEADER_AT, LEGACY_BYTES, LEGACY_COMPONENTS, MXCSR, X87_CONTROL, bytes};
use super::{Breakpoints, Registers};
use crate::addr::USER_END;
use crate::machine::core_state::Core;
use crate::machine::features;

/// The processor wants the area so.
const AREA_ALIGN: usize = 64;

/// [`FpuArea::newest_on`] when the memory is what counts.
const NOWHERE: usize = usize::MAX;

/// What the processor restores registers from: the part that is always there, and the list of components that are not
/// as at reset, which is empty.
#[repr(C, align(64))]
struct ResetArea([u32; LEGACY_BYTES / 4]);

/// The vector registers at reset. MXCSR is read from here all the same.
static RESET: ResetArea = {
    let mut words = [0; LEGACY_BYTES / 4];
    words[X87_CONTROL.0 / 4] = X87_CONTROL.1 as u32;
    words[MXCSR.0 / 4] = MXCSR.1;
    ResetArea(words)
};

/// What is put away: x87 and SSE, and what [`set_components`] adds.
static COMPONENTS: AtomicU64 = AtomicU64::new(LEGACY_COMPONENTS);

/// Bytes of an area.
static AREA_BYTES: AtomicUsize = AtomicUsize::new(LEGACY_BYTES);

/// Whether the processor has XSAVE.
static USES_XSAVE: AtomicBool = AtomicBool::new(false);

/// Whether the pointers to the last x87 instruction that failed stay where they are when other registers are loaded.
static KEEPS_POINTERS: AtomicBool = AtomicBool::new(false);

/// Whether the processor has XSAVE, and says how much it saves.
pub(crate) fn has_xsave() -> bool {
    features::has(features::XSAVE) && u64::from(features::leaf(0xd, 0).eax) & LEGACY_COMPONENTS == LEGACY_COMPONENTS
}

/// Looks how the processor that the machine starts with puts registers away; all others are like it.
pub(crate) fn start() {
    KEEPS_POINTERS.store(features::is_amd() && !features::has(features::LOADS_X87_POINTERS), Ordering::Relaxed);
    if has_xsave() {
        USES_XSAVE.store(true, Ordering::Relaxed);
    }
}

/// Says which vector registers programs have, on this core, which has XSAVE turned on; all cores say the same.
///
/// # Panics
/// If the processor says that they need less room than x87 and SSE alone.
pub(crate) fn set_components(components: u64) {
    // SAFETY: the processor has these components, all that go together.
    unsafe {
        asm!("xsetbv", in("ecx") 0, in("eax") components as u32, in("edx") (components >> 32) as u32,
            options(nomem, nostack, preserves_flags));
    }
    // What is told here is the room for the components that were just turned on.
    let area = features::leaf(0xd, 0).ebx as usize;
    assert!(area >= LEGACY_BYTES, "the processor puts its vector registers into {area} bytes");
    AREA_BYTES.store(area, Ordering::Relaxed);
    COMPONENTS.store(components, Ordering::Relaxed);
}

/// The components that are put away, as in XCR0.
pub(super) fn components() -> u64 {
    COMPONENTS.load(Ordering::Relaxed)
}

/// Bytes of an area.
pub(super) fn area_bytes() -> usize {
    AREA_BYTES.load(Ordering::Relaxed)
}

/// Whether all registers are loaded, whatever the header says.
pub(super) fn ignores_header() -> bool {
    !USES_XSAVE.load(Ordering::Relaxed)
}

/// Puts the processor's registers into an area.
///
/// # Safety
/// It has [`area_bytes`], aligned to [`AREA_ALIGN`], that are nobody else's.
unsafe fn store(area: *mut u8) {
    if ignores_header() {
        // SAFETY: by the caller; the header lies behind the 512 bytes.
        unsafe {
            asm!("fxsave64 [{}]", in(reg) area, options(nostack, preserves_flags));
            area.add(HEADER_AT).cast::<u64>().write(LEGACY_COMPONENTS);
        }
    } else {
        // SAFETY: by the caller.
        unsafe {
            asm!("xsave64 [{}]", in(reg) area, in("eax") u32::MAX, in("edx") u32::MAX,
                options(nostack, preserves_flags));
        }
    }
}

/// Loads the processor's registers from an area.
///
/// # Safety
/// It is as [`store`] or [`super::extended`] leave one, or [`RESET`].
unsafe fn load(area: *const u8) {
    static ZERO: u32 = 0;
    if KEEPS_POINTERS.load(Ordering::Relaxed) {
        // AMD's processors load the pointers only with an exception that waits, so a thread would see where another's
        // last one was (APM volume 2, 11.4.4.3). An instruction that succeeds makes them say where that is.
        // SAFETY: the registers that this changes are about to be loaded; without a waiting exception none is raised.
        unsafe { asm!("fnclex", "emms", "fild dword ptr [{}]", in(reg) &raw const ZERO, options(nostack, readonly)) };
    }
    if ignores_header() {
        // SAFETY: by the caller.
        unsafe { asm!("fxrstor64 [{}]", in(reg) area, options(nostack, preserves_flags, readonly)) };
    } else {
        // SAFETY: by the caller.
        unsafe {
            asm!("xrstor64 [{}]", in(reg) area, in("eax") u32::MAX, in("edx") u32::MAX,
                options(nostack, preserves_flags, readonly));
        }
    }
}

/// Memory for a thread's vector registers.
struct FpuArea {
    /// As large as the processor says.
    bytes: NonNull<u8>,
    /// Its length and alignment.
    layout: Layout,
    /// The core whose registers are newer than the memory.
    newest_on: AtomicUsize,
}

// SAFETY: the bytes are touched only by the core that `newest_on` names, or that is about to become it.
unsafe impl Send for FpuArea {}
// SAFETY: as above.
unsafe impl Sync for FpuArea {}

impl Drop for FpuArea {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout; the last holder is gone, so no core will save into it.
        unsafe { dealloc(self.bytes.as_ptr(), self.layout) };
    }
}

/// A thread's share in its area. The core that has the thread's registers loaded holds another.
pub(super) struct FpuState(Arc<FpuArea>);

impl FpuState {
    /// Registers as a new program finds them.
    pub(super) fn new() -> Self {
        let layout = Layout::from_size_align(bytes(), AREA_ALIGN).expect("the processor's area is of sane size");
        // SAFETY: the size is not 0.
        let Some(bytes) = NonNull::new(unsafe { alloc_zeroed(layout) }) else { handle_alloc_error(layout) };
        // SAFETY: both are inside the area, which is aligned for anything.
        unsafe {
            bytes.add(X87_CONTROL.0).cast::<u16>().write(X87_CONTROL.1);
            bytes.add(MXCSR.0).cast::<u32>().write(MXCSR.1);
        }
        Self(Arc::new(FpuArea { bytes, layout, newest_on: AtomicUsize::new(NOWHERE) }))
    }

    /// Shows `f` the registers' bytes, which it may change to what the processor can load. They must have been saved.
    pub(super) fn with_bytes<R>(&mut self, f: impl FnOnce(&mut [u8]) -> R) -> R {
        let newest_on = self.0.newest_on.load(Ordering::Acquire);
        assert!(newest_on == NOWHERE, "vector registers are looked at while core {newest_on} has them");
        // SAFETY: the bytes are as many as were allocated, and initialised. No core has the registers loaded, so none
        // touches the bytes before the thread is entered again, which needs the thread that is borrowed here.
        f(unsafe { core::slice::from_raw_parts_mut(self.0.bytes.as_ptr(), self.0.layout.size()) })
    }
}

/// The bits of the SSE control register that a program may set.
pub(super) fn mxcsr_mask() -> u32 {
    /// Where the processor says so, and what it means if it says nothing.
    const MASK: (usize, u32) = (28 / 4, 0xffbf);
    let mut area = ResetArea([0; LEGACY_BYTES / 4]);
    // SAFETY: the area has the 512 bytes that are written, and is aligned.
    unsafe { asm!("fxsave64 [{}]", in(reg) &raw mut area, options(nostack, preserves_flags)) };
    match area.0[MASK.0] {
        0 => MASK.1,
        mask => mask,
    }
}

/// What of which thread a core's registers hold, besides the integer registers.
pub(crate) struct Loaded {
    fs_base: Cell<u64>,
    gs_base: Cell<u64>,
    /// The area of the thread whose vector registers are loaded, to compare with; [`Loaded::holder`] keeps it alive.
    area: Cell<*const FpuArea>,
    holder: RefCell<Option<Arc<FpuArea>>>,
    /// Its breakpoints are in the processor.
    has_breakpoints: Cell<bool>,
}

impl Loaded {
    /// Nobody's.
    pub(crate) const fn nothing() -> Self {
        Self {
            fs_base: Cell::new(0),
            gs_base: Cell::new(0),
            area: Cell::new(ptr::null()),
            holder: RefCell::new(None),
            has_breakpoints: Cell::new(false),
        }
    }

    /// Whether a thread needs something loaded before it can run.
    #[inline]
    pub(super) fn differs(&self, regs: &Registers, fpu: &FpuState) -> bool {
        let area = self.area.get().addr() ^ Arc::as_ptr(&fpu.0).addr();
        (self.fs_base.get() ^ regs.fs_base) | (self.gs_base.get() ^ regs.gs_base) | area as u64 != 0
    }

    /// Loads a thread's bases, vector registers and breakpoints, putting another thread's away.
    pub(super) fn load(&self, regs: &mut Registers, fpu: &FpuState, breakpoints: Option<&Breakpoints>) {
        self.load_breakpoints(breakpoints);
        if self.area.get() != Arc::as_ptr(&fpu.0) {
            self.switch_area(&fpu.0);
        }
        regs.fs_base &= USER_END.next_power_of_two() - 1;
        regs.gs_base &= USER_END.next_power_of_two() - 1;
        self.fs_base.set(regs.fs_base);
        self.gs_base.set(regs.gs_base);
        // The selectors first: loading one changes the base. What a program put there is nobody else's business.
        // SAFETY: null selectors are allowed here; nothing in the kernel uses these segments but `gs`, whose base is
        // the program's while it is changed.
        unsafe {
            asm!("mov ds, {0:e}", "mov es, {0:e}", "mov fs, {0:e}", "swapgs", "mov gs, {0:e}", "swapgs", in(reg) 0,
                options(nostack, preserves_flags));
        }
        FsBase::write(VirtAddr::new_truncate(regs.fs_base));
        KernelGsBase::write(VirtAddr::new_truncate(regs.gs_base));
    }

    /// Loads a thread's breakpoints, or those of none.
    fn load_breakpoints(&self, breakpoints: Option<&Breakpoints>) {
        if self.has_breakpoints.replace(breakpoints.is_some()) || breakpoints.is_some() {
            breakpoints.unwrap_or(&Breakpoints::default()).load();
        }
    }

    /// Forgets a thread that is gone, and leaves nothing of it in the processor's own registers. (One that is not gone
    /// is put away.)
    pub(crate) fn forget(&self) {
        let gone = self.holder.borrow_mut().take_if(|area| Arc::strong_count(area) == 1);
        match gone {
            Some(area) => {
                self.area.set(ptr::null());
                drop(area);
            }
            None => self.put_away(),
        }
        self.load_breakpoints(None);
        self.fs_base.set(0);
        self.gs_base.set(0);
        FsBase::write(VirtAddr::zero());
        KernelGsBase::write(VirtAddr::zero());
        // SAFETY: the area says that all components are as they are at reset.
        unsafe { load((&raw const RESET).cast()) };
    }

    /// Brings a thread's area up to date if its registers are loaded.
    pub(super) fn save(&self, fpu: &FpuState) {
        if self.area.get() == Arc::as_ptr(&fpu.0) {
            self.put_away();
        }
    }

    /// Nobody's registers are loaded any more.
    fn put_away(&self) {
        self.area.set(ptr::null());
        if let Some(area) = self.holder.borrow_mut().take() {
            // SAFETY: the area is as large as the components need and is this core's until `newest_on` says otherwise.
            unsafe { store(area.bytes.as_ptr()) };
            area.newest_on.store(NOWHERE, Ordering::Release);
        }
    }

    /// Loads the registers from `area`.
    fn switch_area(&self, area: &Arc<FpuArea>) {
        self.put_away();
        let newest_on = area.newest_on.swap(Core::current().index, Ordering::Acquire);
        assert!(newest_on == NOWHERE, "a thread moved from core {newest_on} without saving its vector registers");
        // SAFETY: the area was filled by `FpuState::new`, by `store`, or with what `extended` found good.
        unsafe { load(area.bytes.as_ptr()) };
        self.area.set(Arc::as_ptr(area));
        *self.holder.borrow_mut() = Some(Arc::clone(area));
    }
}
