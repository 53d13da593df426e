//! Ranks that are debugged with gdb, by `coppice gdb`.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use coppice_tests::Cluster;
use coppice_tests::cluster::finish_child;
use coppice_tests::guests::{Toolchain, program};

/// A job of one rank that runs.
struct Running<'a> {
    cluster: &'a Cluster,
    program: PathBuf,
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl<'a> Running<'a> {
    /// Starts it, and waits until it says "ready".
    fn start(cluster: &'a Cluster, program: PathBuf, arguments: &[&str]) -> Self {
        let mut child = cluster
            .command(&[&["run", "--quiet", &*program.to_string_lossy()], arguments].concat())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        assert_eq!(lines.next().expect("a line").expect("a line"), "ready");
        Self { cluster, program, child, lines }
    }

    /// Its number: it is the newest.
    fn job(&self) -> String {
        let jobs = self.cluster.json(&["jobs"]);
        jobs.as_array().and_then(|jobs| jobs.last()).expect("a job")["job"].to_string()
    }

    fn line(&mut self) -> String {
        self.lines.next().expect("a line").expect("a line")
    }

    /// What gdb says that is told all this.
    fn gdb(&self, commands: &[&str]) -> String {
        let output = gdb(self.cluster, &self.job(), &self.program, commands).output().expect("gdb is installed");
        let said = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&said).into_owned()
    }

    /// How it ends, and what it had to say then.
    fn end(self) -> (i32, String) {
        let Self { child, lines, .. } = self;
        drop(lines);
        let ended = finish_child(child, "run");
        (ended.status, ended.stderr)
    }
}

fn quoted(text: &std::ffi::OsStr) -> String {
    format!("'{}'", text.to_str().expect("readable"))
}

/// A gdb at the only rank of a job.
fn gdb(cluster: &Cluster, job: &str, program: &Path, commands: &[&str]) -> Command {
    let server = cluster.command(&["gdb", job, "0"]);
    let mut remote = format!("target remote | {}", quoted(server.get_program()));
    server.get_args().for_each(|argument| write!(remote, " {}", quoted(argument)).expect("a string"));
    let mut gdb = Command::new("gdb");
    for (name, value) in server.get_envs() {
        match value {
            Some(value) => gdb.env(name, value),
            None => gdb.env_remove(name),
        };
    }
    let commands = [&["set confirm off", "set pagination off", &*remote], commands].concat();
    gdb.args(["-nx", "-batch"]).args(commands.iter().flat_map(|command| ["-ex", command]));
    gdb.arg(program).stdin(Stdio::null());
    gdb
}

fn assert_all(said: &str, expected: &[&str]) {
    let mut rest = said;
    for expected in expected {
        let at = rest.find(expected).unwrap_or_else(|| panic!("{expected:?} in its place: {said}"));
        rest = &rest[at + expected.len()..];
    }
}

/// All that a debugger does to a program: it is changed, stopped, stepped, watched, made to call a function, and gets
/// the signal that it was stopped for.
#[test]
fn a_program_is_broken_stepped_watched_and_called() {
    let cluster = Cluster::up(1);
    for toolchain in [Toolchain::Glibc, Toolchain::Musl] {
        let mut run = Running::start(&cluster, program("debugged", toolchain), &[]);
        let said = run.gdb(&[
            "info threads",
            "set var *(int *)&go = 1",
            "break one_round",
            "continue",
            "print $rdi",
            "backtrace",
            "continue",
            "print $rdi",
            // Before the call of the function, and into it.
            "break add",
            "continue",
            "print (long)$rdi + (long)$rsi",
            "finish",
            "print (long)$rax",
            "stepi",
            "stepi",
            "delete",
            "watch *(long *)&watched",
            "continue",
            "delete",
            "print ((long (*)(long, long))add)(2, 40)",
            "print $mxcsr",
            "print $ymm0.v8_int32[0] == $xmm0.v4_int32[0]",
            "handle SIGUSR1 stop print pass",
            "continue",
            "backtrace 3",
            "continue",
        ]);
        assert_all(
            &said,
            &[
                "Breakpoint 1, ",
                "one_round ()",
                "$1 = 1",
                "in main ()",
                "Breakpoint 1, ",
                "$2 = 2",
                "Breakpoint 2, ",
                "add ()",
                "$3 = 3",
                "$4 = 3",
                "watchpoint 3: *(long *)&watched",
                "Old value = 0",
                "New value = 4",
                "$5 = 42",
                "$6 = [ IM DM ZM OM UM PM ]",
                "$7 = 1",
                "received signal SIGUSR1",
                "exited with code 07",
            ],
        );
        assert_eq!(run.line(), "counter 36, watched 8, handled 10", "{said}");
        assert_eq!(run.end().0, 7, "{said}");
    }
}

