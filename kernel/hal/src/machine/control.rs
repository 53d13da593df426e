//! What the processor is to do and not to do: control registers, and the entry of system calls.

use core::arch::x86_64::{__cpuid, __cpuid_count};
use core::sync::atomic::{AtomicUsize, Ordering};

use x86_64::VirtAddr;
use x86_64::registers::control::{Cr0, Cr0Flags, Cr4, Cr4Flags, Efer, EferFlags};
use x86_64::registers::debug::Dr7;
use x86_64::registers::model_specific::{LStar, Msr, SFMask};
use x86_64::registers::rflags::RFlags;
use x86_64::registers::xcontrol::{XCr0, XCr0Flags};

use super::descriptors::{KERNEL_CODE, KERNEL_DATA};
use crate::user::syscall_entry;

/// Segment selectors of system calls.
const MSR_STAR: u32 = 0xc000_0081;

/// Code segment of the 32-bit system-call instruction; 0 makes it fault.
const MSR_SYSENTER_CODE: u32 = 0x174;

/// Bytes of the area for vector registers.
static VECTOR_AREA_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Bytes the area for a thread's vector registers needs.
pub(crate) fn vector_area_bytes() -> usize {
    VECTOR_AREA_BYTES.load(Ordering::Relaxed)
}

/// Features the kernel cannot do without: leaf, register (`c` or `d`), bit and name.
const NEEDED: [(u32, char, u32, &str); 8] = [
    (1, 'd', 4, "TSC"),
    (1, 'd', 5, "MSR"),
    (1, 'd', 9, "APIC"),
    (1, 'd', 24, "FXSR"),
    (1, 'd', 26, "SSE2"),
    (1, 'c', 26, "XSAVE"),
    (0x8000_0001, 'd', 11, "SYSCALL"),
    (0x8000_0001, 'd', 20, "NX"),
];

/// Sets the core up.
///
/// # Panics
/// If the processor lacks something the kernel needs.
pub(super) fn start() {
    for (leaf, register, bit, name) in NEEDED {
        let result = __cpuid(leaf);
        let word = if register == 'c' { result.ecx } else { result.edx };
        assert!(word & 1 << bit != 0, "the processor has no {name}");
    }
    // SAFETY: the flags are those the kernel is written for; code and data are mapped as the stricter ones demand.
    unsafe {
        Cr0::write(
            Cr0::read() & !(Cr0Flags::EMULATE_COPROCESSOR | Cr0Flags::TASK_SWITCHED)
                | Cr0Flags::MONITOR_COPROCESSOR
                | Cr0Flags::NUMERIC_ERROR
                | Cr0Flags::WRITE_PROTECT
                | Cr0Flags::ALIGNMENT_MASK,
        );
        Cr4::write(cr4());
        Efer::update(|flags| flags.insert(EferFlags::SYSTEM_CALL_EXTENSIONS | EferFlags::NO_EXECUTE_ENABLE));
        XCr0::write(xcr0());
    }
    VECTOR_AREA_BYTES.store(__cpuid_count(0xd, 0).ebx as usize, Ordering::Relaxed);
    // No watchpoints of whoever ran before.
    Dr7::write(x86_64::registers::debug::Dr7Value::from(x86_64::registers::debug::Dr7Flags::empty()));
    enable_system_calls();
}

/// Whether QEMU emulates the processor (CPUID leaf 4000_0000h).
fn is_emulated() -> bool {
    const HYPERVISOR_PRESENT: u32 = 1 << 31;
    let vendor = __cpuid(0x4000_0000);
    let name = [vendor.ebx, vendor.ecx, vendor.edx].map(u32::to_le_bytes);
    __cpuid(1).ecx & HYPERVISOR_PRESENT != 0 && name == [*b"TCGT", *b"CGTC", *b"GTCG"]
}

/// Control register 4. SMAP stays off where QEMU emulates the processor: its far returns (`lretq`, `iretq`) read a
/// program's stack as if the kernel did, and would fault for ever. The kernel never uses a program's addresses anyway.
/// FSGSBASE stays off: with it a program could change the bases behind the kernel's back, and the
/// way in could not tell the kernel's `gs` from the program's.
fn cr4() -> Cr4Flags {
    let structured = __cpuid_count(7, 0);
    let mut flags = Cr4Flags::PHYSICAL_ADDRESS_EXTENSION
        | Cr4Flags::MACHINE_CHECK_EXCEPTION
        | Cr4Flags::OSFXSR
        | Cr4Flags::OSXMMEXCPT_ENABLE
        | Cr4Flags::OSXSAVE
        | Cr4::read() & Cr4Flags::L5_PAGING;
    flags.set(Cr4Flags::SUPERVISOR_MODE_EXECUTION_PROTECTION, structured.ebx & 1 << 7 != 0);
    flags.set(Cr4Flags::SUPERVISOR_MODE_ACCESS_PREVENTION, structured.ebx & 1 << 20 != 0 && !is_emulated());
    flags.set(Cr4Flags::USER_MODE_INSTRUCTION_PREVENTION, structured.ecx & 1 << 2 != 0);
    flags
}

/// Vector registers a program gets: all the processor has of x87, SSE, AVX and AVX-512.
fn xcr0() -> XCr0Flags {
    let has = XCr0Flags::from_bits_truncate(__cpuid_count(0xd, 0).eax.into());
    let mut flags = XCr0Flags::X87 | XCr0Flags::SSE | has & XCr0Flags::AVX;
    let avx512 = XCr0Flags::OPMASK | XCr0Flags::ZMM_HI256 | XCr0Flags::HI16_ZMM;
    if flags.contains(XCr0Flags::AVX) && has.contains(avx512) {
        flags |= avx512;
    }
    flags
}

/// Says where system calls come in, with which segments and flags.
fn enable_system_calls() {
    // Kernel: code, and data behind it. Program: data 8 above the given value, code 16 above.
    let star = u64::from(KERNEL_DATA) << 48 | u64::from(KERNEL_CODE) << 32;
    // SAFETY: the selectors are those of the descriptor table.
    unsafe {
        Msr::new(MSR_STAR).write(star);
        Msr::new(MSR_SYSENTER_CODE).write(0);
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
