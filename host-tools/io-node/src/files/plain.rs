//! Whether the paths of a call lead through no symbolic link, so that what they name is found by no other path but
//! through one. Each is resolved somewhere below the call, on the thread that makes it, and says so here.

use std::cell::Cell;

thread_local! {
    /// Of the call that this thread makes; nothing as long as nothing was resolved.
    static IS_PLAIN: Cell<Option<bool>> = const { Cell::new(None) };
}

/// A call begins.
pub(crate) fn begin() {
    IS_PLAIN.set(None);
}

/// A path of it was resolved, from the root and through no link, or otherwise.
pub(super) fn resolved(is_plain: bool) {
    IS_PLAIN.set(Some(is_plain && IS_PLAIN.get() != Some(false)));
}

/// Whether all of them were plain, and there was one.
pub(crate) fn is_plain() -> bool {
    IS_PLAIN.get() == Some(true)
}

#[cfg(test)]
mod tests {
    use super::{begin, is_plain, resolved};

    #[test]
    fn all_paths_of_a_call_are_to_be_plain() {
        for (paths, all) in [(&[][..], false), (&[true], true), (&[true, true], true), (&[false, true], false)] {
            begin();
            paths.iter().for_each(|path| resolved(*path));
            assert_eq!(is_plain(), all, "{paths:?}");
        }
    }
}
