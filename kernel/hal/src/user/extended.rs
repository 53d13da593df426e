//! A thread's vector registers as bytes, in the processor's standard format (XSAVE): 512 bytes of x87 and SSE, a header
//! of 64 that says which components are not as they are at reset, then the other components where the processor wants
//! them. It is what programs find in the frames of their signal handlers, and what they give back.
//!
//! Loading what a program wrote must not make the processor fault in the kernel, so [`check`] refuses what would.

use core::ops::Range;

use super::UserThread;

/// Length of the part that every processor has: x87, SSE and the header.
pub const LEGACY_BYTES: usize = 512 + HEADER_BYTES;

/// Where in the legacy part the processor keeps nothing: for software, 48 bytes.
pub const SOFTWARE_BYTES_AT: usize = 464;

/// x87 and SSE, as bits of [`components`].
pub const LEGACY_COMPONENTS: u64 = 0b11;

/// Length of the header, which starts at [`HEADER_AT`].
const HEADER_BYTES: usize = 64;

/// Where the header is: the components that are not as at reset, and 56 bytes that have to be zero.
pub const HEADER_AT: usize = 512;

/// Offset of the SSE control register, and its value in a new program: all exceptions masked.
pub(super) const MXCSR: (usize, u32) = (24, 0x1f80);

/// Offset of the x87 control word, and its value in a new program: all exceptions masked, extended precision.
pub(super) const X87_CONTROL: (usize, u16) = (0, 0x037f);

/// Where the x87 registers are, behind their control and status, and the SSE registers.
const X87_REGISTERS: Range<usize> = 32..160;
const SSE_REGISTERS: Range<usize> = 160..416;

/// The bytes are no state of vector registers that this processor can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadVector;

/// Length of the vector registers' bytes on this processor. At least [`LEGACY_BYTES`].
#[must_use]
pub fn bytes() -> usize {
    machine::bytes()
}

/// Refuses bytes that are no state of vector registers that this processor can have.
///
/// # Errors
/// [`BadVector`].
pub fn could_be(vector: &[u8]) -> Result<(), BadVector> {
    if vector.len() != bytes() {
        return Err(BadVector);
    }
    check(vector, components(), machine::mxcsr_mask())
}

/// What a copy of them takes of the heap, bytes, with what is kept beside it.
#[must_use]
pub fn heap_bytes() -> usize {
    const BESIDE_BYTES: usize = 64;
    crate::budget::block_bytes(bytes() + BESIDE_BYTES) + BESIDE_BYTES
}

/// The components there are, a bit each, as in the processor's register XCR0.
#[must_use]
pub fn components() -> u64 {
    machine::components()
}

/// Refuses what would make the processor fault when it loads these bytes.
fn check(bytes: &[u8], components: u64, mxcsr_mask: u32) -> Result<(), BadVector> {
    let header = bytes.get(HEADER_AT..HEADER_AT + HEADER_BYTES).ok_or(BadVector)?;
    let (present, rest) = header.split_first_chunk().ok_or(BadVector)?;
    let mxcsr = bytes.get(MXCSR.0..).and_then(|bytes| bytes.first_chunk()).ok_or(BadVector)?;
    let is_good = u64::from_le_bytes(*present) & !components == 0
        && rest.iter().all(|byte| *byte == 0)
        && u32::from_le_bytes(*mxcsr) & !mxcsr_mask == 0;
    if is_good { Ok(()) } else { Err(BadVector) }
}

/// Makes x87 and SSE registers what the header says of them, for a processor that loads them whatever it says
/// (FXRSTOR). MXCSR is loaded in any case (SDM volume 1, 13.8.1).
fn spell_out(area: &mut [u8]) {
    const X87: u8 = 1 << 0;
    const SSE: u8 = 1 << 1;
    let present = area[HEADER_AT];
    if present & X87 == 0 {
        area[..MXCSR.0].fill(0);
        area[X87_REGISTERS].fill(0);
        area[X87_CONTROL.0..][..2].copy_from_slice(&X87_CONTROL.1.to_le_bytes());
    }
    if present & SSE == 0 {
        area[SSE_REGISTERS].fill(0);
    }
    area[HEADER_AT] = LEGACY_COMPONENTS as u8;
}

/// Makes `area` the registers of a new program.
pub(super) fn reset(area: &mut [u8]) {
    area.fill(0);
    area[X87_CONTROL.0..][..2].copy_from_slice(&X87_CONTROL.1.to_le_bytes());
    area[MXCSR.0..][..4].copy_from_slice(&MXCSR.1.to_le_bytes());
}

impl UserThread {
    /// Copies the vector registers to the start of `out`, which must have room for [`bytes`].
    pub fn save_vector(&mut self, out: &mut [u8]) {
        self.with_area(|area| out[..area.len()].copy_from_slice(area));
    }

