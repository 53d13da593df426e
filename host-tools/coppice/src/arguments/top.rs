//! The command line of `top`.

use std::time::Duration;

use clap::Args;

use crate::units::parse_duration;

/// Least time between two looks.
const EVERY_MIN: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
#[command(after_help = "\
Enter looks into a job, a rank or a node, Esc goes back; `s` sorts by the next column, `/` shows only rows with a \
text, `L` follows the log of a job, `K` sends it a signal, `o` begins to look at what its ranks do, `?` shows all \
keys, and `q` leaves.\n\n\
What ranks do is known of jobs that have an overlay (`run --overlay`, or `o`).\n\nExamples:\n  \
    coppice top             all jobs, and nodes with Tab\n  \
    coppice top 3           job 3 and its ranks\n  \
    coppice top --every 5s  over a slow line")]
pub(crate) struct Top {
    /// The job to look at first
    #[arg(value_name = "JOB")]
    pub(crate) job: Option<u64>,
    /// How often to ask the service node
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_every)]
    pub(crate) every: Duration,
}

fn parse_every(text: &str) -> Result<Duration, String> {
    let every = parse_duration(text)?;
    if every < EVERY_MIN { Err(format!("give at least {} ms", EVERY_MIN.as_millis())) } else { Ok(every) }
}
