//! A checkpoint is made, and something is killed at a step of it that can be seen from outside: the job goes on from
//! that one or the one before, and nothing of either is left when both are deleted.
//!
//! The suite takes all steps, and what is killed in turn, from `COPPICE_SEED` on; with `COPPICE_MOMENTS` each is killed
//! at each step, as `cargo xtask soak` has it.

use std::fs::DirEntry;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use coppice_protocol::region::{SlotKey, State};
use coppice_tests::Cluster;
use coppice_tests::cluster::{finish_child, wait_until};
use coppice_tests::random::told;

use super::{Aim, Held, IO_NODE, VICTIMS, Victim};
use crate::checkpoint::{checkpoint, end, files_below, restart, said, start, wait_for};
use crate::mpi;
use crate::regions::{has_secret, region, slots, storage};

/// Two nodes, each with an I/O node of its own; how large their regions are is said behind that.
const UP: [&str; 7] = ["--nodes", "2", "--pset-size", "1", "--memory", "192M", "--nmr"];
const REGION: &str = "128M";
const NODES: u32 = 2;

/// MiB that each rank has, which it changes all over in each round: in the suite, and if there is time for more.
const SUITE_MIB: &str = "16";
const LONG_MIB: &str = "32";

/// How long a checkpoint may take to come to its next step.
const STEP_TIME_MAX: Duration = Duration::from_secs(60);

/// Bytes that may be less for a checkpoint than for the one before: what the ranks have on their stacks and in their
/// buffers is not always the same.
const BYTES_FEWER: u64 = 2 << 20;

/// How far a checkpoint is, as the regions and the storage show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// Nothing is there of it.
    Asked,
    /// A node fills a slot.
    Filling,
    /// One has filled it.
    Local,
    /// All have.
    AllLocal,
    /// The first bytes of it are in the storage.
    First,
    /// Half of them are.
    Half,
    /// All are.
    All,
    /// One slot is drained, and says so.
    Drained,
    /// All are.
    AllDrained,
    /// There is a manifest.
    Manifest,
    /// The one before is wiped from the regions.
    Wiped,
}

const STEPS: [Step; 11] = [
    Step::Asked,
    Step::Filling,
    Step::Local,
    Step::AllLocal,
    Step::First,
    Step::Half,
    Step::All,
    Step::Drained,
    Step::AllDrained,
    Step::Manifest,
    Step::Wiped,
];

/// What there was before a checkpoint was asked for.
struct Before<'a> {
    cluster: &'a Cluster,
    job: String,
    /// Slots of all regions.
    slots: Vec<(u32, SlotKey)>,
    /// Bytes in the storage, and how many the last checkpoint had put there.
    stored: u64,
    of_each: u64,
    /// Processes of its I/O nodes.
    io_nodes: Vec<i32>,
}

/// Whether one of these processes has a file open.
fn has_open(processes: &[i32], file: &Path) -> bool {
    let open = |process: &i32| std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    // One that is closed meanwhile is no link any more.
    processes.iter().flat_map(open).any(|entry| std::fs::read_link(entry.path()).is_ok_and(|found| found == file))
}

/// The regions that there are.
fn regions(cluster: &Cluster) -> impl Iterator<Item = (u32, PathBuf)> {
    (0..NODES).map(|node| (node, region(cluster, node))).filter(|(_, path)| path.exists())
}

fn all_slots(cluster: &Cluster) -> Vec<(u32, SlotKey, State)> {
    let of_node = |(node, path): (u32, PathBuf)| {
        let key = move |(slot, found, _): (u8, coppice_protocol::region::Slot, _)| {
            (node, SlotKey { slot, key: found.key }, found.state)
        };
        slots(&path).into_iter().map(key)
    };
    regions(cluster).flat_map(of_node).collect()
}

/// Bytes that are in the storage for checkpoints, or are being written there, as fast as it goes.
fn stored_bytes(cluster: &Cluster) -> u64 {
    let entries = |path: PathBuf| std::fs::read_dir(path).expect("a directory").flatten();
    // Who is renamed or removed meanwhile has no length.
    let bytes = |file: DirEntry| file.metadata().map_or(0, |file| file.len());
    let storage = storage(cluster);
    let objects = entries(storage.join("objects")).flat_map(|directory| entries(directory.path()));
    let others = ["packs", "temporary"].map(|directory| entries(storage.join(directory)));
    objects.chain(others.into_iter().flatten()).map(bytes).sum()
}

