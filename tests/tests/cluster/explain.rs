//! `coppice explain` of jobs that something is the matter with: the first sentence names it.
//!
//! What is said rests on shares of the ranks' time and not on how long anything took, so that a busy host changes
//! nothing.

use std::process::{Child, Stdio};
use std::time::Duration;

use coppice_tests::Cluster;
use coppice_tests::cluster::{finish_child, wait_until};
use coppice_tests::guests::{BUSYBOX, Toolchain, program};
use serde_json::Value;

/// How long a job may take to come to what is asked about.
const TIME_MAX: Duration = Duration::from_secs(60);

/// Of a job that is asked about, four epochs a second.
const OVERLAY: &str = "--overlay=4";

/// What is found, as it is printed and as JSON.
struct Explained {
    first: String,
    text: String,
    causes: Vec<String>,
}

fn explained(cluster: &Cluster, job: &str) -> Explained {
    let text = cluster.coppice(&["explain", job]).success().text();
    let first = text.lines().next().expect("a sentence").to_owned();
    let json = cluster.json(&["explain", job]);
    let findings = json["findings"].as_array().expect("findings");
    let causes = findings.iter().map(|finding| finding["cause"].as_str().expect("a cause").to_owned()).collect();
    assert_eq!(json["job"].to_string(), job);
    Explained { first, text, causes }
}

/// The first sentence names this cause and has these words, and so has the rest these.
#[track_caller]
fn assert_first(explained: &Explained, cause: &str, words: &[&str], rest: &[&str]) {
    let Explained { first, text, causes } = explained;
    assert_eq!(causes[0], cause, "{text}");
    assert!(words.iter().all(|word| first.contains(word)), "{words:?}: {text}");
    assert!(rest.iter().all(|word| text.contains(word)), "{rest:?}: {text}");
}

fn ails() -> String {
    program("ails", Toolchain::Glibc).to_string_lossy().into_owned()
}

/// Runs the guest with these arguments behind `run`, and explains what became of it.
#[track_caller]
fn run(cluster: &Cluster, options: &[&str], arguments: &[&str]) -> Explained {
    let ails = ails();
    let _ = cluster.run(&[&[OVERLAY][..], options, &[&ails], arguments].concat());
    explained(cluster, &cluster.last_job()["job"].to_string())
}

/// Starts a job that belongs to nobody; its number.
#[track_caller]
fn detach(cluster: &Cluster, arguments: &[&str]) -> String {
    cluster.coppice(&[&["run", "--detach"], arguments].concat()).success().text().trim().to_owned()
}

#[track_caller]
fn wait_for_state(cluster: &Cluster, job: &str, state: &str) {
    wait_until("the job to be so far", TIME_MAX, || {
        let view = cluster.json(&["job", job]);
        if view["state"] == state { Ok(()) } else { Err(view.to_string()) }
    });
}

/// Jobs whose ranks wait: for each other, over a bad link, for files, pages, locks and cores.
#[test]
fn what_ranks_waited_for_is_named() {
    let cluster = Cluster::up_with(&["--nodes", "4", "--cores", "1"]);
    std::fs::write(cluster.root().join("mapped"), vec![7; 8 << 20]).expect("written");

    // The program is there from now on.
    let _ = run(&cluster, &["-n", "4"], &["talk", "1"]);

    let slow = run(&cluster, &["-n", "4"], &["slow", "30", "2"]);
    assert_first(&slow, "slow-rank", &["Rank 2 on node 2 is slow", "times as long as"], &["--rank 2"]);
    let uneven = run(&cluster, &["-n", "4"], &["uneven", "15"]);
    assert_first(&uneven, "imbalance", &["unevenly spread", "% of their time"], &["coppice profile"]);

    let _ = cluster.coppice(&["link", "1", "--latency", "20ms"]).success();
    let link = run(&cluster, &["-n", "4"], &["talk", "30"]);
    assert_first(
        &link,
        "slow-link",
        &["link of node 1", "delays each frame by 20 ms"],
        &["coppice link 1 --latency 0us"],
    );
    // What it says is to be done helps.
    let mend = link.text.lines().find_map(|line| line.split_once(": coppice ").map(|(_, command)| command.to_owned()));
    let mend = mend.expect("a command");
    let _ = cluster.coppice(&mend.split(' ').collect::<Vec<_>>()).success();
    let mended = run(&cluster, &["-n", "4"], &["slow", "30", "0"]);
    assert_first(&mended, "slow-rank", &["Rank 0 on node 0 is slow"], &[]);

    let disk = run(&cluster, &["-n", "2"], &["disk", "1500", "/written"]);
    assert_first(&disk, "slow-disk", &["disk is slow", "fsync"], &["coppice job"]);
    // What is kept of a file is mapped again without being read; here nothing is kept.
    let pages = run(&cluster, &["-n", "2", "--io", "strict"], &["pages", "1500", "/mapped"]);
    assert_first(&pages, "page-storm", &["storm of page faults", "faults"], &["--stage FILE"]);
    let locks = run(&cluster, &["-n", "2"], &["locks", "3000"]);
    assert_first(&locks, "lock-contention", &["locks of each other", "calls of futex", "4 threads"], &["--sample"]);
    let cores = run(&cluster, &["-n", "4", "--ranks-per-node", "4"], &["spin", "40"]);
    assert_first(&cores, "too-few-cores", &["too few cores", "1 core,"], &["run -n 4 --ranks-per-node 1 …"]);
}

