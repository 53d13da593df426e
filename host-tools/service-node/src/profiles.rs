//! What overlays of jobs have gathered: a database of its own beside the cluster's, written by a thread of its own, so
//! that nobody who decides anything waits for it.
//!
//! Of each epoch there is a row, and one for each thing that is measured. What a job may have is limited
//! ([`PROFILE_EPOCHS_MAX`]): of what is older every second epoch goes then, again and again, so that a long job has all
//! of its time with less and less detail. What was recorded of a job goes after [`PROFILE_AGE_MAX`].
//!
//! What single ranks have done is a row for each epoch in which it was a rank's turn, and goes with that epoch.
//!
//! What ranks were at when they were sampled is a row for each stack and start of the overlay. Of those beyond
//! [`PROFILE_STACKS_MAX`] it is counted what was innermost. They go with the last of their job's epochs.

mod database;
mod keeper;
mod stacks;
mod totals;

use coppice_api::overlay::EpochView;
use coppice_protocol::ids::JobId;

pub use self::database::{ProfileError, Profiles};
pub use self::keeper::Keeper;

/// What is to be recorded.
#[derive(Clone, Debug)]
pub enum ProfileOrder {
    /// An epoch of a job, or again with what came late.
    Epoch(JobId, Box<EpochView>),
    /// How often a second ranks are sampled from now on.
    Sampling {
        /// Of which job.
        job: JobId,
        /// In which start of its overlay.
        generation: u32,
        /// How often.
        hz: u32,
    },
    /// What ranks were at.
    Stacks {
        /// Of which job.
        job: JobId,
        /// In which start of its overlay.
        generation: u32,
        /// Addresses of code, innermost first, and how often they were seen, to be added to what is there.
        stacks: Vec<(Vec<u64>, u64)>,
    },
}
