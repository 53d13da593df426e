//! The command line of `trace`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "\
Shows what is called from now on, until the job ends; a job that waits for nodes is traced from its beginning (see \
also `run --trace`). Until what there is to show has been taken the ranks wait with their next calls; when this is \
left (Ctrl-C, or --seconds are over) the job goes on. One at a time can trace a job.\n\nExamples:\n  \
    coppice trace 3\n  \
    coppice trace 3 --seconds 5\n  \
    coppice trace 3 --rank 1 --output calls.txt")]
pub(crate) struct Trace {
    /// The job's number
    #[arg(value_name = "JOB")]
    pub(crate) job: u64,
    /// Only this rank
    #[arg(long, value_name = "RANK")]
    pub(crate) rank: Option<u32>,
    /// Leave it after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) seconds: Option<u32>,
    /// Write to this file instead of standard output
    #[arg(long, short, value_name = "FILE", default_value = "-", hide_default_value = true)]
    pub(crate) output: PathBuf,
}
