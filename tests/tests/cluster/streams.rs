//! Standard input, output and error: whole, in order, separate, and with back-pressure.

use std::io::{Read, Write};
use std::process::Stdio;

use coppice_tests::Cluster;
use coppice_tests::cluster::finish_child;
use coppice_tests::guests::BUSYBOX;

/// Runs with these bytes as standard input.
fn with_input(cluster: &Cluster, arguments: &[&str], input: &[u8]) -> coppice_tests::Ran {
    let mut child = cluster
        .command(&[&["run"], arguments].concat())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start");
    let mut pipe = child.stdin.take().expect("piped");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || pipe.write_all(&input));
    let ran = finish_child(child, "run with input");
    let _ = writer.join();
    ran
}

#[test]
fn input_reaches_the_rank_that_was_named() {
    let cluster = Cluster::up(2);
    let ran = with_input(&cluster, &["-n", "2", "--label", BUSYBOX, "wc", "-c"], b"twelve bytes");
    assert!(ran.text().contains("0: 12\n") && ran.text().contains("1: 0\n"), "{} {}", ran.text(), ran.stderr);
    let ran = with_input(&cluster, &["-n", "2", "--stdin-rank", "1", "--label", BUSYBOX, "wc", "-c"], b"twelve bytes");
    assert!(ran.text().contains("0: 0\n") && ran.text().contains("1: 12\n"), "{} {}", ran.text(), ran.stderr);
    let ran = with_input(&cluster, &["--stdin-rank", "none", BUSYBOX, "wc", "-c"], b"twelve bytes");
    assert_eq!(ran.text(), "0\n", "{}", ran.stderr);
}

/// Three megabytes through a node and back, more than all windows and buffers together.
#[test]
fn input_passes_through_whole() {
    let cluster = Cluster::up(1);
    let input: Vec<u8> = (0..3_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let ran = with_input(&cluster, &[BUSYBOX, "cat"], &input).success();
    assert!(ran.stdout == input, "{} bytes came back", ran.stdout.len());
}

/// The program ends before its input does.
#[test]
fn unread_input_does_not_hang() {
    let cluster = Cluster::up(1);
    let input = vec![b'x'; 2_000_000];
    let ran = with_input(&cluster, &[BUSYBOX, "head", "-c", "5"], &input);
    assert_eq!(ran.text(), "xxxxx", "{}", ran.stderr);
}

/// A reader who takes its time: the program waits, nothing is lost, and the cluster answers others meanwhile.
#[test]
fn slow_reader_holds_the_program_back() {
    let cluster = Cluster::up(2);
    let mut child = cluster
        .command(&["run", BUSYBOX, "seq", "1", "600000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start");
    let mut out = child.stdout.take().expect("piped");
    let mut first = [0; 10];
    out.read_exact(&mut first).expect("output");
    // Others are served while this job waits for its reader.
    assert_eq!(cluster.run(&[BUSYBOX, "echo", "meanwhile"]).success().text(), "meanwhile\n");
    let states = cluster.json(&["jobs"]);
    let slow =
        states.as_array().and_then(|jobs| jobs.iter().find(|job| job["job"] == 1)).expect("the slow job").clone();
    assert_eq!(slow["state"], "running", "4 MB of output fitted into buffers: {slow}");
    let mut rest = Vec::new();
    out.read_to_end(&mut rest).expect("output");
    let expected: String = (1..=600_000).map(|n| format!("{n}\n")).collect();
    assert!([&first[..], &rest].concat() == expected.as_bytes());
    assert_eq!(child.wait().expect("end").code(), Some(0));
}

/// The reader goes away: the program gets SIGPIPE or an error, and `run` does not hang.
#[test]
fn reader_that_leaves_ends_the_job() {
    let cluster = Cluster::up(1);
    let mut child =
        cluster.command(&["run", BUSYBOX, "yes"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start");
    let mut out = child.stdout.take().expect("piped");
    let mut some = [0; 4];
    out.read_exact(&mut some).expect("output");
    assert_eq!(&some, b"y\ny\n");
    drop(out);
    let ran = finish_child(child, "run whose reader left");
    assert_ne!(ran.status, 0);
    let _ = cluster.run(&[BUSYBOX, "true"]).success();
}

#[test]
fn output_and_error_are_separate() {
    let cluster = Cluster::up(1);
    let ran = cluster.run(&[BUSYBOX, "ls", "missing", "."]);
    assert_eq!(ran.status, 1);
    assert!(ran.stderr.contains("missing: No such file or directory"), "{}", ran.stderr);
    assert!(!ran.text().contains("No such file"), "{}", ran.text());
}
