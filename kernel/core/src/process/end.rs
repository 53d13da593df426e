//! How a process ended.

use alloc::string::String;

use coppice_protocol::control::Exit;

/// The end of a process: how, and why if that is not obvious.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// How it ended.
    pub exit: Exit,
    /// One line for the user.
    pub reason: Option<String>,
}

impl End {
    /// It called exit(2); Linux keeps the low 8 bits of the status.
    pub(crate) const fn status(status: u64) -> Self {
        Self { exit: Exit::Status((status & 0xff) as u8), reason: None }
    }

    /// A signal ended it.
    pub(crate) const fn signal(signal: u8) -> Self {
        Self { exit: Exit::Signal(signal), reason: None }
    }

    /// It never ran.
    pub(crate) fn not_started(reason: String) -> Self {
        Self { exit: Exit::NotStarted, reason: Some(reason) }
    }

    /// The same, with a reason.
    pub(crate) fn because(self, reason: String) -> Self {
        Self { reason: Some(reason), ..self }
    }
}

#[cfg(test)]
mod tests {
    use coppice_protocol::control::Exit;

    use super::End;

    #[test]
    fn statuses_keep_their_low_byte() {
        assert_eq!(End::status(0x1_ff03).exit, Exit::Status(3));
        assert_eq!(End::status((-1_i64).cast_unsigned()).exit, Exit::Status(255));
    }
}
