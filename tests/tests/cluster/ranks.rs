//! Several ranks on a node: each a process of its own, with its share of the processor.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Child, Stdio};
use std::time::Duration;

use coppice_tests::cluster::{finish_child, wait_until};
use coppice_tests::guests::{BUSYBOX, Toolchain, program};
use coppice_tests::physical::{Pattern, memory_of};
use coppice_tests::{Cluster, Waiting};
use serde_json::Value;

use crate::threads::cluster_of;

/// How soon a rank that has little to do must be done beside others that compute.
const BESIDE_OTHERS_MAX: Duration = Duration::from_secs(20);

/// `-n`, `--ranks-per-node` and what follows.
fn on_each<'a>(ranks: &'a str, per_node: &'a str, rest: &[&'a str]) -> Vec<&'a str> {
    [&["-n", ranks, "--ranks-per-node", per_node], rest].concat()
}

fn ranks(toolchain: Toolchain) -> String {
    program("ranks", toolchain).to_string_lossy().into_owned()
}

/// A field of each rank of the last job.
fn of_ranks(cluster: &Cluster, field: &str) -> Vec<Value> {
    let job = cluster.last_job();
    job["rank_reports"].as_array().expect("ranks").iter().map(|rank| rank[field].clone()).collect()
}

fn sum(cluster: &Cluster, field: &str) -> u64 {
    of_ranks(cluster, field).iter().map(|count| count.as_u64().expect("a number")).sum()
}

#[test]
fn ranks_of_a_node_are_processes_of_their_own() {
    let cluster = Cluster::up(4);
    for (number, per_node, toolchain) in
        [(7, 2, Toolchain::Glibc), (8, 4, Toolchain::Musl), (6, 2, Toolchain::GlibcPie)]
    {
        let (ranks_text, per_node_text, path) = (number.to_string(), format!("{per_node}"), ranks(toolchain));
        let ran = cluster.run(&on_each(&ranks_text, &per_node_text, &["--label", &path])).success();
        let mut lines: Vec<String> = ran.text().lines().map(str::to_owned).collect();
        lines.sort_unstable();
        let expected: Vec<String> = (0..number)
            .map(|rank| format!("{rank}: rank {rank} of {number}, process {}: whole", 1000 + rank))
            .collect();
        assert_eq!(lines, expected, "{}", ran.stderr);
        let job = cluster.last_job();
        let nodes: Vec<Value> = (0..number).map(|rank| job["nodes"][rank / per_node].clone()).collect();
        assert_eq!(of_ranks(&cluster, "node"), nodes, "{job}");
        assert_eq!((&job["ranks"], &job["ranks_per_node"]), (&number.into(), &per_node.into()), "{job}");
    }
    let listed = cluster.coppice(&["jobs"]).success().text();
    assert!(listed.contains("7 (2/node)") && listed.contains("0-3"), "{listed}");

    // Nodes that the user names, the last one not full: to the job they are its first and its second.
    let ran = cluster.run(&on_each("3", "2", &["--nodes-list", "3,1", "--label", BUSYBOX, "hostname"])).success();
    let mut lines: Vec<String> = ran.text().lines().map(str::to_owned).collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0: node0", "1: node0", "2: node1"]);
}

#[test]
fn standard_input_goes_to_one_rank_and_jobs_that_do_not_fit_are_refused() {
    let cluster = Cluster::up(2);
    let mut child = cluster
        .command(&[&["run", "--label"][..], &on_each("4", "2", &["--stdin-rank", "3", BUSYBOX, "cat"])].concat())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start");
    child.stdin.take().expect("piped").write_all(b"one\ntwo\n").expect("written");
    assert_eq!(finish_child(child, "cat").success().text(), "3: one\n3: two\n");

    for (refused, words) in [
        (on_each("5", "2", &[BUSYBOX]), "-n 5 --ranks-per-node 2 is 3 nodes, more than"),
        (on_each("64", "64", &[BUSYBOX]), "64 ranks on a node need"),
        (on_each("2", "65", &[BUSYBOX]), "a node takes 1 to 64 ranks"),
        (on_each("2", "0", &[BUSYBOX]), "a node takes 1 to 64 ranks"),
    ] {
        let ran = cluster.run(&refused);
        assert_ne!(ran.status, 0);
        assert!(ran.stderr.contains(words), "{}", ran.stderr);
    }
}

