//! What a program had in its memory is nowhere in the node's physical memory once the node has said that it ended,
//! however it ended.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use coppice_tests::cluster::wait_until;
use coppice_tests::guests::{BUSYBOX, Toolchain, program};
use coppice_tests::physical::{PAGE_BYTES, Pattern, memory_of};
use coppice_tests::{Cluster, Waiting};

use crate::threads::cluster_of;

/// Pages that `secrets.c` fills at least: data, bss, heap, anonymous and file mappings, stack, text.
const FILLED_PAGES: usize = 3 + 16 + 256 + 24 + 16 + 8 + 4 + 40 + 2;

/// Pages that each of its threads fills at least: stack and what is the thread's own.
const FILLED_PAGES_OF_THREAD: usize = 8 + 2;

/// How long a job's other ranks may take to end, and the last one to fill its memory, on a busy host.
const LAST_ALONE_TIME_MAX: Duration = Duration::from_secs(120);

/// A cluster of one node, with the file that `secrets.c` maps.
fn cluster() -> Cluster {
    with_file(Cluster::up(1))
}

fn with_file(cluster: Cluster) -> Cluster {
    std::fs::write(cluster.root().join("mapped"), vec![0; 16 * PAGE_BYTES]).expect("file");
    cluster
}

/// A job that has filled its memory with the pattern of a seed, and that is seen from outside.
#[track_caller]
fn filled(cluster: &Cluster, seed: u64, how: &str) -> (Waiting, Pattern) {
    filled_by_threads(cluster, Toolchain::Glibc, seed, how, 0)
}

/// The same, with so many threads besides the first.
#[track_caller]
fn filled_by_threads(
    cluster: &Cluster,
    toolchain: Toolchain,
    seed: u64,
    how: &str,
    threads: usize,
) -> (Waiting, Pattern) {
    let path: PathBuf = program("secrets", toolchain);
    let arguments = [path.to_str().expect("a path"), &seed.to_string(), how, "/mapped", &threads.to_string()];
    let waiting = Waiting::start(cluster, &arguments, "filled");
    let pattern = Pattern::of_seed(seed);
    let seen = memory_of(cluster, 0).pages_with(&pattern).len();
    let least = FILLED_PAGES + threads * FILLED_PAGES_OF_THREAD;
    assert!(seen >= least, "only {seen} pages of {least} are filled");
    (waiting, pattern)
}

/// A file that jobs read and nobody else may: of others, what was read may stay for jobs that come.
fn secret_file(cluster: &Cluster, bytes: &[u8]) {
    let path = cluster.root().join("file");
    std::fs::write(&path, bytes).expect("file");
    std::fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("private");
}

#[track_caller]
fn assert_clean(cluster: &Cluster, pattern: &Pattern, after: &str) {
    memory_of(cluster, 0).assert_none(pattern, after);
    // Nor does the next job find any, wherever it looks.
    let path = program("take_memory", Toolchain::Glibc);
    let ran = cluster.run(&[path.to_str().expect("a path"), "all"]).success();
    assert_eq!(ran.text(), "0 MiB: 0 words not zero, 0 not kept\n", "after {after}");
}

fn running_job(cluster: &Cluster) -> String {
    let jobs = cluster.json(&["jobs"]);
    let running = jobs.as_array().and_then(|jobs| jobs.iter().find(|job| job["state"] == "running"));
    running.unwrap_or_else(|| panic!("no job runs: {jobs}"))["job"].to_string()
}

#[test]
fn nothing_is_left_of_a_job_that_ended() {
    let cluster = cluster();
    let (job, pattern) = filled(&cluster, 31_001, "exit");
    let _ = job.go_on().success();
    assert_clean(&cluster, &pattern, "exit");

    let (job, pattern) = filled(&cluster, 31_002, "fault");
    assert_eq!(job.go_on().status, 139);
    assert_clean(&cluster, &pattern, "a fault");

    for (seed, how) in [(31_003, "exit"), (31_004, "spin")] {
        let (job, pattern) = filled(&cluster, seed, how);
        let _ = cluster.coppice(&["kill", &running_job(&cluster)]).success();
        assert!(job.end().status > 128);
        assert_clean(&cluster, &pattern, "a kill");
    }
    assert_eq!(cluster.json(&["nodes"])[0]["generation"], 1, "the node was rebooted");
    // The program's own pages stay, all but those that lost their pristine copy.
    for seed in [31_005, 31_006] {
        let (job, pattern) = filled(&cluster, seed, "exit");
        let _ = job.go_on().success();
        memory_of(&cluster, 0).assert_none(&pattern, "exit");
    }
    assert!(cluster.last_rank(0).count("pages_retained") > 100);
}

