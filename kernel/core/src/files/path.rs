//! Paths as strings. What links they lead through is the I/O node's affair.

use alloc::string::String;

/// `path` seen from the absolute path `base`: itself if it is absolute.
pub(crate) fn absolute(base: &str, path: &str) -> String {
    if path.starts_with('/') {
        return String::from(path);
    }
    let mut joined = String::with_capacity(base.len() + 1 + path.len());
    joined.push_str(base);
    if !joined.ends_with('/') {
        joined.push('/');
    }
    joined.push_str(path);
    joined
}

/// An absolute path without what changes nothing: repeated slashes and `.`. What `..` leads to depends on links.
pub(crate) fn tidy(path: &str) -> String {
    let mut tidied = String::with_capacity(path.len());
    for name in path.split('/').filter(|name| !matches!(*name, "" | ".")) {
        tidied.push('/');
        tidied.push_str(name);
    }
    if tidied.is_empty() {
        tidied.push('/');
    }
    tidied
}

#[cfg(test)]
mod tests {
    use super::{absolute, tidy};

    #[test]
    fn what_changes_nothing_is_left_out() {
        for (path, tidied) in
            [("/./x", "/x"), ("//a/.//b", "/a/b"), ("/a/../b", "/a/../b"), ("/.", "/"), ("/a.", "/a.")]
        {
            assert_eq!(tidy(path), tidied);
        }
    }

    #[test]
    fn relative_paths_start_at_the_base() {
        assert_eq!(absolute("/", "a"), "/a");
        assert_eq!(absolute("/a/b", "../c/"), "/a/b/../c/");
        assert_eq!(absolute("/a/b", "/c"), "/c");
        assert_eq!(absolute("/a", "."), "/a/.");
    }
}
