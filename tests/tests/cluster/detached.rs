//! Jobs that outlive their terminal: they go on whatever becomes of whoever ran them, and what they wrote is there.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};

use coppice_tests::Cluster;
use coppice_tests::cluster::{finish, finish_child, wait_until};
use coppice_tests::guests::BUSYBOX;
use coppice_tests::talk::{arguments, detach, go, guest, said, wait_until_kept};
use rustix::process::{Pid, Signal, kill_process};

/// Bytes that each rank of a job writes to its standard output: more than a window.
const BYTES: usize = 1_500_000;

/// Readers of a log at the same time.
const MANY: usize = 80;

/// How long things may take on a busy host.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(120);

fn state(cluster: &Cluster, job: u64) -> String {
    cluster.json(&["job", &job.to_string()])["state"].as_str().expect("a state").to_owned()
}

fn start(cluster: &Cluster, arguments: &[&str]) -> Child {
    let mut command = cluster.command(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start")
}

/// Each rank's streams are in the log as it wrote them, and nothing else.
#[track_caller]
fn assert_all_is_kept(cluster: &Cluster, job: u64, ranks: u32, bytes: usize) {
    let job = job.to_string();
    for rank in 0..ranks {
        let ran = cluster.coppice(&["logs", &job, "--rank", &rank.to_string()]).success();
        assert!(ran.stdout == said(rank, false, bytes), "{} bytes of rank {rank}", ran.stdout.len());
        assert!(ran.stderr_bytes == said(rank, true, bytes), "{} bytes of rank {rank}", ran.stderr_bytes.len());
    }
    let all = cluster.coppice(&["logs", &job]).success();
    assert_eq!((all.stdout.len(), all.stderr_bytes.len()), (ranks as usize * bytes, ranks as usize * (bytes / 4)));
    let record = cluster.json(&["job", &job]);
    assert_eq!(record["output"]["bytes"], ranks as usize * (bytes + bytes / 4), "{record}");
    assert_eq!((&record["output"]["cut"], &record["output"]["dropped"]), (&serde_json::Value::Null, &0.into()));
}

#[test]
fn a_detached_job_outlives_whoever_ran_it() {
    let cluster = Cluster::up(2);
    // `run` is killed as soon as it has said the number.
    let options = ["run", "--detach", "-n", "4", "--ranks-per-node", "2"];
    let words = arguments(&options, BYTES, 3, true);
    let mut child = start(&cluster, &words.iter().map(String::as_str).collect::<Vec<_>>());
    let mut line = String::new();
    let _ = BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
    // It may have ended by itself.
    let _ = kill_process(Pid::from_child(&child), Signal::KILL);
    let _ = child.wait();
    let job: u64 = line.trim_end().parse().expect("a number");
    // It writes more than the windows have room for, and waits in the middle.
    wait_until_kept(&cluster, job, 4 * (BYTES / 2 + BYTES / 2 / 4));
    assert_eq!(state(&cluster, job), "running");
    let record = cluster.json(&["job", &job.to_string()]);
    assert_eq!((&record["detached"], &record["output"]["bytes"]), (&true.into(), &serde_json::Value::Null));
    go(&cluster);
    let ran = cluster.coppice(&["wait", &job.to_string()]);
    assert_eq!((ran.status, &*ran.stderr, &*ran.text()), (3, "", ""));
    assert_all_is_kept(&cluster, job, 4, BYTES);
}

#[test]
fn a_detached_job_outlives_its_terminal() {
    let cluster = Cluster::up(1);
    let words = arguments(&["--detach"], 1000, 0, true);
    let coppice = cluster.command(&["run"]);
    let line = format!("{} run {}; read x", coppice.get_program().display(), words.join(" "));
    // A terminal of its own, whose other end `script` has.
    let mut script = std::process::Command::new("script");
    script.args(["--quiet", "--command", &line, "/dev/null"]).current_dir(cluster.root());
    script.env("COPPICE_HOME", cluster.home_name()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut terminal = script.spawn().expect("script, of util-linux");
    let mut number = String::new();
    let _ = BufReader::new(terminal.stdout.as_mut().expect("piped")).read_line(&mut number).expect("a line");
    kill_process(Pid::from_child(&terminal), Signal::KILL).expect("killed");
    let _ = terminal.wait();
    let job: u64 = number.trim_end().parse().expect("a number");
    wait_until("the job runs", PATIENCE, || match &*state(&cluster, job) {
        "running" => Ok(()),
        other => Err(other.to_owned()),
    });
    go(&cluster);
    let _ = cluster.coppice(&["wait", &job.to_string()]).success();
    assert_all_is_kept(&cluster, job, 1, 1000);
}

#[test]
fn a_detached_job_has_no_input() {
    let cluster = Cluster::up(1);
    let job = detach(&cluster, &[BUSYBOX, "wc", "-c"]);
    let _ = cluster.coppice(&["wait", &job.to_string()]).success();
    assert_eq!(cluster.coppice(&["logs", &job.to_string()]).success().text(), "0\n");
    let refused = cluster.coppice(&["run", "--detach", "--stdin-rank", "0", BUSYBOX, "true"]);
    let _ = refused.refused(&["--detach", "no standard input", "--stdin-rank"]);
}

/// Who follows sees all from the beginning, each in his own way, and the end.
#[test]
fn logs_are_followed_until_the_job_ends() {
    let cluster = Cluster::up(2);
    let job = detach(&cluster, &arguments(&["-n", "2"], BYTES, 0, true));
    let job_name = job.to_string();
    let all = start(&cluster, &["logs", "--follow", &job_name]);
    let errors = start(&cluster, &["logs", "-f", "--rank", "1", "--stream", "stderr", &job_name]);
    let mut left = start(&cluster, &["logs", "-f", &job_name]);
    let mut first = [0; 1000];
    left.stdout.as_mut().expect("piped").read_exact(&mut first).expect("output");
    wait_until_kept(&cluster, job, 2 * (BYTES / 2 + BYTES / 2 / 4));
    // One who reads no further, and then goes away, is none of the job's business.
    drop(left.stdout.take());
    go(&cluster);
    let all = finish_child(all, "logs --follow").success();
    let _ = finish_child(left, "logs whose reader left").success();
    assert_eq!((all.stdout.len(), all.stderr_bytes.len()), (2 * BYTES, 2 * (BYTES / 4)));
    let errors = finish_child(errors, "logs of a rank").success();
    assert!(errors.stdout.is_empty() && errors.stderr_bytes == said(1, true, BYTES));
    assert_eq!(state(&cluster, job), "ended");
    assert_all_is_kept(&cluster, job, 2, BYTES);
    let _ = cluster.coppice(&["logs", &job_name, "--rank", "2"]).refused(&["--rank 2", "ranks 0 to 1"]);
    let job = detach(&cluster, &["-n", "2", BUSYBOX, "echo", "word"]).to_string();
    let labelled = cluster.coppice(&["logs", "-f", "--label", &job]).success().text();
    let mut lines: Vec<&str> = labelled.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0: word", "1: word"]);
}

/// More follow a job than there are threads that read logs.
#[test]
fn many_follow_a_job() {
    let cluster = Cluster::up(1);
    let job = detach(&cluster, &arguments(&[], 10_000, 0, true)).to_string();
    let following: Vec<Child> =
        (0..MANY).map(|_| start(&cluster, &["logs", "-f", "--stream", "stdout", &job])).collect();
    wait_until_kept(&cluster, 1, 5000);
    go(&cluster);
    for child in following {
        let ran = finish_child(child, "one of many that follow").success();
        assert!(ran.stdout == said(0, false, 10_000), "{} bytes; {}", ran.stdout.len(), ran.stderr);
    }
}

#[test]
fn who_attaches_sees_what_comes_and_leaves_without_harm() {
    let cluster = Cluster::up(1);
    let job = detach(&cluster, &arguments(&[], BYTES, 9, true));
    let name = job.to_string();
    wait_until_kept(&cluster, job, BYTES / 2 + BYTES / 2 / 4);
    let attach = || {
        let mut child = start(&cluster, &["attach", &name]);
        // No further than this line, as what follows is the job's.
        let mut line = String::new();
        let said = child.stderr.as_mut().expect("piped");
        let _ = BufReader::with_capacity(1, said).read_line(&mut line).expect("a line");
        assert!(line.starts_with("coppice: attached to job 1"), "{line}");
        child
    };
    let (attached, leaves) = (attach(), attach());
    kill_process(Pid::from_child(&leaves), Signal::INT).expect("sent");
    let leaves = finish_child(leaves, "attach that leaves");
    assert_eq!((leaves.status, leaves.stdout.len()), (130, 0), "{}", leaves.stderr);
    assert!(leaves.stderr.contains("left; job 1 goes on"), "{}", leaves.stderr);
    go(&cluster);
    let attached = finish_child(attached, "attach");
    assert_eq!(attached.status, 9);
    assert!(attached.stdout == said(0, false, BYTES)[BYTES / 2..], "{} bytes", attached.stdout.len());
    assert!(attached.stderr_bytes == said(0, true, BYTES)[BYTES / 2 / 4..], "{} bytes", attached.stderr_bytes.len());
    assert_all_is_kept(&cluster, job, 1, BYTES);
    let _ = cluster.coppice(&["attach", &name]).refused(&["job 1 has ended already"]);
    let _ = cluster.coppice(&["attach", "77"]).refused(&["there is no job 77", "coppice jobs"]);
}

/// What is attached to its `run` still ends with it, also if its output is kept.
#[test]
fn a_job_that_is_not_detached_ends_with_whoever_ran_it() {
    let cluster = Cluster::up(1);
    let words = arguments(&["run", "--keep-output=8M"], BYTES, 0, true);
    let mut command = cluster.command(&words);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("start");
    let mut first = vec![0; BYTES / 2];
    child.stdout.as_mut().expect("piped").read_exact(&mut first).expect("output");
    child.kill().expect("killed");
    let _ = child.wait();
    let ran = cluster.coppice(&["wait", "1"]);
    assert!(ran.status == 137 && ran.stderr.contains("whoever ran it went away"), "{}", ran.stderr);
    let kept = cluster.coppice(&["logs", "1"]).success();
    assert!(said(0, false, BYTES).starts_with(&kept.stdout) && kept.stdout.len() >= BYTES / 2);
    // And one that is not kept has no log.
    let _ = cluster.run(&[BUSYBOX, "true"]).success();
    let _ = cluster.coppice(&["logs", "2"]).refused(&["output of job 2 was not kept", "--keep-output"]);
    let _ = cluster.coppice(&["logs", "3"]).refused(&["there is no job 3"]);
    let mut run = cluster.command(&["run", "--quiet", "--keep-output"]);
    run.arg(guest()).args(["1000", "0"]);
    let ran = finish(run).success();
    assert!(ran.stdout == said(0, false, 1000) && ran.stderr_bytes == said(0, true, 1000));
    assert_all_is_kept(&cluster, 3, 1, 1000);
}
