//! The command line of `run`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use coppice_api::counted;
use coppice_api::job;
use coppice_api::job::{Fence, Modex, Startup};
use coppice_api::limits::{NODES_MAX, RANKS_PER_NODE_MAX};
use coppice_api::staging::{self, ProgramStaging};

use super::automatic::Automatic;
use super::job_options::JobOptions;
use super::overlay::RunOverlay;

#[derive(Debug, Args)]
#[command(after_help = "\
The program sees one directory of this host as /, and nothing outside it. If it is linked dynamically, its libraries \
are looked for there: --root / has those of this host.\n\n\
Ranks: one per node, or as many as --ranks-per-node says: the first node has the first ranks, the next node those \
that follow. A job has its nodes for itself.\n\n\
Cores: one rank on a node has all of its cores (`up --cores C`). With R ranks on each node the first has the first C/R \
cores, the next those that follow; with more ranks than cores they share them in turn. A rank's threads are spread \
over its cores, each on the one with the fewest, and stay there unless the program says otherwise \
(sched_setaffinity).\n\n\
When a rank exits or is \
ended by a signal the others keep running; the job is over when all are. When a node is lost, or a rank cannot be \
started, the others are ended by SIGKILL.\n\n\
Nodes keep the pages of the programs that they ran, and start such a program again without loading it. Nodes that \
hold pages of the program are chosen first; at the end a line on standard error says what that saved.\n\n\
Staging: FILE is sent to all nodes of the job at once, from node to node, as it is when the job is submitted, and the \
ranks find it at PATH, an absolute path inside the root that is not below /dev, /proc or /sys; without =PATH, where \
it lies in the root. FILE ends at the first '='. At most 16 files, the program included if --stage-program says so; \
together they must fit into the memory of a node. A program that no rank has started on its nodes before is sent \
ahead by itself where that is reckoned to be faster than to have each node fetch what it touches, which needs a \
cluster whose links' bandwidth is known (`up --bandwidth`); `coppice job` says why it was or was not.\n\n\
Checkpoints: with --checkpoint-every one is made again and again, as `coppice checkpoint` makes one, and the oldest \
of the job are deleted; one that fails is said in `coppice ras` and tried again. With --max-restarts a job that has \
lost a node goes on as a new job from its newest checkpoint, on any nodes, and `run` follows that and exits as it \
does. Nothing is restarted that ended by itself, or that somebody ended.\n\n\
Exit status: the highest of the ranks' exit statuses, where a rank ended by a signal counts as 128 + signal; 125 if \
a node was lost, a rank could not be started, or Coppice could not do what was asked.\n\n\
Ctrl-C sends the ranks SIGINT, which ends them unless they have a handler for it or ignore it; a second Ctrl-C leaves \
at once, and the job is killed. A job ends with `run` and its terminal, unless it is detached.\n\n\
Detached: `run --detach` prints the job's number and ends, and the job goes on until it has ended, somebody ends it \
(`coppice kill`), or the cluster does. It has no standard input. `coppice logs` prints what it wrote, `coppice attach` \
shows what it goes on to write, `coppice wait` exits as it did. What is kept of its output is cut, and the job goes \
on, when that has the room that --keep-output gives it (64 MiB if that is not said), or cannot be written as the disk \
is full.\n\nExamples:\n  \
    coppice run ./hello world\n  \
    coppice run -n 4 --label ./hello\n  \
    coppice run -n 8 --ranks-per-node 4 ./solve\n  \
    coppice run --root ~/data --cwd /in --env LANG=C ./convert *.txt\n  \
    seq 9 | coppice run -n 2 --stdin-rank 1 ./sum\n  \
    coppice run --nodes-list 0,4-6 ./hello\n  \
    coppice run -n 4 --stage table.bin --stage ~/model=/in/model ./solve\n  \
    coppice run --timeout 10 ./loops-forever\n  \
    coppice run --trace calls.txt ./hello\n  \
    coppice run --checkpoint-every 10m --max-restarts 3 ./solve\n  \
    coppice run --core ./crashes; gdb ./crashes core.7.0\n  \
    job=$(coppice run --detach -n 4 ./solve); coppice wait $job; coppice logs $job")]
