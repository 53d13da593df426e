//! `coppice kill --signal`: signals for jobs, and what their ranks make of them.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

use coppice_tests::Cluster;
use coppice_tests::cluster::{Ran, finish_child, wait_until};
use coppice_tests::guests::{BUSYBOX, Toolchain, program};

use crate::threads::cluster_of;

/// How long a program that is stopped is watched.
const STOPPED_TIME: Duration = Duration::from_secs(1);

/// In this time a program says something that runs on a node far away.
const LAUNCHED_TIME: Duration = Duration::from_secs(5);

/// A `coppice run` of `signalled` whose output is read as it comes.
struct Job {
    child: Child,
    lines: BufReader<ChildStdout>,
    number: String,
}

impl Job {
    #[track_caller]
    fn start(cluster: &Cluster, toolchain: Toolchain, arguments: &[&str], how: &str) -> Self {
        let path = program("signalled", toolchain);
        let mut child = cluster
            .command(&[&["run", "--quiet"], arguments, &[path.to_str().expect("a path"), how]].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start");
        let mut lines = BufReader::new(child.stdout.take().expect("piped"));
        let mut first = String::new();
        lines.read_line(&mut first).expect("output");
        let jobs = cluster.json(&["jobs"]);
        let number = jobs.as_array().and_then(|jobs| jobs.last()?["job"].as_u64()).expect("a job").to_string();
        let mut job = Self { child, lines, number };
        // Every rank says it.
        let ranks = jobs.as_array().and_then(|jobs| jobs.last()?["ranks"].as_u64()).unwrap_or(1);
        assert!(how == "count" || first == "ready\n", "{first}");
        for _ in 1..ranks {
            assert_eq!(job.line(), "ready");
        }
        job
    }

    #[track_caller]
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("output");
        line.trim_end().to_owned()
    }

    #[track_caller]
    fn send(&self, cluster: &Cluster, signal: &str) {
        let sent = cluster.coppice(&["kill", "--signal", signal, &self.number]).success();
        assert!(sent.text().starts_with(&format!("job {} was sent SIG", self.number)), "{}", sent.text());
    }

    #[track_caller]
    fn end(self) -> Ran {
        finish_child(self.child, "a job that was sent signals")
    }
}

#[test]
fn handlers_run_and_ignored_signals_change_nothing() {
    let cluster = Cluster::up(2);
    for toolchain in [Toolchain::Glibc, Toolchain::Musl] {
        let mut job = Job::start(&cluster, toolchain, &["-n", "4", "--ranks-per-node", "2"], "catch");
        let every_rank_says = |job: &mut Job, text: &str| {
            for _ in 0..4 {
                assert_eq!(job.line(), text, "{toolchain:?}");
            }
        };
        job.send(&cluster, "USR1");
        every_rank_says(&mut job, "USR1");
        job.send(&cluster, "SIGINT");
        job.send(&cluster, "WINCH");
        job.send(&cluster, "10");
        every_rank_says(&mut job, "USR1");
        // The C libraries keep different numbers of signals for themselves.
        job.send(&cluster, if toolchain == Toolchain::Musl { "RTMIN+2" } else { "RTMIN+1" });
        every_rank_says(&mut job, "RTMIN+1");
        job.send(&cluster, "TERM");
        every_rank_says(&mut job, "TERM");
        assert_eq!(job.end().status, 7, "{toolchain:?}: its own exit status");
        assert!(cluster.last_job()["reason"].is_null(), "{}", cluster.last_job());
    }
}

#[test]
fn what_nobody_handles_ends_the_job() {
    let cluster = Cluster::up(1);
    for (signal, status) in [("TERM", 143), ("HUP", 129), ("RTMIN+5", 167), ("KILL", 137)] {
        let job = Job::start(&cluster, Toolchain::Musl, &["-n", "2", "--ranks-per-node", "2"], "plain");
        job.send(&cluster, signal);
        let ran = job.end();
        assert_eq!(ran.status, status, "{}", ran.stderr);
        assert!(ran.stderr.contains(&format!("ended by SIG{signal} on request")), "{}", ran.stderr);
        let reports = cluster.last_job()["rank_reports"].clone();
        assert_eq!((&reports[0]["signal"], &reports[1]["signal"]), (&(status - 128).into(), &(status - 128).into()));
    }
    let _ = cluster.run(&[BUSYBOX, "true"]).success();
    assert_eq!(cluster.json(&["nodes"])[0]["generation"], 1, "the node was rebooted");
}

