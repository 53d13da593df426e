//! The command line of `objects`.

use clap::Args;

use super::Listing;

#[derive(Debug, Args)]
#[command(after_help = "\
Descriptors with the same id share one open file. An epoll names what it watches by descriptor and id.\n\nExamples:\n  \
    coppice objects 3\n  \
    coppice objects 3 --rank 1 --json")]
pub(crate) struct Objects {
    /// The job's number
    #[arg(value_name = "JOB")]
    pub(crate) job: u64,
    /// Only this rank
    #[arg(long, value_name = "RANK")]
    pub(crate) rank: Option<u32>,
    #[command(flatten)]
    pub(crate) listing: Listing,
}
