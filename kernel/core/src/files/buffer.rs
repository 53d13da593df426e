//! Buffers whose length a program chose.

use alloc::vec::Vec;

use crate::errno::Errno;

/// A buffer of zeros.
///
/// # Errors
/// `ENOMEM`: the kernel has no room for it. Unlike other allocations, this must not end the kernel.
pub(crate) fn buffer(length: usize) -> Result<Vec<u8>, Errno> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length).map_err(|_| Errno::ENOMEM)?;
    bytes.resize(length, 0);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::buffer;
    use crate::errno::Errno;

    #[test]
    fn impossible_lengths_are_refused() {
        assert_eq!(buffer(5).as_deref(), Ok(&[0; 5][..]));
        assert_eq!(buffer(usize::MAX), Err(Errno::ENOMEM));
        assert_eq!(buffer(1 << 62), Err(Errno::ENOMEM));
    }
}
