//! Jobs with many threads, killed at random moments: nothing is left of them, however often.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use coppice_tests::Cluster;
use coppice_tests::cluster::{finish_child, wait_until, wait_until_interruptible};
use coppice_tests::guests::{Toolchain, program};
use rustix::process::{Pid, Signal, kill_process};

use crate::threads::cluster_of;

/// Nodes, each of which has jobs of its own, one after the other.
const NODES: u32 = 4;
/// Cores of each.
const CORES: u32 = 2;
/// Jobs of a node that are killed and counted: 500 on all nodes.
const KILLS: u32 = 125;
/// Jobs of a node that are killed before: what the kernel takes for its own use the first times, it keeps.
const WARM_UP_KILLS: u32 = 12;
/// Longest time to the kill after the command began, if it may come at any moment of the launch.
const LAUNCH_MICROSECONDS_MAX: u64 = 100_000;
/// Longest time to the kill after all threads were busy.
const BUSY_MICROSECONDS_MAX: u64 = 30_000;
/// What is used of a node's heap may differ by this much, KiB: its tables of what happened last are not always as full.
const HEAP_KIB: u64 = 8;

/// What nodes make of the random moments; another one comes from `COPPICE_SEED`.
const SEED: u64 = 20_261_122;

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// What a node says of itself while nothing else runs there.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) memory_kib: u64,
    pub(crate) heap_kib: u64,
    pub(crate) tasks: u64,
}

pub(crate) fn state(cluster: &Cluster, node: u32) -> State {
    let path = program("node_state", Toolchain::Musl);
    let measure = || cluster.run(&["--nodes-list", &node.to_string(), path.to_str().expect("a path")]).success();
    // It starts when a job that was killed before is gone: nothing of that comes to be retained any more.
    let _ = measure();
    let _ = cluster.coppice(&["forget"]).success();
    let ran = measure();
    let _ = cluster.coppice(&["forget"]).success();
    let text = ran.text();
    let words: Vec<&str> = text.split_whitespace().collect();
    let ["memory", memory, "heap", heap, "tasks", tasks] = words[..] else { panic!("{text}") };
    let number = |word: &str| word.parse().expect("a number");
    State { memory_kib: number(memory), heap_kib: number(heap), tasks: number(tasks) }
}

/// What a node says when it has said the same before: what comes to its end just now is over then.
fn rested(cluster: &Cluster, node: u32) -> State {
    let mut last = state(cluster, node);
    wait_until("a node rests", Duration::from_secs(30), || {
        let before = std::mem::replace(&mut last, state(cluster, node));
        let rests = (before.memory_kib, before.tasks) == (last.memory_kib, last.tasks);
        if rests { Ok(()) } else { Err(format!("node {node}: {before:?}, then {last:?}")) }
    });
    last
}

/// Starts a job and kills it: at any moment from the start of the command on, or when all its threads are busy; by its
/// command's interrupt or by its command's death.
fn start_and_kill(cluster: &Cluster, node: u32, random: &mut Random) {
    let path = program("busy_threads", [Toolchain::Glibc, Toolchain::Musl][random.below(2) as usize]);
    let node = node.to_string();
    let mut arguments = vec!["run", "--quiet", "--nodes-list", &node];
    if random.below(4) == 0 {
        arguments.extend(["-n", "2", "--ranks-per-node", "2"]);
    }
    arguments.push(path.to_str().expect("a path"));
    let mut command = cluster.command(&arguments);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start");
    let microseconds = if random.below(3) == 0 {
        random.below(LAUNCH_MICROSECONDS_MAX)
    } else {
        wait_until_busy(&mut child);
        random.below(BUSY_MICROSECONDS_MAX)
    };
    std::thread::sleep(Duration::from_micros(microseconds));
    let signal = if random.below(4) == 0 { Signal::KILL } else { Signal::INT };
    if signal == Signal::INT {
        wait_until_interruptible(&child);
    }
    kill_process(Pid::from_child(&child), signal).expect("kill");
    let ran = finish_child(child, "a job that was killed");
    assert_ne!(ran.status, 0, "{}{}", ran.text(), ran.stderr);
}

#[track_caller]
fn wait_until_busy(child: &mut Child) {
    let mut line = String::new();
    let _ = BufReader::new(child.stdout.as_mut().expect("piped")).read_line(&mut line).expect("output");
    assert_eq!(line, "busy\n");
}

/// On all nodes at the same time, so many each.
fn kill_jobs(cluster: &Cluster, kills: u32, seed: u64) {
    std::thread::scope(|scope| {
        for node in 0..NODES {
            scope.spawn(move || {
                let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(u64::from(node)) | 1);
                (0..kills).for_each(|_| start_and_kill(cluster, node, &mut random));
            });
        }
    });
}

#[test]
fn five_hundred_kills_leave_nothing() {
    let seed = std::env::var("COPPICE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(SEED);
    println!("COPPICE_SEED={seed}");
    let cluster = cluster_of(NODES, CORES);
    kill_jobs(&cluster, WARM_UP_KILLS, seed ^ 1);
    let before: Vec<State> = (0..NODES).map(|node| rested(&cluster, node)).collect();
    let start = Instant::now();
    kill_jobs(&cluster, KILLS, seed);
    println!("{} kills in {:.1} s", NODES * KILLS, start.elapsed().as_secs_f64());
    for (node, before) in (0..NODES).zip(before) {
        wait_until("a node is as it was before", Duration::from_secs(30), || {
            let now = state(&cluster, node);
            // What was at its end when they began is gone now.
            let nothing_more = now.memory_kib <= before.memory_kib && now.tasks <= before.tasks;
            let good = nothing_more && now.heap_kib.abs_diff(before.heap_kib) <= HEAP_KIB;
            if good { Ok(()) } else { Err(format!("node {node}: {before:?} before, {now:?} now")) }
        });
    }
    let nodes = cluster.json(&["nodes"]);
    assert!(nodes.as_array().expect("nodes").iter().all(|node| node["generation"] == 1), "{nodes}");
}
