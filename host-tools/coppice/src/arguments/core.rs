//! The command line of `core`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "\
The rank stands still while it is looked at, and goes on then; if this is interrupted, after some seconds. What is \
mapped of files and cannot be written is not in the core. Where there are only zeros the file takes no \
room.\n\nExamples:\n  \
    coppice core 3 0\n  \
    coppice core 3 1 -o solve.core && gdb ./solve solve.core")]
pub(crate) struct Core {
    /// The job's number
    #[arg(value_name = "JOB")]
    pub(crate) job: u64,
    /// The rank
    #[arg(value_name = "RANK")]
    pub(crate) rank: u32,
    /// Write to this file instead of core.JOB.RANK
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

impl Core {
    /// Where to write to.
    pub(crate) fn file(&self) -> PathBuf {
        self.output.clone().unwrap_or_else(|| crate::core::name(self.job, self.rank))
    }
}
