//! Ranks and threads that wait for people keep nobody else waiting: not on their node, not on their pset.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use coppice_tests::Cluster;
use coppice_tests::cluster::{finish_child, wait_until};
use coppice_tests::guests::{BUSYBOX, Toolchain, program};

/// Long, and yet shorter than for ever.
const WORK_TIME_MAX: Duration = Duration::from_secs(120);

/// Waits until the program has done its work.
fn wait_for_work(cluster: &Cluster) {
    let done = cluster.root().join("done");
    wait_until("the work is done", WORK_TIME_MAX, || if done.exists() { Ok(()) } else { Err("it is not".into()) });
    assert_eq!(std::fs::read(cluster.root().join("log")).expect("the log"), b"worked\n");
}

fn start(cluster: &Cluster, options: &[&str], path: &Path, arguments: &[&str]) -> Child {
    std::fs::write(cluster.root().join("data"), vec![b'd'; 16 * 4096]).expect("data");
    let mut command = cluster.command(&[&["run"], options].concat());
    command.arg(path).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("start")
}

/// More ranks than a node has places for calls print into a window that is closed; one that prints nothing works, and
/// so does another job on the pset.
#[test]
fn ranks_that_nobody_reads_from_keep_nobody_from_files_and_pages() {
    let cluster = Cluster::up(2);
    let mut job =
        start(&cluster, &["-n", "20", "--ranks-per-node", "20"], &program("waits", Toolchain::Musl), &["print", "19"]);
    wait_for_work(&cluster);
    let ran = cluster.run(&[BUSYBOX, "wc", "-c", "/data"]).success();
    assert_eq!(ran.text(), "65536 /data\n");
    // The rank that worked has ended, the others have not.
    wait_until("the worker's end is known", WORK_TIME_MAX, || {
        let job = cluster.json(&["job", "1"]);
        let ended = job["rank_reports"].as_array().map_or(0, Vec::len);
        if ended == 1 { Ok(()) } else { Err(format!("{ended} ranks have ended")) }
    });
    let _ = cluster.coppice(&["kill", "1"]).success();
    drop(job.stdout.take());
    let _ = job.wait();
    // Whoever ran it may be gone before.
    wait_until("the job ends", WORK_TIME_MAX, || {
        let job = cluster.json(&["job", "1"]);
        if job["state"] == "ended" { Ok(()) } else { Err(format!("it is {}", job["state"])) }
    });
}

#[test]
fn threads_that_wait_for_input_keep_nobody_from_files_and_pages() {
    let cluster = Cluster::up(1);
    let mut job = start(&cluster, &[], &program("waits", Toolchain::Musl), &["input", "40"]);
    wait_for_work(&cluster);
    let mut input = job.stdin.take().expect("a pipe");
    // One by one and together: each thread gets its byte.
    for _ in 0..10 {
        input.write_all(b"x").expect("input");
    }
    input.write_all(&[b'y'; 30]).expect("input");
    let ran = finish_child(job, "run with input").success();
    assert_eq!(ran.text(), "40\n");
    drop(input);
}

/// A program's file is written over while most of its pages are still to be fetched: it is the program that it was.
#[test]
fn a_program_that_is_written_over_is_what_it_was() {
    let cluster = Cluster::up(1);
    let path = cluster.root().join("program");
    std::fs::copy(program("waits", Toolchain::Musl), &path).expect("copy");
    let mut job = start(&cluster, &[], &path, &["after", "1"]);
    let mut output = BufReader::new(job.stdout.take().expect("a pipe"));
    let mut line = String::new();
    let _ = output.read_line(&mut line).expect("output");
    assert_eq!(line, "ready\n");
    // In place: the same file, all of it.
    let bytes = std::fs::metadata(&path).expect("the program").len();
    std::fs::write(&path, vec![0xcc; usize::try_from(bytes).expect("a length")]).expect("write over");
    let _ = job.stdin.take().expect("a pipe").write_all(b"x");
    let ran = finish_child(job, "run a program that is written over").success();
    assert_eq!(ran.stderr, "");
    assert!(cluster.last_rank(0).count("pages_fetched") > 256, "its pages were still to come");
    // And now it is another file.
    let _ = cluster.run(&[&path]).refused(&["not an ELF"]);
}
