//! What the processor has of chance.

use core::arch::asm;
use core::arch::x86_64::__cpuid;

use super::time;

/// Bits that hold how often the processor's generator is asked before it counts as empty.
const ATTEMPTS: usize = 10;

/// Bytes that differ from call to call; as seed material beside others, never alone: not every processor has a
/// generator of its own, and then this is the time and no more.
#[must_use]
pub fn seed_bits() -> [u8; 32] {
    let has_generator = __cpuid(1).ecx & 1 << 30 != 0;
    let mut seed = [0; 32];
    for bytes in seed.chunks_exact_mut(8) {
        let chance = if has_generator { generate() } else { 0 };
        bytes.copy_from_slice(&(chance ^ time::counter().rotate_left(32)).to_ne_bytes());
    }
    seed
}

/// Asks the processor's generator; 0 if it has nothing.
fn generate() -> u64 {
    for _ in 0..ATTEMPTS {
        let (value, got): (u64, u8);
        // SAFETY: the caller checked that the processor has the instruction.
        unsafe { asm!("rdrand {}", "setc {}", out(reg) value, out(reg_byte) got, options(nomem, nostack)) };
        if got != 0 {
            return value;
        }
    }
    0
}
