//! How jobs that are detached end, and what is said of it: by themselves, by signals, with the service node.

use std::io::Read;
use std::process::Stdio;

use coppice_tests::Cluster;
use coppice_tests::cluster::finish_child;
use coppice_tests::guests::BUSYBOX;
use coppice_tests::talk::{arguments, detach, go, said, wait_until_kept};

const BYTES: usize = 1_500_000;

fn wait(cluster: &Cluster, jobs: &[u64]) -> coppice_tests::Ran {
    let jobs: Vec<String> = jobs.iter().map(u64::to_string).collect();
    cluster.coppice(&[&["wait".to_owned()], &jobs[..]].concat())
}

#[test]
fn wait_exits_as_run_would() {
    let cluster = Cluster::up(2);
    let statuses = [0, 7, 139, 3];
    let jobs: Vec<u64> = statuses.iter().map(|status| detach(&cluster, &arguments(&[], 100, *status, true))).collect();
    let all: Vec<String> = jobs.iter().map(u64::to_string).collect();
    let mut command = cluster.command(&[&["wait".to_owned()], &all[..]].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let waiting = command.spawn().expect("start");
    wait_until_the_first_run(&cluster, &jobs);
    go(&cluster);
    let ran = finish_child(waiting, "wait that came before the ends");
    assert_eq!(ran.status, 7, "the first in order that is not 0: {}", ran.stderr);
    assert!(ran.stderr.contains("SIGSEGV") && ran.stderr.lines().count() == 1, "{}", ran.stderr);
    for (job, status) in jobs.iter().zip(statuses) {
        let waited = wait(&cluster, &[*job]);
        let ran = cluster.run(&arguments(&[], 100, status, false));
        assert_eq!((waited.status, ran.status), (status.into(), status.into()), "{} {}", waited.stderr, ran.stderr);
    }
    assert_eq!(wait(&cluster, &[jobs[3], jobs[1], jobs[0]]).status, 3);
    assert_eq!(wait(&cluster, &[jobs[0], jobs[0]]).status, 0);
    let _ = wait(&cluster, &[jobs[0], 99]).refused(&["there is no job 99"]);
}

/// Two jobs run, one on each node; the others wait.
#[track_caller]
fn wait_until_the_first_run(cluster: &Cluster, jobs: &[u64]) {
    for job in &jobs[..2] {
        wait_until_kept(cluster, *job, 50 + 12);
    }
}

#[test]
fn a_detached_job_ends_by_a_signal_as_others_do() {
    let cluster = Cluster::up(1);
    let job = detach(&cluster, &arguments(&[], 100, 0, true));
    let queued = detach(&cluster, &arguments(&[], 100, 0, true));
    wait_until_kept(&cluster, job, 50);
    for job in [queued, job] {
        let _ = cluster.coppice(&["kill", &job.to_string()]).success();
    }
    let ran = wait(&cluster, &[job]);
    assert!(ran.status == 143 && ran.stderr.contains("ended by SIGTERM on request"), "{}", ran.stderr);
    assert_eq!(wait(&cluster, &[queued]).status, 143);
    assert_eq!(cluster.coppice(&["logs", &job.to_string()]).success().stdout, said(0, false, 50));
    let nothing = cluster.coppice(&["logs", "-f", &queued.to_string()]).success();
    assert_eq!((nothing.text(), &*nothing.stderr), (String::new(), ""));
}

/// A service node that is killed takes its jobs with it; the next one says so, and has what was kept.
#[test]
fn a_service_node_that_is_killed_leaves_what_was_written() {
    let cluster = Cluster::up(1);
    let job = detach(&cluster, &[BUSYBOX, "yes", "a line of a detached job"]).to_string();
    let mut command = cluster.command(&["logs", "-f", &job]);
    let mut following = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start");
    following.stdout.as_mut().expect("piped").read_exact(&mut [0; 1000]).expect("output");
    wait_until_kept(&cluster, 1, 1_000_000);
    cluster.kill_process("coppiced");
    let _ = finish_child(following, "logs -f").refused(&["connection"]);
    cluster.assert_no_process_left();
    assert!(!cluster.coppice(&["logs", &job]).refused(&["not up"]).stderr.is_empty());
    let _ = cluster.coppice(&["up", "--accel", "tcg", "--nodes", "1"]).success();
    let record = cluster.json(&["job", &job]);
    assert!(record["reason"].as_str().is_some_and(|reason| reason.contains("the service node ended")), "{record}");
    let waited = wait(&cluster, &[1]);
    assert_eq!(waited.status, 125, "{}", waited.stderr);
    let kept = cluster.coppice(&["logs", &job]).success();
    assert!(kept.stderr.contains("is kept up to here: the service node ended"), "{}", kept.stderr);
    let line = "a line of a detached job\n";
    let whole = line.repeat(kept.stdout.len() / line.len() + 1);
    assert!(kept.stdout.len() >= 1_000_000 && whole.as_bytes().starts_with(&kept.stdout));
    let record = cluster.json(&["job", &job]);
    assert_eq!(
        (&record["output"]["cut"], &record["output"]["bytes"]),
        (&"service-node".into(), &kept.stdout.len().into())
    );
}

#[test]
fn a_cluster_that_goes_down_keeps_what_was_written() {
    let cluster = Cluster::up(1);
    let job = detach(&cluster, &arguments(&[], BYTES, 0, true));
    wait_until_kept(&cluster, job, BYTES / 2 + BYTES / 2 / 4);
    let _ = cluster.coppice(&["down"]).success();
    cluster.assert_no_process_left();
    let _ = cluster.coppice(&["up", "--accel", "tcg", "--nodes", "1"]).success();
    let record = cluster.json(&["job", "1"]);
    assert_eq!(record["reason"], "the cluster went down", "{record}");
    let kept = cluster.coppice(&["logs", "1"]).success();
    assert!(kept.stdout == said(0, false, BYTES)[..BYTES / 2], "{} bytes", kept.stdout.len());
    assert_eq!((&record["output"]["cut"], &record["output"]["dropped"]), (&serde_json::Value::Null, &0.into()));
}
