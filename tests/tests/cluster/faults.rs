//! Parts that die at the worst moment: the others notice, say so, and go on.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::Duration;

use coppice_tests::Cluster;
use coppice_tests::cluster::{finish_child, wait_until};
use coppice_tests::guests::{BUSYBOX, Toolchain, program};
use coppice_tests::physical::Monitor;

/// How soon a lost node must end its job.
const NOTICED_MAX: Duration = Duration::from_secs(5);

/// A job that spins on all nodes, once every rank runs.
fn spinning(cluster: &Cluster, ranks: usize) -> Child {
    spinning_on(cluster, ranks, 1)
}

fn spinning_on(cluster: &Cluster, ranks: usize, per_node: usize) -> Child {
    let path = program("spin", Toolchain::Musl);
    let [count, per_node] = [ranks, per_node].map(|number| number.to_string());
    let mut child = cluster
        .command(&["run", "-n", &count, "--ranks-per-node", &per_node, &path.to_string_lossy()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start");
    let mut lines = BufReader::new(child.stdout.as_mut().expect("piped")).lines();
    for _ in 0..ranks {
        assert_eq!(lines.next().expect("output").expect("output"), "spinning");
    }
    child
}

/// Whether an event of this kind is recorded.
fn has_event(cluster: &Cluster, kind: &str) -> bool {
    let events = cluster.json(&["ras"]);
    events.as_array().is_some_and(|events| events.iter().any(|event| event["kind"] == kind))
}

/// Non-maskable interrupts are answered on the console, whoever runs, and change nothing. One does not keep the next
/// ones out.
#[test]
fn a_node_answers_non_maskable_interrupts_and_goes_on() {
    let cluster = Cluster::up_with(&["--nodes", "1", "--cores", "1"]);
    let mut monitor = Monitor::of_node(&cluster, 0);
    let console = || cluster.coppice(&["console", "0"]).text();
    let answers = |text: &str| text.matches("non-maskable interrupt while ").count();
    let mut interrupt = || {
        let before = answers(&console());
        monitor.inject_nmi();
        wait_until("an interrupt is answered", NOTICED_MAX, || {
            let text = console();
            if answers(&text) > before { Ok(()) } else { Err(text) }
        });
    };
    interrupt();
    interrupt();
    let child = spinning(&cluster, 1);
    // Now and then the kernel has something to do.
    wait_until("an interrupt comes while the program runs", NOTICED_MAX, || {
        interrupt();
        let text = console();
        if text.matches("while a program ran").count() >= 2 { Ok(()) } else { Err(text) }
    });
    let job = cluster.last_job()["job"].to_string();
    let _ = cluster.coppice(&["kill", "--signal", "TERM", &job]).success();
    assert_eq!(finish_child(child, "a job that was interrupted").status, 143);
    let _ = cluster.run(&[BUSYBOX, "true"]).success();
    assert_eq!(cluster.json(&["nodes"])[0]["generation"], 1);
}

#[test]
fn killed_machine_ends_its_job_and_comes_back() {
    let cluster = Cluster::up(2);
    let mut child = spinning(&cluster, 2);
    let pid = cluster.json(&["nodes"])[1]["pid"].as_i64().expect("a process");
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).expect("a process id")).expect("a process id");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("kill");
    wait_until("the job has ended", NOTICED_MAX, || match child.try_wait().expect("wait") {
        Some(_) => Ok(()),
        None => Err("still running".into()),
    });
    let ran = finish_child(child, "run on a node that was killed");
    assert_ne!(ran.status, 0);
    assert!(ran.stderr.contains("node 1"), "{}", ran.stderr);
    assert!(has_event(&cluster, "node-lost"));
    cluster.wait_until_ready();
    let nodes = cluster.json(&["nodes"]);
    assert_eq!((nodes[0]["generation"].as_u64(), nodes[1]["generation"].as_u64()), (Some(1), Some(2)), "{nodes}");
    let _ = cluster.run(&["-n", "2", BUSYBOX, "true"]).success();
}

