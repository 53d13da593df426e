//! What an I/O node still has of jobs and requests, for whoever looks whether nothing is left of those that are over.

use super::Machine;

/// How much of each kind there is: none where no job and no request is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remains {
    /// Jobs that are not forgotten.
    pub jobs: usize,
    /// Places of jobs outside.
    pub places: usize,
    /// Of those, that are being opened.
    pub openings: usize,
    /// Calls that are done outside.
    pub calls: usize,
    /// Ranks that have files open of which there may be leases, and such files that are waited for.
    pub files: usize,
    /// Ranks that have anything open, and those that have locks of files or wait for some.
    pub locks: usize,
    /// Ends of ranks that are not told.
    pub ends: usize,
    /// Files that nodes are to keep.
    pub keeps: usize,
    /// Orders about nodes' regions.
    pub regions: usize,
}

impl Machine {
    /// See [`Remains`].
    #[must_use]
    pub fn remains(&self) -> Remains {
        let (places, openings) = self.places.counts();
        Remains {
            jobs: self.jobs.count(),
            places,
            openings,
            calls: self.calls.count(),
            files: self.leases.count() + self.names.count(),
            locks: self.locks.count(),
            ends: self.closing.count(),
            keeps: self.keeps.count(),
            regions: self.regions.count(),
        }
    }
}
