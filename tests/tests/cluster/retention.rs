//! Programs that run again on nodes they ran on: nothing is loaded, it can be seen, and it can be undone.

use std::path::Path;

use coppice_tests::Cluster;
use coppice_tests::guests::{BUSYBOX, Toolchain, program};
use serde_json::Value;

/// What all ranks of the last job count, together.
fn sum(cluster: &Cluster, field: &str) -> u64 {
    let job = cluster.last_job();
    let ranks = job["rank_reports"].as_array().expect("ranks");
    ranks.iter().map(|rank| rank[field].as_u64().unwrap_or_else(|| panic!("no {field} in {rank}"))).sum()
}

/// What nodes hold of programs, node by node.
fn retained(cluster: &Cluster) -> Vec<Value> {
    let nodes = cluster.json(&["nodes"]);
    nodes.as_array().expect("nodes").iter().map(|node| node["retained"].clone()).collect()
}

fn sorted_lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

#[test]
fn second_run_loads_nothing() {
    let cluster = Cluster::up(4);
    std::fs::write(cluster.root().join("file"), "contents\n".repeat(1000)).expect("file");
    let command = ["run", "-n", "4", "--label", BUSYBOX, "sha256sum", "file"];
    let cold = cluster.coppice(&command).success();
    assert_eq!(cold.stderr, "");
    let (fetched, kept) = (sum(&cluster, "pages_fetched"), sum(&cluster, "pages_kept"));
    assert!(fetched > 0 && kept >= fetched, "{fetched} {kept}");
    assert_eq!(sum(&cluster, "pages_retained"), 0);

    let warm = cluster.coppice(&command).success();
    assert_eq!(sorted_lines(&warm.text()), sorted_lines(&cold.text()));
    assert_eq!(warm.stderr, format!("coppice: 4 nodes warm: {kept} pages kept, 0 fetched\n"));
    let job = cluster.last_job();
    for rank in 0..4 {
        let report = cluster.last_rank(rank);
        assert_eq!((report.count("pages_fetched"), report.count("instruction_faults")), (0, 0), "{job}");
        assert_eq!(report.count("pages_retained"), kept / 4, "{job}");
        assert_eq!(report.0["retain"]["outcome"], "kept", "{job}");
        assert_eq!(job["placement"]["nodes"][rank]["reason"], "retained", "{job}");
    }
    assert_eq!((&job["retention"]["warm_ranks"], &job["retention"]["pages_kept"]), (&4.into(), &kept.into()), "{job}");

    let quiet = cluster.coppice(&[&["run", "--quiet"], &command[1..]].concat()).success();
    assert_eq!((quiet.stderr.as_str(), sum(&cluster, "pages_fetched")), ("", 0));
    let loaded = cluster.coppice(&[&["run", "--no-retain"], &command[1..]].concat()).success();
    assert_eq!(sorted_lines(&loaded.text()), sorted_lines(&cold.text()));
    assert_eq!(loaded.stderr, "");
    assert_eq!((sum(&cluster, "pages_retained"), sum(&cluster, "pages_fetched")), (0, fetched));
}

