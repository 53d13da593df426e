//! A disk of the cluster's state that is full: no history changes, nothing ends but what needs the disk, and all goes
//! on once there is room again.

use std::time::Duration;

use coppice_tests::Cluster;
use coppice_tests::Waiting;
use coppice_tests::cluster::wait_until;
use coppice_tests::guests::{BUSYBOX, Toolchain, program};
use coppice_tests::namespace::fill;

/// Room for a cluster of a node and its programs, KiB.
const DISK_KIB: u64 = 16 * 1024;

/// How long it may take until new work is taken once there is room again.
const RECOVERY_TIME_MAX: Duration = Duration::from_secs(30);

/// The one reason why nothing new is done.
const REASON: &str = "no space left on the disk of the database";

fn on_a_small_disk() -> Option<Cluster> {
    Cluster::with_mounts(|cluster, mounts| mounts.mount_small_disk(&cluster.home_path(), DISK_KIB))
}

fn up(cluster: &Cluster) {
    let _ = cluster.coppice(&["up", "--accel", "tcg", "--nodes", "1"]).success();
}

/// A job that waits, on a disk that is full by then.
fn job_on_a_full_disk(cluster: &Cluster) -> (Waiting, std::path::PathBuf) {
    let path = program("waits_and_exits", Toolchain::Musl);
    let job = Waiting::start(cluster, &[path.to_str().expect("a path"), "7"], "waiting");
    let filler = fill(&cluster.home_path());
    (job, filler)
}

#[test]
fn a_full_disk_changes_no_history() {
    let Some(cluster) = on_a_small_disk() else { return };
    up(&cluster);
    let generation = |cluster: &Cluster| cluster.json(&["nodes"])[0]["generation"].as_u64();
    let (job, filler) = job_on_a_full_disk(&cluster);
    let ran = job.go_on();
    assert_eq!((ran.status, &*ran.stderr), (7, ""), "the job knows nothing of it");
    let recorded = |cluster: &Cluster| {
        let job = cluster.json(&["job", "1"]);
        (job["state"].clone(), job["exit_status"].clone(), job["reason"].clone())
    };
    let truth = ("ended".into(), 7.into(), serde_json::Value::Null);
    assert_eq!(recorded(&cluster), truth);
    let path = program("waits_and_exits", Toolchain::Musl);
    let _ = cluster.run(&[&path]).refused(&[REASON, "jobs that run go on"]);
    // A program that is not stored yet cannot be stored.
    let _ = cluster.run(&[BUSYBOX, "true"]).refused(&["No space left on device", "programs"]);
    // What it writes to its log is lost, and nothing else.
    let before = generation(&cluster);
    for _ in 0..2 {
        let _ = cluster.coppice(&["reboot", "0"]).success();
    }
    assert_eq!(recorded(&cluster), truth, "coppiced goes on");

    std::fs::remove_file(filler).expect("removed");
    wait_until("new work is taken", RECOVERY_TIME_MAX, || {
        let ran = cluster.run(&[BUSYBOX, "true"]);
        if ran.status == 0 { Ok(()) } else { Err(ran.stderr) }
    });
    assert!(generation(&cluster) > before, "the node was booted when that could be recorded");
    assert_eq!(recorded(&cluster), truth);
    let events = cluster.json(&["ras"]).to_string();
    assert!(events.contains("records could not be written for") && events.contains(REASON), "{events}");
    let _ = cluster.coppice(&["down"]).success();
    cluster.assert_no_process_left();
    up(&cluster);
    assert_eq!(recorded(&cluster), truth, "it is in the database");
}

#[test]
fn what_a_killed_service_node_could_not_record_is_recorded_by_the_next_one() {
    let Some(cluster) = on_a_small_disk() else { return };
    up(&cluster);
    let (job, filler) = job_on_a_full_disk(&cluster);
    assert_eq!(job.go_on().status, 7);
    cluster.kill_process("coppiced");
    cluster.assert_no_process_left();
    // At the database, or before that: whoever was killed may have left no room at all.
    let _ = cluster.coppice(&["up", "--accel", "tcg"]).refused(&["o space left"]);
    std::fs::remove_file(filler).expect("removed");
    up(&cluster);
    let job = cluster.json(&["job", "1"]);
    assert_eq!((&job["state"], &job["exit_status"]), (&"ended".into(), &7.into()), "{job}");
}

#[test]
fn up_says_that_there_is_no_room() {
    let Some(cluster) = on_a_small_disk() else { return };
    let filler = fill(&cluster.home_path());
    let refuse = || cluster.coppice(&["up", "--accel", "tcg"]).refused(&["o space left"]);
    let _ = refuse();
    cluster.assert_no_process_left();
    // At whatever write it happens: every further page of room brings it to another one.
    let room = std::fs::metadata(&filler).expect("a file").len();
    let file = std::fs::File::options().write(true).open(&filler).expect("a file");
    for pages in 1..=24 {
        file.set_len(room - pages * 4096).expect("cut");
        let _ = refuse();
    }
    drop(file);
    std::fs::remove_file(filler).expect("removed");
    up(&cluster);
    let _ = cluster.run(&[BUSYBOX, "true"]).success();
}
