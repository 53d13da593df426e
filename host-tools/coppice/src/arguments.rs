//! The command line.

mod automatic;
mod checkpoint;
mod core;
mod dashboard;
mod detached;
mod explain;
mod gdb;
mod job_options;
mod link;
mod metrics;
mod objects;
mod overlay;
mod report;
mod run;
mod stage;
mod top;
mod trace;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::TypedValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use coppice_api::cut::Step;
use coppice_api::limits::{CORES_MAX, NODES_DEFAULT, NODES_MAX, PSET_NODES_DEFAULT, PSET_NODES_MAX};
use coppice_api::{ClusterName, PathError};
use coppice_qemu::processor::Processor;

pub(crate) use self::checkpoint::{Checkpoint, Checkpoints, Restart};
pub(crate) use self::core::Core;
pub(crate) use self::dashboard::Dashboard;
pub(crate) use self::detached::{Attach, Logs, Wait};
pub(crate) use self::explain::Explain;
pub(crate) use self::gdb::Gdb;
pub(crate) use self::link::Link;
pub(crate) use self::metrics::Metrics;
pub(crate) use self::objects::Objects;
pub(crate) use self::overlay::{Overlay, OverlayAction, Profile, Samples};
pub(crate) use self::report::Report;
pub(crate) use self::run::Run;
pub(crate) use self::stage::{Stage, StageNodes};
pub(crate) use self::top::Top;
pub(crate) use self::trace::Trace;
use crate::units::{parse_bandwidth, parse_latency, parse_loss, parse_memory, parse_region};

/// Boots clusters of Coppice compute nodes and runs Linux programs on them.
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
        coppice run --detach ./solve             have it run whatever becomes of this terminal\n  \
        coppice logs -f 2                        what it writes, and has written\n  \
        coppice checkpoint 2; coppice restart 2  keep what it is, and have a new job go on from that\n  \
        coppice link 2 --loss 1%                 what a bad network does to it\n  \
        coppice programs                         which nodes would start a program without loading it\n  \
        coppice down                             end everything\n\n\
        Names are bytes. What cannot be printed of them is shown escaped, such as \\xff or \\n; in JSON one that is \
        not UTF-8 is an object with its bytes, such as {\"bytes\":\"66ff6f\"}, and any other a string.\n\n\
        Exit status: 0 if it was done, 125 if not; one line on standard error says why. `run`, `attach` and `wait` \
        otherwise exit as the job did."
)]
pub(crate) struct Arguments {
    /// Which cluster; several can be up side by side
    #[arg(long, global = true, value_name = "NAME", default_value = "default", env = "COPPICE_CLUSTER",
          value_parser = clap::builder::OsStringValueParser::new().try_map(parse_cluster))]
    pub(crate) cluster: ClusterName,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// A cluster's name. A variable that is set to nothing says nothing, as elsewhere.
