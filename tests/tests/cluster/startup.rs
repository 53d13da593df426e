//! How ranks find each other: whatever algorithm their nodes meet by, and whether barriers bring what was put or whoever
//! wants it asks for it, programs come to the same.

use coppice_tests::guests::{Toolchain, program};
use coppice_tests::{Cluster, wait_until};
use rustix::process::{Pid, Signal, kill_process};

use crate::mpi::{self, guest};
use crate::pmi::sorted;

const FENCES: [&str; 3] = ["dissemination", "tree", "ring"];
const MODEXES: [&str; 2] = ["full", "direct"];

/// All ways, as options of `run`.
fn ways() -> impl Iterator<Item = [&'static str; 4]> {
    FENCES.into_iter().flat_map(|fence| MODEXES.map(|modex| ["--fence", fence, "--modex", modex]))
}

/// Rounds of put, barrier and get of all others' cards, on nodes of which the last has fewer ranks.
fn cards_are_exchanged(cluster: &Cluster, ways: impl Iterator<Item = [&'static str; 4]>, ranks: u32, per_node: u32) {
    let guest = program("pmi", Toolchain::Musl);
    let placed = ["-n", &ranks.to_string(), "--ranks-per-node", &per_node.to_string()];
    for way in ways {
        let ran = cluster.run(&[&placed[..], &way, &[&*guest.to_string_lossy(), "exchange", "10"]].concat()).success();
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
    let allreduce = program("allreduce", Toolchain::MpichPmi2);
    for way in ways() {
        let options = [&["-n", "6", "--ranks-per-node", "2"][..], &way, &[&*allreduce.to_string_lossy(), "2"]].concat();
        assert_eq!(cluster.run(&options).success().text(), "allreduce: 6 ranks agree\n", "{way:?}");
    }
}

#[test]
#[ignore = "cargo xtask test runs it when Open MPI is built"]
fn programs_of_open_mpi_come_to_the_same_in_all_ways() {
    let cluster = Cluster::up_with(&["--nodes", "3", "--memory", "384M"]);
    let allreduce = program("allreduce", Toolchain::OpenMpi);
    for way in ways() {
        let options = [&["-n", "3"][..], &way, &[&*allreduce.to_string_lossy(), "2"]].concat();
        assert_eq!(cluster.run(&options).success().text(), "allreduce: 3 ranks agree\n", "{way:?}");
    }
}

/// The one where a tree begins and ends, one with others below it, and one without.
#[test]
fn a_node_that_dies_amid_barriers_ends_its_job_whatever_they_are_walked_by() {
    let cluster = Cluster::up(4);
    let fences = program("fences", Toolchain::Glibc);
    for (fence, victim) in FENCES.into_iter().flat_map(|fence| [0, 2, 3].map(|victim| (fence, victim))) {
        cluster.wait_until_ready();
        let begun = std::fs::File::create(cluster.root().join("begun")).expect("a file");
        let arguments = ["run", "-n", "4", "--nodes-list", "0-3", "--fence", fence, &*fences.to_string_lossy()];
        let mut job = cluster.command(&[&arguments[..], &["0", "1000000"]].concat());
        let mut job = job.stdout(begun).stderr(std::process::Stdio::piped()).spawn().expect("coppice starts");
        wait_until("barriers begin", std::time::Duration::from_secs(60), || {
            let said = std::fs::read_to_string(cluster.root().join("begun")).unwrap_or_default();
            if said.is_empty() { Err("nothing was said".into()) } else { Ok(()) }
        });
        let pid = cluster.json(&["nodes"])[victim]["pid"].as_i64().expect("a process");
        let pid = Pid::from_raw(i32::try_from(pid).expect("a process id")).expect("a process id");
        kill_process(pid, Signal::KILL).expect("kill");
        let ended = job.wait_with_output_within(std::time::Duration::from_secs(60));
        assert_eq!(ended.status.code(), Some(125), "{fence}");
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(said.contains(&format!("node {victim}")), "{fence}: {said}");
    }
}

/// As many ranks as thirty-two small nodes carry.
#[test]
fn five_hundred_and_twelve_ranks_on_32_nodes_agree() {
    let cluster = Cluster::up_with(&["--nodes", "32", "--memory", "256M"]);
    let allreduce = guest("allreduce");
    for modex in MODEXES {
        let ran = cluster.run(&["-n", "512", "--ranks-per-node", "16", "--modex", modex, &allreduce, "1"]).success();
        assert_eq!(ran.text(), "allreduce: 512 ranks agree\n", "{modex}");
    }
}
