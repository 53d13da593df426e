//! What hangs instead of ending: a mount that does not answer, helper processes that are stopped. Only what needs it
//! waits, and it is noticed.

use std::process::{Child, Stdio};
use std::time::Duration;

use coppice_tests::cluster::{finish_child, wait_until, wait_until_it_listens};
use coppice_tests::guests::{BUSYBOX, Toolchain, program};
use coppice_tests::{Cluster, Waiting};
use rustix::process::{Pid, Signal, kill_process};

/// How long it may take until a hang is noticed and mended.
const NOTICED_TIME_MAX: Duration = Duration::from_secs(120);

fn start(cluster: &Cluster, arguments: &[&str]) -> Child {
    let mut command = cluster.command(&[&["run", "--quiet"], arguments].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start")
}

/// A cluster of two nodes whose jobs may have a root at this path, and the mounts to make it a dead one.
fn with_a_root() -> Option<(Cluster, String)> {
    // Whether such a mount can be had is tried on another directory.
    let probe = tempfile::tempdir().expect("directory");
    let cluster = Cluster::with_mounts(|_, mounts| mounts.mount_dead(probe.path()))?;
    let root = cluster.root().join("dead");
    std::fs::create_dir(&root).expect("made");
    let _ = cluster.coppice(&["up", "--accel", "tcg", "--nodes", "2"]).success();
    Some((cluster, root.to_str().expect("a path").to_owned()))
}

fn die(cluster: &Cluster, root: &str) {
    assert!(cluster.namespace().expect("mounts").mount_dead(root.as_ref()));
}

/// Everybody else's work is done as ever.
#[track_caller]
fn others_go_on(cluster: &Cluster) {
    let _ = cluster.run(&[BUSYBOX, "echo", "here"]).success();
    assert_eq!(cluster.json(&["nodes"]).as_array().map(Vec::len), Some(2));
}

#[test]
fn a_dead_root_delays_nobody_but_who_names_it() {
    let Some((cluster, root)) = with_a_root() else { return };
    let path = program("waits_and_exits", Toolchain::Musl);
    let job = Waiting::start(&cluster, &[path.to_str().expect("a path"), "7"], "waiting");
    die(&cluster, &root);
    let stuck: Vec<Child> = (0..3).map(|_| start(&cluster, &["--root", &root, BUSYBOX, "true"])).collect();
    others_go_on(&cluster);
    assert_eq!(job.go_on().status, 7);
    for child in stuck {
        kill_process(Pid::from_child(&child), Signal::KILL).expect("killed");
        let _ = finish_child(child, "a run that waits for its root");
    }
    others_go_on(&cluster);
    let _ = cluster.coppice(&["down"]).success();
    cluster.assert_no_process_left();
}

#[test]
fn a_root_that_dies_before_its_job_begins_delays_no_other_job() {
    let Some((cluster, root)) = with_a_root() else { return };
    let path = program("waits_and_exits", Toolchain::Musl);
    let path = path.to_str().expect("a path");
    let both = Waiting::start(&cluster, &["-n", "2", path, "0"], "waiting");
    let stuck = start(&cluster, &["--root", &root, BUSYBOX, "true"]);
    let state = |cluster: &Cluster| cluster.json(&["job", "2"])["state"].clone();
    wait_until("it is in the queue", NOTICED_TIME_MAX, || {
        let ran = cluster.coppice(&["job", "2"]);
        if ran.status == 0 { Ok(()) } else { Err(ran.stderr) }
    });
    assert_eq!(state(&cluster), "queued");
    die(&cluster, &root);
    assert_eq!(both.go_on().status, 0);
    wait_until("it has its node", NOTICED_TIME_MAX, || {
        if state(&cluster) == "queued" { Err("queued".into()) } else { Ok(()) }
    });
    others_go_on(&cluster);
    // It can be ended, and its node is good for others.
    let _ = cluster.coppice(&["kill", "--signal", "KILL", "2"]).success();
    let ran = finish_child(stuck, "a run whose root does not answer");
    assert_ne!(ran.status, 0);
    let _ = cluster.run(&["-n", "2", BUSYBOX, "true"]).success();
    assert!(cluster.json(&["nodes"]).as_array().is_some_and(|nodes| nodes.iter().all(|node| node["generation"] == 1)));
    let _ = cluster.coppice(&["down"]).success();
    cluster.assert_no_process_left();
}

/// A mount within a job's root that does not answer: the calls on it wait, and nothing else does.
#[test]
fn a_dead_mount_within_a_root_delays_nobody_but_who_uses_it() {
    let Some((cluster, root)) = with_a_root() else { return };
    let path = program("waits_and_exits", Toolchain::Musl);
    let path = path.to_str().expect("a path");
    die(&cluster, &root);
    for call in [&["ls", "/dead"][..], &["cat", "/dead/file"], &["mkdir", "/dead/new"], &["touch", "/dead/file"]] {
        let stuck = start(&cluster, &[&[BUSYBOX], call].concat());
        let last = |cluster: &Cluster| cluster.json(&["jobs"]).as_array().and_then(|jobs| jobs.last().cloned());
        let is_stuck =
            |job: &serde_json::Value| job["state"] == "running" && job["arguments"].to_string().contains(call[1]);
        wait_until("it runs", NOTICED_TIME_MAX, || match last(&cluster) {
            Some(job) if is_stuck(&job) => Ok(()),
            other => Err(format!("{other:?}")),
        });
        // Programs are loaded, read their files and input, print and are ended, by the same I/O node.
        others_go_on(&cluster);
        let job = Waiting::start(&cluster, &[path, "7"], "waiting");
        assert_eq!(job.go_on().status, 7, "{call:?}");
        let _ = cluster.run(&[BUSYBOX, "touch", "/alive"]).success();
        kill_process(Pid::from_child(&stuck), Signal::KILL).expect("killed");
        let _ = finish_child(stuck, "a run whose mount is dead");
        wait_until("the job has ended", NOTICED_TIME_MAX, || {
            let jobs = cluster.json(&["jobs"]);
            let all_ended = jobs.as_array().is_some_and(|jobs| jobs.iter().all(|job| job["state"] == "ended"));
            if all_ended { Ok(()) } else { Err(jobs.to_string()) }
        });
        // Its node is good for others.
        let _ = cluster.run(&["-n", "2", BUSYBOX, "true"]).success();
    }
    let events = cluster.json(&["ras"]).to_string();
    assert!(!events.contains("I/O node"), "{events}");
    let _ = cluster.coppice(&["down"]).success();
    cluster.assert_no_process_left();
}

/// Stops a helper under a job: it is noticed, recorded, ended and replaced, and the job ends with a reason in these
/// words.
#[track_caller]
fn stopped(helper: &str, recorded: &str, reason: &str) {
    let cluster = Cluster::up(1);
    let path = program("waits_and_exits", Toolchain::Musl);
    let mut child = cluster.command(&["run", path.to_str().expect("a path")]);
    let child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start");
    wait_until_it_listens(&child);
    wait_until("the job runs", NOTICED_TIME_MAX, || {
        let jobs = cluster.json(&["jobs"]);
        if jobs[0]["state"] == "running" { Ok(()) } else { Err(jobs.to_string()) }
    });
    cluster.signal_process(helper, Signal::STOP);
    let mut child = child;
    let input = child.stdin.take();
    let ran = finish_child(child, "a run whose helper is stopped");
    drop(input);
    assert_eq!(ran.status, 125);
    assert!(ran.stderr.contains(reason), "{}", ran.stderr);
    wait_until("it is recorded", NOTICED_TIME_MAX, || {
        let events = cluster.json(&["ras"]).to_string();
        if events.contains(recorded) { Ok(()) } else { Err(events) }
    });
    wait_until("the node is ready again", NOTICED_TIME_MAX, || {
        let ran = cluster.run(&[BUSYBOX, "true"]);
        if ran.status == 0 { Ok(()) } else { Err(ran.stderr) }
    });
    let _ = cluster.coppice(&["down"]).success();
    cluster.assert_no_process_left();
}

#[test]
fn a_stopped_io_node_is_replaced() {
    let silent = "the I/O node of pset 0 was ended: it did not say that it is alive";
    stopped("coppice-io-node", silent, silent);
}

#[test]
fn a_stopped_fabric_is_replaced() {
    // The I/O node misses its nodes before anybody misses the fabric.
    stopped("coppice-fabric", "the fabric did not say that it is alive", "did not");
}