pub(crate) struct Run {
    /// Ranks [default: 1, or as many as the nodes of --nodes-list take]
    #[arg(short = 'n', long = "ranks", value_name = "N")]
    pub(crate) ranks: Option<u32>,
    /// Ranks on each node; the last node gets what is left
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_ranks_per_node)]
    pub(crate) ranks_per_node: u32,
    /// Directory of this host that the program sees as /
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) root: PathBuf,
    /// Working directory, inside the root
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub(crate) cwd: OsString,
    /// Environment variable; NAME alone passes this shell's value on; may be repeated
    #[arg(long = "env", value_name = "NAME=VALUE")]
    pub(crate) environment: Vec<OsString>,
    /// Rank that reads standard input, or `none` [default: 0, or none with --detach]
    #[arg(long, value_name = "RANK", value_parser = parse_stdin_rank)]
    pub(crate) stdin_rank: Option<StdinRank>,
    #[command(flatten)]
    pub(crate) options: JobOptions,
    /// Kill the job after that many seconds
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub(crate) timeout: Option<u64>,
    /// What becomes of the job when a rank ends that speaks PMI and has not finalized, or a node is lost
    #[arg(long, value_enum, default_value_t = OnRankFailure::End, value_name = "WHAT")]
    pub(crate) on_rank_failure: OnRankFailure,
    /// Where calls on files are made: `leased`, on the nodes as far as they know the answer, which is as on one
    /// machine, or `strict`, each at the I/O node
    #[arg(long, value_enum, default_value_t = FileCalls::Leased, value_name = "WAY")]
    pub(crate) io: FileCalls,
    /// How ranks come to know what others have put: `full`, with every barrier, or `direct`, when they ask for it
    /// [default: full in jobs of at most 4096 ranks]
    #[arg(long, value_name = "WAY", help_heading = "Start of MPI programs")]
    pub(crate) modex: Option<Modex>,
    /// How nodes meet in a barrier: `dissemination`, `tree` or `ring` [default: the one that is predicted to be
    /// quickest]
    #[arg(long, value_name = "ALGORITHM", help_heading = "Start of MPI programs")]
    pub(crate) fence: Option<Fence>,
    /// File that every node has in its memory, read only, before the job starts; may be repeated
    #[arg(long = "stage", value_name = "FILE[=PATH]", help_heading = "Staging")]
    pub(crate) stage: Vec<OsString>,
    /// Send the program to all nodes before the job starts, unless all hold pages of it, rather than page by page as
    /// they need it
    #[arg(long, help_heading = "Staging", overrides_with = "no_stage")]
    pub(crate) stage_program: bool,
    /// Never send the program ahead, even where that seems to be faster; files of --stage are sent all the same
    #[arg(long, help_heading = "Staging", overrides_with = "stage_program")]
    pub(crate) no_stage: bool,
    /// How all that is sent: down two trees at once, or down branches and then from node to node as it was published
    #[arg(long, value_enum, default_value_t = Scheme::TwoTrees, help_heading = "Staging")]
    pub(crate) scheme: Scheme,
    /// Write to FILE (`-`: standard error) what the ranks call, as strace shows it: a line for each system call
    #[arg(long, value_name = "FILE", conflicts_with_all = ["detach", "max_restarts"])]
    pub(crate) trace: Option<PathBuf>,
    /// Do not say at the end which nodes had kept pages of the program; what went wrong is said all the same
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) automatic: Automatic,
    #[command(flatten)]
    pub(crate) overlay: RunOverlay,
    /// Load the program even where nodes hold pages of it or of files, choose nodes without regard to that, and leave
    /// there nothing of the files that are read
    #[arg(long, help_heading = "Nodes")]
    pub(crate) no_retain: bool,
    /// How long the job is going to run, as far as you know; recorded with it
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, help_heading = "Nodes")]
    pub(crate) estimate: Option<u64>,
    /// The program, a path or a name that is in this directory or in PATH, and its arguments
    #[arg(value_names = ["PROGRAM", "ARG"], required = true, num_args = 1.., trailing_var_arg = true)]
    pub(crate) command: Vec<OsString>,
}

/// How staged files get to the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scheme {
    /// Down two trees at once.
    TwoTrees,
    /// The published scheme: down branches, then from node to node.
    Tree,
}

impl From<Scheme> for staging::Scheme {
    fn from(scheme: Scheme) -> Self {
        match scheme {
            Scheme::TwoTrees => Self::TwoTrees,
            Scheme::Tree => Self::Tree,
        }
    }
}

/// What becomes of a job that loses a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnRankFailure {
    /// It ends, with the rank's status.
    End,
    /// It goes on; programs that can do without some ranks are told of them by PMIx.
    Continue,
}