impl Before<'_> {
    /// How far it is now.
    fn step(&self) -> Step {
        let now = all_slots(self.cluster);
        let stays = |known: &(u32, SlotKey)| now.iter().any(|(node, key, _)| (*node, *key) == *known);
        let manifest = storage(self.cluster).join("jobs").join(&self.job).join("2.json");
        if manifest.exists() {
            return if self.slots.iter().any(stays) { Step::Manifest } else { Step::Wiped };
        }
        let new = now.iter().filter(|(node, key, _)| !self.slots.contains(&(*node, *key)));
        let states: Vec<State> = new.map(|(_, _, state)| *state).collect();
        let (all, count) = (NODES as usize, |wanted| states.iter().filter(|state| **state == wanted).count());
        let (drained, filling) = (count(State::Drained), count(State::Filling));
        if drained > 0 {
            return if drained == all { Step::AllDrained } else { Step::Drained };
        }
        let stored = stored_bytes(self.cluster).saturating_sub(self.stored);
        if stored > 0 {
            return match stored {
                _ if stored + BYTES_FEWER >= self.of_each => Step::All,
                _ if stored * 2 >= self.of_each => Step::Half,
                _ => Step::First,
            };
        }
        match count(State::Local) {
            0 if filling == 0 => Step::Asked,
            0 => Step::Filling,
            local if local == all => Step::AllLocal,
            _ => Step::Local,
        }
    }

    /// Looks until each I/O node drains its node's slot, as it was told to, or has done so.
    fn wait_for_drains(&self) {
        let end = Instant::now() + STEP_TIME_MAX;
        self.wait_for(Step::First);
        let is_drained = |node| {
            all_slots(self.cluster)
                .iter()
                .any(|(of, key, state)| *of == node && *state == State::Drained && !self.slots.contains(&(*of, *key)))
        };
        let is_told = |(node, path): (u32, PathBuf)| {
            has_open(&self.io_nodes, &path.canonicalize().unwrap_or(path)) || is_drained(node)
        };
        while !regions(self.cluster).all(is_told) && self.step() < Step::Manifest {
            assert!(Instant::now() < end, "an I/O node was not told to drain what its node has");
        }
    }

    /// Looks until it is so far, without a pause, as it is not for long. Gives how far it is then.
    fn wait_for(&self, step: Step) -> Step {
        let end = Instant::now() + STEP_TIME_MAX;
        loop {
            let now = self.step();
            if now >= step {
                return now;
            }
            assert!(Instant::now() < end, "it is at {now:?} and does not come to {step:?}");
        }
    }
}

/// The last round that a job has said.
fn last_round(text: &str) -> Option<u64> {
    let number = |line: &str| line.strip_prefix("round ")?.split(':').next()?.parse().ok();
    text.lines().filter_map(number).next_back()
}

/// Waits until a job has come so many rounds further. Gives which one it is in.
#[track_caller]
fn rounds_further(cluster: &Cluster, job: &str, rounds: u64) -> u64 {
    let first = last_round(&said(cluster, job));
    let mut last = 0;
    wait_until("it goes on", Duration::from_secs(60), || {
        let text = said(cluster, job);
        last = last_round(&text).unwrap_or(0);
        let is_far = if rounds == 0 { last > 0 } else { last >= first.unwrap_or(0) + rounds && first.is_some() };
        if is_far { Ok(()) } else { Err(format!("{text}{}", cluster.json(&["jobs"]))) }
    });
    last
}

/// One checkpoint of a job, during which something is killed.
struct Try<'a> {
    cluster: &'a Cluster,
    /// What it was brought up with.
    up: &'a [&'a str],
    number: usize,
    victim: Victim,
    step: Step,
}