/// Threads on every core, one half of which runs and the other half sleeps, whatever ends them: the first thread, a
/// fault of another one, or the operator.
#[test]
fn nothing_is_left_of_threads_on_several_cores() {
    const THREADS: usize = 16;
    let cluster = with_file(cluster_of(1, 4));
    for (seed, toolchain) in [(36_000, Toolchain::Glibc), (36_100, Toolchain::Musl)] {
        let filled = |number: u64, how| filled_by_threads(&cluster, toolchain, seed + number, how, THREADS);
        let (job, pattern) = filled(1, "exit");
        let _ = job.go_on().success();
        assert_clean(&cluster, &pattern, "the end of all threads");

        let (job, pattern) = filled(2, "fault");
        assert_eq!(job.go_on().status, 139);
        assert_clean(&cluster, &pattern, "a thread's fault");

        for (number, how) in [(3, "exit"), (4, "spin")] {
            let (job, pattern) = filled(number, how);
            let _ = cluster.coppice(&["kill", &running_job(&cluster)]).success();
            assert!(job.end().status > 128);
            assert_clean(&cluster, &pattern, "a kill of all threads");
        }
    }
    assert_eq!(cluster.json(&["nodes"])[0]["generation"], 1, "the node was rebooted");
}

/// Ranks that end while another one of their job goes on, on the same node: what is said of their ends is made before
/// what they left in the kernel is wiped, which is at the job's end.
#[test]
fn nothing_is_left_of_ranks_that_ended_before_others() {
    const RANKS: usize = 4;
    let cluster = with_file(cluster_of(1, 2));
    let path = program("secrets", Toolchain::Glibc);
    for (seed, how, threads) in [(37_000, "exit", 0), (37_100, "exit", 4), (37_200, "fault", 0), (37_300, "spin", 4)] {
        let (first, threads) = (u64::to_string(&seed), i32::to_string(&threads));
        let patterns: Vec<Pattern> = (seed..).take(RANKS).map(Pattern::of_seed).collect();
        // Only the last one has an input that it waits for the end of.
        let options = ["-n", "4", "--ranks-per-node", "4", "--stdin-rank", "3"];
        let program = [path.to_str().expect("a path"), &first, &format!("last-{how}"), "/mapped", &threads];
        let job = Waiting::start(&cluster, &[&options[..], &program].concat(), "filled");
        let number = running_job(&cluster);
        wait_until("all ranks but one have ended", LAST_ALONE_TIME_MAX, || {
            let ranks = cluster.json(&["job", &number])["rank_reports"].clone();
            let ended = ranks.as_array().map_or(0, Vec::len);
            if ended == RANKS - 1 { Ok(()) } else { Err(ranks.to_string()) }
        });
        wait_until("the last rank has filled its memory", LAST_ALONE_TIME_MAX, || {
            let seen = memory_of(&cluster, 0).pages_with(&patterns[RANKS - 1]).len();
            if seen >= FILLED_PAGES { Ok(()) } else { Err(format!("{seen} pages of {FILLED_PAGES}")) }
        });
        let ended = if how == "spin" {
            let _ = cluster.coppice(&["kill", &number]).success();
            job.end()
        } else {
            job.go_on()
        };
        let status = match how {
            "exit" => 0,
            "fault" => 139,
            _ => 143,
        };
        assert_eq!(ended.status, status, "{how}: {}", ended.stderr);
        let memory = memory_of(&cluster, 0);
        for (rank, pattern) in patterns.iter().enumerate() {
            memory.assert_none(pattern, &format!("{how} of the last rank, of rank {rank}"));
        }
    }
    assert_eq!(cluster.json(&["nodes"])[0]["generation"], 1, "the node was rebooted");
}

