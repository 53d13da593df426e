//! How ranks find each other: whatever algorithm their nodes meet by, and whether barriers bring what was put or
//! whoever wants it asks for it, programs come to the same.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use coppice_tests::Cluster;
use coppice_tests::cluster::finish_child_within;
use coppice_tests::guests::{Toolchain, program};
use rustix::process::{Pid, Signal, kill_process};

use crate::mpi::{self, guest};
use crate::pmi::sorted;

pub(crate) const FENCES: [&str; 3] = ["dissemination", "tree", "ring"];
const MODEXES: [&str; 2] = ["full", "direct"];

/// How soon a lost node must end its job.
const NOTICED_MAX: Duration = Duration::from_secs(20);

fn path(name: &str, toolchain: Toolchain) -> String {
    program(name, toolchain).to_string_lossy().into_owned()
}

/// All ways, as options of `run`.
fn ways() -> impl Iterator<Item = [&'static str; 4]> {
    FENCES.into_iter().flat_map(|fence| MODEXES.map(|modex| ["--fence", fence, "--modex", modex]))
}

/// Rounds of put, barrier and get of all others' cards, on nodes of which the last has fewer ranks.
fn cards_are_exchanged(cluster: &Cluster, ways: impl Iterator<Item = [&'static str; 4]>, ranks: u32, per_node: u32) {
    let guest = path("pmi", Toolchain::Musl);
    let (ranks_said, per_node_said) = (ranks.to_string(), per_node.to_string());
    let placed = ["-n", &ranks_said, "--ranks-per-node", &per_node_said];
    for way in ways {
        let ran = cluster.run(&[&placed[..], &way, &[&guest, "exchange", "10"]].concat()).success();
        let done: Vec<String> = (0..ranks).map(|rank| format!("rank {rank}: done")).collect();
        let lines = sorted(&ran.text()).into_iter().filter(|line| line.ends_with(": done"));
        let mut expected = done;
        expected.sort();
        assert_eq!(lines.collect::<Vec<_>>(), expected, "{way:?}: {}", ran.stderr);
    }
}

#[test]
fn cards_are_exchanged_in_all_ways() {
    let cluster = Cluster::up(5);
    cards_are_exchanged(&cluster, ways(), 5, 1);
    cards_are_exchanged(&cluster, ways(), 9, 2);
}

#[test]
fn bad_links_change_nothing_in_any_way() {
    let cluster = Cluster::up_with(&["--nodes", "5", "--loss", "1%", "--latency", "2ms"]);
    cards_are_exchanged(&cluster, ways(), 5, 1);
}

#[test]
fn mpi_programs_come_to_the_same_in_all_ways() {
    let cluster = mpi::cluster(5);
    for way in ways() {
        let placed = [&["-n", "9", "--ranks-per-node", "2"][..], &way].concat();
        let said = |name: &str, arguments: &[&str]| mpi::run(&cluster, &placed, name, arguments).success().text();
        assert_eq!(said("allreduce", &["2"]), "allreduce: 9 ranks agree\n", "{way:?}");
        assert_eq!(said("onesided", &[]), "onesided: 9 ranks agree\n", "{way:?}");
        assert!(said("io", &["/words"]).ends_with(" bytes right\n"), "{way:?}");
        assert!(said("halo", &["96", "20", "/heat.ppm"]).ends_with("as computed serially\n"), "{way:?}");
        let mut lines: Vec<String> = said("ring", &["3"]).lines().map(str::to_owned).collect();
        lines.sort();
        let mut expected: Vec<String> =
            (0..9).map(|rank| format!("rank {rank} of 9 on node{}: 3 rounds", rank / 2)).collect();
        expected.sort();
        assert_eq!(lines, expected, "{way:?}");
    }
}

#[test]
fn mpi_programs_with_pmi_2_come_to_the_same_in_all_ways() {
    let cluster = Cluster::up_with(&["--nodes", "3", "--memory", "128M"]);
    let allreduce = path("allreduce", Toolchain::MpichPmi2);
    for way in ways() {
        let options = [&["-n", "6", "--ranks-per-node", "2"][..], &way, &[&allreduce, "2"]].concat();
        assert_eq!(cluster.run(&options).success().text(), "allreduce: 6 ranks agree\n", "{way:?}");
    }
}

#[test]
#[ignore = "cargo xtask test runs it when Open MPI is built"]
fn programs_of_open_mpi_come_to_the_same_in_all_ways() {
    let cluster = Cluster::up_with(&["--nodes", "3", "--memory", "384M"]);
    let allreduce = path("allreduce", Toolchain::OpenMpi);
    for way in ways() {
        let options = [&["-n", "3"][..], &way, &[&allreduce, "2"]].concat();
        assert_eq!(cluster.run(&options).success().text(), "allreduce: 3 ranks agree\n", "{way:?}");
    }
}

/// The one where a tree begins and ends, one with others below it, and one without.
#[test]
fn a_node_that_dies_amid_barriers_ends_its_job_whatever_they_are_walked_by() {
    let cluster = Cluster::up(4);
    let fences = path("fences", Toolchain::Glibc);
    for (fence, victim) in FENCES.into_iter().flat_map(|fence| [0, 2, 3].map(|victim| (fence, victim))) {
        cluster.wait_until_ready();
        let placed = ["run", "-n", "4", "--nodes-list", "0-3", "--fence", fence, &fences, "0", "1000000"];
        let mut command = cluster.command(&placed);
        let mut job = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("coppice starts");
        let mut lines = BufReader::new(job.stdout.as_mut().expect("piped")).lines();
        assert_eq!(lines.next().expect("output").expect("output"), "begins");
        let pid = cluster.json(&["nodes"])[victim]["pid"].as_i64().expect("a process");
        let pid = Pid::from_raw(i32::try_from(pid).expect("a process id")).expect("a process id");
        kill_process(pid, Signal::KILL).expect("kill");
        let ran = finish_child_within(NOTICED_MAX, job, "barriers with a node that was killed");
        assert_eq!(ran.status, 125, "{fence}: {}", ran.stderr);
        assert!(ran.stderr.contains(&format!("node {victim}")), "{fence}: {}", ran.stderr);
    }
}

/// As many ranks as thirty-two small nodes carry.
#[test]
fn five_hundred_and_twelve_ranks_on_32_nodes_agree() {
    let cluster = Cluster::up_with(&["--nodes", "32", "--memory", "256M"]);
    let sum = guest("sum");
    // The others of this file have seen that it is the same with a full exchange.
    let ran = cluster.run(&["-n", "512", "--ranks-per-node", "16", "--modex", "direct", &sum]).success();
    assert_eq!(ran.text(), "sum: 512 ranks agree\n");
}
