//! Nodes of several cores: which of them a rank has, where its threads run, and that an idle one costs nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use coppice_protocol::control::{Exit, ToIoNode, ToNode};
use coppice_protocol::ids::JobId;
use coppice_tests::Cluster;
use coppice_tests::guests::{BUSYBOX, Toolchain, program};
use coppice_tests::physical::Monitor;
use coppice_tests::rig::{self, Rig};
use serde_json::Value;

use crate::threads::cluster_of;

/// How long an idle node is watched, seconds.
const IDLE_S: u64 = 10;

/// For so much of that its cores may execute anything, hundredths of a second: 0.1 %.
const IDLE_BUSY_MAX: u64 = 1;

/// So often its machine's threads may wait for something meanwhile; some 80 times is what they do.
const IDLE_WAITS_MAX: u64 = 200;

/// How often its cores are looked at.
const LOOKS: u64 = 50;

/// What `rank` says that has the cores `own` of the node's `cores`, with two threads on each.
fn line(rank: u32, ranks: u32, own: std::ops::Range<u32>, cores: u32) -> String {
    let list: Vec<String> = own.clone().map(|core| core.to_string()).collect();
    let threads: Vec<&str> = own.map(|_| "2").collect();
    format!("rank {rank} of {ranks} cores {} threads {} node {cores}", list.join(","), threads.join(" "))
}

/// One rank has all cores, R ranks have C/R each; more ranks than cores share them in turn.
#[track_caller]
fn modes(cores: u32) {
    let cluster = cluster_of(1, cores);
    for ranks in [1, 2, 4] {
        let own = |rank: u32| {
            if ranks <= cores {
                rank * cores / ranks..(rank + 1) * cores / ranks
            } else {
                rank % cores..rank % cores + 1
            }
        };
        let mut expected: Vec<String> = (0..ranks).map(|rank| line(rank, ranks, own(rank), cores)).collect();
        expected.sort_unstable();
        let threads = (2 * own(0).len()).to_string();
        for toolchain in [Toolchain::Glibc, Toolchain::Musl] {
            let path = program("placement", toolchain);
            let path = path.to_str().expect("a path");
            let number = ranks.to_string();
            let ran = cluster.run(&["-n", &number, "--ranks-per-node", &number, path, &threads]).success();
            let text = ran.text();
            let mut lines: Vec<&str> = text.lines().collect();
            lines.sort_unstable();
            // musl asks for the rank's cores where glibc asks for the node's.
            let without_node = |line: &str| line.split(" node").next().map(str::to_owned);
            if toolchain == Toolchain::Glibc {
                assert_eq!(lines, expected, "{ranks} ranks on {cores} cores");
            } else {
                let [lines, expected]: [Vec<_>; 2] = [
                    lines.iter().map(|line| without_node(line)).collect(),
                    expected.iter().map(|line| without_node(line)).collect(),
                ];
                assert_eq!(lines, expected, "{ranks} ranks on {cores} cores");
            }
        }
    }
}

#[test]
fn ranks_share_1_core() {
    modes(1);
}

#[test]
fn ranks_share_2_cores() {
    modes(2);
}

#[test]
fn ranks_share_4_cores() {
    modes(4);
}

/// A node has as many cores after a reboot, and says so.
#[test]
fn the_number_of_cores_is_listed_and_kept() {
    let cluster = cluster_of(2, 3);
    let cores = || -> Vec<Value> {
        let nodes = cluster.json(&["nodes"]);
        nodes.as_array().expect("a list").iter().map(|node| node["cores"].clone()).collect()
    };
    assert_eq!(cores(), [3, 3]);
    let _ = cluster.coppice(&["reboot", "1"]).success();
    coppice_tests::cluster::wait_until("node 1 is booted again", Duration::from_secs(60), || {
        let node = cluster.json(&["nodes"])[1].clone();
        if node["generation"] == 2 && node["state"] == "ready" { Ok(()) } else { Err(node.to_string()) }
    });
    assert_eq!(cores(), [3, 3]);
    let list = ["cat", "/sys/devices/system/cpu/online"];
    assert_eq!(cluster.run(&[&["-n", "2", BUSYBOX], &list[..]].concat()).success().text(), "0-2\n0-2\n");
    let count = cluster.run(&[BUSYBOX, "grep", "-c", "^processor", "/proc/cpuinfo"]).success();
    assert_eq!(count.text(), "3\n");
    let wide = Cluster::home();
    for bad in ["0", "65"] {
        let _ = wide.coppice(&["up", "--cores", bad]).refused(&["--cores", "1..=64"]);
    }
}

