//! Jobs: exit statuses, faults with their RAS events, time limits, kill, the queue.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use coppice_tests::Cluster;
use coppice_tests::cluster::{finish_child, wait_until};
use coppice_tests::guests::{BUSYBOX, Toolchain, program};

#[test]
fn exit_status_is_the_highest_of_the_ranks() {
    let cluster = Cluster::up(4);
    let path = program("exit_rank", Toolchain::Glibc);
    let ran = cluster.run(&["-n", "4", "--label", &path.to_string_lossy()]);
    assert_eq!(ran.status, 13, "{}", ran.stderr);
    for rank in 0..4 {
        assert!(ran.text().contains(&format!("{rank}: rank {rank} of 4\n")), "{}", ran.text());
    }
    let job = cluster.last_job();
    for rank in 0..4usize {
        assert_eq!(job["rank_reports"][rank]["exit"], 10 + rank, "{job}");
    }
}

/// A null pointer ends one rank as 139 with an event that names rank, address and instruction; the others finish.
#[test]
fn null_pointer_is_diagnosed() {
    let cluster = Cluster::up(2);
    let path = program("fault", Toolchain::Glibc);
    let ran = cluster.run(&["-n", "2", "--label", &path.to_string_lossy(), "null", "1"]);
    assert_eq!(ran.status, 139, "{}", ran.stderr);
    assert!(ran.text().contains("0: unharmed\n"), "{}", ran.text());
    let events = cluster.json(&["ras"]);
    let fault = events
        .as_array()
        .and_then(|events| events.iter().find(|event| event["kind"] == "program-fault"))
        .unwrap_or_else(|| panic!("no event in {events}"));
    assert_eq!(fault["rank"], 1, "{fault}");
    assert_eq!(fault["address"], 0, "{fault}");
    let instruction = fault["instruction"].as_u64().expect("an instruction");
    assert!((0x40_0000..0x100_0000).contains(&instruction), "{fault}");
}

/// Starts a program that spins for ever on a node and waits until it says so.
fn spinning(cluster: &Cluster, arguments: &[&str]) -> std::process::Child {
    let path = program("spin", Toolchain::Musl);
    let mut child = cluster
        .command(&[&["run"], arguments, &[&*path.to_string_lossy()]].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start");
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().expect("piped")).read_line(&mut line).expect("output");
    assert_eq!(line, "spinning\n");
    child
}

#[test]
fn endless_loop_ends_by_time_limit_and_by_kill() {
    let cluster = Cluster::up(1);
    let path = program("spin", Toolchain::Musl);
    let ran = cluster.run(&["--timeout", "1", &*path.to_string_lossy()]);
    assert_eq!(ran.status, 137, "{}", ran.stderr);
    assert!(ran.stderr.contains("time"), "{}", ran.stderr);
    let _ = cluster.run(&[BUSYBOX, "true"]).success();

    let child = spinning(&cluster, &[]);
    let job =
        cluster.json(&["jobs"]).as_array().and_then(|jobs| jobs.iter().filter_map(|job| job["job"].as_u64()).max());
    let _ = cluster.coppice(&["kill", &job.expect("a job").to_string()]).success();
    let ran = finish_child(child, "run of a killed job");
    assert!(ran.status > 128, "{} {}", ran.status, ran.stderr);
    let _ = cluster.run(&[BUSYBOX, "true"]).success();
    assert_eq!(cluster.json(&["nodes"])[0]["generation"], 1, "the node was rebooted");
}

/// Ctrl-C at `run`, and `run` itself killed: the job ends, the node is free.
#[test]
fn interrupted_run_leaves_nothing_running() {
    let cluster = Cluster::up(1);
    for signal in [rustix::process::Signal::INT, rustix::process::Signal::KILL] {
        let child = spinning(&cluster, &[]);
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), signal).expect("kill");
        let ran = finish_child(child, "interrupted run");
        assert_eq!(ran.status, 128 + signal.as_raw(), "{}", ran.stderr);
        let _ = cluster.run(&[BUSYBOX, "true"]).success();
    }
    wait_until("no job runs", Duration::from_secs(5), || {
        let jobs = cluster.json(&["jobs"]);
        let running = jobs.as_array().is_some_and(|jobs| jobs.iter().any(|job| job["state"] != "ended"));
        if running { Err(jobs.to_string()) } else { Ok(()) }
    });
}

/// Jobs wait for their nodes in the order they came.
#[test]
fn queue_is_first_in_first_out() {
    let cluster = Cluster::up(2);
    let first = spinning(&cluster, &["-n", "2", "--timeout", "2"]);
    let start = |text: &str| {
        cluster
            .command(&["run", "-n", "2", BUSYBOX, "echo", text])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start")
    };
    let queued = |count: usize| {
        wait_until("the job is queued", Duration::from_secs(5), || {
            let jobs = cluster.json(&["jobs"]);
            if jobs.as_array().map(Vec::len) == Some(count) { Ok(()) } else { Err(jobs.to_string()) }
        });
    };
    let second = start("second");
    queued(2);
    let third = start("third");
    queued(3);
    assert_eq!(finish_child(first, "first").status, 137);
    assert_eq!(finish_child(second, "second").success().text(), "second\nsecond\n");
    assert_eq!(finish_child(third, "third").success().text(), "third\nthird\n");
    let jobs = cluster.json(&["jobs"]);
    let started = |job: u64| {
        let list = jobs.as_array().expect("list");
        list.iter()
            .find(|entry| entry["job"] == job)
            .and_then(|entry| entry["started_at_ns"].as_u64())
            .expect("started")
    };
    assert!(started(1) < started(2) && started(2) < started(3), "{jobs}");
}

/// Jobs that are over before anybody can look: each still gives its output and its status.
#[test]
fn short_jobs_in_a_row() {
    let cluster = Cluster::up(2);
    for number in 0..30 {
        let text = number.to_string();
        assert_eq!(cluster.run(&["-n", "2", BUSYBOX, "echo", &text]).success().text(), format!("{text}\n{text}\n"));
    }
}