/// A node whose I/O node dies is booted afresh: what it had in its memory goes with the machine.
#[test]
fn nothing_is_left_after_the_io_node_died() {
    let cluster = cluster();
    let (job, pattern) = filled(&cluster, 32_001, "exit");
    let machine = cluster.json(&["nodes"])[0]["pid"].as_u64().expect("a process");
    cluster.kill_process("coppice-io-node");
    assert_ne!(job.end().status, 0);
    cluster.wait_until_ready();
    let node = cluster.json(&["nodes"])[0].clone();
    assert_eq!(node["generation"], 2, "{node}");
    assert!(cluster.processes().iter().all(|process| process.pid as u64 != machine), "the machine is still there");
    assert_eq!((&node["retained"], &node["last_program"]), (&serde_json::json!([]), &serde_json::Value::Null));
    assert_clean(&cluster, &pattern, "the death of the I/O node");
}

/// Bytes that pass through a program and the kernel's buffers: from a file, into a file, to standard output.
#[test]
fn nothing_is_left_of_what_passed_through() {
    passes(33_001, &[]);
}

/// The same, if what the program calls is said of it, with some of those bytes.
#[test]
fn nothing_is_left_of_what_was_traced() {
    passes(33_101, &["--trace", "/dev/null"]);
}

#[track_caller]
fn passes(first: u64, options: &[&str]) {
    let cluster = cluster();
    let path = program("passes", Toolchain::Glibc);
    for (number, how) in (first..).zip(["read", "map", "copy", "print", "loop"]) {
        let pattern = Pattern::of_seed(number);
        let bytes = pattern.repeated(1_000_000);
        secret_file(&cluster, &bytes);
        let ran = cluster.run(&[options, &[path.to_str().expect("a path"), how, "file"]].concat()).success();
        match how {
            "copy" => assert!(std::fs::read(cluster.root().join("file.copy")).expect("copy") == bytes),
            "print" => assert!(ran.stdout == bytes),
            _ => assert!(ran.stdout.is_empty()),
        }
        memory_of(&cluster, 0).assert_none(&pattern, how);
    }
}

/// Bytes that went over the network: on the node that sent them and on the one that got them, read or not.
#[test]
fn nothing_is_left_of_what_was_sent_to_another_node() {
    let cluster = Cluster::up(2);
    let path = program("passes", Toolchain::Glibc);
    let pattern = Pattern::of_seed(35_001);
    secret_file(&cluster, &pattern.repeated(1_000_000));
    let path = path.to_str().expect("a path");
    let _ = cluster.run(&["-n", "2", "--nodes-list", "0,1", path, "ranks", "file"]).success();
    for node in [0, 1] {
        memory_of(&cluster, node).assert_none(&pattern, "what was sent");
    }
}

/// Arguments, environment and names of files, and what a program's own output says.
#[test]
fn nothing_is_left_of_what_a_program_was_given() {
    let cluster = cluster();
    let [argument, variable, name] = [1, 2, 3].map(|number| Pattern::printable(34_000 + number));
    let text = |pattern: &Pattern| String::from_utf8(pattern.bytes().to_vec()).expect("letters");
    let setting = format!("SECRET={}", text(&variable));
    std::fs::write(cluster.root().join(text(&name)), "x").expect("file");
    let command = ["--env", &setting, BUSYBOX, "cat", "-", &text(&name), &text(&argument)];
    let job = Waiting::start(&cluster, &["--env", &setting, BUSYBOX, "sh", "-c", "echo on; cat"], "on");
    let _ = job.go_on();
    let ran = cluster.run(&command);
    assert_eq!((ran.status, ran.text().as_str()), (1, "x"), "{}", ran.stderr);
    let memory = memory_of(&cluster, 0);
    for (pattern, what) in [(argument, "an argument"), (variable, "a variable"), (name, "a name")] {
        memory.assert_none(&pattern, what);
    }
}
