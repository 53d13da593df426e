//! Which functions were under way, by the chain of frame pointers.

/// Most calls that are looked at.
const DEPTH_MAX: usize = 32;

/// Furthest a caller's frame lies from the callee's, bytes.
const FRAME_BYTES_MAX: u64 = 64 * 1024;

/// Return addresses, innermost first, from a frame pointer on.
pub(super) struct Backtrace {
    frame: u64,
    left: usize,
}

impl Backtrace {
    /// Of whoever had this frame pointer.
    pub(super) fn from(frame: u64) -> Self {
        Self { frame, left: DEPTH_MAX }
    }
}

impl Iterator for Backtrace {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        // Frames lie in the kernel's half, aligned, and each caller's above its callee's. Anything else is a chain's
        // end.
        if self.frame < 0xffff_8000_0000_0000 || !self.frame.is_multiple_of(8) || self.left == 0 {
            return None;
        }
        self.left -= 1;
        let frame = self.frame as *const [u64; 2];
        // SAFETY: a frame pointer of the kernel, which is built with frame pointers, or a value close above one on the
        // same stack. Should it be neither, the exception that follows is found to be the second one and ends the
        // machine.
        let [caller, address] = unsafe { frame.read_volatile() };
        let above = caller.wrapping_sub(self.frame);
        self.frame = if above <= FRAME_BYTES_MAX && above > 0 { caller } else { 0 };
        (address != 0).then_some(address)
    }
}
