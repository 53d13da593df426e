//! Paths as bytes. What links they lead through is the I/O node's affair.

use alloc::vec::Vec;

/// `path` seen from the absolute path `base`: itself if it is absolute.
pub(crate) fn absolute(base: &[u8], path: &[u8]) -> Vec<u8> {
    if path.starts_with(b"/") {
        return Vec::from(path);
    }
    let mut joined = Vec::with_capacity(base.len() + 1 + path.len());
    joined.extend_from_slice(base);
    if !joined.ends_with(b"/") {
        joined.push(b'/');
    }
    joined.extend_from_slice(path);
    joined
}

/// What is between a path's slashes.
pub(crate) fn components(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/')
}

/// The absolute path of a program that was called so in a directory.
pub(crate) fn executable(directory: &[u8], path: &[u8]) -> Vec<u8> {
    tidy(&absolute(directory, path))
}

/// An absolute path without what changes nothing: repeated slashes and `.`. What `..` leads to depends on links.
pub(crate) fn tidy(path: &[u8]) -> Vec<u8> {
    let mut tidied = Vec::with_capacity(path.len());
    for name in components(path).filter(|name| !matches!(*name, b"" | b".")) {
        tidied.push(b'/');
        tidied.extend_from_slice(name);
    }
    if tidied.is_empty() {
        tidied.push(b'/');
    }
    tidied
}

#[cfg(test)]
mod tests {
    use super::{absolute, tidy};

    #[test]
    fn what_changes_nothing_is_left_out() {
        let cases: [(&[u8], &[u8]); 6] = [
            (b"/./x", b"/x"),
            (b"//a/.//b", b"/a/b"),
            (b"/a/../b", b"/a/../b"),
            (b"/.", b"/"),
            (b"/a.", b"/a."),
            (b"/\xff/./\xc3", b"/\xff/\xc3"),
        ];
        for (path, tidied) in cases {
            assert_eq!(tidy(path), tidied);
        }
    }

    #[test]
    fn relative_paths_start_at_the_base() {
        assert_eq!(absolute(b"/", b"a"), b"/a");
        assert_eq!(absolute(b"/a/b", b"../c/"), b"/a/b/../c/");
        assert_eq!(absolute(b"/a/b", b"/c"), b"/c");
        assert_eq!(absolute(b"/a", b"."), b"/a/.");
        assert_eq!(absolute(b"/\xff", b"\xc3"), b"/\xff/\xc3");
    }
}
