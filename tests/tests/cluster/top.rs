//! `coppice top` in a real terminal.

use coppice_tests::Cluster;
use coppice_tests::cluster::binaries;
use coppice_tests::guests::{Toolchain, program};
use coppice_tests::terminal::Terminal;
use rustix::process::{Pid, Signal, kill_process};

const SMALL: (u16, u16) = (80, 24);

fn top(cluster: &Cluster) -> Terminal {
    let terminal = Terminal::start(&cluster.command(&["top", "--every", "200ms"]), SMALL);
    let _ = terminal.wait_for("the cluster is shown", |screen| screen.contains("of 2 nodes ready"));
    terminal
}

#[test]
fn a_job_is_watched_looked_into_and_ended() {
    let cluster = Cluster::up(2);
    let path = program("goes_on", Toolchain::Glibc);
    let run = ["run", "--detach", "--keep-output", "--overlay=5", "-n", "2"];
    let job = [&path.to_string_lossy(), "1000000", "/lines.txt", "5"];
    let _ = cluster.coppice(&[&run[..], &job].concat()).success();
    let terminal = top(&cluster);
    let is_told = |screen: &str| screen.contains("running") && screen.contains(" %");
    let jobs = terminal.wait_for("the job is shown, and what its ranks do", is_told);
    assert!(jobs.contains("JOB") && jobs.contains(" goes_on"), "{jobs}");
    terminal.press(&["Enter"]);
    let of_job = |screen: &str| {
        let rows = screen.lines().filter(|line| line.contains(" running ") && line.contains(" %"));
        screen.contains("› job 1") && rows.count() == 2
    };
    let _ = terminal.wait_for("both ranks are shown", of_job);
    terminal.press(&["Down", "Enter"]);
    let _ = terminal.wait_for("a rank is shown", |screen| screen.contains("› rank 1") && screen.contains("calls/s"));
    terminal.resize(40, 10);
    let _ = terminal.wait_for("it is drawn anew", |screen| screen.lines().count() <= 10 && screen.contains("rank 1"));
    terminal.resize(120, 40);
    terminal.press(&["Escape"]);
    let _ = terminal.wait_for("the job again", of_job);
    terminal.press(&["L"]);
    let _ = terminal.wait_for("its log", |screen| screen.contains("log of job 1") && screen.contains("0: round "));
    terminal.press(&["Escape", "Tab"]);
    let _ = terminal.wait_for("the nodes", |screen| screen.contains("LAST PROGRAM") && screen.contains("busy"));
    terminal.press(&["Tab", "K", "BSpace", "BSpace", "BSpace", "BSpace", "KILL", "Enter"]);
    let _ = terminal.wait_for("it has ended", |screen| screen.contains("ended 137"));
    terminal.press(&["q"]);
    let _ = terminal.wait_for("the terminal is as before", |screen| screen.contains("left 0\nas before"));
}

#[test]
fn a_cluster_goes_and_comes_and_a_signal_leaves_the_terminal_as_it_was() {
    let cluster = Cluster::up(2);
    let terminal = top(&cluster);
    let _ = cluster.coppice(&["down"]).success();
    let _ = terminal.wait_for("it is gone", |screen| screen.contains("asks again: "));
    let _ = cluster.coppice(&["up", "--accel", "tcg", "--nodes", "2"]).success();
    let _ = terminal.wait_for("it is there again", |screen| screen.contains("default: 2 of 2 nodes ready"));
    let itself = binaries().join("coppice").to_string_lossy().into_owned();
    for process in cluster.processes().into_iter().filter(|process| process.command.starts_with(&itself)) {
        kill_process(Pid::from_raw(process.pid).expect("a process"), Signal::TERM).expect("sent");
    }
    let _ = terminal.wait_for("the terminal is as before", |screen| screen.contains("left 143\nas before"));
}

/// A job that there is not is said to be none, and the terminal is left alone.
#[test]
fn a_job_that_there_is_not_is_refused_in_one_line() {
    let cluster = Cluster::up(1);
    let terminal = Terminal::start(&cluster.command(&["top", "99"]), SMALL);
    let screen = terminal.wait_for("it is refused", |screen| screen.contains("left 125\nas before"));
    assert!(screen.starts_with("coppice: ") && screen.contains("no job 99"), "{screen}");
}

/// Without a terminal it says what to use instead.
#[test]
fn it_is_for_a_terminal() {
    let cluster = Cluster::up(1);
    let ran = cluster.coppice(&["top"]);
    assert_eq!((ran.status, ran.text().as_str(), ran.stderr.lines().count()), (125, "", 1), "{}", ran.stderr);
    assert!(ran.stderr.contains("is for a terminal"), "{}", ran.stderr);
}