impl From<OnRankFailure> for job::OnRankFailure {
    fn from(what: OnRankFailure) -> Self {
        match what {
            OnRankFailure::End => Self::End,
            OnRankFailure::Continue => Self::Continue,
        }
    }
}

/// Where a job's calls on files are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FileCalls {
    /// On the nodes, as far as they know the answer
    Leased,
    /// At the I/O node
    Strict,
}

impl From<FileCalls> for job::FileCalls {
    fn from(what: FileCalls) -> Self {
        match what {
            FileCalls::Leased => Self::Leased,
            FileCalls::Strict => Self::Strict,
        }
    }
}

impl Run {
    /// The rank that reads standard input.
    pub(crate) fn input_rank(&self) -> Option<u32> {
        let default = if self.options.detach { None } else { Some(0) };
        self.stdin_rank.map_or(default, |StdinRank(rank)| rank)
    }

    /// How its ranks find each other.
    pub(crate) fn startup(&self) -> Startup {
        Startup { modex: self.modex, fence: self.fence }
    }

    /// Whether the program is to be staged.
    pub(crate) fn program_staging(&self) -> ProgramStaging {
        match (self.stage_program, self.no_stage) {
            (true, _) => ProgramStaging::Always,
            (_, true) => ProgramStaging::Never,
            (false, false) => ProgramStaging::IfFaster,
        }
    }

    /// Ranks and the nodes to run them on; no nodes: any.
    pub(crate) fn ranks_and_nodes(&self) -> Result<(u32, Vec<u32>), String> {
        let Some(NodesList(nodes)) = &self.options.nodes_list else { return Ok((self.ranks.unwrap_or(1), Vec::new())) };
        let named = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
        let per_node = self.ranks_per_node.max(1);
        match self.ranks {
            Some(ranks) if ranks.div_ceil(per_node) != named => {
                let each = if per_node == 1 {
                    "one for each rank".to_owned()
                } else {
                    counted(ranks.div_ceil(per_node), "node")
                };
                Err(format!(
                    "--nodes-list names {} for {}; name {each}, or leave -n out",
                    counted(named, "node"),
                    counted(ranks, "rank")
                ))
            }
            Some(ranks) => Ok((ranks, nodes.clone())),
            None => Ok((named.saturating_mul(per_node), nodes.clone())),
        }
    }
}

fn parse_ranks_per_node(text: &str) -> Result<u32, String> {
    let fits = text.parse().ok().filter(|ranks| (1..=RANKS_PER_NODE_MAX).contains(ranks));
    fits.ok_or_else(|| format!("a node takes 1 to {RANKS_PER_NODE_MAX} ranks"))
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

/// Nodes in the order of the ranks, each once; at least one, at most [`NODES_MAX`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodesList(pub(crate) Vec<u32>);

/// Node numbers and ranges of them, both ends included: `3,1,4-5`.
pub(super) fn parse_nodes(text: &str) -> Result<NodesList, String> {
    let number = |digits: &str| {
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err("give node numbers and ranges, such as 0,3-5".to_owned());
        }
        let none = || format!("there is no node {digits}: a cluster has at most {NODES_MAX}, counted from 0");
        digits.parse().ok().filter(|node| *node < NODES_MAX).ok_or_else(none)
    };
    let mut nodes = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if last < first {
            return Err(format!("{part} counts down; give {last}-{first}"));
        }
        for node in first..=last {
            // Also what bounds the list: there are only so many numbers.
            if nodes.contains(&node) {
                return Err(format!("node {node} is named twice; name each node once"));
            }
            nodes.push(node);
        }
    }
    Ok(NodesList(nodes))
}

/// Seconds, with a fraction if wanted, as milliseconds.
pub(super) fn parse_seconds(text: &str) -> Result<u64, String> {
    let seconds: f64 = text.parse().map_err(|_| "give seconds, such as 10 or 0.5".to_owned())?;
    if !(0.001..=SECONDS_MAX).contains(&seconds) {
        return Err(format!("give at least 0.001 and at most {SECONDS_MAX} seconds"));
    }
    // Exact enough, and in range by the check above.
    Ok((seconds * 1000.0).round() as u64)
}

/// Longest time that can be given, s: a hundred years.
const SECONDS_MAX: f64 = 3.2e9;

#[cfg(test)]
mod tests {
    use clap::Parser;
    use coppice_api::limits::OUTPUT_LOG_BYTES_DEFAULT;

