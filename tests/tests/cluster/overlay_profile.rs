//! What programs were seen at, and what they say of themselves: names of functions with the shares that they have, and
//! counters.

use std::time::Duration;

use coppice_tests::Cluster;
use coppice_tests::cluster::wait_until;
use coppice_tests::guests::{Toolchain, program};

/// By how much a share that is told may differ from the one that the program has measured itself.
const SHARE_OFF_MAX: f64 = 0.03;

/// The stacks of a job and how often each was seen, as flame graphs are made of them.
fn folded(cluster: &Cluster, job: &str) -> Vec<(String, u64)> {
    let text = cluster.coppice(&["profile", job, "--folded"]).success().text();
    let stack = |line: &str| {
        let (stack, count) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
        (stack.to_owned(), count.parse().unwrap_or_else(|_| panic!("{line}")))
    };
    text.lines().map(stack).collect()
}

/// Which part of the time a program says that it was in a function, over all ranks.
fn measured(text: &str, function: &str) -> f64 {
    let ns = |name: &str| -> f64 {
        let lines = text.lines().filter_map(|line| line.strip_prefix(name)?.split_whitespace().next());
        lines.map(|ns| ns.parse::<f64>().unwrap_or_else(|_| panic!("{text}"))).sum()
    };
    ns(function) / ns("total")
}

/// A C program, whose callers are known, and one in Rust, of which the functions are that it was in.
///
/// Nodes' clocks count instructions: where a host lets a machine wait, its clock goes on and its program is somewhere
/// all that time, and yet there is one sample of it.
#[test]
fn flame_graphs_name_the_functions_that_use_the_time() {
    let cluster = Cluster::up_with(&["--nodes", "2", "--cores", "1", "--icount"]);
    for toolchain in [Toolchain::Glibc, Toolchain::Rust] {
        let path = program("profiled", toolchain);
        let path = path.to_string_lossy();
        let text = cluster.run(&["-n", "2", "--sample", "1000", "--overlay=2", &path, "1500"]).success().text();
        let job = cluster.last_job()["job"].to_string();
        let stacks = folded(&cluster, &job);
        let all: u64 = stacks.iter().map(|(_, count)| count).sum();
        assert!(all > 500, "{toolchain:?}: {all} samples of two ranks that computed for 1.5 s: {stacks:?}");
        for function in ["heavy", "medium", "light"] {
            let is_in = |stack: &str| stack.rsplit(';').next().is_some_and(|leaf| leaf.contains(function));
            let seen: u64 = stacks.iter().filter(|(stack, _)| is_in(stack)).map(|(_, count)| count).sum();
            let (told, was) = (seen as f64 / all as f64, measured(&text, function));
            assert!((told - was).abs() <= SHARE_OFF_MAX, "{toolchain:?}: {function} has {told}, not {was}: {stacks:?}");
        }
        if toolchain == Toolchain::Glibc {
            let whole = "main;work;one_round;heavy";
            let called: u64 = stacks.iter().filter(|(stack, _)| stack.ends_with(whole)).map(|(_, count)| count).sum();
            assert!(called * 2 > all, "callers are known: {stacks:?}");
        }
        let shown = cluster.coppice(&["profile", &job]).success().text();
        assert!(shown.contains("1000 a second of each rank") && shown.contains("heavy"), "{shown}");
        let flame = cluster.root().join("flame.svg");
        let _ = cluster.coppice(&["profile", &job, "--flame", &flame.to_string_lossy()]).success();
        let flame = std::fs::read_to_string(flame).expect("a flame graph");
        assert!(flame.contains("<svg") && flame.contains("heavy"), "{flame}");
    }
}

/// What is computed is the same, and so is what is said, whether somebody looks where it is or not.
#[test]
fn an_mpi_job_computes_the_same_while_it_is_sampled() {
    let cluster = Cluster::up(4);
    let path = program("allreduce", Toolchain::Mpi);
    let run = |more: &[&str]| cluster.run(&[&["-n", "4"], more, &[&*path.to_string_lossy()]].concat()).success().text();
    assert_eq!(run(&["--sample", "100"]), run(&[]));
    assert_eq!(run(&["--sample", "1000", "--overlay=10"]), run(&[]));
}

#[test]
fn counters_of_programs_and_nodes_are_told_of() {
    let cluster = Cluster::up(2);
    let path = program("counters", Toolchain::Musl);
    let arguments = ["run", "--detach", "--overlay=5", "-n", "2", &path.to_string_lossy(), "40"];
    let job = cluster.coppice(&arguments).success().text().trim().to_owned();
    let mut view = serde_json::Value::Null;
    wait_until("counters of both ranks", Duration::from_secs(60), || {
        view = cluster.json(&["overlay", &job]);
        let counters = view["last"]["counters"].as_array().cloned().unwrap_or_default();
        let are_there = counters.iter().any(|counter| counter["count"] == 2);
        if are_there { Ok(()) } else { Err(view.to_string()) }
    });
    let last = &view["last"];
    assert_eq!(last["node_count"], 2, "{last}");
    let of_node = |name: &str| {
        let metrics = last["nodes"].as_array().expect("metrics of nodes");
        metrics.iter().find(|metric| metric["metric"] == name).cloned().unwrap_or_else(|| panic!("no {name}: {last}"))
    };
    let memory: u64 = 2 * (64 << 20);
    let free = of_node("memory-free")["sum"].as_u64().expect("a number");
    assert!((memory / 4..memory).contains(&free), "{free} of {memory} are free");
    assert_eq!(of_node("cores")["least"].as_u64(), Some(coppice_tests::cluster::cores().into()));
    assert!(of_node("idle")["sum"].as_u64().is_some_and(|idle| idle > 0), "{last}");
    let _ = cluster.coppice(&["wait", &job]).success();
    let metrics = cluster.coppice(&["metrics"]).success().text();
    assert!(metrics.ends_with("# EOF\n"), "{metrics}");
}