/// What ends a program stops it first; then it ends as it would have.
#[test]
fn a_fault_is_seen_before_it_ends_the_program() {
    let cluster = Cluster::up(1);
    let run = Running::start(&cluster, program("debugged", Toolchain::Glibc), &["fault"]);
    let said = run.gdb(&["set var *(int *)&go = 1", "handle SIGUSR1 nostop", "continue", "backtrace", "continue"]);
    assert_all(&said, &["received signal SIGSEGV", "in touch ()", "in main ()", "terminated with signal SIGSEGV"]);
    let (status, stderr) = run.end();
    assert_eq!(status, 139, "{stderr}");
}

/// So does one that is sent, which it may be kept from, or get.
#[test]
fn a_signal_that_ends_a_program_is_seen_before_it_does() {
    let cluster = Cluster::up(1);
    let run = Running::start(&cluster, program("debugged", Toolchain::Glibc), &["forever"]);
    let kill = cluster.command(&["kill", "--signal", "TERM", &run.job()]);
    let mut words: Vec<String> = kill.get_args().map(quoted).collect();
    words.insert(0, quoted(kill.get_program()));
    let kill = format!("shell {}", words.join(" "));
    let said = run.gdb(&[
        "set var *(int *)&go = 1",
        "break one_round",
        "continue",
        &kill,
        "delete",
        "continue",
        "backtrace 1",
        // Not delivered; the next one is.
        "tbreak one_round",
        "signal 0",
        &kill,
        "continue",
        "continue",
    ]);
    let seen = "received signal SIGTERM";
    assert_all(&said, &["Breakpoint 1, ", seen, "#0 ", "one_round ()", seen, "terminated with signal SIGTERM"]);
    assert_eq!(run.end().0, 143, "{said}");
}

/// A thread in a call is told so, and goes on with it when it was not taken elsewhere, or was and came back.
#[test]
fn a_call_goes_on_after_a_function_was_called_in_its_place() {
    let cluster = Cluster::up(1);
    let mut run = Running::start(&cluster, program("debugged", Toolchain::Glibc), &["sleeps"]);
    let said = run.gdb(&[
        "backtrace 1",
        "print $orig_rax",
        "print ((long (*)(long, long))add)(2, 40)",
        "print $orig_rax",
        "set var *(int *)&go = 1",
        "break one_round",
        // It goes on sleeping until it is waked.
        "handle SIGUSR1 nostop noprint pass",
        "detach",
    ]);
    assert_all(&said, &["nanosleep", "$1 = 230", "$2 = 42", "$3 = 230", "detached"]);
    let _ = cluster.coppice(&["kill", "--signal", "USR1", "1"]).success();
    assert_eq!(run.line(), "counter 36, watched 8, handled 10", "{said}");
    assert_eq!(run.end().0, 7, "{said}");
}

/// Threads on two cores: one is stepped while the others stand, and all come to a breakpoint.
#[test]
fn threads_stop_together_and_are_stepped_alone() {
    let cluster = Cluster::up_with(&["--nodes", "1", "--cores", "2"]);
    let mut run = Running::start(&cluster, program("debugged", Toolchain::Glibc), &["", "3"]);
    let said = run.gdb(&[
        "info threads",
        "break other_round",
        "continue",
        "continue",
        "continue",
        "continue",
        "thread apply all backtrace",
        // If not, others go on meanwhile, and may come to the breakpoint.
        "set scheduler-locking step",
        "stepi",
        "stepi",
        "set scheduler-locking off",
        "delete",
        "set var *(int *)&go = 1",
        "break one_round if $rdi == 6",
        "continue",
        "print $rdi",
        "delete",
        "detach",
    ]);
    assert_eq!(said.matches("Breakpoint 1, ").count(), 4, "{said}");
    assert!(said.matches("in others ()").count() >= 3 && said.contains("in main ()"), "{said}");
    assert_all(&said, &["Breakpoint 2, ", "$1 = 6", "detached"]);
    assert_eq!(run.line(), "counter 36, watched 8, handled 10", "{said}");
    assert_eq!(run.end().0, 7, "{said}");
}

