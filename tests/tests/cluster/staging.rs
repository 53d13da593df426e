//! Files and programs that are staged: on every node of a job, byte for byte, before its ranks start, and gone with it.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use coppice_tests::cluster::{finish_child, wait_until};
use coppice_tests::guests::{BUSYBOX, Toolchain, program};
use coppice_tests::physical::{Pattern, memory_of};
use coppice_tests::{Cluster, Waiting};

/// How long a small file may take to a few nodes.
const READY_TIME_MAX: Duration = Duration::from_secs(60);

/// Where jobs find the staged file.
const PATH: &str = "/data/of/the job";

/// A file in the cluster's root, of a seed's bytes.
fn file(cluster: &Cluster, bytes: usize, seed: u64) -> String {
    let path = cluster.root().join(format!("file{seed}"));
    let content: Vec<u8> =
        (0..bytes as u64).map(|at| ((at + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 53) as u8).collect();
    std::fs::write(&path, content).expect("written");
    path.to_str().expect("a path").to_owned()
}

/// What `sha256sum` says of a file of the host.
fn sum(path: &str) -> String {
    let output = Command::new(BUSYBOX).args(["sha256sum", path]).output().expect("run");
    String::from_utf8(output.stdout).expect("text").split(' ').next().expect("a sum").to_owned()
}

/// A job of so many nodes, with these arguments, whose ranks all say that they have the file.
#[track_caller]
fn all_have_it(cluster: &Cluster, nodes: u32, file: &str, arguments: &[&str]) {
    let (count, stage) = (nodes.to_string(), format!("{file}={PATH}"));
    let run = ["-n", &count, "--stage", &stage];
    let ran = cluster.run(&[&run, arguments, &[BUSYBOX, "sha256sum", PATH]].concat()).success();
    let expected = format!("{}  {PATH}\n", sum(file));
    assert_eq!(ran.text(), expected.repeat(nodes as usize));
}

#[test]
fn a_file_is_on_every_node_byte_for_byte() {
    let cluster = Cluster::up(5);
    for (seed, bytes) in [(1, 1), (2, 4096), (3, 3 * 1024 * 1024 + 77), (4, 12 * 1024 * 1024)] {
        let file = file(&cluster, bytes, seed);
        all_have_it(&cluster, 5, &file, &[]);
        // Nobody else sees it.
        let other = cluster.run(&[BUSYBOX, "cat", PATH]);
        assert_eq!((other.status, other.text()), (1, String::new()), "{}", other.stderr);
    }
}

#[test]
fn packets_that_get_lost_are_sent_again() {
    let cluster = Cluster::up_with(&["--nodes", "6", "--loss", "1%", "--bandwidth", "100M"]);
    let file = file(&cluster, 4 * 1024 * 1024, 7);
    for _ in 0..3 {
        all_have_it(&cluster, 6, &file, &["--stage-program"]);
    }
}

#[test]
fn a_staged_file_is_read_and_nothing_else() {
    let cluster = Cluster::up(2);
    let file = file(&cluster, 100_000, 9);
    let stage = format!("{file}={PATH}");
    let run = |arguments: &[&str]| cluster.run(&[&["-n", "2", "--stage", &stage, BUSYBOX], arguments].concat());
    let refused: [&[&str]; 5] = [
        &["rm", "-f", PATH],
        &["mv", PATH, "/y"],
        &["truncate", "-s", "0", PATH],
        &["dd", "if=/dev/zero", &format!("of={PATH}"), "conv=notrunc", "count=1"],
        &["ln", PATH, "/y"],
    ];
    for arguments in refused {
        let ran = run(arguments);
        assert_ne!(ran.status, 0, "{arguments:?}: {}", ran.text());
    }
    let read: [(&[&str], &str); 4] = [
        (&["wc", "-c", PATH], "100000 /data/of/the job\n"),
        (&["stat", "-c", "%s %a %F", "/data//of/./the job"], "100000 444 regular file\n"),
        (&["test", "-r", PATH], ""),
        (&["cmp", PATH, PATH], ""),
    ];
    for (arguments, said) in read {
        assert_eq!(run(arguments).success().text(), said.repeat(2), "{arguments:?}");
    }
    // From a directory, and as a mapping would be read: bit by bit, from anywhere.
    let tail = run(&["tail", "-c", "99", PATH]).success();
    let content = std::fs::read(&file).expect("the file");
    assert_eq!(tail.stdout, content[content.len() - 99..].repeat(2));
    // What cannot be renamed is copied, as from one file system to another.
    assert!(std::fs::read(cluster.root().join("y")).is_ok_and(|copy| copy == content));
    assert!(!cluster.root().join("data").exists());
}

#[test]
fn nothing_is_left_of_it_when_the_job_has_ended() {
    let cluster = Cluster::up(3);
    let pattern = Pattern::of_seed(77_001);
    let path = cluster.root().join("secret");
    std::fs::write(&path, pattern.repeated(2 * 1024 * 1024)).expect("written");
    let path = path.to_str().expect("a path");
    let waits = program("waits_and_exits", Toolchain::Musl);
    let stage = format!("{path}={PATH}");
    for how in ["exit", "kill"] {
        let arguments = ["-n", "3", "--stage", &stage, waits.to_str().expect("a path"), "0"];
        let job = Waiting::start(&cluster, &arguments, "waiting");
        // The other ranks have no input to wait for, and may be done before the first has begun.
        wait_until("the first node has the file", READY_TIME_MAX, || {
            let there = memory_of(&cluster, 0).pages_with(&pattern).len();
            if there >= 512 { Ok(()) } else { Err(format!("{there} pages of it")) }
        });
        match how {
            "kill" => {
                let jobs = cluster.json(&["jobs"]);
                let running = jobs.as_array().and_then(|jobs| jobs.iter().find(|job| job["state"] != "ended"));
                let number = running.unwrap_or_else(|| panic!("no job runs: {jobs}"))["job"].to_string();
                let _ = cluster.coppice(&["kill", &number]).success();
                assert!(job.end().status > 128);
            }
            _ => drop(job.go_on().success()),
        }
        for node in 0..3 {
            memory_of(&cluster, node).assert_none(&pattern, how);
        }
    }
}

#[test]
fn what_cannot_be_staged_is_refused_in_one_line() {
    let cluster = Cluster::up(2);
    let long = file(&cluster, 80 * 1024 * 1024, 5);
    let missing = cluster.root().join("missing");
    let refusals = [
        (format!("{}={PATH}", missing.display()), "missing"),
        (format!("{long}={PATH}"), "83886080 bytes: a node has"),
        (format!("{long}=relative"), "relative"),
        (format!("{}=/d", cluster.root().display()), "is not a file"),
    ];
    for (stage, says) in refusals {
        let ran = cluster.run(&["-n", "2", "--stage", &stage, BUSYBOX, "true"]);
        assert_ne!(ran.status, 0, "{stage}");
        let errors = &ran.stderr;
        assert!(errors.contains(says) && errors.trim().lines().count() == 1, "{stage}: {errors}");
    }
    let _ = cluster.run(&["-n", "2", BUSYBOX, "true"]).success();
}

/// A cluster whose links are slow enough for something to happen while a file of [`SLOW_BYTES`] is on its way.
fn slow() -> Cluster {
    Cluster::up_with(&["--nodes", "4", "--bandwidth", "10M"])
}

const SLOW_BYTES: usize = 8 * 1024 * 1024;

/// A job on all four nodes that has a file of this pattern staged, when a part of it is on the second node.
fn under_way(cluster: &Cluster, pattern: &Pattern, file: &str) -> Child {
    let path = cluster.root().join("slow");
    std::fs::write(&path, pattern.repeated(SLOW_BYTES)).expect("written");
    let stage = format!("{}={PATH}", path.display());
    let arguments = ["run", "--quiet", "-n", "4", "--stage", &stage, BUSYBOX, "sha256sum", file];
    let mut command = cluster.command(&arguments);
    let before = cluster.bytes_to(1);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    cluster.wait_for_bytes_to(1, before + SLOW_BYTES as u64 / 8);
    child
}

#[test]
fn a_link_that_is_cut_and_mended_only_takes_time() {
    let cluster = slow();
    let pattern = Pattern::of_seed(77_002);
    for node in [1, 3] {
        let job = under_way(&cluster, &pattern, PATH);
        cluster.cut_until_missed(&node.to_string());
        let ran = finish_child(job, "a job whose file comes late").success();
        let expected = format!("{}  {PATH}\n", sum(cluster.root().join("slow").to_str().expect("a path")));
        assert_eq!(ran.text(), expected.repeat(4), "node {node} was cut off");
    }
}

#[test]
fn a_node_that_dies_or_a_kill_meanwhile_ends_the_job_and_leaves_nothing() {
    let cluster = slow();
    let pattern = Pattern::of_seed(77_003);
    let clean = |nodes: &[u32], after: &str| {
        nodes.iter().for_each(|node| memory_of(&cluster, *node).assert_none(&pattern, after));
    };
    let job = under_way(&cluster, &pattern, PATH);
    let jobs = cluster.json(&["jobs"]);
    let number = jobs.as_array().and_then(|jobs| jobs.last()).expect("a job")["job"].to_string();
    let _ = cluster.coppice(&["kill", &number]).success();
    assert!(finish_child(job, "a job that is killed").status > 128);
    clean(&[0, 1, 2, 3], "a kill");

    // Whatever becomes of the nodes above and below it.
    let job = under_way(&cluster, &pattern, PATH);
    cluster.kill_process("n2.qmp");
    let ran = finish_child(job, "a job that loses a node");
    assert_eq!(ran.status, 125, "{}", ran.stderr);
    assert!(ran.stderr.contains("node 2"), "{}", ran.stderr);
    clean(&[0, 1, 3], "the loss of a node");
    cluster.wait_until_ready();
    let file = file(&cluster, 300_000, 11);
    all_have_it(&cluster, 4, &file, &[]);
}

#[test]
fn two_transfers_at_once_do_not_mix() {
    let cluster = slow();
    let files = [(21, "0,2"), (22, "1,3")].map(|(seed, nodes)| (file(&cluster, 2 * 1024 * 1024, seed), nodes));
    let jobs = files.each_ref().map(|(file, nodes)| {
        let stage = format!("{file}={PATH}");
        let mut command = cluster.command(&["run", "--quiet", "--nodes-list", nodes, "--stage", &stage, BUSYBOX]);
        command.args(["sha256sum", PATH]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started")
    });
    for (job, (file, _)) in jobs.into_iter().zip(&files) {
        let ran = finish_child(job, "one of two").success();
        assert_eq!(ran.text(), format!("{}  {PATH}\n", sum(file)).repeat(2));
    }
}