    /// Gives the thread these vector registers, [`bytes`] of them.
    ///
    /// # Errors
    /// [`BadVector`]: no processor of this kind can have them, or there are not as many bytes. The registers stay.
    pub fn load_vector(&mut self, bytes: &[u8]) -> Result<(), BadVector> {
        check(bytes, components(), machine::mxcsr_mask())?;
        self.with_area(|area| {
            if area.len() != bytes.len() {
                return Err(BadVector);
            }
            area.copy_from_slice(bytes);
            if machine::ignores_header() {
                spell_out(area);
            }
            Ok(())
        })
    }

    /// Gives the thread the vector registers of a new program.
    pub fn reset_vector(&mut self) {
        self.with_area(reset);
    }

    /// Another thread with the same registers, all of them.
    #[must_use]
    pub fn duplicate(&mut self) -> Self {
        let mut other = Self::with_registers(self.regs);
        self.with_area(|area| other.with_area(|other| other.copy_from_slice(area)));
        other
    }
}

#[cfg(target_os = "none")]
mod machine {
    pub(super) use crate::user::fpu::{area_bytes as bytes, components, ignores_header, mxcsr_mask};
}

/// On the host threads have registers of a processor with x87, SSE and AVX, for what is above to be tested with.
#[cfg(not(target_os = "none"))]
mod machine {
    pub(super) const fn bytes() -> usize {
        super::LEGACY_BYTES + 256
    }

    pub(super) const fn components() -> u64 {
        0b111
    }

    pub(super) const fn mxcsr_mask() -> u32 {
        0xffff
    }

    pub(super) const fn ignores_header() -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use proptest::prelude::{any, proptest};

    use super::{BadVector, HEADER_AT, MXCSR, UserThread, bytes, components, reset, spell_out};

    fn saved(thread: &mut UserThread) -> Vec<u8> {
        let mut out = vec![0xee; bytes()];
        thread.save_vector(&mut out);
        out
    }

    /// Registers of which each byte says where it is.
    fn marked() -> Vec<u8> {
        let mut area: Vec<u8> = (0..bytes()).map(|index| index as u8).collect();
        area[MXCSR.0..][..4].copy_from_slice(&0x1fa0_u32.to_le_bytes());
        area[HEADER_AT..HEADER_AT + 64].fill(0);
        area[HEADER_AT] = 7;
        area
    }

    #[test]
    fn registers_are_kept_reset_and_duplicated() {
        let mut thread = UserThread::new(1, 2);
        let new = saved(&mut thread);
        assert_eq!((&new[..2], &new[24..28]), (&[0x7f, 3][..], &[0x80, 0x1f, 0, 0][..]));
        assert_eq!(thread.load_vector(&marked()), Ok(()));
        assert_eq!(saved(&mut thread), marked());
        let mut other = thread.duplicate();
        thread.reset_vector();
        assert_eq!(saved(&mut thread), new);
        assert_eq!((saved(&mut other), other.regs), (marked(), thread.regs));
    }

    #[test]
    fn what_the_header_says_can_be_spelled_out() {
        for present in 0..4 {
            let mut area = marked();
            area[HEADER_AT] = present;
            let before = area.clone();
            spell_out(&mut area);
            let mut new = vec![0; bytes()];
            reset(&mut new);
            let from = |component: u8| if present & component == 0 { &new } else { &before };
            assert_eq!(area[..24], from(1)[..24]);
            assert_eq!(area[24..32], before[24..32]);
            assert_eq!(area[32..160], from(1)[32..160]);
            assert_eq!(area[160..416], from(2)[160..416]);
            assert_eq!((&area[416..HEADER_AT], area[HEADER_AT]), (&before[416..HEADER_AT], 3));
        }
    }

    #[test]
    fn what_would_fault_is_refused() {
        let mut thread = UserThread::new(1, 2);
        for (at, value) in [(HEADER_AT, 8), (HEADER_AT + 7, 0x80), (HEADER_AT + 8, 1), (HEADER_AT + 63, 1), (26, 1)] {
            let mut area = marked();
            area[at] = value;
            assert_eq!(thread.load_vector(&area), Err(BadVector), "byte {at}");
        }
        assert_eq!(thread.load_vector(&marked()[..bytes() - 1]), Err(BadVector));
        assert_eq!(thread.load_vector(&[]), Err(BadVector));
    }

    proptest! {
        #[test]
        fn nothing_that_is_loaded_has_unknown_components(header in any::<[u8; 16]>(), mxcsr in any::<u32>()) {
            let mut area = marked();
            area[HEADER_AT..][..16].copy_from_slice(&header);
            area[MXCSR.0..][..4].copy_from_slice(&mxcsr.to_le_bytes());
            let header = u128::from_le_bytes(header);
            let loads = header & !u128::from(components()) == 0 && mxcsr < 0x1_0000;
            assert_eq!(UserThread::new(1, 2).load_vector(&area).is_ok(), loads);
        }
    }
}
