//! Transfers among nodes that are not as they should be: one whose bytes are wrong, one with less memory than the
//! others, and some that have a job of their own meanwhile.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use coppice_protocol::trees::TwoTrees;
use coppice_tests::Cluster;
use coppice_tests::cluster::{finish, finish_child, wait_until};
use coppice_tests::debugger::Debugger;
use coppice_tests::guests::{BUSYBOX, Toolchain, program};
use coppice_tests::physical::{PAGE_BYTES, Pattern, memory_of};
use serde_json::Value;

/// Where jobs find a staged file.
const PATH: &str = "/in/data";

/// How long something of a cluster may take that is not measured here.
const TIME_MAX: Duration = Duration::from_secs(60);

/// What `sha256sum` says of a file of the host, as a job would of the staged one.
fn summed(path: &Path) -> String {
    let mut command = Command::new(BUSYBOX);
    command.arg("sha256sum").arg(path);
    finish(command).success().text().replace(path.to_str().expect("a path"), PATH)
}

/// A node keeps a file, and every page of it is changed in its memory: it has the transfer's key and a place in its
/// trees, says that it has all, and sends what is wrong. Nobody else is told.
#[test]
fn a_node_that_sends_wrong_bytes_is_found_out_and_named() {
    const NODES: u32 = 6;
    const BYTES: usize = 4 * 1024 * 1024;
    let cluster = Cluster::up_with(&["--nodes", "6", "--bandwidth", "100M"]);
    let pattern = Pattern::of_seed(93_001);
    let path = cluster.root().join("file");
    std::fs::write(&path, pattern.repeated(BYTES)).expect("written");
    let file = path.to_str().expect("a path");
    // Below it are all others, in one of the trees.
    let first = TwoTrees::new(NODES).children(0, 0)[0].expect("there are nodes");
    let liar = first - 1;
    let _ = cluster.coppice(&["stage", file, "--nodes", &liar.to_string()]).success();
    let mut pages = Vec::new();
    wait_until("the node has the file, and nothing else of it", TIME_MAX, || {
        pages = memory_of(&cluster, liar).pages_with(&pattern);
        if pages.len() == BYTES / PAGE_BYTES { Ok(()) } else { Err(format!("{} pages", pages.len())) }
    });
    let mut debugger = Debugger::stop_node(&cluster, liar);
    pages.iter().for_each(|page| debugger.write(page + 77, !pattern.bytes()[77 % 32]));
    debugger.leave();

    let staged = cluster.coppice(&["stage", file]).success();
    assert!(staged.text().ends_with(" on 6 nodes, 1 had it\n"), "{}", staged.text());
    let others: Vec<String> = (0..NODES).filter(|node| *node != liar).map(|node| node.to_string()).collect();
    let stage = format!("{file}={PATH}");
    let ran =
        cluster.run(&["--nodes-list", &others.join(","), "-n", "5", "--stage", &stage, BUSYBOX, "sha256sum", PATH]);
    assert_eq!(ran.success().text(), summed(&path).repeat(5));

    let events = cluster.json(&["ras"]);
    let damaged: Vec<_> =
        events.as_array().into_iter().flatten().filter(|event| event["kind"] == "damaged-piece").collect();
    let is_of = |event: &Value, whom: &str| {
        let words = format!("from {whom}, is not what the file's hash says");
        event["text"].as_str().is_some_and(|text| text.contains(&words))
    };
    let name = format!("node {liar}");
    assert!(damaged.iter().any(|event| is_of(event, &name)), "{events}");
    // Packets of a piece that came from others as well are nobody's fault in particular.
    assert!(damaged.iter().all(|event| is_of(event, &name) || is_of(event, "several nodes")), "{events}");
    assert!(damaged.iter().all(|event| event["node"] != liar), "{events}");
}

