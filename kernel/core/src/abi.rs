//! Linux's x86-64 ABI as numbers and bytes: what calls, processes and files have to agree on with programs, and so the
//! floor below all of them. Structures are written and read field by field: nothing is transmuted, padding is zero.
//!
//! The tests beside each structure compare every field's place with the host's own C library.

pub(crate) mod futex;
pub(crate) mod interface;
pub(crate) mod io;
pub(crate) mod netlink;
pub(crate) mod signal;
pub(crate) mod signal_set;
pub(crate) mod socket;
pub(crate) mod status;
pub(crate) mod system;
pub(crate) mod time;

/// Length of the `syscall` instruction, bytes.
pub(crate) const INSTRUCTION_BYTES: u64 = 2;

/// A structure of `N` bytes under construction; what is not set is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<const N: usize>([u8; N]);

impl<const N: usize> Record<N> {
    /// All zeros.
    pub(crate) const fn new() -> Self {
        Self([0; N])
    }

    /// Puts raw bytes at an offset.
    pub(crate) fn raw(mut self, offset: usize, bytes: &[u8]) -> Self {
        self.0[offset..offset + bytes.len()].copy_from_slice(bytes);
        self
    }

    /// Puts a 16-bit field at an offset.
    pub(crate) fn u16(self, offset: usize, value: u16) -> Self {
        self.raw(offset, &value.to_le_bytes())
    }

    /// Puts a 32-bit field at an offset.
    pub(crate) fn u32(self, offset: usize, value: u32) -> Self {
        self.raw(offset, &value.to_le_bytes())
    }

    /// Puts a 64-bit field at an offset.
    pub(crate) fn u64(self, offset: usize, value: u64) -> Self {
        self.raw(offset, &value.to_le_bytes())
    }

    /// Puts a signed 64-bit field at an offset.
    pub(crate) fn i64(self, offset: usize, value: i64) -> Self {
        self.raw(offset, &value.to_le_bytes())
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes, by value.
    pub(crate) fn into_bytes(self) -> [u8; N] {
        self.0
    }
}

/// The 16-bit field at an offset.
pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    let mut field = [0; 2];
    field.copy_from_slice(&bytes[offset..offset + 2]);
    u16::from_le_bytes(field)
}

/// The 32-bit field at an offset.
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    let mut field = [0; 4];
    field.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_le_bytes(field)
}

/// The 64-bit field at an offset.
pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    let mut field = [0; 8];
    field.copy_from_slice(&bytes[offset..offset + 8]);
    u64::from_le_bytes(field)
}

/// The signed 64-bit field at an offset.
pub(crate) fn i64_at(bytes: &[u8], offset: usize) -> i64 {
    u64_at(bytes, offset).cast_signed()
}
