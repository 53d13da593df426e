//! What root may do beyond other users, where the I/O node runs as root: only what concerns whose files are whose.
//!
//! Not kept is above all the right to leave set-user-id and set-group-id on a file that is written to: the host's
//! kernel takes these bits off then, as it does for every other user.

use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

/// Gives up all privileges of this thread, and of those it starts from now on, but those to use all files.
///
/// # Errors
/// If the kernel does not let go of them.
pub fn give_up() -> rustix::io::Result<()> {
    let kept = CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH | CapabilitySet::FOWNER;
    let mut sets = capabilities(None)?;
    sets.effective &= kept;
    sets.permitted &= kept;
    sets.inheritable = CapabilitySet::empty();
    set_capabilities(None, sets)
}
