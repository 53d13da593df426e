//! A node dies at a step of a job's start or end that can be seen on its link: its launch, each of its frames of each
//! algorithm for barriers, the last that its rank prints. The job ends with its name, and nothing stays behind.
//!
//! Links take long, so that a node which was seen to say something is dead before anything comes of that. The suite
//! takes some moments of each algorithm, from `COPPICE_SEED` on; with `COPPICE_MOMENTS` it takes all, as
//! `cargo xtask soak` does.

use std::process::{Child, Stdio};
use std::time::{Duration, SystemTime};

use coppice_protocol::ids::{MacAddress, NodeId};
use coppice_protocol::limits::PMI_PEER_PORT;
use coppice_tests::Cluster;
use coppice_tests::cluster::finish_child_within;
use coppice_tests::guests::{Toolchain, program};
use coppice_tests::random::told;
use coppice_tests::recording::{Recording, Segment};
use rustix::process::{Pid, Signal, kill_process};

use crate::startup::FENCES;

const NODES: usize = 4;
const LATENCY: Duration = Duration::from_millis(50);

/// The root of a tree, one amid it, and one without others below it.
const VICTIMS: [usize; 3] = [0, 2, 3];

/// Moments of each algorithm that the suite takes.
const MOMENTS: usize = 2;

/// How long it may take until a moment has come, and until the job has ended then.
const STEP_TIME_MAX: Duration = Duration::from_secs(60);
const NOTICED_TIME_MAX: Duration = Duration::from_secs(20);

/// When a node dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// It is told of the job.
    Launched,
    /// It has said something to another node so often.
    Said(usize),
    /// What its rank prints last has gone out.
    Printed,
}

fn comes_from(frame: &[u8], node: usize) -> bool {
    let mac = MacAddress::of(NodeId(u32::try_from(node).expect("few")).address()).0;
    frame.get(6..12) == Some(&mac[..])
}

fn has(frame: &[u8], words: &[u8]) -> bool {
    Segment::of(frame).is_some_and(|segment| segment.payload.windows(words.len()).any(|part| part == words))
}

/// Whether a node says something about the job to another with a frame.
fn is_said(frame: &[u8], node: usize) -> bool {
    let is_theirs = |it: Segment<'_>| it.from_port == PMI_PEER_PORT || it.to_port == PMI_PEER_PORT;
    comes_from(frame, node) && Segment::of(frame).is_some_and(is_theirs)
}

impl Moment {
    /// Waits until it has come; when that was. What a node says may come together in one frame, so that it says less:
    /// then not.
    fn wait(self, recording: &Recording<'_>, node: usize, running: &Child) -> Option<SystemTime> {
        let wait = |count, is_one: &dyn Fn(&[u8]) -> bool| recording.wait_for(STEP_TIME_MAX, running, count, is_one);
        match self {
            Self::Launched => wait(1, &|frame| !comes_from(frame, node) && has(frame, b"exchange")),
            Self::Said(times) => wait(times, &|frame| is_said(frame, node)),
            Self::Printed => wait(1, &|frame| comes_from(frame, node) && has(frame, b": done")),
        }
    }
}

/// The options of a job that meets by an algorithm.
fn job(fence: &str) -> Vec<String> {
    let guest = program("pmi", Toolchain::Musl).to_string_lossy().into_owned();
    let options = ["-n", "4", "--nodes-list", "0-3", "--fence", fence, &guest, "exchange", "1"];
    options.map(str::to_owned).to_vec()
}

#[track_caller]
fn assert_done(text: &str) {
    assert_eq!(text.lines().filter(|line| line.ends_with(": done")).count(), NODES, "{text}");
}

/// A job during which nobody dies: how often each victim says something to others.
fn how_often_each_speaks(cluster: &Cluster, fence: &str) -> Vec<usize> {
    let recordings = VICTIMS.map(|node| Recording::of(cluster, node));
    let ran = cluster.run(&job(fence)).success();
    assert_done(&ran.text());
    let each = VICTIMS.into_iter().zip(recordings);
    each.map(|(node, recording)| recording.end().iter().filter(|frame| is_said(frame, node)).count()).collect()
}

