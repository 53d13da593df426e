//! Commands that are interrupted, at any moment and while the service node does not answer: they end at once, and leave
//! what their help says.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use coppice_tests::cluster::{finish_child, wait_until, wait_until_it_listens};
use coppice_tests::guests::{Toolchain, program};
use coppice_tests::{Cluster, Ran};
use rustix::process::{Pid, Signal, kill_process};

/// Moments of `up` at which it is interrupted.
const MOMENTS: u32 = 12;

fn start(cluster: &Cluster, arguments: &[&str]) -> Child {
    let mut command = cluster.command(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start")
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("sent");
}

/// Interrupts a command and waits for its end.
#[track_caller]
fn interrupt(child: Child, name: &str) -> Ran {
    send(&child, Signal::INT);
    finish_child(child, name)
}

#[test]
fn run_can_be_left_while_coppiced_does_not_answer() {
    let cluster = Cluster::up(1);
    let path = program("waits_and_exits", Toolchain::Musl);
    let path = path.to_str().expect("a path");
    // Before it has a job.
    cluster.signal_process("coppiced", Signal::STOP);
    let child = start(&cluster, &["run", path]);
    wait_until_it_listens(&child);
    let ran = interrupt(child, "run without a job");
    assert_eq!(ran.status, 130, "{}", ran.stderr);
    assert!(ran.stderr.contains("left before the job was accepted"), "{}", ran.stderr);
    cluster.signal_process("coppiced", Signal::CONT);
    // With one.
    let mut child = start(&cluster, &["run", path]);
    let mut line = String::new();
    let output = child.stdout.as_mut().expect("piped");
    let _ = std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).expect("output");
    assert_eq!(line, "waiting\n");
    cluster.signal_process("coppiced", Signal::STOP);
    send(&child, Signal::INT);
    let mut error = std::io::BufReader::new(child.stderr.take().expect("piped"));
    let mut said = String::new();
    let _ = std::io::BufRead::read_line(&mut error, &mut said).expect("error");
    assert!(said.contains("is sent SIGINT"), "{said}");
    let ran = interrupt(child, "run with a job");
    assert_eq!(ran.status, 130);
    cluster.signal_process("coppiced", Signal::CONT);
    wait_until("no job is left", Duration::from_secs(60), || {
        let jobs = cluster.json(&["jobs"]);
        let all_ended = jobs.as_array().is_some_and(|jobs| jobs.iter().all(|job| job["state"] == "ended"));
        if all_ended { Ok(()) } else { Err(jobs.to_string()) }
    });
}

#[test]
fn commands_do_not_wait_for_ever_for_a_stopped_coppiced() {
    let cluster = Cluster::up(1);
    cluster.signal_process("coppiced", Signal::STOP);
    let pid = cluster.processes().into_iter().find(|process| process.command.contains("coppiced")).expect("it").pid;
    let silent = [&*pid.to_string(), "has not answered", "kill -9"];
    let asked = [&["nodes"][..], &["link", "0"], &["down"]].map(|arguments| start(&cluster, arguments));
    for child in asked {
        let _ = finish_child(child, "a command that is not answered").refused(&silent);
    }
    cluster.signal_process("coppiced", Signal::CONT);
    let _ = cluster.coppice(&["down"]);
    cluster.assert_no_process_left();
}

#[test]
fn an_interrupted_up_leaves_nothing_and_a_killed_one_a_cluster() {
    let cluster = Cluster::home();
    let arguments = ["up", "--accel", "tcg", "--nodes", "2"];
    let since = Instant::now();
    let _ = cluster.coppice(&arguments).success();
    let whole = since.elapsed();
    let _ = cluster.coppice(&["down"]).success();
    let (mut interrupted, mut late) = (0, 0);
    for moment in 0..MOMENTS {
        let child = start(&cluster, &arguments);
        wait_until_it_listens(&child);
        std::thread::sleep(whole * moment / MOMENTS);
        let ran = interrupt(child, "up");
        if ran.status == 0 {
            // It was done already.
            late += 1;
            let _ = cluster.coppice(&["down"]).success();
        } else {
            interrupted += 1;
            let _ = ran.refused(&["interrupted", "down again"]);
        }
        cluster.assert_no_process_left();
        assert!(!cluster.home_path().join("run/default").exists(), "moment {moment}");
        let _ = cluster.coppice(&["down"]).refused(&["is not up"]);
    }
    assert!(interrupted > 0, "{late} times it was done already");
    // Nobody can end anything after SIGKILL: the cluster comes up, and `down` ends it.
    let child = start(&cluster, &arguments);
    wait_until("the cluster is coming up", Duration::from_secs(60), || {
        if cluster.home_path().join("run/default/api.sock").exists() { Ok(()) } else { Err("no socket".into()) }
    });
    send(&child, Signal::KILL);
    let _ = finish_child(child, "up that was killed");
    cluster.wait_until_ready();
    let _ = cluster.coppice(&["down"]).success();
    cluster.assert_no_process_left();
}