#[test]
fn sixteen_ranks_run_on_one_node() {
    let cluster = Cluster::up(1);
    let path = ranks(Toolchain::Musl);
    for _ in 0..2 {
        let ran = cluster.run(&on_each("16", "16", &[&path])).success();
        assert_eq!(ran.text().lines().filter(|line| line.ends_with(": whole")).count(), 16, "{}", ran.text());
    }
    assert_eq!(cluster.json(&["nodes"])[0]["generation"], 1, "the node was rebooted");
}

/// The second run of a program finds its pages on every node, and all ranks there share them.
#[test]
fn the_second_run_is_warm_on_all_ranks() {
    let cluster = Cluster::up(2);
    let path = ranks(Toolchain::Glibc);
    let _ = cluster.run(&on_each("6", "3", &[&path])).success();
    let cold = sum(&cluster, "pages_fetched");
    assert!(cold > 0);
    assert_eq!(cluster.last_job()["retention"]["warm_ranks"], 0);
    let mut command = cluster.command(&["run"]);
    command.args(on_each("6", "3", &[&path]));
    let ran = coppice_tests::cluster::finish(command).success();
    assert!(ran.stderr.contains("2 nodes warm: ") && ran.stderr.contains(" 0 fetched"), "{}", ran.stderr);
    assert_eq!(sum(&cluster, "pages_fetched"), 0, "{}", cluster.last_job());
    let retention = &cluster.last_job()["retention"];
    assert_eq!((&retention["warm_ranks"], &retention["warm_nodes"]), (&6.into(), &2.into()), "{retention}");
    assert!(of_ranks(&cluster, "pages_retained").iter().all(|pages| pages.as_u64() > Some(0)));
}

#[test]
fn one_rank_crashes_and_the_others_on_its_node_go_on() {
    let cluster = Cluster::up(2);
    let path = ranks(Toolchain::Glibc);
    let ran = cluster.run(&on_each("4", "4", &["--label", &path, "crash", "1"]));
    assert_eq!(ran.status, 139, "{}", ran.stderr);
    assert_eq!(ran.text().lines().filter(|line| line.ends_with(": whole")).count(), 4, "{}", ran.text());
    let signals: Vec<Value> = of_ranks(&cluster, "signal");
    assert_eq!(signals, [Value::Null, 11.into(), Value::Null, Value::Null]);
    let events = cluster.json(&["ras"]);
    let faults: Vec<&Value> =
        events.as_array().expect("events").iter().filter(|event| event["kind"] == "program-fault").collect();
    assert_eq!(faults.len(), 1, "{events}");
    assert_eq!((&faults[0]["rank"], &faults[0]["node"]), (&1.into(), &0.into()), "{events}");
    let _ = cluster.run(&on_each("4", "2", &[&path])).success();
    assert_eq!(cluster.json(&["nodes"])[0]["generation"], 1, "the node was rebooted");
}

