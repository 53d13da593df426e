//! A node on which jobs are tried one after the other, and what it says of itself between them.

use std::fmt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use coppice_tests::Cluster;
use coppice_tests::cluster::finish;
use coppice_tests::guests::{Toolchain, program};
use serde_json::Value;

use super::random::{Job, Kill};
use crate::threads_endurance::{State, state};

/// Longest a job may take that ends by itself, and longest until the node is free after one was ended.
const JOB_TIME_MAX: Duration = Duration::from_secs(90);
const FREE_TIME_MAX: Duration = Duration::from_secs(60);
/// Longest until what the node counts is as before: connections that were closed take a moment.
const SETTLE_TIME_MAX: Duration = Duration::from_secs(15);
/// Jobs before what the node counts is looked at first: what the kernel takes for its own use the first times, it
/// keeps.
const WARM_UP_JOBS: u64 = 6;
/// What is used of a node's heap may differ by this much, KiB: its tables of what happened last are not always as full.
const HEAP_KIB: u64 = 16;
/// Lines of a node's console that are shown with a failure.
const CONSOLE_LINES: usize = 40;
/// At most so many bytes that were free when a node had booted are not after all jobs, a hundredth of the larger nodes'
/// memory: what its heap holds beyond what is used.
const HELD_BYTES_MAX: u64 = 600 * 1024;
const POLL: Duration = Duration::from_millis(5);

/// What a node has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub(super) megabytes: u32,
    pub(super) cores: u32,
}

impl Kind {
    /// Reads what is printed.
    pub(super) fn parse(text: &str) -> Self {
        let parts = text.split_once("M,").map(|(megabytes, cores)| (megabytes.parse(), cores.parse()));
        let Some((Ok(megabytes), Ok(cores))) = parts else { panic!("a node is such as 64M,2, not {text}") };
        Self { megabytes, cores }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}M,{}", self.megabytes, self.cores)
    }
}

/// A cluster of one node.
pub(super) struct Node {
    pub(super) kind: Kind,
    cluster: Cluster,
    program: PathBuf,
    generation: u64,
    /// What nobody used when it had booted, bytes.
    free_at_boot: u64,
    before: State,
}

impl Node {
    pub(super) fn boot(kind: Kind) -> Self {
        let (memory, cores) = (format!("{}M", kind.megabytes), kind.cores.to_string());
        let cluster = Cluster::up_with(&["--nodes", "1", "--memory", &memory, "--cores", &cores]);
        let free_at_boot = free_bytes(&cluster);
        let before = state(&cluster, 0);
        let program = program("objects", Toolchain::Musl);
        let mut node = Self { kind, cluster, program, generation: 1, free_at_boot, before };
        node.look();
        node
    }

    /// Notes what it counts now, once it has its own.
    fn look(&mut self) {
        for seed in 0..WARM_UP_JOBS {
            // What goes wrong here goes wrong again where it is looked for.
            let _ = self.run(seed);
        }
        self.before = state(&self.cluster, 0);
    }

    /// Runs the job of a seed. Returns its ranks, or what went wrong.
    pub(super) fn run(&self, seed: u64) -> Result<u64, String> {
        let job = Job::of(seed);
        let ranks = job.ranks.to_string();
        let mut command = self.cluster.command(&["run", "--quiet", "-n", &ranks, "--ranks-per-node", &ranks]);
        command.arg(&self.program).args(job.arguments());
        // Held open as long as the job runs: nobody says anything to it.
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut child = child.expect("start");
        let start = Instant::now();
        let mut ended = job.kill.map_or(Ok(()), |kill| self.kill(&mut child, kill));
        while ended.is_ok() && child.try_wait().expect("a child").is_none() {
            if start.elapsed() > JOB_TIME_MAX {
                ended = Err(format!("no end after {} s", JOB_TIME_MAX.as_secs()));
                break;
            }
            std::thread::sleep(POLL);
        }
        let _ = child.kill();
        let _ = child.wait();
        ended.and_then(|()| self.is_free()).map(|()| u64::from(job.ranks))
    }

