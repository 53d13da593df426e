//! The command line of `report`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "\
The file needs nothing else: no other file, no network and no script. It has what `explain` says, where the time of \
the job's ranks went, a map of ranks over time, who sent to whom, functions (if ranks were sampled), events, and the \
end of the output (if it was kept). More is known of jobs that have an overlay (`run --overlay --sample \
100`).\n\nExamples:\n  \
    coppice report 3 -o report.html   and open it with a browser\n  \
    coppice report 3 -o -             to standard output")]
pub(crate) struct Report {
    /// The job
    #[arg(value_name = "JOB")]
    pub(crate) job: u64,
    /// The file to write (HTML), or `-`
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: PathBuf,
}
