//! Buffers whose length a program chose, and what it reads of a text into one.

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

/// Up to `length` bytes of a text from `offset` on; none behind its end.
///
/// # Errors
/// `ENOMEM`.
pub(super) fn part(text: &[u8], offset: u64, length: usize) -> Result<Vec<u8>, Errno> {
    let rest = usize::try_from(offset).ok().and_then(|offset| text.get(offset..)).unwrap_or_default();
    let rest = &rest[..rest.len().min(length)];
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(rest.len()).map_err(|_| Errno::ENOMEM)?;
    bytes.extend_from_slice(rest);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::{buffer, part};
    use crate::errno::Errno;

    #[test]
    fn impossible_lengths_are_refused() {
        assert_eq!(buffer(5).as_deref(), Ok(&[0; 5][..]));
        assert_eq!(buffer(usize::MAX), Err(Errno::ENOMEM));
        assert_eq!(buffer(1 << 62), Err(Errno::ENOMEM));
    }

    #[test]
    fn a_part_of_a_text_ends_with_it() {
        let read = |offset, length| part(b"text", offset, length).expect("memory");
        assert_eq!((read(0, 4), read(0, 3), read(1, 2)), (b"text".into(), b"tex".into(), b"ex".into()));
        assert_eq!((read(2, 5), read(3, usize::MAX), read(1, 0)), (b"xt".into(), b"t".into(), b"".into()));
        for end in [4, 5, u64::MAX] {
            assert_eq!(read(end, 1), b"");
        }
    }
}
