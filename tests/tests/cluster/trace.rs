//! What traced ranks call: as strace shows it on the host, while they run and from their first call on.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use coppice_tests::Cluster;
use coppice_tests::cluster::finish_child;
use coppice_tests::guests::{BUSYBOX, Toolchain, program};

/// What is called, one line each, without what differs between machines: addresses, numbers of processes, and what
/// strace shows of structures that a trace here shows the address of. What `strace -f` puts in front is left out.
fn calls(trace: &str, processes: &[&str]) -> Vec<String> {
    let mut calls: Vec<String> = Vec::new();
    for line in trace.lines() {
        let line = line.trim_start_matches(|byte: char| byte.is_ascii_digit()).trim_start();
        let Some((call, result)) = line.rsplit_once(" = ").filter(|_| !line.starts_with("---")) else {
            calls.push(plain(line, processes));
            continue;
        };
        // Remarks on a result that is no error.
        let result = if result.starts_with("-1 ") { result } else { result.split(" (").next().unwrap_or(result) };
        calls.push(format!("{} = {}", plain(call.trim_end(), processes), plain(result, processes)));
    }
    // How the program came to run, and what there is on the host alone.
    calls.retain(|call| !call.starts_with("execve(") && !call.starts_with("rseq("));
    // Bytes that nobody gets twice, and names of threads.
    for call in calls.iter_mut().filter(|call| call.starts_with("getrandom(") || call.starts_with("prctl(")) {
        if let [before, _, after] = call.split('"').collect::<Vec<_>>()[..] {
            *call = format!("{before}@{after}");
        }
    }
    // Lists of structures, and what a handler's frame is to restore.
    calls.iter().map(|call| call.replace(", @]", "]").replace("[@]", "@").replace("return(@)", "return()")).collect()
}

/// Structures and addresses as `@`, numbers of processes as `#`, and no remarks.
fn plain(text: &str, processes: &[&str]) -> String {
    let (mut plain, mut depth, mut quoted) = (String::new(), 0, false);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (now, later) = rest.split_at(first.len_utf8());
        match first {
            '"' if depth == 0 => quoted = !quoted,
            '\\' if quoted => {
                plain.push_str(&rest[..2]);
                rest = &rest[2..];
                continue;
            }
            // Pieces of bytes are shown here, too.
            '{' if !quoted && !rest.starts_with("{iov_base") && !rest.starts_with("{tv_sec") => depth += 1,
            '}' if !quoted && depth > 0 => {
                depth -= 1;
                rest = later;
                if depth == 0 {
                    plain.push('@');
                }
                continue;
            }
            '/' if !quoted && rest.starts_with("/*") => {
                rest = rest.split_once("*/").map_or("", |(_, behind)| behind);
                plain.truncate(plain.trim_end().len());
                continue;
            }
            '0' if !quoted && depth == 0 && rest.starts_with("0x") => {
                rest = rest[2..].trim_start_matches(|digit: char| digit.is_ascii_hexdigit());
                plain.push('@');
                continue;
            }
            _ => {}
        }
        if depth == 0 {
            plain.push_str(now);
        }
        rest = later;
    }
    let number = |word: &str| processes.contains(&word);
    let mut words = String::new();
    for word in plain.split_inclusive(|byte: char| !byte.is_ascii_digit()) {
        let digits = word.trim_end_matches(|byte: char| !byte.is_ascii_digit());
        if number(digits) { words += &word.replacen(digits, "#", 1) } else { words += word }
    }
    words
}

/// Runs a program on a node and on the host, and compares what both say that it called.
#[track_caller]
fn compare(cluster: &Cluster, program: &Path, arguments: &[&str]) {
    let (here, there) = (cluster.root().join("here"), cluster.root().join("there"));
    let text = program.to_str().expect("a path");
    let ran = cluster.run(&[&["--trace", there.to_str().expect("a path"), text], arguments].concat());
    let strace = Command::new("strace")
        .args(["-f", "-o", here.to_str().expect("a path")])
        .arg(program)
        .args(arguments)
        .current_dir(cluster.root())
        .env_clear()
        .stdin(Stdio::null())
        .output()
        .expect("strace, which the tests set up");
    assert_eq!(Some(ran.status), strace.status.code(), "{}", ran.stderr);
    let read = |path: &Path| std::fs::read_to_string(path).expect("a trace");
    let (here, there) = (read(&here), read(&there));
    let process = here.split_whitespace().next().expect("something").to_owned();
    let (here, there) = (calls(&here, &[&process]), calls(&there, &["1000"]));
    let differ: Vec<String> = there
        .iter()
        .zip(&here)
        .filter(|(there, here)| there != here)
        .map(|(there, here)| format!("  node: {there}\n  host: {here}\n"))
        .collect();
    assert!(differ.is_empty(), "{text} {arguments:?}:\n{}", differ.concat());
    assert_eq!(there.len(), here.len(), "{text} {arguments:?}: {there:#?}\n{here:#?}");
}

