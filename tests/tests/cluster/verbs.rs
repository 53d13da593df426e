//! Every command of the tool is interrupted at random moments: it ends soon, with a status that says so, and leaves
//! what its help says.
//!
//! The moments follow from `COPPICE_SEED`; `COPPICE_MOMENTS` says how many there are for each command, as `cargo xtask
//! soak` does.

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use coppice_tests::cluster::{finish, finish_child, wait_until};
use coppice_tests::guests::{BUSYBOX, Toolchain, program};
use coppice_tests::random::{Random, told};
use coppice_tests::{Cluster, Ran, Waiting};
use rustix::process::{Pid, Signal, kill_process};

/// The suite's seed and moments.
const SEED: u64 = 20_261_123;
const MOMENTS: u64 = 6;
/// How soon an interrupted command ends on a host with time for it, and how much longer a busy one may take.
const END_TIME_MAX: Duration = Duration::from_secs(2);
const BUSY_HOST_TIME_MAX: Duration = Duration::from_secs(8);
/// `up` ends what it has begun before it ends itself: that much longer.
const TAKE_DOWN_TIME_MAX: Duration = Duration::from_secs(15);
/// When a command that would go on for ever is interrupted, at the latest.
const ENDLESS: Duration = Duration::from_millis(600);
/// How long it may take until nothing is under way any more.
const QUIET_TIME_MAX: Duration = Duration::from_secs(60);
/// Exit status of a command that could not do what it was asked.
const NOT_DONE: i32 = 125;

/// Moments and what is interrupted then.
struct Trial {
    random: Random,
    moments: u64,
}

/// The same command, with signals as a terminal's commands have them: a test that runs in the background ignores some.
fn as_at_a_terminal(command: &Command) -> Command {
    let mut other = Command::new("env");
    other.arg("--default-signal=INT,TERM").arg(command.get_program()).args(command.get_args());
    other.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(directory) = command.get_current_dir() {
        let _ = other.current_dir(directory);
    }
    other
}

fn start(cluster: &Cluster, arguments: &[&str]) -> Child {
    let mut command = as_at_a_terminal(&cluster.command(arguments));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start")
}

impl Trial {
    fn new() -> Self {
        let seed = told("COPPICE_SEED").unwrap_or(SEED);
        println!("COPPICE_SEED={seed}");
        Self { random: Random::of_seed(seed), moments: told("COPPICE_MOMENTS").unwrap_or(MOMENTS) }
    }

    /// Interrupts a command of this length at each moment, by one signal and the other; `then` looks at how it ended
    /// and at what is left.
    fn interrupt(
        &mut self,
        cluster: &Cluster,
        arguments: &[&str],
        length: Duration,
        end_max: Duration,
        mut then: impl FnMut(Signal, Ran),
    ) {
        let length = u64::try_from(length.as_millis()).expect("short");
        for moment in 0..self.moments {
            let signal = if moment % 2 == 0 { Signal::INT } else { Signal::TERM };
            // Or a little after its end.
            let after = self.random.time_below(length + length / 10 + 1);
            let child = start(cluster, arguments);
            let process = Pid::from_child(&child);
            std::thread::sleep(after);
            // Not waited for yet, so its number is its own.
            kill_process(process, signal).expect("sent");
            let sent = Instant::now();
            let ran = finish_child(child, &arguments.join(" "));
            let took = sent.elapsed();
            let what = format!("{arguments:?}, {signal:?} after {after:?}");
            assert!(took < end_max, "{what} ended {took:?} later");
            assert!(!ran.stderr.contains("panicked"), "{what}: {}", ran.stderr);
            then(signal, ran);
        }
    }
}

fn by(signal: Signal) -> i32 {
    128 + signal.as_raw()
}

/// How long a command takes here and now.
fn length(cluster: &Cluster, arguments: &[&str]) -> Duration {
    let since = Instant::now();
    let _ = cluster.coppice(arguments);
    since.elapsed()
}

