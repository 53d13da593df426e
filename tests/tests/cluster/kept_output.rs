//! What is kept of jobs' output has limits, and where it ends before the output that is said: never is a byte lost
//! without a word.

use std::time::Duration;

use coppice_api::limits::OUTPUT_LOGS_MAX;
use coppice_tests::Cluster;
use coppice_tests::cluster::wait_until;
use coppice_tests::guests::BUSYBOX;
use coppice_tests::namespace::fill;
use coppice_tests::talk::{arguments, detach, go, said, wait_until_kept};
use serde_json::Value;

/// Much output.
const MUCH: usize = 100_000_000;
/// What its job writes to both streams.
const ALL: usize = MUCH + MUCH / 4;
/// Room for a cluster of a node and its programs, KiB.
const DISK_KIB: u64 = 16 * 1024;

fn waited(cluster: &Cluster, job: u64) -> Value {
    let job = job.to_string();
    let _ = cluster.coppice(&["wait", &job]).success();
    // Its log may be closed a moment later; whoever reads it waits for that.
    let _ = cluster.coppice(&["logs", &job]).success();
    cluster.json(&["job", &job])
}

#[test]
fn a_log_that_is_long_enough_has_every_byte() {
    let cluster = Cluster::up(1);
    let job = detach(&cluster, &arguments(&["--keep-output=256M"], MUCH, 0, false));
    let record = waited(&cluster, job);
    assert_eq!((&record["output"]["bytes"], &record["output"]["cut"]), (&ALL.into(), &Value::Null), "{record}");
    let kept = cluster.coppice(&["logs", &job.to_string()]).success();
    assert!(kept.stdout == said(0, false, MUCH), "{} bytes", kept.stdout.len());
    assert!(kept.stderr_bytes == said(0, true, MUCH), "{} bytes", kept.stderr_bytes.len());
}

#[test]
fn a_log_with_a_limit_is_cut_there_and_the_job_goes_on() {
    let cluster = Cluster::up(1);
    let job = detach(&cluster, &arguments(&["--keep-output=1M"], MUCH, 5, false));
    let name = job.to_string();
    let ran = cluster.coppice(&["wait", &name]);
    assert_eq!(ran.status, 5, "{}", ran.stderr);
    let kept = cluster.coppice(&["logs", "--stream", "stdout", &name]).success();
    assert!(said(0, false, MUCH).starts_with(&kept.stdout) && kept.stdout.len() > 500_000, "{}", kept.stdout.len());
    assert!(kept.stderr.contains("is kept up to here") && kept.stderr.contains("--keep-output"), "{}", kept.stderr);
    let output = cluster.json(&["job", &name])["output"].clone();
    let count = |field: &str| output[field].as_u64().expect("a number");
    assert_eq!((count("limit"), count("bytes") + count("dropped")), (1 << 20, ALL as u64), "{output}");
    assert_eq!(output["cut"], "limit");
    assert!(kept.stderr.contains(&format!("({} bytes) were not kept", count("dropped"))), "{}", kept.stderr);
    let log = cluster.home_path().join("state/default/output/1.log");
    assert!(std::fs::metadata(log).expect("a log").len() <= 1 << 20);
}

