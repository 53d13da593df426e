//! Core files of ranks that run, as `coppice core` writes them and gdb reads them.

use std::io::{BufRead, BufReader, Lines};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use coppice_tests::cluster::{finish, finish_child, wait_until};
use coppice_tests::guests::{Toolchain, program};
use coppice_tests::{Cluster, Ran};
use rustix::process::Signal;

/// How long a job may take to get somewhere.
const READY_TIME_MAX: Duration = Duration::from_secs(60);

/// What gdb says of a core.
fn gdb(program: &Path, core: &Path, commands: &[&str]) -> String {
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-batch"]);
    gdb.args(commands.iter().flat_map(|command| ["-ex", command]));
    let output = gdb.arg(program).arg(core).output().expect("gdb is installed");
    let said = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&said).into_owned()
}

/// Threads that compute, sleep, wait and read are found where they are, with their memory; the rank goes on.
#[test]
fn a_debugger_sees_where_threads_are() {
    let cluster = Cluster::up(1);
    let path = program("stacks", Toolchain::Glibc);
    let mut child = cluster
        .command(&["run", "--quiet", &*path.to_string_lossy()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    assert_eq!(lines.next().expect("a line").expect("a line"), "ready");
    let core = cluster.root().join("stacks.core");
    let arguments = ["core", "1", "0", "-o", &*core.to_string_lossy()];
    // Again and again: it goes on in between.
    for _ in 0..3 {
        let said = cluster.coppice(&arguments).success().text();
        assert!(said.starts_with(&*core.to_string_lossy()), "{said}");
    }
    let status = std::fs::metadata(&core).expect("a core");
    assert_eq!(status.mode() & 0o777, 0o600);
    // Of the large array one page was touched.
    assert!(status.len() > 32 << 20 && status.blocks() * 512 < 8 << 20, "{} of {}", status.blocks(), status.len());
    let seen = gdb(
        &path,
        &core,
        &[
            "thread apply all backtrace",
            "x/s &marked",
            "print (long) computed > 0",
            "info auxv",
            "info registers mxcsr",
        ],
    );
    assert_eq!(seen.matches("\nThread ").count(), 4, "{seen}");
    for expected in [
        "computes_deep",
        "sleeps_long",
        "waits_for_change",
        "reads_to_the_end",
        "in main ()",
        "\"seen in the core\"",
        "= 1",
        "AT_ENTRY",
        "0x1f80",
    ] {
        assert!(seen.contains(expected), "{expected}: {seen}");
    }
    // All of its calls of itself are there.
    assert_eq!(seen.matches("computes_deep").count(), 4, "{seen}");
    for complaint in ["warning: Unexpected size", "truncated", "Cannot access memory", "corrupt stack"] {
        assert!(!seen.contains(complaint), "{complaint}: {seen}");
    }
    // Nothing is left of one that cannot be written.
    let none = cluster.coppice(&["core", "1", "7", "-o", &*core.with_extension("none").to_string_lossy()]);
    assert!(none.status != 0 && none.stderr.contains("has no rank 7"), "{}", none.stderr);
    assert!(!core.with_extension("none").exists());
    drop(child.stdin.take());
    assert_eq!(lines.next().expect("a line").expect("a line"), "went on");
    drop(lines);
    assert_eq!(finish_child(child, "run").status, 0);
    let ended = cluster.coppice(&arguments);
    assert!(ended.status != 0 && ended.stderr.contains("job 1 has ended already"), "{}", ended.stderr);
}

/// A rank that a signal ends, and what `run` said, with its core file, if there is one.
fn ended(cluster: &Cluster, arguments: &[&str]) -> (Ran, PathBuf) {
    let mut command = cluster.command(&[&["run", "--quiet", "--core"], arguments].concat());
    command.current_dir(cluster.root());
    let ran = finish(command);
    let jobs = cluster.json(&["jobs"]);
    let job = &jobs.as_array().and_then(|jobs| jobs.last()).expect("a job")["job"];
    (ran, cluster.root().join(format!("core.{job}.0")))
}

/// Whatever of those signals that leave one: faults, traps and signals that are sent.
#[test]
fn a_rank_that_a_signal_ends_leaves_a_core() {
    let cluster = Cluster::up(2);
    let path = program("fault", Toolchain::Glibc);
    let text = path.to_string_lossy();
    let ways = [
        ("null", 11, "SIGSEGV"),
        ("stack-overflow", 11, "SIGSEGV"),
        ("hlt", 11, "SIGSEGV"),
        ("illegal", 4, "SIGILL"),
        ("divide", 8, "SIGFPE"),
        ("breakpoint", 5, "SIGTRAP"),
        ("trap-flag", 5, "SIGTRAP"),
        ("abort", 6, "SIGABRT"),
    ];
    for (way, signal, name) in ways {
        // The other rank is not harmed, and leaves none.
        let (ran, core) = ended(&cluster, &["-n", "2", &text, way, "0"]);
        assert_eq!(ran.status, 128 + signal, "{way}: {}", ran.stderr);
        assert!(ran.text().contains("unharmed"), "{way}: {}", ran.text());
        assert!(ran.stderr.contains(&format!("rank 0 is ended by {name}: core.")), "{way}: {}", ran.stderr);
        let seen = gdb(&path, &core, &["backtrace", "print $_siginfo.si_signo"]);
        for expected in [&format!("Program terminated with signal {name}"), "main ()", &format!("$1 = {signal}")] {
            assert!(seen.contains(expected), "{way}: {expected}: {seen}");
        }
        assert!(!core.with_extension("1").exists());
    }
    // Those that leave none on Linux leave none here, nor does a rank that nobody asked one of.
    let (ran, core) = ended(&cluster, &[&text, "raise-term"]);
    assert_eq!((ran.status, core.exists()), (143, false), "{}", ran.stderr);
    let plain = cluster.run(&[&text, "null"]);
    assert!(plain.status == 139 && !plain.stderr.contains("core."), "{}", plain.stderr);
    let detached = cluster.coppice(&["run", "--detach", "--core", &text, "null"]);
    assert!(detached.status == 125 && detached.stderr.contains("--core"), "{}", detached.stderr);
}

/// The program whose threads are in known functions, when they are.
fn stacks(cluster: &Cluster) -> (Child, Lines<BufReader<ChildStdout>>) {
    let path = program("stacks", Toolchain::Glibc);
    let mut child = cluster
        .command(&["run", "--quiet", "--core", &path.to_string_lossy()])
        .current_dir(cluster.root())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    assert_eq!(lines.next().expect("a line").expect("a line"), "ready");
    (child, lines)
}

/// All threads are in it, and the one that got the signal first.
#[test]
fn a_core_of_a_signal_that_was_sent_has_all_threads() {
    let cluster = Cluster::up(1);
    let (child, _lines) = stacks(&cluster);
    let _ = cluster.coppice(&["kill", "--signal", "QUIT", "1"]).success();
    let ended = finish_child(child, "run");
    assert_eq!(ended.status, 131, "{}", ended.stderr);
    let seen =
        gdb(&program("stacks", Toolchain::Glibc), &cluster.root().join("core.1.0"), &["thread apply all backtrace"]);
    let functions = ["SIGQUIT", "computes_deep", "sleeps_long", "waits_for_change", "reads_to_the_end"];
    assert!(functions.iter().all(|function| seen.contains(function)), "{seen}");
}

/// A job whose ranks all die leaves some, and says that there are no more; who does not come for one holds up nobody
/// for long.
#[test]
fn nobody_waits_for_cores_for_long() {
    let cluster = Cluster::up(2);
    let path = program("fault", Toolchain::Glibc);
    let text = path.to_string_lossy();
    let (ran, core) = ended(&cluster, &["-n", "20", "--ranks-per-node", "10", &text, "null"]);
    assert_eq!(ran.status, 139, "{}", ran.stderr);
    let directory = std::fs::read_dir(core.parent().expect("a directory")).expect("a directory");
    let names = directory.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    assert_eq!(names.filter(|name| name.starts_with("core.")).count(), 16, "{}", ran.stderr);
    assert_eq!(ran.stderr.matches("no core file of rank").count(), 1, "{}", ran.stderr);
    // Whoever runs it stands still.
    let (child, mut lines) = stacks(&cluster);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, Signal::STOP).expect("it is there");
    let _ = cluster.coppice(&["kill", "--signal", "ABRT", "2"]).success();
    wait_until("the job ends", READY_TIME_MAX, || {
        let state = &cluster.json(&["job", "2"])["state"];
        if state == "ended" { Ok(()) } else { Err(state.to_string()) }
    });
    rustix::process::kill_process(pid, Signal::CONT).expect("it is there");
    assert!(lines.next().is_none());
    let ended = finish_child(child, "run");
    assert_eq!(ended.status, 134, "{}", ended.stderr);
    assert!(ended.stderr.contains("no core file of rank 0, which SIGABRT ends"), "{}", ended.stderr);
}
