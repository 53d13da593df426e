//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use coppice_api::ClusterName;
use coppice_api::limits::{NODES_MAX, PSET_NODES_MAX};

use crate::units::{parse_bandwidth, parse_duration, parse_loss, parse_memory};

/// Boots clusters of Coppice compute nodes and runs static Linux programs on them.
#[derive(Debug, Parser)]
#[command(
    version,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:\n  \
        coppice up --nodes 4                     boot four nodes\n  \
        coppice run -n 4 ./hello                 run ./hello on all of them\n  \
        coppice run --root data busybox ls -l /  show it another directory as /\n  \
        coppice job 1 --json                     what it cost, rank by rank\n  \
        coppice down                             end everything\n\n\
        Exit status: 0 if it was done, 125 if not; one line on standard error says why. `run` otherwise exits as the \
        job did."
)]
pub(crate) struct Arguments {
    /// Which cluster; several can be up side by side
    #[arg(long, global = true, value_name = "NAME", default_value = "default", env = "COPPICE_CLUSTER")]
    pub(crate) cluster: ClusterName,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Bring a cluster up and wait until all of its nodes are ready
    Up(Up),
    /// End a cluster: its jobs, nodes and processes; what was recorded stays
    Down,
    /// Run a static Linux program on nodes and exit as it did
    Run(Run),
    /// List the nodes
    Nodes(Listing),
    /// List the newest jobs
    Jobs(Jobs),
    /// Show one job: how each rank ended and what it cost
    Job(Job),
    /// List the programs that were run
    Programs(Listing),
    /// End a job
    Kill(Kill),
    /// Boot a node anew; a job on it ends
    Reboot(Reboot),
    /// Show what a node printed on its serial line since its last boot
    Console(Console),
    /// List the newest RAS events: what went wrong, where, how bad
    Ras(Ras),
    /// Say what is missing on this host, and the command that mends it
    Doctor(Listing),
    /// Print completions for a shell, to be sourced by it
    Completions(Completions),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    coppice up                                  four nodes of 64 MiB\n  \
    coppice up --nodes 32 --pset-size 16        32 nodes, an I/O node for each 16\n  \
    coppice --cluster bad up --loss 1%          a cluster whose network loses frames")]
pub(crate) struct Up {
    /// Compute nodes
    #[arg(long, value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(NODES_MAX)))]
    pub(crate) nodes: u32,
    /// Memory of each node, such as 64M or 1G
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = parse_memory)]
    pub(crate) memory: u64,
    /// Compute nodes per I/O node
    #[arg(long, value_name = "N", default_value_t = 64,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(PSET_NODES_MAX)))]
    pub(crate) pset_size: u32,
    /// How nodes are executed
    #[arg(long, value_enum, default_value_t = Accelerator::Auto)]
    pub(crate) accel: Accelerator,
    /// Let the nodes' clocks count instructions, one each ns, so that what programs measure does not move with the
    /// host's load; slower, and only under emulation
    #[arg(long)]
    pub(crate) icount: bool,
    /// Frames that every link loses, each way, such as 1% or 0.05%
    #[arg(long, value_name = "SHARE", default_value = "0%", value_parser = parse_loss, help_heading = "Network")]
    pub(crate) loss: u32,
    /// How long a frame takes over every link, each way, such as 50us or 2ms
    #[arg(long, value_name = "TIME", default_value = "0us", value_parser = parse_duration, help_heading = "Network")]
    pub(crate) latency: std::time::Duration,
    /// Bits per second of every link, each way, such as 1G or 100M; without it as fast as the host can
    #[arg(long, value_name = "RATE", value_parser = parse_bandwidth, help_heading = "Network")]
    pub(crate) bandwidth: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Accelerator {
    /// KVM if a node really runs under it, else emulation
    Auto,
    /// Emulation, which works everywhere
    Tcg,
    /// The processor itself
    Kvm,
}

impl Accelerator {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Tcg => "tcg",
            Self::Kvm => "kvm",
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
The program must be linked statically. It sees one directory of this host as /, and nothing outside it.\n\n\
Ranks: one per node. When a rank exits or is ended by a signal the others keep running; the job is over when all \
are. When a node is lost, or a rank cannot be started, the others are ended by SIGKILL.\n\n\
Exit status: the highest of the ranks' exit statuses, where a rank ended by a signal counts as 128 + signal; 125 if \
a node was lost, a rank could not be started, or Coppice could not do what was asked.\n\n\
Ctrl-C ends the job as if by SIGINT; a second Ctrl-C leaves at once, and the job is killed.\n\nExamples:\n  \
    coppice run ./hello world\n  \
    coppice run -n 4 --label ./hello\n  \
    coppice run --root ~/data --cwd /in --env LANG=C ./convert *.txt\n  \
    seq 9 | coppice run -n 2 --stdin-rank 1 ./sum\n  \
    coppice run --timeout 10 ./loops-forever")]
pub(crate) struct Run {
    /// Ranks, one per node
    #[arg(short = 'n', long = "ranks", value_name = "N", default_value_t = 1)]
    pub(crate) ranks: u32,
    /// Directory of this host that the program sees as /
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) root: PathBuf,
    /// Working directory, inside the root
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub(crate) cwd: String,
    /// Environment variable; NAME alone passes this shell's value on; may be repeated
    #[arg(long = "env", value_name = "NAME=VALUE")]
    pub(crate) environment: Vec<String>,
    /// Rank that reads standard input, or `none`
    #[arg(long, value_name = "RANK", default_value = "0", value_parser = parse_stdin_rank)]
    pub(crate) stdin_rank: StdinRank,
    /// Start each line of output with the rank it comes from
    #[arg(long)]
    pub(crate) label: bool,
    /// Kill the job after that many seconds
    #[arg(long, value_name = "SECONDS", value_parser = parse_timeout)]
    pub(crate) timeout: Option<u64>,
    /// At the end, print the job's record as JSON; the program's output goes to standard error then
    #[arg(long)]
    pub(crate) json: bool,
    /// The program, a path or a name that is in this directory or in PATH, and its arguments
    #[arg(value_names = ["PROGRAM", "ARG"], required = true, num_args = 1.., trailing_var_arg = true)]
    pub(crate) command: Vec<String>,
}

