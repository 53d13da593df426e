//! Links that are changed, cut, mended and recorded while the cluster runs.

use std::time::Duration;

use coppice_protocol::ids::{MacAddress, NodeId};
use coppice_tests::cluster::wait_until;
use coppice_tests::guests::{BUSYBOX, Toolchain, program};
use coppice_tests::{Cluster, Waiting, recording};
use rustix::process::Signal;
use serde_json::Value;

/// How long it may take until something is noticed.
const NOTICED_TIME_MAX: Duration = Duration::from_secs(120);

/// Length of a file that takes many frames, bytes.
const FILE_BYTES: usize = 2 * 1024 * 1024;

/// One link of `nodes --links --json`.
#[track_caller]
fn link(cluster: &Cluster, name: &str) -> Value {
    let links = cluster.json(&["nodes", "--links"]);
    let found = links.as_array().and_then(|links| links.iter().find(|link| link["link"] == name));
    found.unwrap_or_else(|| panic!("no link {name} in {links}")).clone()
}

/// A file in the cluster's root.
fn file(cluster: &Cluster) -> Vec<u8> {
    let content: Vec<u8> =
        (0..FILE_BYTES as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 53) as u8).collect();
    std::fs::write(cluster.root().join("file"), &content).expect("written");
    content
}

/// A job of all nodes that reads the file.
#[track_caller]
fn all_read(cluster: &Cluster, nodes: u32, content: &[u8]) {
    let ran = cluster.run(&["-n", &nodes.to_string(), BUSYBOX, "wc", "-c", "/file"]).success();
    assert_eq!(ran.text(), format!("{} /file\n", content.len()).repeat(nodes as usize));
    let ran = cluster.run(&["-n", "1", BUSYBOX, "cat", "/file"]).success();
    assert!(ran.stdout == content, "{} bytes are not those of the file", ran.stdout.len());
}

#[test]
fn a_link_that_gets_worse_loses_frames_and_jobs_are_right_all_the_same() {
    let cluster = Cluster::up(2);
    let content = file(&cluster);
    let sound = link(&cluster, "0");
    assert_eq!((&sound["up"], &sound["to"]["dropped"]["loss"]), (&true.into(), &0.into()), "{sound}");
    let ran = cluster.coppice(&["link", "0-1,io0", "--loss", "2%", "--latency", "1ms"]).success();
    assert_eq!(ran.text().lines().count(), 3, "{}", ran.text());
    assert!(ran.text().starts_with("link 0: no limit, latency 1000 µs, loss 2%\n"), "{}", ran.text());
    all_read(&cluster, 2, &content);
    let bad = link(&cluster, "io0");
    let lost = ["to", "from"].map(|way| bad[way]["dropped"]["loss"].as_u64().expect("a number"));
    assert!(lost.iter().sum::<u64>() > 0, "{bad}");
    assert_eq!(
        (&bad["to"]["shape"]["loss_ppm"], &bad["from"]["shape"]["latency_ns"]),
        (&20_000.into(), &1_000_000.into())
    );
    // Heartbeats go on meanwhile, so that both looks were of one fabric.
    assert!(bad["rates"]["window_ns"].as_u64().is_some_and(|window_ns| window_ns >= 1_000_000_000), "{bad}");
    // One way alone, and the rest stays.
    let _ = cluster.coppice(&["link", "io0", "--loss", "0%", "--direction", "from"]).success();
    let shown = cluster.coppice(&["link", "io0"]).success().text();
    let rows: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!((&rows[1][..3], rows[1].contains(&"2%")), (&["io0", "to", "up"][..], true), "{shown}");
    assert_eq!(
        (&rows[2][..2], rows[2].contains(&"2%"), rows[2].contains(&"1000")),
        (&["from", "up"][..], false, true),
        "{shown}"
    );
    assert_eq!(rows.len(), 3);
}

#[test]
fn what_links_are_like_outlives_a_node_and_the_fabric() {
    let cluster = Cluster::up(2);
    let _ = cluster.coppice(&["link", "1", "--bandwidth", "50M", "--loss", "0.5%", "--direction", "to"]).success();
    let is_kept = || {
        let link = link(&cluster, "1");
        let shape = &link["to"]["shape"];
        assert_eq!((&shape["bandwidth_bits_per_s"], &shape["loss_ppm"]), (&50_000_000.into(), &5_000.into()), "{link}");
        assert_eq!(link["from"]["shape"]["loss_ppm"], 0, "{link}");
    };
    is_kept();
    let _ = cluster.coppice(&["reboot", "1"]).success();
    let booted = |generation: u64| {
        wait_until("the node is back", NOTICED_TIME_MAX, || {
            let nodes = cluster.json(&["nodes"]);
            let node = &nodes[1];
            if node["state"] == "ready" && node["generation"] == generation { Ok(()) } else { Err(nodes.to_string()) }
        });
    };
    booted(2);
    is_kept();
    cluster.kill_process("coppice-fabric");
    booted(3);
    is_kept();
    let ran = cluster.run(&["-n", "2", BUSYBOX, "echo", "here"]).success();
    assert_eq!(ran.text(), "here\nhere\n");
}

