//! The command line of `explain`.

use clap::Args;

use super::Listing;

#[derive(Debug, Args)]
#[command(after_help = "\
The first sentence names what matters most: what happened first to a job that failed, else what cost it most of its \
time. Each has its numbers, and below it what to try. It is told from the job's record, RAS events, nodes and links \
as they are now, and what an overlay has gathered; without one (`run --overlay`, `overlay JOB on`) it cannot be said \
what the ranks waited for.\n\nExamples:\n  \
    coppice run --overlay -n 8 ./solve\n  \
    coppice explain 3                      also while it waits or runs\n  \
    coppice explain 3 --json               causes by their names, and what each cost in ns")]
pub(crate) struct Explain {
    /// The job's number
    #[arg(value_name = "JOB")]
    pub(crate) job: u64,
    #[command(flatten)]
    pub(crate) listing: Listing,
}