#[test]
fn a_trace_is_what_strace_shows_on_the_host() {
    let cluster = Cluster::up(1);
    std::fs::write(cluster.root().join("words"), "three\nwords\nhere\n".repeat(500)).expect("written");
    for toolchain in [Toolchain::Musl, Toolchain::Glibc] {
        compare(&cluster, &program("traced", toolchain), &[]);
    }
    for arguments in
        [&["cat", "words"][..], &["wc", "words"], &["sort", "-u", "words"], &["head", "-n", "3", "nothing"]]
    {
        // By the name that the program itself finds.
        compare(&cluster, &Path::new(BUSYBOX).canonicalize().expect("there"), arguments);
    }
}

/// A job that goes on until it finds a file.
fn waits(cluster: &Cluster, ranks: &str) -> std::process::Child {
    let guest = program("traced", Toolchain::Musl);
    let mut command = cluster.command(&["run", "-n", ranks, "--label", guest.to_str().expect("a path"), "found"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null()).spawn().expect("coppice")
}

/// The number of the job that runs.
fn job(cluster: &Cluster) -> String {
    loop {
        let jobs = cluster.json(&["jobs"]);
        let running = jobs.as_array().and_then(|jobs| jobs.iter().find(|job| job["state"] == "running"));
        if let Some(job) = running {
            return job["job"].to_string();
        }
    }
}

#[test]
fn a_job_that_runs_is_traced_and_goes_on_when_its_tracer_leaves() {
    let cluster = Cluster::up(2);
    let run = waits(&cluster, "2");
    let job = job(&cluster);
    let trace = |arguments: &[&str]| {
        let mut command = cluster.command(&[&["trace", job.as_str()], arguments].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null()).spawn().expect("coppice")
    };
    // All of it, and then its reader is killed.
    let mut all = trace(&[]);
    let mut lines = BufReader::new(all.stdout.take().expect("piped")).lines().map(|line| line.expect("text"));
    let absent = r#"access("found", F_OK) = -1 ENOENT (No such file or directory)"#;
    for rank in ["0: ", "1: "] {
        assert!(lines.any(|line| line.ends_with(absent) && line.starts_with(rank)), "nothing of rank {rank}");
    }
    let second = cluster.coppice(&["trace", &job]);
    assert_eq!((second.status, second.stderr.contains("somebody traces job")), (125, true), "{}", second.stderr);
    all.kill().expect("it runs");
    all.wait().expect("it ran");
    drop(lines);
    // One rank, by the next one, as soon as the first is known to be gone; it stops reading, and goes.
    let mut one = loop {
        let mut one = trace(&["--rank", "1"]);
        let mut lines = BufReader::new(one.stdout.take().expect("piped")).lines();
        match lines.next() {
            Some(line) => {
                let line = line.expect("text");
                assert!(!line.contains(": "), "no label for one rank alone: {line}");
                break one;
            }
            None => assert!(finish_child(one, "a second tracer").stderr.contains("somebody traces job")),
        }
    };
    one.wait().expect("nobody reads what it writes, so it ends");
    // Another one leaves by itself.
    loop {
        let left = cluster.coppice(&["trace", &job, "--rank", "0", "--seconds", "1"]);
        if left.status == 0 && left.text().contains(absent) {
            break;
        }
        assert!(left.status == 0 || left.stderr.contains("somebody traces job"), "{}", left.stderr);
    }
    assert_eq!(cluster.json(&["job", &job])["state"], "running");
    std::fs::write(cluster.root().join("found"), "").expect("written");
    let ran = finish_child(run, "the job");
    assert_eq!((ran.status, ran.text().matches("found it").count()), (0, 2), "{}", ran.stderr);
    let late = cluster.coppice(&["trace", &job]);
    assert_eq!((late.status, late.stderr.contains("has ended already")), (125, true), "{}", late.stderr);
    let absent = cluster.coppice(&["trace", "9999"]);
    assert!(absent.stderr.contains("there is no job 9999"), "{}", absent.stderr);
}

#[test]
fn the_end_of_a_job_is_in_its_trace() {
    let cluster = Cluster::up(1);
    let run = waits(&cluster, "1");
    let job = job(&cluster);
    let path = cluster.root().join("trace");
    let arguments = ["trace", job.as_str(), "--output", path.to_str().expect("a path")];
    let tracer = cluster.command(&arguments).stderr(Stdio::piped()).spawn().expect("coppice");
    let has = |what: &str| std::fs::read_to_string(&path).is_ok_and(|text| text.contains(what));
    while !has("nanosleep({tv_sec=0, tv_nsec=20000000}, ") {
        std::thread::yield_now();
    }
    std::fs::write(cluster.root().join("found"), "").expect("written");
    assert_eq!(finish_child(run, "the job").status, 0);
    assert_eq!(finish_child(tracer, "the tracer").status, 0);
    let text = std::fs::read_to_string(&path).expect("a trace");
    assert!(text.contains("access(\"found\", F_OK) = 0\n"), "{text}");
    assert!(text.ends_with("exit_group(0) = ?\n+++ exited with 0 +++\n"), "{text}");
}
