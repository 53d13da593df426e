//! Random faults against a stream of jobs: helpers, machines and the service node are killed and stopped, links cut,
//! the disk of the state fills, a root stops to answer. What clients are told is what is recorded, lines of output come
//! once and in order, and when it is quiet again the cluster works and leaves nothing behind.
//!
//! All of it follows from a seed, `COPPICE_SEED`, as far as the host's scheduler lets it. `COPPICE_FAULTS` says how
//! many faults there are, `COPPICE_SECONDS` for how long; `cargo xtask soak` does.

mod client;
mod fault;
mod history;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use coppice_tests::Cluster;
use coppice_tests::cluster::wait_until;
use coppice_tests::guests::{BUSYBOX, Toolchain, program};
use coppice_tests::random::{Random, told};

use fault::Faults;
use history::History;

/// The suite's seed, and how many faults it tries in how long at most.
const SEED: u64 = 20_261_123;
const FAULTS: u64 = 20;
const SUITE_TIME_MAX: Duration = Duration::from_secs(45);
/// Those who submit job after job.
const CLIENTS: u64 = 10;
/// Room for state and sockets: enough for a long history, and filled at once.
const DISK_KIB: u64 = 64 * 1024;
/// Longest pause between two faults, ms.
const PAUSE_MILLISECONDS_MAX: u64 = 1500;
/// How often the history is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// How long it may take until all is quiet when nothing is broken any more.
const QUIET_TIME_MAX: Duration = Duration::from_secs(180);
/// So many failures are enough.
const FAILURES_MAX: usize = 5;

/// What all threads of the test share.
struct Storm {
    cluster: Cluster,
    /// The directory that stops to answer now and then.
    fragile_root: Option<String>,
    /// The program that clients run.
    program: String,
    over: AtomicBool,
    jobs: AtomicU64,
    failures: Mutex<Vec<String>>,
}

impl Storm {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn fail(&self, failure: String) {
        println!("{failure}");
        let mut failures = self.failures.lock().expect("no panic");
        failures.push(failure);
        if failures.len() >= FAILURES_MAX {
            self.over.store(true, Ordering::Relaxed);
        }
    }
}

/// Ends the other threads also if this one panics.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A home on a disk of its own, if this machine has such.
fn home() -> Cluster {
    let probe = tempfile::tempdir().expect("directory");
    let mounted = Cluster::with_mounts(|cluster, mounts| {
        mounts.mount_small_disk(&cluster.home_path(), DISK_KIB) && mounts.mount_dead(probe.path())
    });
    mounted.unwrap_or_else(Cluster::home)
}

#[test]
fn random_faults_leave_every_record_true() {
    let seed = told("COPPICE_SEED").unwrap_or(SEED);
    println!("COPPICE_SEED={seed}");
    let (faults, seconds) = (told("COPPICE_FAULTS"), told("COPPICE_SECONDS"));
    let end = match (faults, seconds) {
        (_, Some(seconds)) => Some(Duration::from_secs(seconds)),
        (None, None) => Some(SUITE_TIME_MAX),
        (Some(_), None) => None,
    };
    let faults_max = faults.unwrap_or(if seconds.is_some() { u64::MAX } else { FAULTS });
    let cluster = home();
    let root = cluster.root().join("fragile");
    std::fs::create_dir(&root).expect("made");
    let storm = Storm {
        fragile_root: cluster.namespace().is_some().then(|| root.to_str().expect("a path").to_owned()),
        program: program("lines", Toolchain::Musl).to_str().expect("a path").to_owned(),
        cluster,
        over: AtomicBool::new(false),
        jobs: AtomicU64::new(0),
        failures: Mutex::default(),
    };
    let history = History::default();
    let mut driver = Faults::new(&storm, Random::of_seed(seed), faults.is_some() || seconds.is_some());
    driver.up();
    let start = Instant::now();
    std::thread::scope(|scope| {
        let ends = Ends(&storm.over);
        for number in 0..CLIENTS {
            let (storm, history) = (&storm, &history);
            let random = Random::of_seed(seed.wrapping_add(1 + number).wrapping_mul(0x2545_f491_4f6c_dd1d));
            scope.spawn(move || client::client(storm, history, number, random));
        }
        scope.spawn(|| {
            while !storm.is_over() {
                history.look(&storm);
                std::thread::sleep(LOOK_INTERVAL);
            }
        });
        while driver.count() < faults_max && end.is_none_or(|end| start.elapsed() < end) && !storm.is_over() {
            driver.next();
            driver.wait_with_undoing(PAUSE_MILLISECONDS_MAX);
        }
        driver.undo_all();
        drop(ends);
    });
    quiet(&storm, &history);
    let jobs = storm.jobs.load(Ordering::Relaxed);
    println!("{} faults in {:.0} s, {jobs} jobs: {history}", driver.count(), start.elapsed().as_secs_f64());
    let failures = storm.failures.lock().expect("no panic");
    assert!(failures.is_empty(), "COPPICE_SEED={seed}: {} failures:\n{}", failures.len(), failures.join("\n"));
    assert!(jobs > 0 && driver.count() > 0, "nothing was tried");
}

/// Nothing is broken any more: all ends, everything works again, and nothing stays behind.
fn quiet(storm: &Storm, history: &History) {
    let cluster = &storm.cluster;
    wait_until("no job is under way", QUIET_TIME_MAX, || {
        let jobs = history::jobs(cluster).ok_or("no answer")?;
        let under_way: Vec<_> = jobs.iter().filter(|job| job["state"] != "ended").collect();
        if under_way.is_empty() { Ok(()) } else { Err(format!("{under_way:?}")) }
    });
    history.look(storm);
    history.check(storm);
    wait_until("all nodes are ready", QUIET_TIME_MAX, || {
        let nodes = cluster.json(&["nodes"]);
        let ready = nodes.as_array().is_some_and(|nodes| nodes.iter().all(|node| node["state"] == "ready"));
        if ready { Ok(()) } else { Err(nodes.to_string()) }
    });
    let nodes = cluster.json(&["nodes"]).as_array().map_or(0, Vec::len);
    let ran = cluster.run(&["-n", &nodes.to_string(), BUSYBOX, "echo", "fresh"]).success();
    assert_eq!(ran.text(), "fresh\n".repeat(nodes));
    let _ = cluster.coppice(&["down"]).success();
    cluster.assert_no_process_left();
    assert!(!cluster.home_path().join("run/default").exists(), "sockets are left");
    let state = cluster.home_path().join("state/default");
    for directory in [state.clone(), state.join("programs")] {
        for entry in std::fs::read_dir(&directory).expect("the state").flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            assert!(!name.ends_with(".partial"), "{name} is left in {}", directory.display());
        }
    }
    let log = std::fs::read(state.join("coppiced.log")).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    assert!(!log.contains("panicked"), "coppiced panicked: {log}");
}
