//! Programs that are checkpointed at random moments, whose cluster or job is then killed in some way, and that go on
//! from what is in regions, in the storage, or some of each, where they were or elsewhere: what they say and write is
//! what they say and write if nobody does anything to them.
//!
//! The moments follow from `COPPICE_SEED`; `COPPICE_MOMENTS` says how many there are for each program, and
//! `COPPICE_SECONDS` has all programs come again and again for so long, as `cargo xtask soak` has it.

use std::process::Stdio;
use std::time::{Duration, Instant};

use coppice_protocol::region::{HEADER_BYTES, SLOTS, header_offset};
use coppice_tests::Cluster;
use coppice_tests::cluster::{finish_child, wait_until};
use coppice_tests::random::{Random, told};

use rustix::fs::{FallocateFlags, fallocate};
use serde_json::Value;

use super::programs::{Program, has_same_lines, is_put_together, programs};
use super::{Aim, VICTIMS, Victim};
use crate::checkpoint::{checkpoint_soon, restart, said, start};
use crate::regions::region;

/// The suite's seed, and moments of each program, of how many programs.
const SEED: u64 = 20_261_127;
const MOMENTS: u64 = 1;
const PROGRAMS: usize = 2;

const UP: [&str; 8] = ["--nodes", "4", "--pset-size", "2", "--memory", "128M", "--cores", "2"];
const NODES: u32 = 4;

/// How long a program runs before it is checkpointed at most, how long a checkpoint is made before something is killed,
/// and how long a job goes on from one, ms.
const PAUSE_MILLISECONDS_MAX: u64 = 700;
const MAKING_MILLISECONDS_MAX: u64 = 400;
const STARTING_MILLISECONDS_MAX: u64 = 2000;

/// Longest the ranks of a job may take to be there.
const START_TIME_MAX: Duration = Duration::from_secs(60);

/// How often a program is run for each moment that is wanted, if it comes to its end before.
const RUNS_OF_MOMENT: u64 = 20;

/// How a job ends behind a checkpoint.
#[derive(Clone, Copy, Debug)]
enum Ending {
    /// `coppice kill`.
    Killed,
    Lost(Victim),
}

/// What becomes of programs.
struct Moments<'a> {
    cluster: &'a Cluster,
    random: Random,
    /// Where the job runs, as it is said to `coppice`.
    nodes: &'static str,
    /// What was done to the one that runs now.
    done: Vec<String>,
}

