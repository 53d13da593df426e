//! What must hold in every run, whatever goes wrong. Each checker hears of what the world does from the outside, knows
//! nothing of how sessions work, and says what is not as it must be.

mod delivery;
mod identity;
mod memory;
mod progress;
mod requests;
mod retention;

pub(crate) use self::delivery::Delivery;
pub(crate) use self::identity::{Identities, Who};
pub(crate) use self::memory::Memory;
pub(crate) use self::progress::Progress;
pub(crate) use self::requests::Requests;
pub(crate) use self::retention::Retention;

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Violation {
    /// Who found it; if no checker did, the world itself.
    pub checker: &'static str,
    what: String,
}

impl Violation {
    /// Says what it is.
    #[must_use]
    pub fn new(what: String) -> Self {
        Self { checker: "world", what }
    }

    /// Says who found it.
    #[must_use]
    pub fn by(self, checker: &'static str) -> Self {
        Self { checker, ..self }
    }
}

/// Fails with what is said unless `holds`.
pub(crate) fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation::new(what())) }
}

/// All checkers of a run.
#[derive(Debug, Default)]
pub(crate) struct Checkers {
    pub(crate) delivery: Delivery,
    pub(crate) identities: Identities,
    pub(crate) memory: Memory,
    pub(crate) progress: Progress,
    pub(crate) requests: Requests,
    pub(crate) retention: Retention,
}
