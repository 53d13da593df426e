//! Walks over all ranks of a job or all nodes, counted in tests.
//!
//! What a rank or a node reports must be taken in without a look at the others, or the work grows with the square of
//! the cluster. A test holds that by counting what such walks see.

#[cfg(test)]
thread_local! {
    static SEEN: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// What walks of this thread have seen so far.
#[cfg(test)]
pub(super) fn seen() -> u64 {
    SEEN.get()
}

/// A walk over ranks or nodes.
#[cfg(test)]
pub(super) fn walked<T>(walk: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    walk.inspect(|_| SEEN.set(SEEN.get() + 1))
}

/// A walk over ranks or nodes.
#[cfg(not(test))]
pub(super) fn walked<T>(walk: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    walk
}
