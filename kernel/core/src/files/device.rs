//! The character devices the kernel makes itself.

use crate::errno::Errno;
use crate::random;

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Device {
    /// Takes everything, gives nothing.
    Null,
    /// Gives zeros.
    Zero,
    /// Gives zeros, takes nothing.
    Full,
    /// Gives random bytes; by its other name too.
    Random { urgent: bool },
}

impl Device {
    /// Its minor number; the major is [`Self::MAJOR`].
    pub(crate) const fn minor(self) -> u32 {
        match self {
            Self::Null => 3,
            Self::Zero => 5,
            Self::Full => 7,
            Self::Random { urgent: false } => 8,
            Self::Random { urgent: true } => 9,
        }
    }

    /// The one with this minor number.
    pub(crate) fn of_minor(minor: u32) -> Option<Self> {
        let all = [Self::Null, Self::Zero, Self::Full, Self::Random { urgent: false }, Self::Random { urgent: true }];
        all.into_iter().find(|device| device.minor() == minor)
    }

    /// Its path.
    pub(crate) const fn path(self) -> &'static str {
        match self {
            Self::Null => "/dev/null",
            Self::Zero => "/dev/zero",
            Self::Full => "/dev/full",
            Self::Random { urgent: false } => "/dev/random",
            Self::Random { urgent: true } => "/dev/urandom",
        }
    }

    /// The major number of memory devices.
    pub(crate) const MAJOR: u32 = 1;

    /// Fills `buffer`, which is all zeros, as a read does. Returns how much it gives, bytes.
    pub(crate) fn read(self, buffer: &mut [u8]) -> usize {
        match self {
            Self::Null => 0,
            Self::Zero | Self::Full => buffer.len(),
            Self::Random { .. } => {
                random::fill(buffer);
                buffer.len()
            }
        }
    }

    /// Whether a write is taken, whatever it says.
    ///
    /// # Errors
    /// `ENOSPC`: it is full.
    pub(crate) const fn write(self) -> Result<(), Errno> {
        match self {
            Self::Full => Err(Errno::ENOSPC),
            Self::Null | Self::Zero | Self::Random { .. } => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Device;
    use crate::errno::Errno;

    #[test]
    fn devices_give_and_take_as_linuxs() {
        let mut buffer = [0; 32];
        assert_eq!(Device::Null.read(&mut buffer), 0);
        assert_eq!(Device::Zero.read(&mut buffer), 32);
        assert_eq!(buffer, [0; 32]);
        assert_eq!(Device::Random { urgent: true }.read(&mut buffer), 32);
        assert_ne!(buffer, [0; 32]);
        assert_eq!(Device::Full.write(), Err(Errno::ENOSPC));
        assert_eq!(Device::Null.write(), Ok(()));
    }
}