    use super::{Fence, Modex, NODES_MAX, NodesList, OnRankFailure, ProgramStaging, Run, Scheme};
    use super::{parse_nodes, parse_seconds};
    use crate::arguments::{Arguments, Command};

    fn run(arguments: &[&str]) -> Run {
        let all = ["coppice", "run"].iter().chain(arguments);
        match Arguments::try_parse_from(all).expect("valid").command {
            Command::Run(run) => run,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_follows_the_program_is_the_programs() {
        let run = run(&["-n", "4", "--label", "--env", "A=1", "--env", "B", "./p", "-n", "9", "--label", "-q", "--"]);
        assert_eq!((run.ranks, run.options.label, run.quiet), (Some(4), true, false));
        assert_eq!(run.environment, ["A=1", "B"]);
        assert_eq!(run.command, ["./p", "-n", "9", "--label", "-q", "--"]);
    }

    #[test]
    fn defaults_are_one_rank_in_this_directory_on_any_node() {
        let run = run(&["p"]);
        assert_eq!((run.ranks_and_nodes(), run.root.to_str()), (Ok((1, vec![])), Some(".")));
        assert_eq!((run.cwd.to_str(), run.input_rank(), run.timeout), (Some("/"), Some(0), None));
        assert_eq!((run.options.detach, run.options.output_kept()), (false, None));
        assert_eq!((run.no_retain, run.quiet, run.estimate), (false, false, None));
    }

    #[test]
    fn files_are_staged_in_the_order_they_are_named() {
        let run = run(&["--stage", "a=/b=c", "--stage", "d", "--stage-program", "./p", "--stage", "e"]);
        assert_eq!((run.stage, run.stage_program), (vec!["a=/b=c".into(), "d".into()], true));
        let staging = |arguments: &[&str]| self::run(&[arguments, &["p"]].concat()).program_staging();
        assert_eq!(staging(&[]), ProgramStaging::IfFaster);
        assert_eq!(
            (staging(&["--stage-program"]), staging(&["--no-stage"])),
            (ProgramStaging::Always, ProgramStaging::Never)
        );
        assert_eq!(staging(&["--no-stage", "--stage-program"]), ProgramStaging::Always);
        assert_eq!(staging(&["--stage-program", "--no-stage"]), ProgramStaging::Never);
        let scheme = |arguments: &[&str]| self::run(&[arguments, &["p"]].concat()).scheme;
        assert_eq!((scheme(&[]), scheme(&["--scheme", "tree"])), (Scheme::TwoTrees, Scheme::Tree));
    }

    #[test]
    fn a_detached_job_has_no_input_and_its_output_is_kept() {
        let detached = run(&["-d", "p"]);
        assert_eq!((detached.options.detach, detached.input_rank()), (true, None));
        assert_eq!(detached.options.output_kept(), Some(OUTPUT_LOG_BYTES_DEFAULT));
        let kept = |arguments: &[&str]| run(&[arguments, &["p", "x"]].concat()).options.output_kept();
        assert_eq!(kept(&["--keep-output"]), Some(OUTPUT_LOG_BYTES_DEFAULT));
        assert_eq!((kept(&["--keep-output=8K"]), kept(&["-d", "--keep-output=4G"])), (Some(8192), Some(4 << 30)));
        for bad in [&["--keep-output=1K"][..], &["--keep-output=5G"], &["-d", "--json"], &["-d", "--label"]] {
            assert!(Arguments::try_parse_from([&["coppice", "run"], bad, &["p"]].concat()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn special_values() {
        assert_eq!(run(&["--stdin-rank", "none", "p"]).input_rank(), None);
        assert_eq!(run(&["--timeout", "0.5", "p"]).timeout, Some(500));
        assert_eq!(run(&["p"]).on_rank_failure, OnRankFailure::End);
        assert_eq!(run(&["--on-rank-failure", "continue", "p"]).on_rank_failure, OnRankFailure::Continue);
        assert_eq!(run(&["--estimate", "90", "p"]).estimate, Some(90_000));
        let modex = |arguments: &[&str]| run(&[arguments, &["p"]].concat()).startup().modex;
        assert_eq!((modex(&[]), modex(&["--modex", "direct"])), (None, Some(Modex::Direct)));
        let fence = |arguments: &[&str]| run(&[arguments, &["p"]].concat()).startup().fence;
        assert_eq!((fence(&[]), fence(&["--fence", "ring"])), (None, Some(Fence::Ring)));
        assert!(run(&["-q", "p"]).quiet && run(&["--no-retain", "p"]).no_retain);
        let time = |text: &str| parse_seconds(text).map_err(|wrong| wrong.contains("at most 3200000000 seconds"));
        assert_eq!((time("0.0011"), time("3.2e9")), (Ok(1), Ok(3_200_000_000_000)));
        for wrong in ["1e18", "1e400", "inf", "nan", "0.0001", "-3"] {
            assert_eq!(time(wrong), Err(true), "{wrong}");
        }
        for bad in [
            &["--timeout", "-1"],
            &["--timeout", "0"],
            &["--estimate", "x"],
            &["--stdin-rank", "x"],
            &["--modex", "x"],
            &["--fence", "x"],
        ] {
            assert!(Arguments::try_parse_from(["coppice", "run"].iter().chain(bad).chain(&["p"])).is_err());
        }
    }

    #[test]
    fn lists_of_nodes_keep_their_order() {
        let parsed = |text| parse_nodes(text).map(|NodesList(nodes)| nodes);
        assert_eq!(parsed("7"), Ok(vec![7]));
        assert_eq!(parsed("0,3-5"), Ok(vec![0, 3, 4, 5]));
        assert_eq!(parsed("3,1,4-4,0"), Ok(vec![3, 1, 4, 0]));
        let all = format!("0-{}", NODES_MAX - 1);
        assert_eq!(parsed(&all).map(|nodes| nodes.len()), Ok(NODES_MAX as usize));
    }

    #[test]
    fn bad_lists_of_nodes_are_refused_in_one_line_each() {
        let beyond = format!("0,{NODES_MAX}");
        let cases: &[(&str, &str)] = &[
            ("", "such as 0,3-5"),
            ("x", "such as 0,3-5"),
            ("1,,2", "such as 0,3-5"),
            ("1,", "such as 0,3-5"),
            ("-1", "such as 0,3-5"),
            ("+1", "such as 0,3-5"),
            ("1-", "such as 0,3-5"),
            ("1-2-3", "such as 0,3-5"),
            ("1 2", "such as 0,3-5"),
            ("٣", "such as 0,3-5"),
            ("5-3", "give 3-5"),
            ("1,2,1", "node 1 is named twice"),
            ("0-3,2", "node 2 is named twice"),
            (&beyond, "there is no node 16384"),
            ("0-4294967295", "there is no node 4294967295"),
            ("99999999999999999999", "there is no node 99999999999999999999"),
        ];
        for (list, words) in cases {
            let error = parse_nodes(list).expect_err(list);
            assert!(error.contains(words) && !error.contains('\n'), "{list}: {error}");
        }
    }

    #[test]
    fn a_list_of_nodes_says_how_many_ranks() {
        assert_eq!(run(&["--nodes-list", "2,0", "p"]).ranks_and_nodes(), Ok((2, vec![2, 0])));
        assert_eq!(run(&["-n", "2", "--nodes-list", "2,0", "p"]).ranks_and_nodes(), Ok((2, vec![2, 0])));
        let error = run(&["-n", "1", "--nodes-list", "2,0", "p"]).ranks_and_nodes().expect_err("too many");
        assert!(error.starts_with("--nodes-list names 2 nodes for 1 rank;"), "{error}");
        let error = run(&["-n", "3", "--nodes-list", "2", "p"]).ranks_and_nodes().expect_err("too few");
        assert!(error.starts_with("--nodes-list names 1 node for 3 ranks;"), "{error}");
    }

    #[test]
    fn several_ranks_on_a_node_need_fewer_nodes() {
        let on = |arguments: &[&str]| run(&[&["--ranks-per-node", "4"], arguments, &["p"]].concat()).ranks_and_nodes();
        assert_eq!(on(&["-n", "9"]), Ok((9, vec![])));
        assert_eq!(on(&["--nodes-list", "2,0"]), Ok((8, vec![2, 0])));
        assert_eq!(on(&["-n", "5", "--nodes-list", "2,0"]), Ok((5, vec![2, 0])));
        let error = on(&["-n", "9", "--nodes-list", "2,0"]).expect_err("too few");
        assert_eq!(error, "--nodes-list names 2 nodes for 9 ranks; name 3 nodes, or leave -n out");
        assert!(on(&["-n", "4", "--nodes-list", "2,0"]).is_err());
        for bad in ["0", "65", "x", "-1"] {
            let all = ["coppice", "run", "--ranks-per-node", bad, "p"];
            assert!(Arguments::try_parse_from(all).is_err(), "{bad}");
        }
    }
}
