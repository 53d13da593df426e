//! The options that `run` and `restart` have in common.

use clap::Args;
use coppice_api::limits::OUTPUT_LOG_BYTES_DEFAULT;

use super::run::{NodesList, parse_nodes};
use crate::units::parse_output_size;

#[derive(Debug, Args)]
pub(crate) struct JobOptions {
    /// Print the job's number and end; the job goes on by itself
    #[arg(long, short, conflicts_with_all = ["label", "json"])]
    pub(crate) detach: bool,
    /// Keep the output, for `coppice logs`, in a log of this SIZE at most, such as 64M or 1G; the default of --detach
    #[arg(long, value_name = "SIZE", num_args = 0..=1, require_equals = true, value_parser = parse_output_size,
          default_missing_value = "64M")]
    pub(crate) keep_output: Option<u64>,
    /// Write a core file, core.JOB.RANK, of each rank that a signal such as SIGSEGV or SIGABRT ends, for gdb
    #[arg(long = "core", conflicts_with = "detach")]
    pub(crate) core_file: bool,
    /// Start each line of output with the rank it comes from
    #[arg(long)]
    pub(crate) label: bool,
    /// At the end, print the job's record as JSON; the program's output goes to standard error then
    #[arg(long)]
    pub(crate) json: bool,
    /// Run on exactly these nodes, rank by rank, such as 0,3-5; waits until all of them are free
    #[arg(long, value_name = "LIST", value_parser = parse_nodes, help_heading = "Nodes")]
    pub(crate) nodes_list: Option<NodesList>,
}

impl JobOptions {
    /// Room for what is kept of the output, bytes, if it is to be kept.
    pub(crate) fn output_kept(&self) -> Option<u64> {
        self.keep_output.or(self.detach.then_some(OUTPUT_LOG_BYTES_DEFAULT))
    }
}
