//! What the processor has, as its instruction CPUID says.
//!
//! A leaf that a processor does not have is answered all the same: by Intel's with the bits of the last leaf there is,
//! which mean something else (SDM volume 2, CPUID). So it is always asked first which leaves there are.

use core::arch::x86_64::{__cpuid, __cpuid_count, CpuidResult};
use core::fmt;

/// First of the extended leaves.
const EXTENDED: u32 = 0x8000_0000;

/// First of the leaves in which whoever emulates the processor says who that is.
const HYPERVISOR: u32 = 0x4000_0000;

/// A register of a leaf's answer.
#[derive(Clone, Copy)]
pub(crate) enum Register {
    /// EBX.
    B,
    /// ECX.
    C,
    /// EDX.
    D,
}

/// A feature: leaf, sub-leaf, register, bit.
#[derive(Clone, Copy)]
pub(crate) struct Feature(u32, u32, Register, u32);

/// May be switched between two ways of its interrupt controller, of which the second has registers of the processor.
pub(crate) const X2APIC: Feature = Feature(1, 0, Register::C, 21);
/// Saves vector registers beyond those of SSE.
pub(crate) const XSAVE: Feature = Feature(1, 0, Register::C, 26);
/// Somebody emulates the processor, or divides it.
pub(crate) const HYPERVISED: Feature = Feature(1, 0, Register::C, 31);
/// Reports its own hardware's errors.
pub(crate) const MCE: Feature = Feature(1, 0, Register::D, 7);
/// The 32-bit system call that is not SYSCALL.
pub(crate) const SEP: Feature = Feature(1, 0, Register::D, 11);
/// The kernel cannot execute programs' pages.
pub(crate) const SMEP: Feature = Feature(7, 0, Register::B, 7);
/// The kernel cannot touch programs' pages.
pub(crate) const SMAP: Feature = Feature(7, 0, Register::B, 20);
/// Programs cannot ask where descriptor tables are.
pub(crate) const UMIP: Feature = Feature(7, 0, Register::C, 2);
/// The time-stamp counter runs evenly, whatever the clock of the core does.
pub(crate) const INVARIANT_TSC: Feature = Feature(0x8000_0007, 0, Register::D, 8);
/// Of AMD's: loading x87 registers loads the pointers to the last instruction that failed, too.
pub(crate) const LOADS_X87_POINTERS: Feature = Feature(0x8000_0008, 0, Register::B, 2);

/// What the kernel cannot do without, and programs for x86-64 expect.
const NEEDED: [(Feature, &str); 15] = [
    (Feature(1, 0, Register::D, 0), "FPU"),
    (Feature(1, 0, Register::D, 4), "TSC"),
    (Feature(1, 0, Register::D, 5), "MSR"),
    (Feature(1, 0, Register::D, 6), "PAE"),
    (Feature(1, 0, Register::D, 8), "CX8"),
    (Feature(1, 0, Register::D, 9), "APIC"),
    (Feature(1, 0, Register::D, 15), "CMOV"),
    (Feature(1, 0, Register::D, 16), "PAT"),
    (Feature(1, 0, Register::D, 23), "MMX"),
    (Feature(1, 0, Register::D, 24), "FXSR"),
    (Feature(1, 0, Register::D, 25), "SSE"),
    (Feature(1, 0, Register::D, 26), "SSE2"),
    (Feature(EXTENDED + 1, 0, Register::D, 11), "SYSCALL"),
    (Feature(EXTENDED + 1, 0, Register::D, 20), "NX"),
    (Feature(EXTENDED + 1, 0, Register::D, 29), "LM"),
];

/// Answer of a leaf; zeros if the processor does not have it.
pub(crate) fn leaf(leaf: u32, sub_leaf: u32) -> CpuidResult {
    let last = __cpuid(leaf & EXTENDED).eax;
    if (leaf & EXTENDED..=last).contains(&leaf) {
        __cpuid_count(leaf, sub_leaf)
    } else {
        CpuidResult { eax: 0, ebx: 0, ecx: 0, edx: 0 }
    }
}

/// Whether the processor has something.
pub(crate) fn has(Feature(number, sub_leaf, register, bit): Feature) -> bool {
    let answer = leaf(number, sub_leaf);
    let word = match register {
        Register::B => answer.ebx,
        Register::C => answer.ecx,
        Register::D => answer.edx,
    };
    word & 1 << bit != 0
}

/// Ends the machine with a clear word if the processor lacks what the kernel needs.
///
/// # Panics
/// Then.
pub(crate) fn require() {
    let is_fit = NEEDED.iter().all(|(feature, _)| has(*feature));
    assert!(is_fit, "the processor lacks {Lacking}: give the node another (coppice up --cpu MODEL)");
}

/// The names of what is needed and not there.
struct Lacking;

impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lacking = NEEDED.iter().filter(|(feature, _)| !has(*feature));
        for (number, (_, name)) in lacking.enumerate() {
            write!(f, "{}{name}", if number == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// Whether QEMU emulates the processor instruction by instruction.
pub(crate) fn is_emulated() -> bool {
    has(HYPERVISED) && {
        let answer = __cpuid(HYPERVISOR);
        [answer.ebx, answer.ecx, answer.edx].map(u32::to_le_bytes) == [*b"TCGT", *b"CGTC", *b"GTCG"]
    }
}

/// Whether AMD made the processor, or who builds after AMD's plans.
pub(crate) fn is_amd() -> bool {
    let answer = __cpuid(0);
    let vendor = [answer.ebx, answer.edx, answer.ecx].map(u32::to_le_bytes);
    [[*b"Auth", *b"enti", *b"cAMD"], [*b"Hygo", *b"nGen", *b"uine"]].contains(&vendor)
}

/// First physical address that the processor cannot have.
pub(crate) fn physical_end() -> u64 {
    /// Where a processor does not say it (SDM volume 3, 4.1.4).
    const BITS: u32 = 36;
    match leaf(EXTENDED + 8, 0).eax & 0xff {
        bits @ 32..=52 => 1 << bits,
        _ => 1 << BITS,
    }
}
