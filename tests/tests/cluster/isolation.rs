//! Jobs do not meet on the network, neither at the same time nor one after the other, and nobody on it keeps a node
//! from its work.

use std::pin::pin;
use std::process::Stdio;
use std::time::Duration;

use coppice_protocol::control::{Exit, ToIoNode, ToNode};
use coppice_protocol::ids::JobId;
use coppice_tests::Cluster;
use coppice_tests::cluster::{finish, finish_child};
use coppice_tests::guests::{Toolchain, program};
use coppice_tests::rig::{self, Rig, Wire};

/// How often a node is asked whether it is alive, here.
const HEARTBEAT: Duration = Duration::from_millis(200);

/// Two jobs with the same ports, and the same addresses on other nodes: each hears of its own ranks alone, and reaches
/// no others at the addresses that their nodes and I/O nodes have in the cluster.
#[test]
fn two_jobs_at_once_do_not_meet() {
    let cluster = Cluster::up_with(&["--nodes", "4", "--pset-size", "2"]);
    let path = program("isolation", Toolchain::Musl);
    let path = path.to_string_lossy();
    let strangers = ["10.64.0.1", "10.64.0.2", "10.64.0.3", "10.64.0.4", "10.0.0.1", "10.0.0.2", "11.0.0.1"];
    let run = |job, nodes| {
        let mut command = cluster.command(&["run", "--quiet", "-n", "2", "--nodes-list", nodes, &path, job]);
        command.args(strangers).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let first = run("A", "0,3").spawn().expect("coppice");
    let second = finish(run("B", "2,1"));
    let first = finish_child(first, "the first job");
    for (job, ran) in [("A", first), ("B", second)] {
        let text = ran.success().text();
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        let expected: Vec<String> =
            (0..2).map(|rank| format!("{job}, rank {rank} at 10.128.0.{}: heard 2, of others 0", rank + 1)).collect();
        assert_eq!(lines, expected);
    }
}

/// Launches the program that says what comes to its ports, and waits until it listens.
async fn start(rig: &Rig, control: &Wire, job: u64, arguments: &[&str]) {
    let program = rig.add_program(&program("visited", Toolchain::Musl));
    control.order(&ToNode::Launch(rig.launch_beside(job, program, arguments))).await;
    match control.next().await {
        Some(ToIoNode::Launched { job: launched, .. }) => assert_eq!(launched, JobId(job)),
        other => panic!("{other:?} for a launch"),
    }
    rig.wait_for_output("ready\n").await;
}

async fn end(control: &Wire, job: u64) {
    match control.next().await {
        Some(ToIoNode::Ended(ends)) => {
            assert_eq!((ends.reports[0].job, ends.reports[0].exit), (JobId(job), Exit::Status(0)));
        }
        other => panic!("{other:?} where a job should end"),
    }
}

/// What a job was sent and comes when another one has the node is not for that.
#[test]
fn what_comes_late_reaches_no_other_job() {
    rig::run(async {
        let mut rig = Rig::boot();
        let (control, _) = rig.connected().await;
        start(&rig, &control, 1, &[]).await;
        rig.enter_job(1);
        let datagram = rig.datagram(6001, "late");
        let (socket, call) = rig.call(6000);
        rig.put(&datagram);
        rig.wait_for_output("datagram late\n").await;
        rig.put(&call);
        rig.wait_for_output("connection\n").await;
        rig.put(&rig.datagram(6001, "end"));
        rig.wait_for_output("datagram end\n").await;
        end(&control, 1).await;
        drop(socket);

        start(&rig, &control, 2, &[]).await;
        let (_again, call_again) = rig.call(6000);
        for frame in [&datagram, &call, &call_again, &datagram] {
            rig.put(frame);
        }
        rig.enter_job(2);
        rig.put(&rig.datagram(6001, "end"));
        // And nothing before.
        rig.wait_for_output("datagram end\n").await;
        end(&control, 2).await;
    });
}

/// A node that gets more frames than it can look at still runs its program and says that it is alive.
#[test]
fn a_flooded_node_does_its_work() {
    rig::run(async {
        let mut rig = Rig::boot_with_cores(1);
        let (control, _) = rig.connected().await;
        start(&rig, &control, 1, &["compute"]).await;
        rig.enter_job(1);
        let flood = rig.flood(rig.datagram(6001, &"x".repeat(1000)));
        let mut computed = pin!(rig.wait_for_output("computed\n"));
        for sequence in 1.. {
            control.ping(sequence).await;
            tokio::select! {
                () = &mut computed => break,
                () = tokio::time::sleep(HEARTBEAT) => {}
            }
        }
        rig.end_input();
        end(&control, 1).await;
        drop(flood);
        control.ping(0).await;
    });
}