/// The commands that the tool's help names.
fn verbs(cluster: &Cluster) -> BTreeSet<String> {
    let text = cluster.coppice(&["--help"]).success().text();
    let lines = text.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    lines.filter_map(|line| line.strip_prefix("  ")?.split(' ').next().map(str::to_owned)).collect()
}

/// Written by some of them.
const CORE_FILE: &str = "/dev/shm/coppice-verbs.core";

/// Commands that end by themselves or not, on a cluster whose job 1 has ended and whose job 2 runs, and how.
const OTHERS: [&[&str]; 37] = [
    &["stage", BUSYBOX],
    &["nodes"],
    &["nodes", "--links"],
    &["link", "0-1,io0"],
    &["link", "1", "--latency", "1ms", "--pcap-stop"],
    &["jobs"],
    &["job", "1"],
    &["programs"],
    &["forget"],
    &["kill", "--signal", "CONT", "2"],
    &["reboot", "1"],
    &["console", "0"],
    &["console", "0", "--follow"],
    &["ras"],
    &["run", "--nodes-list", "1", "--quiet", BUSYBOX, "sleep", "0.2"],
    &["run", "--detach", "--nodes-list", "1", BUSYBOX, "sleep", "0.1"],
    &["logs", "1"],
    &["logs", "--follow", "2"],
    &["attach", "--quiet", "2"],
    &["wait", "2"],
    &["checkpoint", "2"],
    &["checkpoints"],
    &["restart", "1"],
    &["trace", "2"],
    &["objects", "2"],
    &["overlay", "2", "on", "--rate", "10"],
    &["overlay", "2"],
    &["profile", "2"],
    &["explain", "2"],
    &["dashboard"],
    &["report", "2", "--output", "-"],
    &["metrics"],
    &["core", "2", "0", "--output", CORE_FILE],
    &["gdb", "2", "0"],
    &["doctor"],
    &["completions", "bash"],
    &["help"],
];

#[test]
fn every_command_is_tried() {
    let tried = OTHERS.iter().map(|arguments| arguments[0]).chain(["up", "down", "top"]).map(str::to_owned).collect();
    assert_eq!(verbs(&Cluster::home()), tried, "a command that is not interrupted below");
}