fn parse_cluster(text: OsString) -> Result<ClusterName, PathError> {
    if text.is_empty() { "default".parse() } else { text.as_os_str().try_into() }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Bring a cluster up and wait until all of its nodes are ready
    Up(Up),
    /// End a cluster: its jobs, nodes and processes; what was recorded stays
    Down,
    /// Run a Linux program on nodes and exit as it did
    Run(Run),
    /// Print what is kept of a job's output
    Logs(Logs),
    /// Show what a job writes from now on, and exit as it does
    Attach(Attach),
    /// Wait until jobs have ended, and exit as they did
    Wait(Wait),
    /// Put a file into the memory of nodes, for jobs that come
    Stage(Stage),
    /// List the nodes, or with --links the links of the network
    Nodes(Nodes),
    /// Show links of the network, make them worse or better, cut them, record what passes
    Link(Link),
    /// List the newest jobs
    Jobs(Jobs),
    /// Watch jobs, nodes and what ranks do, on the terminal
    Top(Top),
    /// Serve pages of the cluster for a browser on this host, until interrupted
    Dashboard(Dashboard),
    /// Show one job: how each rank ended and what it cost
    Job(Job),
    /// Say why a job took as long as it did, or failed, and what to try
    Explain(Explain),
    /// List programs that were run and files that were staged, and which nodes hold them
    Programs(Listing),
    /// Have nodes give back the pages of programs and the staged files that they hold
    Forget(Forget),
    /// Send a job a signal, by default one that ends it
    Kill(Kill),
    /// Make a checkpoint of a job that runs; the job goes on
    Checkpoint(Checkpoint),
    /// List checkpoints, read all of some to verify them, or delete some
    Checkpoints(Checkpoints),
    /// Have a new job go on from a checkpoint and exit as it does
    Restart(Restart),
    /// Make all ranks of a job data and make them again from that, on all nodes at once
    #[command(hide = true)]
    Cut(Cut),
    /// Look at what the ranks of a job do while they do it, or show that
    Overlay(Overlay),
    /// Show where the time of a job's ranks went, as its overlay recorded it
    Profile(Profile),
    /// Write all that is known of a job to a file, as a page for a browser
    Report(Report),
    /// List what the ranks of a job have open: files, pipes, sockets, timers and the like
    Objects(Objects),
    /// Write a core file of a rank that runs, for a debugger; the rank goes on
    Core(Core),
    /// Debug a rank that runs with gdb
    Gdb(Gdb),
    /// Show what the ranks of a job call, as strace shows it
    Trace(Trace),
    /// Boot a node anew; a job on it ends
    Reboot(Reboot),
    /// Show what a node printed on its serial line since its last boot
    Console(Console),
    /// List the newest RAS events: what went wrong, where, how bad
    Ras(Ras),
    /// Print metrics of the cluster for monitoring, in OpenMetrics' text format
    Metrics(Metrics),
    /// Say what is missing on this host, and the command that mends it
    Doctor(Listing),
    /// Print completions for a shell, to be sourced by it
    Completions(Completions),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    coppice up                                  four nodes of 64 MiB\n  \
    coppice up --nodes 2 --cores 4              two nodes of four cores\n  \
    coppice up --cpu Haswell,-avx2              nodes with another processor\n  \
    coppice up --nodes 32 --pset-size 16        32 nodes, an I/O node for each 16\n  \
    coppice up --storage /data/checkpoints      checkpoints of jobs on another disk\n  \
    coppice --cluster bad up --loss 1%          a cluster whose network loses frames\n\n\
    Ctrl-C, until the cluster is up, takes down what has come up. If `up` itself is killed (SIGKILL), the cluster\n\
    comes up all the same, and `coppice down` ends it.")]
pub(crate) struct Up {
    /// Compute nodes
    #[arg(long, value_name = "N", default_value_t = NODES_DEFAULT,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(NODES_MAX)))]
    pub(crate) nodes: u32,
    /// Cores of each node; `coppice run --help` says how ranks and threads share them
    #[arg(long, value_name = "C", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(CORES_MAX)))]
    pub(crate) cores: u32,
    /// Memory of each node, such as 64M or 1G
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = parse_memory)]
    pub(crate) memory: u64,
    /// Length of each node's non-volatile region, such as 256M or 1G, where checkpoints of jobs lie first: a file of
    /// the host that takes room as it is written. 0: none; without it twice the memory
    #[arg(long, value_name = "SIZE", value_parser = parse_region)]
    pub(crate) nmr: Option<u64>,
    /// Compute nodes per I/O node
    #[arg(long, value_name = "N", default_value_t = PSET_NODES_DEFAULT,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(PSET_NODES_MAX)))]
    pub(crate) pset_size: u32,
    /// How nodes are executed
    #[arg(long, value_enum, default_value_t = Accelerator::Auto)]
    pub(crate) accel: Accelerator,
    /// Processor of each node: one of QEMU's models, with features added (+), taken away (-) and given values, such as
    /// EPYC or Haswell,-avx2,level=13; without it all that can be had
    #[arg(long, value_name = "MODEL[,±FEATURE|,NAME=VALUE…]")]
    pub(crate) cpu: Option<Processor>,
    /// What nodes keep of the programs that ran on them, to start them again without loading them
    #[arg(long, value_enum, default_value_t = Retention::Many)]
    pub(crate) retention: Retention,
    /// Directory of checkpoints, made if it is not there; without it one in the cluster's state directory
    #[arg(long, value_name = "DIR")]
    pub(crate) storage: Option<PathBuf>,
    /// TCP port of this host's loopback where monitoring such as Prometheus finds metrics of the cluster, at /metrics;
    /// 0: any that is free. Whoever is on this host can read them there, and nothing else; without it nobody can
    #[arg(long, value_name = "PORT")]
    pub(crate) metrics_port: Option<u16>,
    /// Let the nodes' clocks count instructions, one each ns, so that what programs measure does not move with the
    /// host's load; slower, and only under emulation
    #[arg(long)]
    pub(crate) icount: bool,
    /// Take every process apart and make it again so often, on average, such as 20ms, wherever it is: programs must not
    /// notice. For those who change Coppice
    #[arg(long, value_name = "TIME", value_parser = parse_latency)]
    pub(crate) freeze_every: Option<std::time::Duration>,
    /// Frames that every link loses, each way, such as 1% or 0.05%
    #[arg(long, value_name = "SHARE", default_value = "0%", value_parser = parse_loss, help_heading = "Network")]
    pub(crate) loss: u32,
    /// How long a frame takes over every link, each way, such as 50us or 2ms
    #[arg(long, value_name = "TIME", default_value = "0us", value_parser = parse_latency, help_heading = "Network")]
    pub(crate) latency: std::time::Duration,
    /// Bits per second of every link, each way, such as 1G or 100M; without it as fast as the host can
    #[arg(long, value_name = "RATE", value_parser = parse_bandwidth, help_heading = "Network")]
    pub(crate) bandwidth: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Retention {
    /// Pages of several programs; those of the one that ran longest ago go first when memory is wanted
    Many,
    /// Pages of one: running it again discards those of all others
    One,
}

