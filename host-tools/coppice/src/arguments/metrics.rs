//! The command line of `metrics`.

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "\
The text is OpenMetrics'. Prometheus reads it by itself from a cluster that has a port for that:\n\n  \
    coppice up --metrics-port 9464              a port, or 0 for any that is free\n  \
    coppice metrics --url                       where it is\n\n\
Names begin with coppice_. Nodes, jobs that have not ended and processes have metrics of their own; ranks have none.")]
pub(crate) struct Metrics {
    /// Print where they can be scraped by HTTP instead
    #[arg(long)]
    pub(crate) url: bool,
}