#[test]
fn commands_that_are_interrupted_leave_what_they_found() {
    let mut trial = Trial::new();
    let cluster = Cluster::up(2);
    let _ = cluster.run(&["--nodes-list", "0", "--keep-output", BUSYBOX, "true"]).success();
    let waits = program("waits_and_exits", Toolchain::Musl);
    let waits = ["--nodes-list", "0", "--keep-output", waits.to_str().expect("a path"), "7"];
    let job = Waiting::start(&cluster, &waits, "waiting");
    let without_cluster = Cluster::home();
    for arguments in OTHERS {
        // It is for those who have none yet, and starts a machine.
        let cluster = if arguments[0] == "doctor" { &without_cluster } else { &cluster };
        let endless = ["--follow", "attach", "dashboard", "trace", "wait"].iter().any(|word| arguments.contains(word));
        let length = if endless { ENDLESS } else { length(cluster, arguments) };
        trial.interrupt(cluster, arguments, length, END_TIME_MAX + BUSY_HOST_TIME_MAX, |signal, ran| {
            let said: Vec<&str> = ran.stderr.lines().collect();
            // The tracer before it may not be known to be gone.
            let is_taken = arguments[0] == "trace" && ran.stderr.contains("somebody traces job 2");
            // The one before it may still be made, and of job 1 there is none.
            let is_refused = ["checkpoint", "restart"].contains(&arguments[0]) && ran.status == NOT_DONE;
            if is_refused {
                assert_eq!(said.len(), 1, "{arguments:?}: {said:?}");
            } else if ["run", "restart"].contains(&arguments[0]) {
                // Left before the job was accepted, it says so.
                assert!([0, by(signal)].contains(&ran.status), "{arguments:?}: {ran:?}");
            } else if !is_taken {
                // Done, or not; one that was not done has said nothing.
                assert!(ran.status == by(signal) || ran.status == 0 && !endless, "{arguments:?}: {ran:?}");
                let has_left =
                    arguments[0] == "attach" && matches!(said[..], [line] if line.contains("left; job 2 goes"));
                assert!(said.is_empty() || has_left, "{arguments:?}: {said:?}");
            }
        });
        if arguments[0] == "reboot" {
            wait_until("the node is back", QUIET_TIME_MAX, || {
                let nodes = cluster.json(&["nodes"]);
                if nodes[1]["state"] == "ready" { Ok(()) } else { Err(nodes.to_string()) }
            });
        }
    }
    wait_until("the machines of `doctor` are gone", QUIET_TIME_MAX, || {
        let left = without_cluster.processes();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    });
    wait_until("interrupted jobs have ended", QUIET_TIME_MAX, || {
        let jobs = cluster.json(&["jobs"]);
        let others = jobs.as_array().into_iter().flatten().filter(|job| job["job"] != 2 && job["state"] != "ended");
        if others.count() == 0 { Ok(()) } else { Err(jobs.to_string()) }
    });
    assert_eq!(job.go_on().status, 7, "nobody meant this one");
    // None of them may have been done.
    let _ = std::fs::remove_file(CORE_FILE);
    cluster.wait_until_ready();
    let nodes = cluster.json(&["nodes"]);
    assert_eq!(nodes[0]["generation"], 1, "{nodes}");
    let _ = cluster.run(&["-n", "2", BUSYBOX, "true"]).success();
    let _ = cluster.coppice(&["down"]).success();
    cluster.assert_no_process_left();
}

const UP: [&str; 5] = ["up", "--accel", "tcg", "--nodes", "2"];

#[test]
fn an_interrupted_up_leaves_a_cluster_or_none() {
    let mut trial = Trial::new();
    let cluster = Cluster::home();
    let length = length(&cluster, &UP);
    let _ = cluster.coppice(&["down"]).success();
    trial.interrupt(&cluster, &UP, length, TAKE_DOWN_TIME_MAX + BUSY_HOST_TIME_MAX, |signal, ran| {
        if ran.status == 0 {
            let nodes = cluster.json(&["nodes"]);
            assert!(nodes.as_array().is_some_and(|nodes| nodes.iter().all(|node| node["state"] == "ready")), "{nodes}");
            let _ = cluster.coppice(&["down"]).success();
        } else {
            // It says so, unless it had not begun yet.
            assert!(ran.status == by(signal) && ran.stderr.is_empty() || ran.status == NOT_DONE, "{ran:?}");
            if ran.status == NOT_DONE {
                let _ = ran.refused(&["interrupted", "down again"]);
            }
            let _ = cluster.coppice(&["down"]).refused(&["is not up"]);
        }
        cluster.assert_no_process_left();
        assert!(!cluster.home_path().join("run/default").exists(), "sockets are left");
    });
}

#[test]
fn an_interrupted_down_may_be_repeated() {
    let mut trial = Trial::new();
    let cluster = Cluster::home();
    let up = || finish(cluster.command(&UP)).success();
    let _ = up();
    let length = length(&cluster, &["down"]);
    let _ = up();
    trial.interrupt(&cluster, &["down"], length, END_TIME_MAX + BUSY_HOST_TIME_MAX, |signal, ran| {
        assert!(ran.status == by(signal) || ran.status == 0, "{ran:?}");
        assert_eq!(ran.stderr, "");
        let again = cluster.coppice(&["down"]);
        if again.status != 0 {
            let _ = again.refused(&["is not up"]);
        }
        cluster.assert_no_process_left();
        assert!(!cluster.home_path().join("run/default").exists(), "sockets are left");
        let _ = up();
    });
}