#[test]
fn a_full_disk_cuts_a_log_and_the_job_goes_on() {
    let small = Cluster::with_mounts(|cluster, mounts| mounts.mount_small_disk(&cluster.home_path(), DISK_KIB));
    let Some(cluster) = small else { return };
    let _ = cluster.coppice(&["up", "--accel", "tcg", "--nodes", "1"]).success();
    let bytes = 3_000_000;
    let job = detach(&cluster, &arguments(&[], bytes, 4, true));
    let name = job.to_string();
    wait_until_kept(&cluster, job, bytes / 2 + bytes / 2 / 4);
    let filler = fill(&cluster.home_path());
    go(&cluster);
    let ran = cluster.coppice(&["wait", &name]);
    assert_eq!((ran.status, &*ran.stderr), (4, ""), "the job knows nothing of it");
    let assert_is_cut = |when: &str| {
        let kept = cluster.coppice(&["logs", "--stream", "stdout", &name]).success();
        assert!(said(0, false, bytes).starts_with(&kept.stdout) && kept.stdout.len() >= bytes / 2, "{when}");
        assert!(kept.stderr.contains("is kept up to here: its log could not be written"), "{when}: {}", kept.stderr);
        let output = cluster.json(&["job", &name])["output"].clone();
        assert_eq!(output["cut"], "disk", "{when}: {output}");
        let count = |field: &str| output[field].as_u64().expect("a number");
        assert_eq!(count("bytes") + count("dropped"), (bytes + bytes / 4) as u64, "{when}: {output}");
    };
    assert_is_cut("while the disk is full");
    std::fs::remove_file(filler).expect("removed");
    assert_is_cut("when there is room again");
    // What waited to be recorded is so in a moment.
    wait_until("the event is recorded", Duration::from_secs(30), || {
        let events = cluster.json(&["ras", "--job", &name]);
        let is_cut = |event: &&Value| event["kind"] == "output-cut" && event.to_string().contains("No space left");
        match events.as_array().expect("events").iter().filter(is_cut).count() {
            1 => Ok(()),
            _ => Err(events.to_string()),
        }
    });
    // What comes later is kept again.
    let job = detach(&cluster, &[BUSYBOX, "echo", "later"]);
    assert_eq!(waited(&cluster, job)["output"]["bytes"], 6);
    let _ = cluster.coppice(&["down"]).success();
    let _ = cluster.coppice(&["up", "--accel", "tcg", "--nodes", "1"]).success();
    assert_is_cut("in another life");
}

/// Whatever became of the file of a log: what is missing is said.
#[test]
fn a_damaged_log_is_not_taken_for_a_whole_one() {
    let cluster = Cluster::up(1);
    let bytes = 500_000;
    let job = detach(&cluster, &arguments(&[], bytes, 0, false));
    let _ = waited(&cluster, job);
    let path = cluster.home_path().join("state/default/output/1.log");
    let log = std::fs::read(&path).expect("a log");
    let refused = |log: &[u8], words: &[&str]| {
        std::fs::write(&path, log).expect("written");
        let ran = cluster.coppice(&["logs", "--stream", "stdout", "1"]).refused(words);
        assert!(ran.stdout.len() < bytes && said(0, false, bytes).starts_with(&ran.stdout), "{}", ran.stdout.len());
    };
    let mut changed = log.clone();
    changed[log.len() / 2] ^= 1;
    refused(&changed, &["log of job 1", "damaged"]);
    refused(&log[..log.len() / 2], &["log of job 1", "damaged"]);
    std::fs::remove_file(&path).expect("removed");
    let _ = cluster.coppice(&["logs", "1"]).refused(&["log of job 1 was removed", "1.log"]);
    std::fs::write(&path, &log).expect("written");
    assert!(cluster.coppice(&["logs", "1"]).success().stdout == said(0, false, bytes));
}

/// The oldest logs go when there are too many, and whoever asks for them is told so.
#[test]
fn old_logs_make_room() {
    let cluster = Cluster::up(1);
    let first = detach(&cluster, &[BUSYBOX, "echo", "first"]);
    let second = detach(&cluster, &[BUSYBOX, "echo", "second"]);
    let _ = waited(&cluster, first);
    let _ = waited(&cluster, second);
    let _ = cluster.coppice(&["down"]).success();
    // As many as are kept, but for one.
    let logs = cluster.home_path().join("state/default/output");
    for number in 1..OUTPUT_LOGS_MAX {
        std::fs::write(logs.join(format!("{}.log", 1_000_000 + number)), "").expect("written");
    }
    let _ = cluster.coppice(&["up", "--accel", "tcg", "--nodes", "1"]).success();
    let _ = cluster.coppice(&["logs", "1"]).refused(&["output of job 1 was removed to make room"]);
    assert_eq!(cluster.json(&["job", "1"])["output"]["given_back"], true);
    assert_eq!(cluster.coppice(&["logs", "2"]).success().text(), "second\n");
    let third = detach(&cluster, &[BUSYBOX, "echo", "third"]);
    assert_eq!(waited(&cluster, third)["output"]["bytes"], 6);
    let _ = cluster.coppice(&["logs", "2"]).refused(&["output of job 2 was removed to make room"]);
    assert!(!logs.join("2.log").exists());
}