/// More debuggers whose programs go on than a node answers questions at a time: none of them keeps others from asking.
#[test]
fn debuggers_that_wait_hold_up_nobody() {
    const RANKS: usize = 12;
    let cluster = Cluster::up(1);
    let path = program("debugged", Toolchain::Glibc).to_string_lossy().into_owned();
    let count = RANKS.to_string();
    let mut run = cluster
        .command(&["run", "--quiet", "-n", &count, "--ranks-per-node", &count, &path, "forever"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start");
    let lines = BufReader::new(run.stdout.take().expect("piped")).lines();
    assert_eq!(lines.take(RANKS).filter(|line| line.as_ref().is_ok_and(|line| line == "ready")).count(), RANKS);
    let debugger = |rank: usize| {
        let mut child = cluster
            .command(&["gdb", "1", &rank.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start");
        let input = child.stdin.as_mut().expect("piped");
        let mut output = BufReader::new(child.stdout.as_mut().expect("piped"));
        // Why it stands; what comes back has a checksum behind it.
        input.write_all(b"$?#3f").expect("written");
        let mut told = Vec::new();
        output.read_until(b'#', &mut told).expect("said");
        assert!(told.starts_with(b"+$T05"), "{}", String::from_utf8_lossy(&told));
        let mut checksum = [0; 2];
        output.read_exact(&mut checksum).expect("said");
        input.write_all(b"+$vCont;c#a8").expect("written");
        child
    };
    let debuggers: Vec<Child> = (0..RANKS - 1).map(debugger).collect();
    let core = cluster.root().join("core").to_string_lossy().into_owned();
    for _ in 0..5 {
        let _ = cluster.coppice(&["core", "1", "11", "-o", &core]).success();
    }
    let taken = cluster.coppice(&["core", "1", "0", "-o", &core]);
    assert!(taken.stderr.contains("somebody else looks at rank 0"), "{}", taken.stderr);
    for mut debugger in debuggers {
        drop(debugger.stdin.take());
        let ended = finish_child(debugger, "gdb");
        assert_eq!((ended.status, &*ended.stderr), (0, ""));
    }
    let _ = cluster.coppice(&["kill", "1"]).success();
    let _ = finish_child(run, "run");
}

/// A debugger that is killed leaves a program that goes on by itself, and stops nowhere.
#[test]
fn a_program_goes_on_without_its_debugger() {
    let cluster = Cluster::up(1);
    let mut run = Running::start(&cluster, program("debugged", Toolchain::Glibc), &[]);
    let said = run.gdb(&["set var *(int *)&go = 1", "break one_round", "continue", "shell kill -9 $PPID"]);
    assert_all(&said, &["Breakpoint 1, "]);
    assert_eq!(run.line(), "counter 36, watched 8, handled 10", "{said}");
    assert_eq!(run.end().0, 7, "{said}");
}

/// A program is ended from its debugger.
#[test]
fn a_debugger_kills() {
    let cluster = Cluster::up(1);
    let run = Running::start(&cluster, program("debugged", Toolchain::Glibc), &["forever"]);
    let said = run.gdb(&["kill"]);
    assert!(!said.contains("error"), "{said}");
    assert_eq!(run.end().0, 137, "{said}");
}

/// C++ and Rust, in a core file and while they run: functions have their names, and all threads are seen.
#[test]
fn other_languages_are_looked_into() {
    let cluster = Cluster::up(1);
    let grow = "rbreak Square.*::grow::";
    let of_rust = [(Toolchain::Rust, grow), (Toolchain::RustGlibc, grow)];
    for (toolchain, at_grow) in [&[(Toolchain::CPlusPlus, "break shapes::Square<double>::grow")], &of_rust[..]].concat()
    {
        let mut run = Running::start(&cluster, program("looked_into", toolchain), &[]);
        let job = run.job();
        let core = cluster.root().join("looked_into.core").to_string_lossy().into_owned();
        let _ = cluster.coppice(&["core", &job, "0", "-o", &core]).success();
        let everywhere = ["grow_for_long", "wait_for_change", "read_all", "main"];
        let mut dead = Command::new("gdb");
        dead.args(["-nx", "-batch", "-ex", "thread apply all backtrace"]).arg(&run.program).arg(&core);
        let dead = dead.output().expect("gdb is installed").stdout;
        let dead = String::from_utf8_lossy(&dead).into_owned();
        let alive =
            run.gdb(&["thread apply all backtrace", at_grow, "continue", "backtrace 2", "stepi", "delete", "detach"]);
        for said in [&dead, &alive] {
            let threads = said.lines().filter(|line| line.starts_with("Thread ") && line.ends_with("):"));
            assert_eq!(threads.count(), 3, "{toolchain:?}: {said}");
            for function in everywhere {
                assert!(said.contains(function), "{toolchain:?}: {function}: {said}");
            }
        }
        assert_all(
            &alive,
            &["hit Breakpoint 1", "::grow", "#0 ", "::grow", "#1 ", "::grow_for_long", "::grow", "detached"],
        );
        drop(run.child.stdin.take());
        assert_eq!(run.end().0, 7, "{alive}");
    }
}