impl Retention {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Many => "many",
            Self::One => "one",
        }
    }
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
pub(crate) struct Listing {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Nodes {
    /// List the links of nodes and I/O nodes instead: what they are like, what passed on them and was dropped so far,
    /// and how much passes in a second, which is measured first
    #[arg(long)]
    pub(crate) links: bool,
    #[command(flatten)]
    pub(crate) listing: Listing,
}

#[derive(Debug, Args)]
pub(crate) struct Jobs {
    /// At most that many, the newest
    #[arg(long, value_name = "N", default_value_t = coppice_api::limits::LISTING_ROWS_DEFAULT)]
    pub(crate) limit: u32,
    /// Only those that were submitted before this one
    #[arg(long, value_name = "JOB")]
    pub(crate) before: Option<u64>,
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
#[command(after_help = "\
A node keeps the pages of programs that it ran, so that it starts them again without loading them, and files that were \
staged on it, and gives them back by itself when memory is wanted. A program that is running is not touched, nor is a \
file that a job uses.\n\n\
Exit status: 0 if all nodes that held something gave it back; 125 if one did not answer.\n\nExamples:\n  \
    coppice forget                  all programs and files\n  \
    coppice forget ./hello          the program in this file, or that was last run from it\n  \
    coppice forget 5f3a92c01b7e     the program whose hash starts so, see `coppice programs`")]
pub(crate) struct Forget {
    /// The program or staged file: four or more digits its hash starts with, or its file as `run` takes it (./cafe for
    /// a file whose name could be digits of a hash); without it, all of them
    #[arg(value_name = "PROGRAM")]
    pub(crate) program: Option<OsString>,
    #[command(flatten)]
    pub(crate) listing: Listing,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The process of each rank gets the signal and does about it what it has said, as on Linux: a handler runs, what is \
ignored changes nothing, STOP and CONT stop and continue it, and most others end it if it has not said anything. The \
job is over when all of its ranks are. KILL ends the job.\n\n\
A job that waits for nodes is taken out of the queue by KILL, TERM and INT.\n\nExamples:\n  \
    coppice kill 3                       SIGTERM: the job ends, unless it has another use for that\n  \
    coppice kill --signal USR1 3         what its handlers of SIGUSR1 do\n  \
    coppice kill --signal KILL 3         the job ends in any case")]
pub(crate) struct Kill {
    /// The job's number
    #[arg(value_name = "JOB")]
    pub(crate) job: u64,
    /// The signal, a name or a number, such as KILL, SIGUSR1, RTMIN+1 (as glibc counts: 35) or 15
    #[arg(long, value_name = "SIGNAL", default_value = "TERM", value_parser = parse_signal)]
    pub(crate) signal: u8,
}

/// For those who change Coppice: the program does not notice.
#[derive(Debug, Args)]
pub(crate) struct Cut {
    /// The job's number
    #[arg(value_name = "JOB")]
    pub(crate) job: u64,

    /// Lead no further than through this step; the nodes go on by themselves when the next one does not come
    #[arg(long, value_name = "STEP", value_parser = parse_step)]
    pub(crate) last: Option<Step>,
}

fn parse_step(text: &str) -> Result<Step, String> {
    let steps = || Step::IN_ORDER.iter().map(Step::name);
    let step = Step::IN_ORDER.iter().find(|step| step.name() == text);
    step.copied().ok_or_else(|| format!("give one of {}", steps().collect::<Vec<_>>().join(", ")))
}

fn parse_signal(text: &str) -> Result<u8, String> {
    coppice_api::signal::parse(text).ok_or_else(|| "give a signal such as TERM, KILL, RTMIN+1 or 9".to_owned())
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

    use super::Arguments;

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn clusters_have_names_that_are_file_names() {
        assert!(Arguments::try_parse_from(["coppice", "--cluster", "../x", "down"]).is_err());
        let arguments = Arguments::try_parse_from(["coppice", "down", "--cluster", "two"]).expect("global");
        assert_eq!(arguments.cluster.as_str(), "two");
    }
}
