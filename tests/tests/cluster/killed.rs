//! Jobs that are checkpointed while parts of the cluster are killed (-9): whatever it is, and whenever, a job goes on
//! from one of its whole checkpoints, and is what it was then.

mod moments;
mod programs;
mod steps;
mod suite;

use std::time::Duration;

use coppice_tests::Cluster;
use coppice_tests::cluster::wait_until;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::regions::machine;

/// How long a process that is killed may take to be gone.
const GONE_TIME_MAX: Duration = Duration::from_secs(30);

/// How the I/O node and the service node are called.
const IO_NODE: &str = "coppice-io-node";
const SERVICE_NODE: &str = "coppiced --cluster";

/// What is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Victim {
    /// The machine of one node.
    Node,
    /// Those of all nodes.
    Nodes,
    /// One I/O node.
    IoNode,
    /// The service node, and with it all of the cluster.
    ServiceNode,
}

/// All of them.
pub(crate) const VICTIMS: [Victim; 4] = [Victim::Node, Victim::Nodes, Victim::IoNode, Victim::ServiceNode];

/// The service node, stopped until this is dropped: what others do without it comes to where they wait for it.
pub(crate) struct Held(OwnedFd);

impl Held {
    #[track_caller]
    pub(crate) fn stop(service_node: &Aim) -> Self {
        let process = service_node.processes[0].try_clone().expect("a descriptor");
        pidfd_send_signal(&process, Signal::STOP).expect("stop");
        Self(process)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // It may have been killed.
        let _ = pidfd_send_signal(&self.0, Signal::CONT);
    }
}

/// Processes that are about to be killed.
pub(crate) struct Aim {
    victim: Victim,
    processes: Vec<OwnedFd>,
}

impl Aim {
    /// Looks for them, so that it takes no time to kill them: of one node or I/O node, number `which` of several.
    #[track_caller]
    pub(crate) fn at(cluster: &Cluster, victim: Victim, which: usize) -> Self {
        let nodes = || cluster.json(&["nodes"]).as_array().map_or(0, Vec::len);
        let called = |name: &str| -> Vec<Pid> {
            let found = cluster.processes().into_iter().filter(|process| process.command.contains(name));
            found.filter_map(|process| Pid::from_raw(process.pid)).collect()
        };
        let one_of = |all: Vec<Pid>| vec![all[which % all.len()]];
        let pids = match victim {
            Victim::Node => vec![machine(cluster, which % nodes())],
            Victim::Nodes => (0..nodes()).map(|node| machine(cluster, node)).collect(),
            Victim::IoNode => one_of(called(IO_NODE)),
            Victim::ServiceNode => called(SERVICE_NODE),
        };
        let open = |pid| pidfd_open(pid, PidfdFlags::empty()).expect("a process");
        Self { victim, processes: pids.into_iter().map(open).collect() }
    }

    /// Kills them.
    pub(crate) fn kill(&self) {
        for process in &self.processes {
            pidfd_send_signal(process, Signal::KILL).expect("kill");
        }
        let limit = Timespec::try_from(GONE_TIME_MAX).expect("short");
        for process in &self.processes {
            // A signal for another test may come to this thread.
            let gone =
                retry_on_intr(|| poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&limit))).expect("polled");
            assert_eq!(gone, 1, "{:?} was killed and is there", self.victim);
        }
    }

    /// Does what a user does then until the cluster, which was brought up with these arguments, can run jobs. All that
    /// ran has ended.
    #[track_caller]
    pub(crate) fn recover(self, cluster: &Cluster, up: &[&str]) {
        if self.victim == Victim::ServiceNode {
            cluster.assert_no_process_left();
            let _ = cluster.coppice(&[&["up", "--accel", "tcg"], up].concat()).success();
        }
        wait_until("no job is under way", GONE_TIME_MAX, || {
            let jobs = cluster.json(&["jobs"]);
            let under_way = jobs.as_array().into_iter().flatten().any(|job| job["state"] != "ended");
            if under_way { Err(jobs.to_string()) } else { Ok(()) }
        });
        cluster.wait_until_ready();
    }
}