#[test]
fn killed_io_node_is_replaced() {
    let cluster = Cluster::up(2);
    let child = spinning(&cluster, 2);
    cluster.kill_process("coppice-io-node");
    let ran = finish_child(child, "run whose I/O node was killed");
    assert_ne!(ran.status, 0);
    assert!(ran.stderr.contains("I/O node"), "{}", ran.stderr);
    assert!(has_event(&cluster, "io-node-lost"));
    cluster.wait_until_ready();
    let _ = cluster.run(&["-n", "2", BUSYBOX, "true"]).success();
    let _ = cluster.coppice(&["down"]).success();
    cluster.assert_no_process_left();
}

#[test]
fn killed_service_node_leaves_no_orphan_and_loses_nothing() {
    let cluster = Cluster::up(2);
    let _ = cluster.run(&[BUSYBOX, "true"]).success();
    let child = spinning(&cluster, 2);
    cluster.kill_process("coppiced");
    let ran = finish_child(child, "run whose service node was killed");
    assert_ne!(ran.status, 0);
    cluster.assert_no_process_left();
    let _ = cluster.coppice(&["up", "--nodes", "2", "--accel", "tcg"]).success();
    let jobs = cluster.json(&["jobs"]);
    let job = |number: u64| {
        let list = jobs.as_array().expect("list");
        list.iter().find(|job| job["job"] == number).unwrap_or_else(|| panic!("no job {number} in {jobs}")).clone()
    };
    assert_eq!(job(1)["exit_status"], 0, "{jobs}");
    assert_eq!(job(2)["state"], "ended", "{jobs}");
    assert!(job(2)["reason"].as_str().is_some_and(|reason| reason.contains("service node")), "{jobs}");
    assert!(has_event(&cluster, "recovery"));
    let _ = cluster.run(&["-n", "2", BUSYBOX, "true"]).success();
}

/// One frame in a hundred is lost on every link, in both directions.
#[test]
fn lossy_links_give_right_results() {
    let cluster = Cluster::up_with(&["--nodes", "2", "--loss", "1%"]);
    let data: Vec<u8> = (0..4_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
    std::fs::write(cluster.root().join("data"), &data).expect("file");
    let native = coppice_tests::host::run(cluster.root(), BUSYBOX.as_ref(), &["sha256sum", "data"]);
    for _ in 0..3 {
        let ran = cluster.run(&["-n", "2", BUSYBOX, "sha256sum", "data"]).success();
        assert_eq!(ran.text(), [native.text(), native.text()].concat());
    }
    let _ = cluster.run(&[BUSYBOX, "cp", "data", "copy"]).success();
    assert!(std::fs::read(cluster.root().join("copy")).expect("copy") == data);
}

/// A kernel that panics says why, with back-trace, whichever core it was and whatever that one did; its machine ends
/// with a status, and both are events and the reason of the job's end.
#[test]
fn kernel_panic_is_diagnosed() {
    let cluster = Cluster::up_with(&["--nodes", "1", "--cores", "2"]);
    let console = cluster.json(&["nodes"])[0]["console"].as_str().expect("a path").to_owned();
    for core in [0, 1] {
        let child = spinning_on(&cluster, 2, 2);
        Monitor::of_node(&cluster, 0).inject_machine_check(core);
        let ran = finish_child(child, "run on a node whose kernel panics");
        assert_eq!(ran.status, 125);
        assert!(ran.stderr.contains("node 0") && ran.stderr.contains("machine check"), "{}", ran.stderr);
        cluster.wait_until_ready();
        assert_eq!(cluster.json(&["nodes"])[0]["generation"], core + 2);

        let events = cluster.json(&["ras"]);
        let of_kind = |kind: &str| -> Vec<&str> {
            let events = events.as_array().expect("events").iter().filter(|event| event["kind"] == kind);
            events.map(|event| event["text"].as_str().expect("text")).collect()
        };
        let (causes, losses) = (of_kind("kernel-panic"), of_kind("node-lost"));
        let count = core as usize + 1;
        assert_eq!((causes.len(), losses.len()), (count, count), "{events}");
        assert!(causes.iter().all(|cause| cause.starts_with("machine check")), "{causes:?}");
        assert!(losses.iter().all(|text| text.contains("status 2; kernel panic: machine check")), "{losses:?}");
        // The console of the boot before this one.
        let said = std::fs::read_to_string(format!("{console}.1")).expect("console");
        for word in ["kernel panic: machine check", "  called from 0x"] {
            assert!(said.contains(word), "no “{word}” in {said}");
        }
    }
    let _ = cluster.run(&[BUSYBOX, "true"]).success();
}