impl Moments<'_> {
    /// Starts a program.
    fn start(&mut self, program: &Program) -> String {
        self.nodes = program.nodes[0];
        let options = [program.ranks, &["--nodes-list", self.nodes][..], &[&program.path], program.arguments];
        start(self.cluster, &options.concat())
    }

    /// Waits for the end of a job. Gives what it has said.
    fn end(&self, program: &Program, job: &str) -> String {
        let ended = self.cluster.coppice(&["wait", job]);
        let text = said(self.cluster, job);
        assert_eq!(ended.status, 0, "{}: {}{text}{}", program.name, ended.stderr, self.told());
        text
    }

    fn note(&mut self, line: String) {
        println!("  {line}");
        self.done.push(line);
    }

    fn told(&self) -> String {
        self.done.iter().map(|line| format!("\n  {line}")).collect()
    }

    /// The file that a program has made.
    fn file(&self, program: &Program) -> Option<Vec<u8>> {
        program.file.map(|file| std::fs::read(self.cluster.root().join(file)).expect("the file"))
    }

    /// Runs a program, undisturbed and then until it had so many moments. Gives how many it had.
    fn of_program(&mut self, program: &Program, moments: u64, end: Option<Instant>) -> u64 {
        self.done.clear();
        let job = self.start(program);
        let undisturbed = self.end(program, &job);
        let file = self.file(program);
        let mut had = 0;
        for _ in 0..moments * RUNS_OF_MOMENT {
            if had == moments || end.is_some_and(|end| Instant::now() >= end) {
                return had;
            }
            self.done.clear();
            // All jobs that went on from each other, and whether all that they said is known.
            let (mut jobs, mut newest, mut is_all) = (vec![self.start(program)], None, true);
            let is_over = loop {
                let job = jobs.last().expect("there is one").clone();
                if had == moments {
                    break true;
                }
                match self.moment(program, &job, newest.take()) {
                    Moment::Over => break true,
                    Moment::Restarted { job, from, ending } => {
                        had += 1;
                        newest = Some(from);
                        // What these were about to pass on is lost with them.
                        is_all &= !matches!(ending, Ending::Lost(Victim::IoNode | Victim::ServiceNode));
                        jobs.push(job);
                    }
                    // It begins once more.
                    Moment::Nothing => break false,
                }
            };
            if is_over {
                self.end(program, jobs.last().expect("there is one"));
                let parts: Vec<String> = jobs.iter().map(|job| said(self.cluster, job)).collect();
                let is_right = if program.ranks.is_empty() {
                    is_put_together(&undisturbed, &parts, is_all)
                } else {
                    has_same_lines(&undisturbed, &parts, (program.result, is_all))
                };
                assert!(is_right, "{}: {parts:?} and not {undisturbed}{}", program.name, self.told());
                assert!(self.file(program) == file, "{}: another file{}", program.name, self.told());
            }
            // Not all of them have some.
            jobs.iter().for_each(|job| drop(self.cluster.coppice(&["checkpoints", "--delete", job])));
        }
        assert!(had > 0, "{} came to its end before each checkpoint", program.name);
        had
    }

    /// Has a job end at a random moment: behind a checkpoint, while one is made, or while it goes on from one. Then it
    /// goes on from the newest that there is.
    fn moment(&mut self, program: &Program, job: &str, from: Option<String>) -> Moment {
        let cluster = self.cluster;
        std::thread::sleep(self.random.time_below(PAUSE_MILLISECONDS_MAX));
        let ending = match self.random.below(VICTIMS.len() as u64 + 1) {
            0 => Ending::Killed,
            victim => Ending::Lost(VICTIMS[usize::try_from(victim - 1).expect("few")]),
        };
        let which = self.one_of_its_nodes();
        let aim = if let Ending::Lost(victim) = ending { Some(Aim::at(cluster, victim, which)) } else { None };
        let mut line = format!("job {job}: {ending:?} {which}");
        let ways = if from.is_some() { 3 } else { 2 };
        match self.random.below(ways) {
            0 => {
                if checkpoint_soon(cluster, job).is_none() {
                    return Moment::Over;
                }
                self.kill(ending, aim.as_ref(), job);
            }
            1 => {
                self.wait_until_it_runs(job);
                let mut command = cluster.command(&["checkpoint", job]);
                let making = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start");
                line += &self.kill_after(MAKING_MILLISECONDS_MAX, ending, aim.as_ref(), job);
                let made = finish_child(making, "checkpoint");
                assert!([0, 125].contains(&made.status), "{}: {}{}", program.name, made.stderr, self.told());
                line += &format!(", {}{}", made.text().trim(), made.stderr.trim());
            }
            _ => line += &self.kill_after(STARTING_MILLISECONDS_MAX, ending, aim.as_ref(), job),
        }
        if let Some(aim) = aim {
            aim.recover(cluster, &UP);
        }
        let ended = cluster.coppice(&["wait", job]);
        assert!([0, 125, 137].contains(&ended.status), "{}: {}{}", program.name, ended.stderr, self.told());
        self.note(line);
        let listed = cluster.coppice(&["checkpoints", job, "--json"]);
        let listed: Value = serde_json::from_slice(&listed.stdout).unwrap_or_default();
        let newest = listed.as_array().and_then(|all| all.last()?["checkpoint"].as_str().map(str::to_owned));
        if newest.is_none() && ended.status == 0 {
            return Moment::Over;
        }
        let Some(newest) = newest.or(from) else { return Moment::Nothing };
        let emptied: Vec<u32> = match self.random.below(3) {
            0 => Vec::new(),
            1 => (0..NODES).collect(),
            _ => (0..NODES).filter(|_| self.random.below(2) == 0).collect(),
        };
        emptied.iter().for_each(|node| empty(cluster, *node));
        self.nodes = self.random.one_of(&program.nodes);
        let next = restart(cluster, &newest, &["--nodes-list", self.nodes]);
        self.note(format!("job {next} from {newest} on {}, regions of {emptied:?} emptied", self.nodes));
        Moment::Restarted { job: next, from: newest, ending }
    }

    /// Kills at some time below that, and says when.
    fn kill_after(&mut self, milliseconds: u64, ending: Ending, aim: Option<&Aim>, job: &str) -> String {
        let time = self.random.time_below(milliseconds);
        std::thread::sleep(time);
        self.kill(ending, aim, job);
        format!(" after {time:?}")
    }

    /// Waits until all ranks of a job are there, or are over.
    fn wait_until_it_runs(&self, job: &str) {
        wait_until("it runs", START_TIME_MAX, || {
            let state = self.cluster.json(&["job", job])["state"].clone();
            if ["running", "ended"].iter().any(|wanted| state == *wanted) { Ok(()) } else { Err(state.to_string()) }
        });
    }

    /// One of the nodes that the job runs on.
    fn one_of_its_nodes(&mut self) -> usize {
        let (first, last) = self.nodes.split_once('-').unwrap_or((self.nodes, self.nodes));
        let [first, last] = [first, last].map(|node| node.parse::<u64>().expect("a number"));
        usize::try_from(first + self.random.below(last - first + 1)).expect("few")
    }

    fn kill(&self, ending: Ending, aim: Option<&Aim>, job: &str) {
        if let Some(aim) = aim {
            aim.kill();
        }
        // It may have ended, and it may have another I/O node.
        if matches!(ending, Ending::Killed | Ending::Lost(Victim::IoNode)) {
            let _ = self.cluster.coppice(&["kill", "--signal", "KILL", job]);
        }
    }
}