/// One dies at a moment. Whether it did: the moment may not come, or be over on a busy host before it is dead, and then
/// its job ends well.
fn dies(cluster: &Cluster, fence: &str, node: usize, moment: Moment) -> bool {
    let title = format!("{fence}, node {node}: {moment:?}");
    cluster.wait_until_ready();
    let pid = cluster.json(&["nodes"])[node]["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
    let pid = pid.and_then(Pid::from_raw).expect("a process");
    let recording = Recording::of(cluster, node);
    let mut command = cluster.command(&[&["run".to_owned()][..], &job(fence)].concat());
    let running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("coppice starts");
    let seen = moment.wait(&recording, node, &running);
    if seen.is_some() {
        kill_process(pid, Signal::KILL).expect("kill");
    }
    let dead = SystemTime::now();
    let ran = finish_child_within(NOTICED_TIME_MAX, running, &title);
    let _ = recording.end();
    if ran.status == 0 {
        println!("{title}: {}", if seen.is_some() { "too late" } else { "did not come" });
        assert_done(&ran.text());
        // Within the way to another and back nothing can have come of what it said.
        let after = seen.map(|seen| dead.duration_since(seen).unwrap_or_default());
        let may_be = after.map_or(matches!(moment, Moment::Said(2..)), |after| after >= 4 * LATENCY);
        assert!(may_be, "{title}: the job ended well, and its node was dead {after:?} after that");
        return false;
    }
    println!("{title}: {}", ran.stderr.trim());
    assert_eq!(ran.status, 125, "{title}: {}", ran.stderr);
    assert!(ran.stderr.contains(&format!("node {node}")), "{title}: {}", ran.stderr);
    let record = cluster.last_job();
    assert_eq!(record["state"], "ended", "{title}: {record}");
    let ranks = record["rank_reports"].as_array().expect("ranks");
    assert!(ranks.iter().all(|rank| rank["outcome"] != "running"), "{title}: {record}");
    true
}

#[test]
fn a_node_dies_at_a_step_of_a_start_and_its_job_ends_with_its_name() {
    let seed = usize::try_from(told("COPPICE_SEED").unwrap_or(0)).expect("a number");
    println!("COPPICE_SEED={seed}");
    let is_all = told("COPPICE_MOMENTS").is_some();
    let latency = format!("{}ms", LATENCY.as_millis());
    let cluster = Cluster::up_with(&["--nodes", &NODES.to_string(), "--latency", &latency]);
    let mut died = Vec::new();
    for (number, fence) in FENCES.into_iter().enumerate() {
        let spoken = how_often_each_speaks(&cluster, fence);
        let of_victim = |(node, times): (usize, &usize)| {
            assert!(*times > 0, "{fence}: node {node} says nothing");
            let said = (1..=*times).map(Moment::Said);
            let all = [Moment::Launched].into_iter().chain(said).chain([Moment::Printed]);
            all.map(move |moment| (node, moment)).collect::<Vec<_>>()
        };
        let all: Vec<_> = VICTIMS.into_iter().zip(&spoken).flat_map(of_victim).collect();
        let some = (0..MOMENTS).map(|of| all[(seed * 5 + number * 3 + of * (all.len() / MOMENTS)) % all.len()]);
        for (node, moment) in if is_all { all.clone() } else { some.collect() } {
            died.push(dies(&cluster, fence, node, moment));
        }
    }
    assert!(died.iter().filter(|died| **died).count() * 2 >= died.len(), "{died:?}");
    // Whoever is left, and whoever came back, is as before.
    cluster.wait_until_ready();
    let _ = how_often_each_speaks(&cluster, FENCES[0]);
    let jobs = cluster.json(&["jobs"]);
    assert!(jobs.as_array().expect("jobs").iter().all(|job| job["state"] == "ended"), "{jobs}");
}