/// Which rank reads standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StdinRank(pub(crate) Option<u32>);

fn parse_stdin_rank(text: &str) -> Result<StdinRank, String> {
    if text == "none" {
        return Ok(StdinRank(None));
    }
    text.parse().map(|rank| StdinRank(Some(rank))).map_err(|_| "give a rank or `none`".to_owned())
}

/// Seconds, with a fraction if wanted, as milliseconds.
fn parse_timeout(text: &str) -> Result<u64, String> {
    let seconds: f64 = text.parse().map_err(|_| "give seconds, such as 10 or 0.5".to_owned())?;
    let duration = std::time::Duration::try_from_secs_f64(seconds).map_err(|_| "give seconds above 0".to_owned())?;
    match u64::try_from(duration.as_millis()) {
        Ok(0) | Err(_) => Err("give at least 0.001 seconds".to_owned()),
        Ok(ms) => Ok(ms),
    }
}

#[derive(Debug, Args)]
pub(crate) struct Listing {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Jobs {
    /// At most that many, the newest
    #[arg(long, value_name = "N", default_value_t = coppice_api::limits::LISTING_ROWS_DEFAULT)]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) listing: Listing,
}

#[derive(Debug, Args)]
pub(crate) struct Job {
    /// The job's number
    #[arg(value_name = "JOB")]
    pub(crate) job: u64,
    #[command(flatten)]
    pub(crate) listing: Listing,
}

#[derive(Debug, Args)]
pub(crate) struct Kill {
    /// The job's number
    #[arg(value_name = "JOB")]
    pub(crate) job: u64,
    /// Signal that its exits are recorded with, a name or a number
    #[arg(long, value_name = "SIGNAL", default_value = "TERM", value_parser = parse_signal)]
    pub(crate) signal: u8,
}

fn parse_signal(text: &str) -> Result<u8, String> {
    coppice_api::signal::parse(text).ok_or_else(|| "give a signal such as TERM, KILL or 9".to_owned())
}

#[derive(Debug, Args)]
pub(crate) struct Reboot {
    /// The node's number
    #[arg(value_name = "NODE")]
    pub(crate) node: u32,
}

#[derive(Debug, Args)]
pub(crate) struct Console {
    /// The node's number
    #[arg(value_name = "NODE")]
    pub(crate) node: u32,
    /// Go on showing what it prints
    #[arg(long, short)]
    pub(crate) follow: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Ras {
    /// At most that many, the newest
    #[arg(long, value_name = "N", default_value_t = coppice_api::limits::LISTING_ROWS_DEFAULT)]
    pub(crate) limit: u32,
    /// Of this node only
    #[arg(long, value_name = "NODE")]
    pub(crate) node: Option<u32>,
    /// Of this job only
    #[arg(long, value_name = "JOB")]
    pub(crate) job: Option<u64>,
    #[command(flatten)]
    pub(crate) listing: Listing,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// Which shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::{Arguments, Command, StdinRank};

    fn run(arguments: &[&str]) -> super::Run {
        let all = ["coppice", "run"].iter().chain(arguments);
        match Arguments::try_parse_from(all).expect("valid").command {
            Command::Run(run) => run,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn what_follows_the_program_is_the_programs() {
        let run = run(&["-n", "4", "--label", "--env", "A=1", "--env", "B", "./p", "-n", "9", "--label", "--", "-x"]);
        assert_eq!((run.ranks, run.label), (4, true));
        assert_eq!(run.environment, ["A=1", "B"]);
        assert_eq!(run.command, ["./p", "-n", "9", "--label", "--", "-x"]);
    }

    #[test]
    fn defaults_are_one_rank_in_this_directory() {
        let run = run(&["p"]);
        assert_eq!((run.ranks, run.root.to_str(), run.cwd.as_str()), (1, Some("."), "/"));
        assert_eq!((run.stdin_rank, run.timeout), (StdinRank(Some(0)), None));
    }

    #[test]
    fn special_values() {
        assert_eq!(run(&["--stdin-rank", "none", "p"]).stdin_rank, StdinRank(None));
        assert_eq!(run(&["--timeout", "0.5", "p"]).timeout, Some(500));
        for bad in [&["--timeout", "-1"], &["--timeout", "0"], &["--timeout", "x"], &["--stdin-rank", "x"]] {
            assert!(Arguments::try_parse_from(["coppice", "run"].iter().chain(bad).chain(&["p"])).is_err());
        }
    }

    #[test]
    fn clusters_have_names_that_are_file_names() {
        assert!(Arguments::try_parse_from(["coppice", "--cluster", "../x", "down"]).is_err());
        let arguments = Arguments::try_parse_from(["coppice", "down", "--cluster", "two"]).expect("global");
        assert_eq!(arguments.cluster.as_str(), "two");
    }
}