#[test]
fn what_nodes_hold_is_shown_and_given_back() {
    let cluster = Cluster::up(2);
    let command = ["run", "-n", "2", BUSYBOX, "echo", "hello"];
    let _ = cluster.coppice(&command).success();
    let (job, kept) = (cluster.last_job(), sum(&cluster, "pages_kept"));
    let hash = job["program"].as_str().expect("a hash");

    let nodes = cluster.json(&["nodes"]);
    for node in nodes.as_array().expect("nodes") {
        assert_eq!(node["last_program"]["program"], hash, "{node}");
        assert_eq!(node["last_program"]["job"], job["job"], "{node}");
        assert!(node["last_program"]["path"].as_str().is_some_and(|path| path.ends_with("busybox")), "{node}");
        assert_eq!(node["retained"].as_array().map(Vec::len), Some(1), "{node}");
        let held = &node["retained"][0];
        assert_eq!((&held["program"], held["pages"].as_u64()), (&hash.into(), Some(kept / 2)), "{node}");
        assert!(held["bytes"].as_u64() > Some(kept / 2 * 4096), "{node}");
    }
    let programs = cluster.json(&["programs"]);
    let is_it = |program: &&Value| program["hash"] == hash;
    let shown = programs.as_array().and_then(|programs| programs.iter().find(is_it)).expect("the program");
    assert_eq!(shown["nodes"], Value::from(vec![0, 1]), "{shown}");
    assert_eq!(shown["retained_pages"], kept, "{shown}");
    assert!(cluster.coppice(&["programs"]).success().text().contains(&hash[..12]));
    assert!(cluster.coppice(&["nodes"]).success().text().contains("busybox"));

    // By its path, by its hash, and everything; each time nothing is left and the next run loads.
    for order in [&["forget", BUSYBOX][..], &["forget", &hash[..12]], &["forget"]] {
        let answer = cluster.coppice(order).success();
        assert!(answer.text().contains(&format!("2 nodes gave back {kept} pages")), "{order:?}: {}", answer.text());
        assert!(retained(&cluster).iter().all(|held| held == &Value::Array(Vec::new())), "{order:?}");
        let _ = cluster.coppice(order).success();
        assert_eq!(cluster.coppice(&command).success().text(), "hello\nhello\n");
        assert_eq!((sum(&cluster, "pages_retained"), sum(&cluster, "pages_kept")), (0, kept), "{order:?}");
        assert!(sum(&cluster, "pages_fetched") > 0, "{order:?}");
    }
    // Another program's pages stay.
    let other = program("version", Toolchain::Musl);
    let _ = cluster.run(&["-n", "2", text(&other)]).success();
    let _ = cluster.coppice(&["forget", BUSYBOX]).success();
    let _ = cluster.run(&["-n", "2", text(&other)]).success();
    assert_eq!(sum(&cluster, "pages_fetched"), 0);
}

/// A program is its bytes: one byte different at the same path is another one, the same bytes elsewhere are the same.
#[test]
fn a_program_is_known_by_its_bytes() {
    let cluster = Cluster::up_with(&["--nodes", "1", "--retention", "one"]);
    let built = std::fs::read(program("version", Toolchain::Glibc)).expect("program");
    let version = b"this is version A";
    let at = built.windows(version.len()).position(|window| window == version).expect("its text") + version.len() - 1;
    let mut rebuilt = built.clone();
    rebuilt[at] = b'B';
    let install = |name: &str, bytes: &[u8]| {
        let path = cluster.root().join(name);
        std::fs::write(&path, bytes).expect("program");
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("permissions");
    };
    let run = |path: &str, output: &str| {
        assert_eq!(cluster.run(&[path]).success().text(), output, "{path}");
        let rank = cluster.last_rank(0);
        (rank.count("pages_retained"), rank.count("pages_fetched"))
    };
    install("program", &built);
    let (retained, fetched) = run("./program", "this is version A\n");
    assert!(retained == 0 && fetched > 0, "{retained} {fetched}");
    install("program", &rebuilt);
    let (retained, fetched_b) = run("./program", "this is version B\n");
    assert!(retained == 0 && fetched_b > 0, "{retained} {fetched_b}");
    std::fs::create_dir(cluster.root().join("elsewhere")).expect("directory");
    install("elsewhere/renamed", &built);
    let (retained, fetched) = run("./elsewhere/renamed", "this is version A\n");
    assert!(retained > 0 && fetched == 0, "{retained} {fetched}");
    // That discarded the other one.
    assert_eq!(run("./program", "this is version B\n"), (0, fetched_b));
}

/// Two programs in turn on one node: both are warm from their second run on, until somebody wants all memory.
#[test]
fn programs_that_take_turns_are_warm() {
    let cluster = Cluster::up(1);
    let [one, other] = ["exit_rank", "version"].map(|name| program(name, Toolchain::Glibc));
    let run = |path: &std::path::Path| {
        let _ = cluster.run(&[text(path)]);
        let rank = cluster.last_rank(0);
        (rank.count("pages_retained"), rank.count("pages_fetched"))
    };
    for path in [&one, &other] {
        let (found, fetched) = run(path);
        assert!(found == 0 && fetched > 0, "{found} {fetched}");
    }
    for _ in 0..4 {
        for path in [&one, &other] {
            let (found, fetched) = run(path);
            assert!(found > 0 && fetched == 0, "{found} {fetched}");
        }
    }
    assert_eq!(retained(&cluster)[0].as_array().map(Vec::len), Some(2));
    // All that can be had: what both left goes, and that of the one that ran first goes first.
    let hungry = program("take_memory", Toolchain::Glibc);
    let _ = cluster.run(&[text(&hungry), "all"]).success();
    assert!(run(&one).1 > 0 && run(&other).1 > 0, "nothing was given back");
}

