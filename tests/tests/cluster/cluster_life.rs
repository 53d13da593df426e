//! Up and down: nothing is left behind, several clusters live side by side, and what is missing is said.

use coppice_tests::Cluster;
use coppice_tests::cluster::finish;
use coppice_tests::guests::BUSYBOX;

#[test]
fn down_leaves_nothing() {
    let cluster = Cluster::up(3);
    let _ = cluster.run(&["-n", "3", BUSYBOX, "true"]).success();
    let _ = cluster.coppice(&["down"]).success();
    cluster.assert_no_process_left();
    let _ = cluster.coppice(&["down"]).refused(&["not up"]);
    let _ = cluster.run(&[BUSYBOX, "true"]).refused(&["not up", "coppice up"]);
    // What was recorded is still there after the next up.
    let _ = cluster.coppice(&["up", "--nodes", "1", "--accel", "tcg"]).success();
    assert_eq!(cluster.json(&["jobs"]).as_array().map(Vec::len), Some(1));
    let _ = cluster.run(&[BUSYBOX, "true"]).success();
}

#[test]
fn two_clusters_side_by_side() {
    let cluster = Cluster::up(1);
    let other = |arguments: &[&str]| cluster.coppice(&[&["--cluster", "other"], arguments].concat());
    let _ = other(&["up", "--nodes", "2", "--accel", "tcg"]).success();
    assert_eq!(other(&["run", "-n", "2", BUSYBOX, "echo", "other"]).success().text(), "other\nother\n");
    assert_eq!(cluster.json(&["nodes"]).as_array().map(Vec::len), Some(1));
    let _ = cluster.coppice(&["down"]).success();
    assert_eq!(other(&["run", BUSYBOX, "echo", "still up"]).success().text(), "still up\n");
    let _ = other(&["down"]).success();
    cluster.assert_no_process_left();
}

#[test]
fn up_without_qemu_says_how_to_get_it() {
    let cluster = Cluster::home();
    let mut command = cluster.command(&["up", "--nodes", "1"]);
    command.env("PATH", "/nonexistent");
    let _ = finish(command).refused(&["qemu-system-x86"]);
    cluster.assert_no_process_left();
    let mut command = cluster.command(&["doctor"]);
    command.env("PATH", "/nonexistent");
    let ran = finish(command);
    assert_ne!(ran.status, 0);
    assert!(ran.text().contains("apt-get install qemu-system-x86"), "{}", ran.text());
    let ran = cluster.coppice(&["doctor"]).success();
    // One line, whatever this machine's kernel has, and the I/O nodes find the same.
    let said = ran.text();
    let landlock: Vec<&str> = said.lines().filter(|line| line.contains(" Landlock: ")).collect();
    assert_eq!(landlock.len(), 1, "{said}");
    let _ = cluster.coppice(&["up", "--accel", "tcg", "--nodes", "1"]).success();
    let log = cluster.home_path().join("state/default/io-node-0.log");
    let log = std::fs::read_to_string(log).expect("the I/O node's log");
    let holds = log.contains("Landlock holds jobs in their roots");
    assert_eq!(holds, landlock[0].starts_with("ok "), "{said}{log}");
}

#[test]
fn listings_and_reboot() {
    let cluster = Cluster::up(2);
    for listing in ["nodes", "jobs", "ras"] {
        let _ = cluster.coppice(&[listing]).success();
        let _ = cluster.json(&[listing]);
    }
    assert!(!cluster.coppice(&["console", "1"]).success().stdout.is_empty());
    let _ = cluster.coppice(&["reboot", "1"]).success();
    cluster.wait_until_ready();
    let nodes = cluster.json(&["nodes"]);
    assert_eq!((nodes[0]["generation"].as_u64(), nodes[1]["generation"].as_u64()), (Some(1), Some(2)));
    let _ = cluster.run(&["-n", "2", BUSYBOX, "true"]).success();
    for shell in ["bash", "zsh", "fish"] {
        assert!(cluster.coppice(&["completions", shell]).success().text().contains("coppice"));
    }
}
