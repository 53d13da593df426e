//! Ranks of a job on one node: memory they share, and pages of their program that are there once.

use coppice_tests::guests::{Toolchain, program};
use coppice_tests::physical::{PAGE_BYTES, Pattern, memory_of};
use coppice_tests::{Cluster, Waiting};

/// Four ranks on two nodes.
const TWO_EACH: [&str; 4] = ["-n", "4", "--ranks-per-node", "2"];

#[track_caller]
fn run(cluster: &Cluster, toolchain: Toolchain, arguments: &[&str]) -> String {
    let path = program("shared", toolchain);
    let command: Vec<&str> =
        TWO_EACH.iter().chain([&path.to_str().expect("a path")]).chain(arguments).copied().collect();
    cluster.run(&command).success().text()
}

#[test]
fn ranks_of_a_node_share_its_memory_and_no_other() {
    let cluster = Cluster::up(2);
    for (toolchain, how, end) in [
        (Toolchain::Glibc, "turns", "100"),
        (Toolchain::Musl, "turns", "100"),
        (Toolchain::Glibc, "sleep", "2000"),
        (Toolchain::Musl, "sleep", "2000"),
    ] {
        let text = run(&cluster, toolchain, &["2", how, end]);
        for rank in 0..4 {
            let node = format!("node{}", rank / 2);
            let line = format!("rank {rank} on {node}: {end} in the memory of {node}\n");
            assert!(text.contains(&line), "{toolchain:?} {how}: {text}");
        }
    }
}

#[test]
fn files_in_dev_shm_are_as_on_linux() {
    let cluster = Cluster::up(1);
    for toolchain in [Toolchain::Glibc, Toolchain::Musl] {
        let path = program("shared", toolchain);
        let ran = cluster.run(&[path.to_str().expect("a path"), "1", "calls"]).success();
        let expected = "again: File exists\nnested: Invalid argument\n100640 10000 1\nhello hello\n\
                        Jello 20000\n1021994\nb\nNo such file or directory, Jello\n";
        assert_eq!(ran.text(), expected, "{toolchain:?}");
    }
}

#[test]
fn nothing_is_left_of_what_ranks_shared() {
    const FILLED_PAGES: usize = 2 * 256;
    let cluster = Cluster::up(1);
    let path = program("shared", Toolchain::Glibc);
    let path = path.to_str().expect("a path");
    for (seed, kill) in [(35_001, false), (35_002, true)] {
        let seed_text = format!("{seed}");
        let waiting = Waiting::start(&cluster, &[path, "1", "fill", &seed_text], "filled");
        let pattern = Pattern::of_seed(seed);
        let seen = memory_of(&cluster, 0).pages_with(&pattern).len();
        assert!(seen >= FILLED_PAGES, "only {seen} pages of {PAGE_BYTES} bytes are filled");
        // The name of a file is a secret, too: the pattern's words in hexadecimal.
        let words = pattern.bytes().chunks(8).take(2).map(|word| u64::from_le_bytes(word.try_into().expect("eight")));
        let name: String = words.map(|word| format!("{word:016x}")).collect();
        let name = Pattern::of(name.into_bytes().try_into().expect("32 letters"));
        assert!(!memory_of(&cluster, 0).pages_with(&name).is_empty(), "the file has its name");
        if kill {
            let job = cluster.json(&["jobs"]);
            let running = job.as_array().and_then(|jobs| jobs.iter().find(|job| job["state"] == "running"));
            let _ = cluster.coppice(&["kill", &running.expect("it runs")["job"].to_string()]).success();
            assert!(waiting.end().status > 128);
        } else {
            let _ = waiting.go_on().success();
        }
        for secret in [&pattern, &name] {
            memory_of(&cluster, 0).assert_none(secret, "the end of the job");
        }
        // The next job finds another /dev/shm.
        let ran = cluster.run(&[coppice_tests::guests::BUSYBOX, "ls", "/dev/shm"]).success();
        assert_eq!(ran.text(), "");
    }
}

/// Both ranks of a node start warm, and what they leave is one table.
#[test]
fn ranks_of_a_node_start_on_one_retained_table() {
    let cluster = Cluster::up(1);
    let path = program("shared", Toolchain::Glibc);
    let command = ["-n", "2", "--ranks-per-node", "2", path.to_str().expect("a path"), "2", "turns", "10"];
    let _ = cluster.run(&command).success();
    let fetched = |cluster: &Cluster| [0, 1].map(|rank| cluster.last_rank(rank).count("pages_fetched"));
    let cold = fetched(&cluster);
    let held = cluster.json(&["nodes"])[0]["retained"].clone();
    assert_eq!(held.as_array().map(Vec::len), Some(1), "{held}");
    let pages = held[0]["pages"].as_u64().expect("a number");
    // What one fetched the other did not fetch again.
    assert!(cold[0] + cold[1] < pages * 3 / 2, "{cold:?} pages fetched, {pages} kept");
    let _ = cluster.run(&command).success();
    assert_eq!(fetched(&cluster), [0, 0]);
    for rank in [0, 1] {
        assert_eq!(cluster.last_rank(rank).count("pages_retained"), pages, "rank {rank}");
    }
    assert_eq!(cluster.json(&["nodes"])[0]["retained"][0]["pages"], pages);
}