#[test]
fn a_cut_that_lasts_loses_the_node_and_says_why() {
    let cluster = Cluster::up(2);
    let waits = program("waits_and_exits", Toolchain::Musl);
    let waits = waits.to_str().expect("a path");
    let job = Waiting::start(&cluster, &["--nodes-list", "1", waits, "0"], "waiting");
    let ran = cluster.coppice(&["link", "1", "--cut"]).success();
    assert!(ran.text().contains("loss 0%, cut"), "{}", ran.text());
    assert!(cluster.coppice(&["nodes", "--links"]).success().text().contains("cut"));
    let lost = job.end();
    assert_eq!(lost.status, 125);
    let words = ["node 1 was lost", "the link of node 1 is cut", "`coppice link 1 --mend`"];
    assert!(words.iter().all(|word| lost.stderr.contains(word)), "{}", lost.stderr);
    let events = cluster.json(&["ras", "--node", "1"]);
    let kinds: Vec<_> = events.as_array().into_iter().flatten().map(|event| event["kind"].as_str()).collect();
    assert!(kinds.contains(&Some("link-cut")) && kinds.contains(&Some("node-lost")), "{events}");
    // The other one is served as ever.
    let _ = cluster.run(&["--nodes-list", "0", BUSYBOX, "true"]).success();
    let link = link(&cluster, "1");
    assert!(link["from"]["dropped"]["cut"].as_u64().is_some_and(|frames| frames > 0), "{link}");
    let _ = cluster.coppice(&["link", "1", "--mend"]).success();
    cluster.wait_until_ready();
    let _ = cluster.run(&["-n", "2", BUSYBOX, "true"]).success();
    assert_eq!(cluster.json(&["nodes"])[0]["generation"], 1);
}

#[test]
fn a_recording_has_the_nodes_frames() {
    let cluster = Cluster::up(2);
    let content = file(&cluster);
    let ran = cluster.coppice(&["link", "1", "--pcap", "frames.pcap"]).success();
    let path = cluster.root().join("frames.pcap");
    assert!(ran.text().contains(&format!("; recorded in {}", path.display())), "{}", ran.text());
    let ran = cluster.run(&["--nodes-list", "1", BUSYBOX, "cat", "/file"]).success();
    assert!(ran.stdout == content);
    let _ = cluster.coppice(&["link", "1", "--pcap", "other.pcap"]).refused(&["frames.pcap' already", "--pcap-stop"]);
    let running = link(&cluster, "1");
    assert_eq!((&running["recording"]["missed"], &link(&cluster, "0")["recording"]), (&0.into(), &Value::Null));
    let _ = cluster.coppice(&["link", "1", "--pcap-stop"]).success();
    let frames = recording::frames(&path);
    assert!(frames.len() as u64 >= running["recording"]["frames"].as_u64().expect("a number"));
    let node = MacAddress::of(NodeId(1).address()).0;
    let (to, from) = (|frame: &Vec<u8>| frame[..6] == node, |frame: &Vec<u8>| frame[6..12] == node);
    assert!(frames.iter().all(|frame| to(frame) || from(frame) || frame[0] & 1 == 1), "frames of others");
    assert!(frames.iter().any(from));
    let bytes: usize = frames.iter().filter(|frame| to(frame)).map(Vec::len).sum();
    assert!(bytes > FILE_BYTES, "{bytes} bytes came, and the file has {FILE_BYTES}");
    assert_eq!(link(&cluster, "1")["recording"], Value::Null);

    let refusals: [(&[&str], &str); 4] = [
        (&["1", "--pcap", "no/such/file"], "No such file"),
        (&["1", "--pcap", "."], "directory"),
        (&["0-1", "--pcap", "x.pcap"], "name one link"),
        (&["2", "--cut"], "there is no link 2"),
    ];
    for (arguments, words) in refusals {
        let _ = cluster.coppice(&[&["link"], arguments].concat()).refused(&[words]);
    }
    // What was recorded until its fabric ended is whole, and the end is told.
    let _ = cluster.coppice(&["link", "io0", "--pcap", "io.pcap"]).success();
    let _ = cluster.run(&[BUSYBOX, "true"]).success();
    cluster.kill_process("coppice-fabric");
    wait_until("the end of the recording is told", NOTICED_TIME_MAX, || {
        let events = cluster.json(&["ras"]).to_string();
        if events.contains("recording-ended") { Ok(()) } else { Err(events) }
    });
    assert!(!recording::frames(&cluster.root().join("io.pcap")).is_empty());
}

#[test]
fn a_fabric_or_a_disk_that_does_not_answer_is_said_in_time() {
    let probe = tempfile::tempdir().expect("directory");
    let Some(cluster) = Cluster::with_mounts(|_, mounts| mounts.mount_dead(probe.path())) else { return };
    let dead = cluster.root().join("dead");
    std::fs::create_dir(&dead).expect("made");
    let _ = cluster.coppice(&["up", "--accel", "tcg", "--nodes", "1"]).success();
    cluster.signal_process("coppice-fabric", Signal::STOP);
    let _ = cluster.coppice(&["link", "0"]).refused(&["the fabric has not answered for 5 s; try again"]);
    cluster.signal_process("coppice-fabric", Signal::CONT);
    let _ = cluster.coppice(&["link", "0", "--mend"]).success();
    // Nobody waits for the disk of a recording but who asked for it.
    assert!(cluster.namespace().expect("mounts").mount_dead(&dead));
    let file = dead.join("x.pcap");
    let arguments = ["link", "0", "--pcap", file.to_str().expect("a path"), "--cut"];
    let _ = cluster.coppice(&arguments).refused(&["x.pcap', and nothing was changed", "is its disk well?"]);
    let _ = cluster.run(&[BUSYBOX, "echo", "here"]).success();
    let link = link(&cluster, "0");
    assert_eq!((&link["to"]["shape"]["cut"], &link["recording"]), (&false.into(), &Value::Null));
    assert_eq!(cluster.json(&["nodes"])[0]["generation"], 1);
    let _ = cluster.coppice(&["down"]).success();
    cluster.assert_no_process_left();
}