/// How the cores lie is in `/sys`, each one by itself in one package, and the memory in the one node there is: what
/// hwloc and its like read.
#[test]
fn the_topology_of_cores_is_in_sys() {
    const CORES: &str = "/sys/devices/system/cpu";
    const NODE: &str = "/sys/devices/system/node/node0";
    let cluster = cluster_of(1, 4);
    let run = |arguments: &[&str]| cluster.run(&[&[BUSYBOX], arguments].concat()).success().text();
    let listed = run(&["ls", CORES]);
    assert_eq!(
        listed.lines().collect::<Vec<_>>(),
        ["cpu0", "cpu1", "cpu2", "cpu3", "offline", "online", "possible", "present"]
    );
    let names = [
        "core_cpus",
        "core_cpus_list",
        "core_id",
        "core_siblings",
        "core_siblings_list",
        "package_cpus",
        "package_cpus_list",
        "physical_package_id",
        "thread_siblings",
        "thread_siblings_list",
    ];
    assert_eq!(run(&["ls", &format!("{CORES}/cpu3/topology")]).lines().collect::<Vec<_>>(), names);
    for core in 0..4 {
        let (mask, id) = (format!("{:x}", 1 << core), core.to_string());
        let paths = names.map(|name| format!("{CORES}/cpu{core}/topology/{name}"));
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let text = run(&[&["cat"], &paths[..]].concat());
        let expected = [&*mask, &id, &id, "f", "0-3", "f", "0-3", "0", &mask, &id];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected, "core {core}");
    }
    assert_eq!(run(&["cat", &format!("{CORES}/cpu1/online")]), "1\n");
    for none in ["cpu4", "cpu0/online", "cpu0/cache"] {
        assert_ne!(cluster.run(&[BUSYBOX, "ls", &format!("{CORES}/{none}")]).status, 0, "{none}");
    }
    let of_node = ["cpumap", "cpulist", "distance"].map(|name| run(&["cat", &format!("{NODE}/{name}")]));
    assert_eq!(of_node, ["f\n", "0-3\n", "10\n"]);
    let total = |path: &str| run(&["grep", "-o", "MemTotal: .*", path]);
    let kib = |line: String| line.split_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok());
    let memory = kib(total(&format!("{NODE}/meminfo")));
    assert!(memory > Some(0) && memory == kib(total("/proc/meminfo")), "{memory:?}");
}

/// The firmware lists six processors; four are there, and the second of these never runs.
#[test]
fn cores_that_do_not_come_up_are_left_out() {
    rig::run(async {
        let (mut rig, mut debugger) = Rig::boot_in_debugger(4, 6);
        debugger.let_run(&[0, 2, 3]);
        let (control, status) = rig.connected().await;
        let console = rig.console();
        assert_eq!(status.cores, 3, "{console}");
        assert_eq!(console.matches("does not come up").count(), 1, "{console}");
        // The others do what cores do.
        let spins = rig.add_program(&program("hostile_threads", Toolchain::Glibc));
        control.order(&ToNode::Launch(rig.launch(1, spins, false, &["spin", "6"]))).await;
        assert!(matches!(control.next().await, Some(ToIoNode::Launched { .. })));
        rig.wait_for_output("spinning\n").await;
        control.order(&ToNode::Kill { job: JobId(1) }).await;
        match control.next().await {
            Some(ToIoNode::Ended(ends)) => assert_eq!(ends.reports[0].exit, Exit::Signal(9), "{ends:?}"),
            other => panic!("{other:?} where the job should end"),
        }
    });
}

/// What the cores of an idle node execute is counted in instructions: how long a host takes for them is its own affair,
/// and much if it has put the machine's memory away.
#[test]
fn an_idle_node_of_2_cores_executes_nothing() {
    let cluster = Cluster::up_with(&["--nodes", "1", "--cores", "2", "--icount"]);
    both_cores_do_something(&cluster);
    let path = program("idle_cores", Toolchain::Musl);
    let text = cluster.run(&[path.to_str().expect("a path"), &IDLE_S.to_string()]).success().text();
    let all: Vec<&str> = text.split_whitespace().collect();
    let number = |text: &str| text.parse::<u64>().unwrap_or_else(|error| panic!("{error}: {text}"));
    for (core, line) in all.chunks(5).enumerate() {
        let [name, "busy", busy, "idle", idle] = line else { panic!("{text}") };
        assert_eq!(*name, format!("cpu{core}"), "{text}");
        assert!(number(busy) <= IDLE_BUSY_MAX && number(idle) + 2 >= IDLE_S * 100, "{text}");
    }
    assert_eq!(all.len(), 10, "{text}");
}

/// What a node says of itself is not taken at its word: its machine hardly ever wakes up, and whoever looks finds its
/// cores halted, and each of its threads asleep.
#[test]
fn a_machine_of_an_idle_node_of_2_cores_sleeps() {
    let cluster = cluster_of(1, 2);
    both_cores_do_something(&cluster);
    let pid = cluster.json(&["nodes"])[0]["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).expect("a process");
    let before = waits(pid);
    std::thread::sleep(Duration::from_secs(IDLE_S));
    let waits = waits(pid) - before;
    assert!(waits <= IDLE_WAITS_MAX, "waited {waits} times in {IDLE_S} s");
    let mut monitor = Monitor::of_node(&cluster, 0);
    let (mut halted, mut awake) = ([0; 2], BTreeMap::new());
    for _ in 0..LOOKS {
        std::thread::sleep(Duration::from_millis(20));
        for thread in threads(pid).filter(|thread| field(thread, "State:").is_some_and(|state| state.starts_with('R')))
        {
            *awake.entry(field(&thread, "Pid:").map(str::to_owned)).or_insert(0) += 1;
        }
        let now = monitor.halted();
        assert_eq!(now.len(), halted.len());
        halted.iter_mut().zip(now).for_each(|(halted, now)| *halted += u64::from(now));
    }
    // One that spins never is.
    assert!(halted.iter().all(|halted| *halted > LOOKS / 2), "halted {halted:?} of {LOOKS} times");
    assert!(awake.values().all(|awake| *awake < LOOKS / 2), "awake {awake:?} of {LOOKS} times");
}

fn both_cores_do_something(cluster: &Cluster) {
    let path = program("placement", Toolchain::Musl);
    let _ = cluster.run(&[path.to_str().expect("a path"), "4"]).success();
}

/// How often the threads of a process have waited for something.
fn waits(pid: u32) -> u64 {
    threads(pid).filter_map(|thread| field(&thread, "voluntary_ctxt_switches:")?.parse::<u64>().ok()).sum()
}

/// What the host says of each thread of a process.
fn threads(pid: u32) -> impl Iterator<Item = String> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    // A thread may end meanwhile.
    threads.flatten().filter_map(|thread| std::fs::read_to_string(thread.path().join("status")).ok())
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}