/// What a node keeps is nobody's loss: a program that needs the memory gets it, and the other one is loaded again.
#[test]
fn memory_is_given_back_under_pressure() {
    let cluster = Cluster::up(1);
    let large = program("large", Toolchain::Glibc);
    let hungry = program("take_memory", Toolchain::Glibc);
    let native = coppice_tests::host::run::<&str>(cluster.root(), &large, &[]).success().text();
    let large_pages = || {
        assert_eq!(cluster.run(&[text(&large)]).success().text(), native);
        let rank = cluster.last_rank(0);
        (rank.count("pages_retained"), rank.count("pages_fetched"))
    };
    let (_, fetched) = large_pages();
    assert!(fetched >= 10240, "{fetched}");
    let (kept, fetched) = large_pages();
    assert!(kept >= 10240 && fetched == 0, "{kept} {fetched}");
    // 50 of 64 MiB: not while 40 MiB are held.
    let ran = cluster.run(&[text(&hungry), "50"]).success();
    assert_eq!(ran.text(), "50 MiB: 0 words not zero, 0 not kept\n");
    let held = retained(&cluster).remove(0);
    let pages = |held: &Value| held.as_array().map(|all| all.iter().filter_map(|one| one["pages"].as_u64()).sum());
    assert!(pages(&held) < Some(1000_u64), "{held}");
    let (kept, fetched) = large_pages();
    assert!(kept == 0 && fetched >= 10240, "{kept} {fetched}");
}

/// Machines end with their cluster, and what they held with them; what was known of it is void.
#[test]
fn a_restart_forgets_what_machines_held() {
    let cluster = Cluster::up(2);
    for end in ["down", "kill"] {
        let _ = cluster.run(&["-n", "2", BUSYBOX, "true"]).success();
        assert!(retained(&cluster).iter().all(|held| held.as_array().is_some_and(|held| held.len() == 1)), "{end}");
        if end == "down" {
            let _ = cluster.coppice(&["down"]).success();
        } else {
            cluster.kill_process("coppiced");
        }
        cluster.assert_no_process_left();
        let _ = cluster.coppice(&["up", "--nodes", "2", "--accel", "tcg"]).success();
        let nodes = cluster.json(&["nodes"]);
        for node in nodes.as_array().expect("nodes") {
            assert_eq!((&node["last_program"], &node["retained"]), (&Value::Null, &Value::Array(Vec::new())), "{end}");
        }
        let programs = cluster.json(&["programs"]);
        let pages = programs.as_array().expect("programs").iter().map(|program| &program["retained_pages"]);
        assert!(pages.clone().count() > 0 && pages.clone().all(|pages| pages == 0), "{end}: {programs}");
        assert_eq!(cluster.run(&["-n", "2", BUSYBOX, "echo", "on"]).success().text(), "on\non\n");
        assert_eq!(sum(&cluster, "pages_retained"), 0, "{end}");
        let _ = cluster.run(&["-n", "2", BUSYBOX, "true"]).success();
        assert!(sum(&cluster, "pages_retained") > 0, "{end}");
    }
}

/// A node that was rebooted holds nothing, and that is known; the other one is chosen first.
#[test]
fn a_rebooted_node_is_clean() {
    let cluster = Cluster::up(2);
    let _ = cluster.run(&["-n", "2", BUSYBOX, "true"]).success();
    let _ = cluster.coppice(&["reboot", "0"]).success();
    cluster.wait_until_ready();
    let nodes = cluster.json(&["nodes"]);
    assert_eq!((&nodes[0]["last_program"], &nodes[0]["retained"]), (&Value::Null, &Value::Array(Vec::new())));
    assert_eq!(nodes[1]["retained"].as_array().map(Vec::len), Some(1), "{nodes}");
    let _ = cluster.run(&[BUSYBOX, "true"]).success();
    let job = cluster.last_job();
    assert_eq!((&job["nodes"][0], cluster.last_rank(0).count("pages_fetched")), (&1.into(), 0), "{job}");
    let ran = cluster.coppice(&["run", "-n", "2", BUSYBOX, "true"]).success();
    assert!(ran.stderr.starts_with("coppice: 1 node warm: "), "{}", ran.stderr);
}