/// A job of which rank 2 has ended, while all others spin.
fn spinning(cluster: &Cluster, number: &str, per_node: &str) -> Child {
    let path = ranks(Toolchain::Musl);
    let child = cluster
        .command(&[&["run"][..], &on_each(number, per_node, &[&path, "spin", "2"])].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start");
    wait_until("rank 2 has ended", BESIDE_OTHERS_MAX, || {
        let jobs = cluster.json(&["jobs"]);
        let last = jobs.as_array().and_then(|jobs| jobs.last()).ok_or("no job yet")?;
        let job = cluster.json(&["job", &last["job"].to_string()]);
        let reports = job["rank_reports"].as_array().map_or(&[][..], Vec::as_slice);
        if reports.iter().any(|report| report["rank"] == 2) { Ok(()) } else { Err(job.to_string()) }
    });
    child
}

/// Ranks that never give the processor up hold up neither another rank nor the node.
#[test]
fn spinning_ranks_leave_others_their_turn_and_end_by_a_kill() {
    let cluster = Cluster::up(1);
    let job = spinning(&cluster, "3", "3");
    let record = cluster.last_job();
    assert_eq!((record["state"].as_str(), record["rank_reports"].as_array().map(Vec::len)), (Some("running"), Some(1)));
    assert_eq!(cluster.json(&["nodes"])[0]["state"], "busy");
    let _ = cluster.coppice(&["kill", &record["job"].to_string()]).success();
    assert_eq!(finish_child(job, "a job that was killed").status, 143);
    assert_eq!(of_ranks(&cluster, "signal"), [15.into(), 15.into(), Value::Null]);
    assert_eq!(cluster.run(&on_each("3", "3", &["--timeout", "1", &ranks(Toolchain::Musl), "spin", "9"])).status, 137);
    let _ = cluster.run(&[BUSYBOX, "true"]).success();
    assert_eq!(cluster.json(&["nodes"])[0]["generation"], 1, "the node was rebooted");
}

#[test]
fn a_killed_node_takes_all_its_ranks_with_it() {
    let cluster = Cluster::up(2);
    let job = spinning(&cluster, "6", "3");
    let pid = cluster.json(&["nodes"])[1]["pid"].as_i64().expect("a process");
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).expect("a process id")).expect("a process id");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("kill");
    let ran = finish_child(job, "run on a node that was killed");
    assert_eq!(ran.status, 125, "{}", ran.stderr);
    assert!(ran.stderr.contains("node 1 was lost"), "{}", ran.stderr);
    let [signalled, exited, lost] = ["signalled", "exited", "lost"].map(Value::from);
    let outcomes = of_ranks(&cluster, "outcome");
    assert_eq!(outcomes, [signalled.clone(), signalled, exited, lost.clone(), lost.clone(), lost]);
    assert!(of_ranks(&cluster, "reason")[3..].iter().all(|reason| reason.to_string().contains("node 1 was lost")));
    cluster.wait_until_ready();
    let _ = cluster.run(&on_each("6", "3", &[&ranks(Toolchain::Musl)])).success();
}

/// What one rank says of the time it computed: from, to (ms of the node's clock), rounds.
fn turns(text: &str) -> BTreeMap<u64, [u64; 3]> {
    let numbers = |line: &str| line.split(' ').map(|word| word.parse().expect("a number")).collect::<Vec<u64>>();
    text.lines()
        .map(numbers)
        .map(|line| match line[..] {
            [rank, from, to, rounds] => (rank, [from, to, rounds]),
            _ => panic!("{line:?} in {text}"),
        })
        .collect()
}

/// Two ranks that compute at the same time share the processor evenly, and each keeps its vector registers; programs
/// that come later find theirs as a new program should.
#[test]
fn ranks_that_compute_share_the_processor_and_keep_their_registers() {
    // On a core each, the host would be who shares its processors out.
    let cluster = cluster_of(2, 1);
    let path = program("turns", Toolchain::Bare);
    let path = path.to_string_lossy();
    for _ in 0..2 {
        let ran = cluster.run(&on_each("4", "2", &[&path, "800"])).success();
        let turns = turns(&ran.text());
        assert_eq!(turns.len(), 4);
        for pair in [[0, 1], [2, 3]] {
            let [[one_from, one_to, one_rounds], [other_from, other_to, other_rounds]] = pair.map(|rank| turns[&rank]);
            assert!(one_from < other_to && other_from < one_to, "one after the other: {turns:?}");
            // Their times overlap for the most part.
            let share = one_rounds as f64 / (one_rounds + other_rounds) as f64;
            assert!((0.3..0.7).contains(&share), "{turns:?}");
        }
    }
    let ran = cluster.run(&on_each("4", "4", &[&path, "200"])).success();
    assert_eq!(turns(&ran.text()).len(), 4);
}