/// Jobs that fail: what happened first, where, and what that led to.
#[test]
fn how_a_job_failed_is_named() {
    let cluster = Cluster::up_with(&["--nodes", "4", "--cores", "1"]);
    let crash = run(&cluster, &["-n", "4"], &["crash", "10", "3"]);
    let words = ["Rank 3 on node 3 crashed", "SIGSEGV at address 0x0", "3 other ranks were ended because of it"];
    assert_first(&crash, "crash", &words, &["run --core"]);
    let memory = run(&cluster, &["-n", "2", "--nodes-list", "2,1"], &["memory", "0", "0"]);
    let words = ["Memory was short: node 2 had none left", "rank 0 on node 2", "1 other rank was ended because of it"];
    assert_first(&memory, "memory-short", &words, &["coppice up --nodes 4 --memory 128M"]);

    let ails = ails();
    let job = detach(&cluster, &["-n", "4", &ails, "talk", "1000000000"]);
    wait_for_state(&cluster, &job, "running");
    let running = explained(&cluster, &job);
    assert!(running.text.contains(&format!("coppice overlay {job} on")), "{}", running.text);
    let pid = cluster.json(&["nodes"])[2]["pid"].as_i64().expect("a process");
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).expect("a process id")).expect("a process id");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("killed");
    wait_for_state(&cluster, &job, "ended");
    let lost = explained(&cluster, &job);
    assert_first(
        &lost,
        "node-lost",
        &["Node 2 was lost", "3 other ranks were ended because of it"],
        &["--max-restarts 3"],
    );
}

/// A job whose program comes to its nodes, and the same again; one behind another; one that waits for input.
#[test]
fn what_a_job_waited_for_before_and_beside_its_ranks_is_named() {
    let cluster = Cluster::up_with(&["--nodes", "3", "--cores", "1"]);
    let large = program("large", Toolchain::Glibc).to_string_lossy().into_owned();
    let load = || {
        let _ = cluster.run(&[OVERLAY, "-n", "2", "--nodes-list", "0,1", &large]).success();
        explained(&cluster, &cluster.last_job()["job"].to_string())
    };
    assert_first(&load(), "cold-start", &["a cold start", "0 of 2 ranks found it"], &["--stage-program"]);
    // As was advised, it runs again where it ran.
    let again = load();
    assert!(!again.causes.iter().any(|cause| ["cold-start", "loaded"].contains(&&cause[..])), "{}", again.text);

    // Two jobs hold nodes, the larger one more of them.
    let ails = ails();
    let small = detach(&cluster, &["--nodes-list", "2", &ails, "talk", "1000000000"]);
    let large = detach(&cluster, &["-n", "2", "--nodes-list", "0,1", &ails, "talk", "1000000000"]);
    wait_for_state(&cluster, &large, "running");
    let behind = detach(&cluster, &["-n", "2", &ails, "talk", "1"]);
    std::thread::sleep(Duration::from_millis(500));
    let waiting = explained(&cluster, &behind);
    let holder = format!("behind job {large} ");
    let words = ["waits in the queue for 2 nodes", &holder, "2 of the 3 nodes", "1 other job"];
    assert_first(&waiting, "queue", &words, &[&format!("coppice kill {large}")]);
    let _ = cluster.coppice(&["kill", &large]).success();
    let _ = cluster.coppice(&["wait", &behind]).success();
    let waited = explained(&cluster, &behind);
    assert_first(&waited, "queue", &["in the queue for 2 nodes", &holder, "2 of the 3 nodes"], &["--estimate SECONDS"]);
    let _ = cluster.coppice(&["kill", "--signal", "KILL", &small]).success();

    // The program is there already, and input is waited for far longer than for anything else.
    let _ = cluster.run(&["-n", "3", BUSYBOX, "true"]).success();
    let before = cluster.last_job()["job"].to_string();
    let mut command = cluster.command(&["run", "--quiet", OVERLAY, BUSYBOX, "cat"]);
    let child: Child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("started");
    let mut job = String::new();
    wait_until("it to be told of", TIME_MAX, || {
        job = cluster.last_job()["job"].to_string();
        let profile: Value = cluster.json(&["profile", &job]);
        let epochs = profile["epochs"].as_array().map_or(0, Vec::len);
        if job != before && epochs >= 12 { Ok(()) } else { Err(profile.to_string()) }
    });
    let input = explained(&cluster, &job);
    assert_first(&input, "input", &["waited for its input", "rank 0 waited for standard input"], &["< FILE"]);
    // Waiting for a child closes its standard input first.
    assert_eq!(finish_child(child, "cat").status, 0);
    assert_first(&explained(&cluster, &job), "input", &["waited for its input"], &[]);
}

/// What a program is called does nothing to a terminal, and what cannot be explained is said in one line.
#[test]
fn names_are_shown_harmlessly_and_refusals_in_one_line() {
    let cluster = Cluster::up(1);
    let name = "\x1b[2J<script>\n";
    std::fs::copy(program("ails", Toolchain::Glibc), cluster.root().join(name)).expect("copied");
    let _ = cluster.run(&[&format!("./{name}"), "crash", "1", "0"]);
    let found = explained(&cluster, "1");
    assert_first(&found, "crash", &["Rank 0 on node 0 crashed"], &[]);
    let holder = detach(&cluster, &[&format!("./{name}"), "talk", "1000000000"]);
    let behind = detach(&cluster, &[BUSYBOX, "true"]);
    let found = explained(&cluster, &behind);
    let words = [&format!("behind job {holder} (./")[..], "\\u{1b}[2J<script>\\n"];
    assert_first(&found, "queue", &words, &[]);
    assert!(!found.text.contains(|c: char| c.is_control() && c != '\n'), "{:?}", found.text);
    let _ = cluster.coppice(&["explain", "99"]).refused(&["there is no job 99"]);
    let _ = cluster.coppice(&["down"]).success();
    let refused = cluster.coppice(&["explain", "1"]);
    assert_eq!((refused.status, refused.text().as_str(), refused.stderr.lines().count()), (125, "", 1), "{refused:?}");
}
