//! What the processor is to do and not to do: control registers, and the entry of system calls.

use x86_64::VirtAddr;
use x86_64::registers::control::{Cr0, Cr0Flags, Cr4, Cr4Flags, Efer, EferFlags};
use x86_64::registers::debug::Dr7;
use x86_64::registers::model_specific::{LStar, Msr, SFMask};
use x86_64::registers::rflags::RFlags;
use x86_64::registers::xcontrol::XCr0Flags;

use super::descriptors::{KERNEL_CODE, KERNEL_DATA};
use super::features;
use crate::user::{USER_CODE, USER_DATA, fpu, syscall_entry};

/// Segment selectors of system calls.
const MSR_STAR: u32 = 0xc000_0081;

/// What [`MSR_STAR`] says. Of the kernel: code, and data behind it. Of the program: data 8 above the given value, code
/// 16 above, of a program's privilege. Intel's processors make that of whatever is given; AMD's take the stack
/// segment's as it is, and the next `iretq` to a stack segment of another privilege faults (APM volume 3, SYSRET).
const STAR: u64 = ((KERNEL_DATA | 3) as u64) << 48 | (KERNEL_CODE as u64) << 32;

const _: () = {
    assert!((STAR >> 48) as u16 + 8 == USER_DATA && (STAR >> 48) as u16 + 16 == USER_CODE, "sysretq's segments");
    assert!((STAR >> 32) as u16 == KERNEL_CODE && KERNEL_CODE + 8 == KERNEL_DATA, "syscall's segments");
};

/// Code segment of the 32-bit system-call instruction; 0 makes it fault.
const MSR_SYSENTER_CODE: u32 = 0x174;

/// Which kind of memory the flags of a page-table entry choose, as at reset: entry 0 (no flags) is write-back, entry 3
/// (both) is uncacheable. All cores must say the same (SDM volume 3, 11.12.4).
const MSR_PAT: u32 = 0x277;

/// See [`MSR_PAT`].
const PAT: u64 = 0x0007_0406_0007_0406;

/// Sets the core up, which has what [`features::require`] wants.
///
/// What is left as the firmware has it: the ranges of memory kinds (MTRR), which firmware sets alike on all cores;
/// prefetchers, power states and microcode. Defences against speculation are out of scope: a node runs one job.
///
/// # Panics
/// If the loader left something on that cannot be turned off.
pub(super) fn start() {
    assert!(!Cr4::read().contains(Cr4Flags::L5_PAGING), "the loader left page tables of five levels on");
    let has_xsave = fpu::has_xsave();
    // SAFETY: the flags are those the kernel is written for; code and data are mapped as the stricter ones demand. What
    // is not there of the processor's is not turned on: it would fault.
    unsafe {
        Cr0::write(
            Cr0::read()
                & !(Cr0Flags::EMULATE_COPROCESSOR
                    | Cr0Flags::TASK_SWITCHED
                    | Cr0Flags::CACHE_DISABLE
                    | Cr0Flags::NOT_WRITE_THROUGH)
                | Cr0Flags::MONITOR_COPROCESSOR
                | Cr0Flags::NUMERIC_ERROR
                | Cr0Flags::WRITE_PROTECT
                | Cr0Flags::ALIGNMENT_MASK,
        );
        Cr4::write_raw(cr4(has_xsave).bits());
        Efer::update(|flags| flags.insert(EferFlags::SYSTEM_CALL_EXTENSIONS | EferFlags::NO_EXECUTE_ENABLE));
        Msr::new(MSR_PAT).write(PAT);
    }
    if has_xsave {
        fpu::set_components(components());
    }
    // No watchpoints of whoever ran before.
    Dr7::write(x86_64::registers::debug::Dr7Value::from(x86_64::registers::debug::Dr7Flags::empty()));
    enable_system_calls();
}

/// Control register 4. SMAP stays off where QEMU emulates the processor: its far returns (`lretq`, `iretq`) read a
/// program's stack as if the kernel did, and would fault for ever. The kernel never uses a program's addresses anyway.
/// FSGSBASE stays off: with it a program could change the bases behind the kernel's back, and the
/// way in could not tell the kernel's `gs` from the program's. Global pages and PCID stay off: what a core remembers of
/// a table is forgotten by loading the next one, as `paging` has it. Counters of performance (PCE), protection keys
/// (PKE) and shadow stacks (CET) stay off: nobody saves them.
fn cr4(has_xsave: bool) -> Cr4Flags {
    let mut flags = Cr4Flags::PHYSICAL_ADDRESS_EXTENSION | Cr4Flags::OSFXSR | Cr4Flags::OSXMMEXCPT_ENABLE;
    flags.set(Cr4Flags::OSXSAVE, has_xsave);
    flags.set(Cr4Flags::MACHINE_CHECK_EXCEPTION, features::has(features::MCE));
    flags.set(Cr4Flags::SUPERVISOR_MODE_EXECUTION_PROTECTION, features::has(features::SMEP));
    flags.set(Cr4Flags::SUPERVISOR_MODE_ACCESS_PREVENTION, features::has(features::SMAP) && !features::is_emulated());
    flags.set(Cr4Flags::USER_MODE_INSTRUCTION_PREVENTION, features::has(features::UMIP));
    flags
}

/// Vector registers a program gets: all the processor has of x87, SSE, AVX and AVX-512. Some only go together (SDM
/// volume 1, 13.3).
fn components() -> u64 {
    let has = XCr0Flags::from_bits_truncate(features::leaf(0xd, 0).eax.into());
    let mut flags = XCr0Flags::X87 | XCr0Flags::SSE | has & XCr0Flags::AVX;
    let avx512 = XCr0Flags::OPMASK | XCr0Flags::ZMM_HI256 | XCr0Flags::HI16_ZMM;
    if flags.contains(XCr0Flags::AVX) && has.contains(avx512) {
        flags |= avx512;
    }
    flags.bits()
}

/// Says where system calls come in, with which segments and flags.
fn enable_system_calls() {
    // SAFETY: the selectors are those of the descriptor table.
    unsafe {
        Msr::new(MSR_STAR).write(STAR);
        // Programs have no 32-bit code segment, so neither of the system calls for those can be made but this one.
        if features::has(features::SEP) {
            Msr::new(MSR_SYSENTER_CODE).write(0);
        }
    }
    LStar::write(VirtAddr::from_ptr(syscall_entry as *const ()));
    // Everything that would change what the kernel does is off when it is entered.
    SFMask::write(
        RFlags::INTERRUPT_FLAG
            | RFlags::TRAP_FLAG
            | RFlags::DIRECTION_FLAG
            | RFlags::IOPL_LOW
            | RFlags::IOPL_HIGH
            | RFlags::NESTED_TASK
            | RFlags::RESUME_FLAG
            | RFlags::ALIGNMENT_CHECK,
    );
}