/// Ranks that together want more of what the kernel keeps than it has are refused it, each of them.
#[test]
fn hoarding_ranks_are_refused_and_the_node_lives() {
    let cluster = Cluster::up(1);
    let path = program("hoard", Toolchain::Musl);
    let path = path.to_string_lossy();
    for (number, per_node) in [("1", "1"), ("8", "8"), ("48", "48")] {
        let ran = cluster.run(&on_each(number, per_node, &[&path])).success();
        let good = ran.text().lines().filter(|line| *line == "good").count();
        assert_eq!(good.to_string(), number, "{} {}", ran.text(), ran.stderr);
    }
    let _ = cluster.run(&on_each("4", "4", &[BUSYBOX, "true"])).success();
    assert_eq!(cluster.json(&["nodes"])[0]["generation"], 1, "the node was rebooted");
}

/// Ranks find each other by PMI wherever they are, and are told the truth about that; what one says when it ends the
/// job is what that ends with.
#[test]
fn ranks_of_several_nodes_exchange_cards_and_give_up() {
    let cluster = Cluster::up(3);
    let path = program("pmi", Toolchain::Musl);
    let path = path.to_string_lossy();
    for (number, per_node, mapping) in
        [("6", "2", "(vector,(0,3,2))"), ("5", "2", "(vector,(0,2,2),(2,1,1))"), ("4", "4", "(vector,(0,1,4))")]
    {
        let ran = cluster.run(&on_each(number, per_node, &[&path, "exchange", "10"])).success();
        let said = ran.text().lines().filter(|line| line.ends_with(&format!("value={mapping}"))).count();
        assert_eq!(said.to_string(), number, "{} {}", ran.text(), ran.stderr);
    }
    let ran = cluster.run(&on_each("6", "2", &[&path, "abort", "3", "42", "out of cheese"]));
    assert_eq!(ran.status, 42, "{}", ran.stderr);
    assert!(ran.stderr.contains("rank 3 aborted the job with code 42: out of cheese"), "{}", ran.stderr);
    // One of two on a node that goes away while all others wait.
    let ran = cluster.run(&on_each("4", "2", &[&path, "leave", "1", "exit"]));
    assert_eq!(ran.status, 7, "{}", ran.stderr);
    assert!(ran.stderr.contains("rank 1 on node"), "{}", ran.stderr);
    let _ = cluster.run(&on_each("6", "2", &[&path, "exchange", "2"])).success();
}

/// When a job's last end on a node is reported nothing of any of its ranks is left there, however each of them ended.
#[test]
fn nothing_is_left_of_any_rank() {
    let cluster = Cluster::up(1);
    std::fs::write(cluster.root().join("mapped"), vec![0; 16 * 4096]).expect("file");
    let path = program("secrets", Toolchain::Glibc);
    let path = path.to_string_lossy();
    for (seed, how) in [("36001", "exit"), ("36002", "fault")] {
        let job = Waiting::start(&cluster, &on_each("3", "3", &[&path, seed, how]), "filled");
        let pattern = Pattern::of_seed(seed.parse().expect("a number"));
        // Rank 0 waits for standard input; the others find its end when they get as far.
        wait_until("it has filled its memory", BESIDE_OTHERS_MAX, || {
            let pages = memory_of(&cluster, 0).pages_with(&pattern).len();
            if pages > 300 { Ok(()) } else { Err(format!("{pages} pages")) }
        });
        let _ = job.go_on();
        memory_of(&cluster, 0).assert_none(&pattern, how);
    }
    let job = Waiting::start(&cluster, &on_each("2", "2", &[&path, "36003", "spin"]), "filled");
    let pattern = Pattern::of_seed(36_003);
    let _ = cluster.coppice(&["kill", &cluster.last_job()["job"].to_string()]).success();
    assert!(job.end().status > 128);
    memory_of(&cluster, 0).assert_none(&pattern, "a kill");
}