/// What became of a job.
enum Moment {
    /// It comes to its end by itself.
    Over,
    /// It goes on as another.
    Restarted {
        /// Its number now.
        job: String,
        /// From which checkpoint.
        from: String,
        ending: Ending,
    },
    /// It is lost, and there is no checkpoint of it.
    Nothing,
}

/// Takes all out of a region: what is checkpointed is in the storage alone.
fn empty(cluster: &Cluster, node: u32) {
    let file = std::fs::OpenOptions::new().write(true).open(region(cluster, node)).expect("a region");
    let all = file.metadata().expect("a length").len();
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let headers = header_offset(0);
    assert_eq!(headers + u64::from(SLOTS) * HEADER_BYTES, header_offset(SLOTS));
    fallocate(&file, flags, headers, all - headers).expect("punch");
}

#[test]
fn programs_do_not_notice_whatever_is_killed_at_whatever_moment() {
    let seed = told("COPPICE_SEED").unwrap_or(SEED);
    println!("COPPICE_SEED={seed}");
    let begun = Instant::now();
    let end = told("COPPICE_SECONDS").map(|seconds| begun + Duration::from_secs(seconds));
    let wanted = told("COPPICE_MOMENTS");
    let cluster = Cluster::up_with(&UP);
    let mut moments = Moments { cluster: &cluster, random: Random::of_seed(seed), nodes: "0", done: Vec::new() };
    let programs = programs();
    let first = usize::try_from(seed % programs.len() as u64).expect("few");
    let in_turn = programs.iter().cycle().skip(if end.is_some() { first } else { 0 });
    let count = match (end, wanted) {
        (Some(_), _) => usize::MAX,
        (None, Some(_)) => programs.len(),
        (None, None) => PROGRAMS,
    };
    let mut had = 0;
    for program in in_turn.take(count) {
        if end.is_some_and(|end| Instant::now() >= end) {
            break;
        }
        let of_it = moments.of_program(program, wanted.unwrap_or(MOMENTS), end);
        had += of_it;
        println!("{}: {of_it}, {:.0} s", program.name, begun.elapsed().as_secs_f64());
    }
    println!("{had} moments in {:.0} s", begun.elapsed().as_secs_f64());
}