    fn kill(&self, child: &mut Child, kill: Kill) -> Result<(), String> {
        let (Kill::Command(after) | Kill::Operator(after)) = kill;
        std::thread::sleep(after);
        if matches!(kill, Kill::Command(_)) {
            return child.kill().map_err(|error| error.to_string());
        }
        loop {
            let jobs = self.cluster.json(&["jobs", "--limit", "1"]);
            let newest = &jobs[0];
            if child.try_wait().expect("a child").is_some() {
                return Ok(());
            }
            if newest["state"] == "running" {
                let _ = self.cluster.coppice(&["kill", "--signal", "KILL", &newest["job"].to_string()]);
                return Ok(());
            }
            std::thread::sleep(POLL);
        }
    }

    /// Waits until the node is free, in the same boot.
    fn is_free(&self) -> Result<(), String> {
        let start = Instant::now();
        loop {
            let node = self.view();
            if node["generation"] != self.generation {
                return Err("the node was lost".to_owned());
            }
            if node["state"] == "ready" {
                return Ok(());
            }
            if start.elapsed() > FREE_TIME_MAX {
                return Err(format!("not free after {} s: {node}", FREE_TIME_MAX.as_secs()));
            }
            std::thread::sleep(POLL);
        }
    }

    fn view(&self) -> Value {
        self.cluster.json(&["nodes"])[0].clone()
    }

    /// Whether what it counts is as it was. If not, that is what it is compared to from now on.
    pub(super) fn is_as_before(&mut self) -> Result<(), String> {
        let start = Instant::now();
        loop {
            let now = state(&self.cluster, 0);
            let same = (now.memory_kib, now.tasks) == (self.before.memory_kib, self.before.tasks);
            if same && now.heap_kib.abs_diff(self.before.heap_kib) <= HEAP_KIB {
                return Ok(());
            }
            if start.elapsed() > SETTLE_TIME_MAX {
                let difference = format!("{:?} before, {now:?} now", self.before);
                self.before = now;
                return Err(difference);
            }
            std::thread::sleep(20 * POLL);
        }
    }

    /// Waits until nearly as much is free as when it had booted. Returns how much that is, as a share of it.
    pub(super) fn is_free_as_at_boot(&self) -> Result<f64, String> {
        let _ = self.cluster.coppice(&["forget"]).success();
        let start = Instant::now();
        loop {
            let free = free_bytes(&self.cluster);
            let share = free as f64 / self.free_at_boot as f64;
            if free + HELD_BYTES_MAX >= self.free_at_boot {
                return Ok(share);
            }
            if start.elapsed() > SETTLE_TIME_MAX {
                return Err(format!("{share:.4} of what was free at boot is free"));
            }
            std::thread::sleep(20 * POLL);
        }
    }

    /// The last of what the node said, in the boot before if it was lost.
    fn console(&self) -> String {
        let consoles = self.cluster.home_path().join("state/default/consoles");
        let text =
            ["node-0.log.1", "node-0.log"].map(|name| std::fs::read(consoles.join(name)).unwrap_or_default()).concat();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(CONSOLE_LINES)..].join("\n")
    }

    /// What went wrong with a job, what it did, what the node said, and how to see it again. The node is as new then.
    pub(super) fn failure(&mut self, job: &Job, what: &str) -> String {
        let plans = plans(&self.program, job);
        let ras = self.cluster.coppice(&["ras", "--limit", "3"]).text();
        let console = self.console();
        let text = format!(
            "{kind}: {what}\n  job: {ranks} ranks, killed: {kill:?}\n  plan: {plans}  ras: {ras}  \
             console:\n{console}\n  again with: COPPICE_SEED={seed} COPPICE_JOBS=1 COPPICE_NODE={kind} \
             cargo test -p coppice-tests --test cluster random_objects",
            kind = self.kind,
            ranks = job.ranks,
            kill = job.kill,
            seed = job.seed,
        );
        let _ = self.cluster.coppice(&["reboot", "0"]);
        self.cluster.wait_until_ready();
        self.generation = self.view()["generation"].as_u64().expect("a number");
        self.free_at_boot = free_bytes(&self.cluster);
        self.before = state(&self.cluster, 0);
        text
    }
}

/// What nobody uses of the node, as it last said, bytes.
fn free_bytes(cluster: &Cluster) -> u64 {
    cluster.json(&["nodes"])[0]["memory"]["free_bytes"].as_u64().expect("a number")
}

/// What a job's ranks did, as the program itself says on the host.
fn plans(program: &PathBuf, job: &Job) -> String {
    let mut command = Command::new(program);
    command.args(["say", &job.ranks.to_string(), &format!("seed={}", job.seed)]);
    finish(command).text()
}