impl Try<'_> {
    /// Makes two checkpoints of a job, and kills something while the second is made. Gives the job that goes on.
    fn go(&self, job: &str) -> String {
        let cluster = self.cluster;
        let empty = stored_bytes(cluster);
        let older = checkpoint(cluster, job);
        let stored = stored_bytes(cluster);
        let round = rounds_further(cluster, job, 2);
        let slots = all_slots(cluster).into_iter().map(|(node, key, _)| (node, key)).collect();
        let all = cluster.processes().into_iter();
        let io_nodes = all.filter(|process| process.command.contains(IO_NODE)).map(|process| process.pid).collect();
        let before = Before { cluster, job: job.to_owned(), slots, stored, of_each: stored - empty, io_nodes };
        let aim = Aim::at(cluster, self.victim, self.number);
        let service_node = Aim::at(cluster, Victim::ServiceNode, 0);
        let mut command = cluster.command(&["checkpoint", job]);
        let making = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start");
        // I/O nodes drain what they were told to, and then it is the service node's turn, which would be over at once.
        // Nodes that give it to them themselves want to be asked meanwhile.
        let is_drained = !before.slots.is_empty();
        let held = (is_drained && Step::First < self.step && self.step < Step::Manifest).then(|| {
            before.wait_for_drains();
            Held::stop(&service_node)
        });
        let seen = before.wait_for(self.step);
        aim.kill();
        let then = before.step();
        drop(held);
        let made = finish_child(making, "checkpoint");
        aim.recover(cluster, self.up);
        let title = format!("{:?} killed at {:?} ({seen:?} to {then:?})", self.victim, self.step);
        assert!([0, 125].contains(&made.status), "{title}: {}", made.stderr);
        assert_eq!(made.stderr.lines().count(), usize::from(made.status != 0), "{title}: {}", made.stderr);
        let newer = self.listed(job, &older, &title);
        assert!(made.status != 0 || newer.is_some(), "{title}: {} is gone", made.text());
        println!("{title}: {}", if newer.is_some() { "the newer one is there" } else { "the older one is there" });
        let from = newer.as_ref().unwrap_or(&older);
        let next = restart(cluster, from, &[]);
        rounds_further(cluster, &next, 0);
        let text = said(cluster, &next);
        let first = crate::checkpoint::first_round(&text) as u64;
        // One of them was made before that round was over, the other behind it.
        assert!(if newer.is_some() { first > round } else { first <= round }, "{title}: {round}, {text}");
        rounds_further(cluster, &next, 1);
        self.deleted(job, &title);
        next
    }

    /// The newer checkpoint if there is one. All that are there are whole.
    fn listed(&self, job: &str, older: &str, title: &str) -> Option<String> {
        let _ = self.cluster.coppice(&["checkpoints", "--verify", job]).success();
        let listed = self.cluster.json(&["checkpoints", job]);
        let names: Vec<_> = listed.as_array().expect("a list").iter().map(|one| one["checkpoint"].as_str()).collect();
        let newer = format!("{job}@2");
        match names[..] {
            [Some(first)] if first == older => None,
            [Some(first), Some(second)] if first == older && second == newer => Some(newer),
            _ => panic!("{title}: {listed}"),
        }
    }

    /// Nothing is left of a job's checkpoints when they are deleted.
    fn deleted(&self, job: &str, title: &str) {
        let cluster = self.cluster;
        let deleted = cluster.coppice(&["checkpoints", "--delete", job]).success();
        assert!(deleted.stderr.is_empty(), "{title}: {}", deleted.stderr);
        let left = files_below(&storage(cluster));
        let left: Vec<_> = left.into_iter().filter(|path| !path.ends_with("format")).collect();
        assert!(left.is_empty(), "{title}: {left:?}");
        assert_eq!(all_slots(cluster), [], "{title}");
        for (node, path) in regions(cluster) {
            assert!(!has_secret(&path), "{title}: the region of node {node} has something of it");
        }
    }
}

/// Tries all of these steps, with regions of that size.
fn all_steps(steps: &[Step], size: &str) {
    let seed = usize::try_from(told("COPPICE_SEED").unwrap_or(0)).expect("a number");
    println!("COPPICE_SEED={seed}");
    let all = told("COPPICE_MOMENTS").is_some();
    let up = [&UP[..], &[size]].concat();
    let cluster = Cluster::up_with(&up);
    let mib = if all { LONG_MIB } else { SUITE_MIB };
    let mut job = start(&cluster, &["-n", "2", &mpi::guest("agrees"), mib, "0"]);
    wait_for(&cluster, &job, "round 2:");
    for (number, step) in steps.iter().enumerate() {
        let victims = if all { &VICTIMS[..] } else { &VICTIMS[(seed + number) % VICTIMS.len()..][..1] };
        for victim in victims {
            job = Try { cluster: &cluster, up: &up, number: seed + number, victim: *victim, step: *step }.go(&job);
        }
    }
    end(&cluster, &job);
}

#[test]
fn a_job_goes_on_from_one_or_the_other_whatever_is_killed_at_whatever_step() {
    all_steps(&STEPS, REGION);
}

/// Nodes give all of it to their I/O nodes themselves.
#[test]
#[ignore = "takes minutes; `cargo xtask soak` has it"]
fn without_regions_it_does_so_too() {
    all_steps(&[Step::Asked, Step::First, Step::Half, Step::All, Step::Manifest], "0");
}
