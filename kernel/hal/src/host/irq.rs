//! No interrupts reach the host's build.

/// What came since it was last asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// The network card has frames, or room for frames.
    pub nic: bool,
    /// The alarm went off.
    pub timer: bool,
    /// The region's engine has done something.
    pub region: bool,
}

/// Nothing came.
#[must_use]
pub fn take() -> Pending {
    Pending::default()
}