/// All its threads stop and go on, on all cores.
#[test]
fn a_job_is_stopped_and_continued() {
    let cluster = cluster_of(1, 2);
    let mut job = Job::start(&cluster, Toolchain::Musl, &[], "count");
    let number = job.number.clone();
    let send = |signal: &str| cluster.coppice(&["kill", "--signal", signal, &number]).success();
    let (sender, receiver) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        loop {
            let line = job.line();
            if line.is_empty() || sender.send(line).is_err() {
                return job;
            }
        }
    });
    for signal in ["STOP", "TSTP"] {
        let _ = send(signal);
        // What it had written before comes still; then nothing more.
        wait_until("the program stops", Duration::from_secs(30), || match receiver.recv_timeout(STOPPED_TIME) {
            Ok(line) => Err(line),
            Err(_) => Ok(()),
        });
        assert_eq!(cluster.json(&["job", &number])["state"], "running", "{signal}");
        let _ = send("CONT");
        for thread in ["one ", "other "] {
            let comes = || receiver.recv_timeout(Duration::from_secs(60)).expect("it goes on");
            while !comes().starts_with(thread) {}
        }
    }
    // KILL ends it even while it is stopped.
    let _ = send("STOP");
    let _ = send("KILL");
    let job = reader.join().expect("the reader ends with the output");
    assert_eq!(job.end().status, 137);
}

/// A job may be stopped before its program has begun: it stands still until it is to go on. The node is far away, so
/// that a launch takes long.
#[test]
fn a_job_is_stopped_while_it_is_launched() {
    let cluster = Cluster::up_with(&["--nodes", "1", "--latency", "100ms"]);
    let path = program("signalled", Toolchain::Musl);
    let mut child = cluster
        .command(&["run", "--quiet", path.to_str().expect("a path"), "plain"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start");
    wait_until("the job has its node", Duration::from_secs(30), || {
        let jobs = cluster.json(&["jobs", "--limit", "1"]);
        if jobs[0]["state"] == "starting" { Ok(()) } else { Err(jobs.to_string()) }
    });
    let number = cluster.last_job()["job"].to_string();
    let _ = cluster.coppice(&["kill", "--signal", "STOP", &number]).success();
    let (sender, receiver) = std::sync::mpsc::channel();
    let mut lines = BufReader::new(child.stdout.take().expect("piped"));
    let reader = std::thread::spawn(move || {
        let mut line = String::new();
        lines.read_line(&mut line).expect("output");
        let _ = sender.send(line);
    });
    wait_until("its process is there", Duration::from_secs(60), || {
        let job = cluster.last_job();
        if job["running_at_ns"].is_null() { Err(job.to_string()) } else { Ok(()) }
    });
    let said = receiver.recv_timeout(LAUNCHED_TIME);
    assert!(said.is_err(), "it was to be stopped, and said {said:?}");
    let _ = cluster.coppice(&["kill", "--signal", "CONT", &number]).success();
    assert_eq!(receiver.recv_timeout(Duration::from_secs(60)).as_deref(), Ok("ready\n"));
    let _ = cluster.coppice(&["kill", &number]).success();
    reader.join().expect("the reader ends with the output");
    assert_eq!(finish_child(child, "a job that was stopped before it began").status, 143);
}

#[test]
fn a_job_that_waits_takes_only_what_ends_it() {
    let cluster = Cluster::up(1);
    let job = Job::start(&cluster, Toolchain::Musl, &[], "plain");
    let waiting = cluster
        .command(&["run", "--quiet", BUSYBOX, "true"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start");
    wait_until("the job is queued", Duration::from_secs(30), || {
        let jobs = cluster.json(&["jobs"]);
        if jobs.as_array().is_some_and(|jobs| jobs.len() == 2) { Ok(()) } else { Err(jobs.to_string()) }
    });
    let number = cluster.last_job()["job"].to_string();
    let _ = cluster.coppice(&["kill", "--signal", "USR1", &number]).refused(&["waits for nodes", "SIGUSR1"]);
    for nonsense in ["SIGNONE", "0", "65", "RTMIN+31"] {
        let _ = cluster.coppice(&["kill", "--signal", nonsense, &number]).refused(&["signal"]);
    }
    let _ = cluster.coppice(&["kill", &number]).success();
    assert_eq!(finish_child(waiting, "a job that waits").status, 143);
    job.send(&cluster, "KILL");
    assert_eq!(job.end().status, 137);
}