/// A machine starter that gives node 1 less memory than it is told to.
fn starter(directory: &Path) {
    let qemu = coppice_qemu::locate::find_qemu().expect("QEMU");
    let lines = [
        "#!/bin/sh",
        "case \" $* \" in",
        "*/n1.qmp*)",
        "  for word; do",
        "    shift",
        "    case \"$word\" in size=64M*) word=size=32M${word#size=64M} ;; esac",
        "    set -- \"$@\" \"$word\"",
        "  done ;;",
        "esac",
    ];
    let script = format!("{}\nexec {} \"$@\"\n", lines.join("\n"), qemu.path.display());
    let path = directory.join("qemu-system-x86_64");
    std::fs::write(&path, script).expect("written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("executable");
}

#[test]
fn a_node_without_room_fetches_the_programs_pages_and_a_file_is_refused_with_numbers() {
    let cluster = Cluster::home();
    let tools = tempfile::tempdir().expect("directory");
    starter(tools.path());
    let mut up = cluster.command(&["up", "--accel", "tcg", "--nodes", "4"]);
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(tools.path().to_owned()).chain(std::env::split_paths(&paths));
    up.env("PATH", std::env::join_paths(paths).expect("paths"));
    let _ = finish(up).success();
    let free = |node: usize| cluster.json(&["nodes"])[node]["memory"]["free_bytes"].as_u64().expect("a number");
    let (small, others) = (free(1), free(0));
    assert!(small + (24 << 20) < others, "{small} and {others} bytes");

    // A program that is as long as what the node had free when it got ready, of which little is ever loaded.
    let bytes = small - small % PAGE_BYTES as u64;
    let path = cluster.root().join("busybox");
    let mut content = std::fs::read(BUSYBOX).expect("a program");
    content.resize(bytes as usize, 0x5a);
    std::fs::write(&path, content).expect("written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("executable");
    let long = path.to_str().expect("a path");
    let ran = cluster.run(&["-n", "4", "--stage-program", long, "echo", "here"]).success();
    assert_eq!(ran.text(), "here\n".repeat(4));
    let transfer = cluster.last_job()["transfers"][0].clone();
    assert_eq!(transfer["members"]["nodes"], 3, "{transfer}");
    assert!(transfer["lost_nodes"].as_array().is_some_and(|lost| lost.contains(&1.into())), "{transfer}");
    for node in 0..4 {
        let console = std::fs::read(cluster.home_path().join(format!("state/default/consoles/node-{node}.log")));
        let console = String::from_utf8_lossy(&console.expect("a console")).into_owned();
        let said = format!("it has {} MiB and the node has no memory left for it (", bytes.div_ceil(1 << 20));
        assert_eq!(console.contains(&said), node == 1, "{console}");
    }

    // A file would have to be there.
    let stage = format!("{long}={PATH}");
    let run = ["-n", "4", "--stage", &stage, BUSYBOX, "true"];
    let said = cluster.run(&run);
    assert_ne!(said.status, 0, "{}", said.text());
    let words = ["cannot stage", "MiB", "`coppice up --memory` with more"];
    assert!(words.iter().all(|word| said.stderr.contains(word)), "{}", said.stderr);
    // Where there is room for it, it is staged.
    let others = ["--nodes-list", "0,2-3", "-n", "3", "--stage", &stage, BUSYBOX, "sha256sum", PATH];
    assert_eq!(cluster.run(&others).success().text(), summed(&path).repeat(3));
}

#[test]
fn nodes_with_a_job_of_their_own_do_not_notice() {
    const BYTES: usize = 8 * 1024 * 1024;
    let cluster = Cluster::up_with(&["--nodes", "8", "--bandwidth", "20M"]);
    let path = cluster.root().join("file");
    let content: Vec<u8> = (0..BYTES as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 53) as u8).collect();
    std::fs::write(&path, content).expect("written");
    let stage = format!("{}={PATH}", path.display());
    let before = cluster.bytes_to(1);
    let mut command = cluster.command(&["run", "--quiet", "--nodes-list", "0-3", "-n", "4", "--stage", &stage]);
    command.args([BUSYBOX, "sha256sum", PATH]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let staged = command.spawn().expect("started");
    cluster.wait_for_bytes_to(1, before + BYTES as u64 / 8);
    let agree = program("allreduce", Toolchain::Mpi);
    let ran = cluster.run(&["--nodes-list", "4-7", "-n", "4", agree.to_str().expect("a path"), "1"]).success();
    assert_eq!(ran.text(), "allreduce: 4 ranks agree\n");
    let ran = finish_child(staged, "a job whose file is staged").success();
    assert_eq!(ran.text(), summed(&path).repeat(4));
}
