//! What goes wrong, and what mends it later.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use coppice_tests::cluster::{Process, finish_child, wait_until};
use coppice_tests::namespace::fill;
use coppice_tests::random::Random;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::Storm;

/// Parts of a cluster as their command lines name them. A machine is one of several.
const PARTS: [&str; 4] = ["coppiced --cluster", "coppice-io-node", "coppice-fabric", "qemu-system"];
/// Nodes, and nodes of a pset: two psets each time.
const SIZES: [(u32, u32); 3] = [(2, 1), (3, 2), (4, 2)];
/// How long something is stopped or cut off, ms; and, now and then in long runs, so long that it is missed.
const SHORT_MILLISECONDS: u64 = 3000;
const LONG_MILLISECONDS: u64 = 30_000;
const LONG_ONE_OF: u64 = 12;
/// How soon after its begin an `up` may lose its service node, ms.
const COMING_UP_MILLISECONDS: u64 = 2000;
/// How long a cluster may take to end when its service node was killed.
const GONE_TIME_MAX: Duration = Duration::from_secs(30);
/// How long a machine's monitor may take.
const MONITOR_TIME_MAX: Duration = Duration::from_secs(5);
/// How often what is to be mended is looked for.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// What mends a fault.
enum Undo {
    Continue(OwnedFd),
    Connect(u32),
    Empty(PathBuf),
    Answer,
}

/// Who does it.
pub(super) struct Faults<'a> {
    storm: &'a Storm,
    random: Random,
    nodes: u32,
    pset_size: u32,
    /// Whether there is time for what is noticed late.
    long: bool,
    count: u64,
    undo: Vec<(Instant, Undo)>,
}

impl<'a> Faults<'a> {
    pub(super) fn new(storm: &'a Storm, mut random: Random, long: bool) -> Self {
        let (nodes, pset_size) = random.one_of(&SIZES);
        Self { storm, random, nodes, pset_size, long, count: 0, undo: Vec::new() }
    }

    /// How many there were.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    fn command_up(&self) -> std::process::Child {
        let (nodes, pset_size) = (self.nodes.to_string(), self.pset_size.to_string());
        let arguments = ["up", "--accel", "tcg", "--nodes", &nodes, "--pset-size", &pset_size];
        let mut command = self.storm.cluster.command(&arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start")
    }

    /// Brings the cluster up; on a full disk that needs room.
    pub(super) fn up(&mut self) {
        let ran = finish_child(self.command_up(), "up");
        if ran.status != 0 && ran.stderr.contains("o space left") {
            self.undo_which(|undo| matches!(undo, Undo::Empty(_)));
            let _ = finish_child(self.command_up(), "up").success();
        } else {
            let _ = ran.success();
        }
    }

    /// Processes of the cluster, without its clients.
    fn parts(&self) -> Vec<Process> {
        let mut parts = self.storm.cluster.processes();
        parts.retain(|process| PARTS.iter().any(|part| process.command.contains(part)));
        parts
    }

    /// One of the processes of a part, if there is one now.
    fn one(&mut self, part: &str) -> Option<Process> {
        let mut found = self.parts();
        found.retain(|process| process.command.contains(part));
        if found.is_empty() {
            return None;
        }
        let at = self.random.below(found.len() as u64) as usize;
        Some(found.swap_remove(at))
    }

    /// The next fault.
    pub(super) fn next(&mut self) {
        self.count += 1;
        if self.one(PARTS[0]).is_none() {
            self.storm
                .fail(format!("before fault {}: the service node is gone, and nobody here has killed it", self.count));
            self.wait_until_gone();
            self.up();
        }
        let has_mounts = self.storm.fragile_root.is_some();
        let done = match self.random.below(16) {
            0..=2 => self.kill(PARTS[3]),
            3 | 4 => self.kill(PARTS[1]),
            5 => self.kill(PARTS[2]),
            6 | 7 => self.kill_service_node(),
            8..=11 => {
                let part = self.random.one_of(&PARTS);
                self.stop(part)
            }
            12 | 13 => self.cut_link(),
            14 if has_mounts => self.fill_disk(),
            15 if has_mounts => self.hang_root(),
            _ => self.kill(PARTS[1]),
        };
        println!("fault {}: {}", self.count, done.unwrap_or_else(|| "nothing there to break".into()));
    }

    fn kill(&mut self, part: &str) -> Option<String> {
        let process = self.one(part)?;
        // Nobody else is meant who gets its number; and nobody takes it for alive who looks soon after.
        let killed = pidfd_open(Pid::from_raw(process.pid)?, PidfdFlags::empty()).ok()?;
        pidfd_send_signal(&killed, Signal::KILL).ok()?;
        let limit = Timespec::try_from(GONE_TIME_MAX).expect("short");
        // A signal for another test may come to this thread.
        let gone = retry_on_intr(|| poll(&mut [PollFd::new(&killed, PollFlags::IN)], Some(&limit))).expect("polled");
        assert_eq!(gone, 1, "{process:?} was killed and is there");
        Some(format!("{part} killed"))
    }

    /// Kills the service node, and the next one while it comes up, now and then.
    fn kill_service_node(&mut self) -> Option<String> {
        let mut killed = self.kill(PARTS[0])?;
        self.wait_until_gone();
        if self.random.below(3) == 0 {
            let child = self.command_up();
            let after = self.random.time_below(COMING_UP_MILLISECONDS);
            std::thread::sleep(after);
            if self.kill(PARTS[0]).is_some() {
                killed = format!("{killed}, and again {after:?} after its start");
            }
            let ran = finish_child(child, "up that loses its service node");
            if ran.stderr.lines().count() > 1 || ran.stderr.contains("panicked") {
                self.storm.fail(format!("up said: {}", ran.stderr));
            }
            if ran.status == 0 && self.one(PARTS[0]).is_some() {
                return Some(killed);
            }
            self.wait_until_gone();
        }
        self.up();
        Some(killed)
    }

    fn wait_until_gone(&self) {
        wait_until("what a killed service node had is gone", GONE_TIME_MAX, || {
            let left = self.parts();
            if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
        });
    }

    /// How long it lasts.
    fn duration(&mut self) -> Duration {
        let is_long = self.long && self.random.below(LONG_ONE_OF) == 0;
        self.random.time_below(if is_long { LONG_MILLISECONDS } else { SHORT_MILLISECONDS })
    }

    fn later(&mut self, undo: Undo) -> Duration {
        let duration = self.duration();
        self.undo.push((Instant::now() + duration, undo));
        duration
    }

    fn stop(&mut self, part: &str) -> Option<String> {
        let process = self.one(part)?;
        // Nobody else is meant who gets its number.
        let process = pidfd_open(Pid::from_raw(process.pid)?, PidfdFlags::empty()).ok()?;
        pidfd_send_signal(&process, Signal::STOP).ok()?;
        let duration = self.later(Undo::Continue(process));
        Some(format!("{part} stopped for {duration:?}"))
    }

    fn cut_link(&mut self) -> Option<String> {
        let node = u32::try_from(self.random.below(self.nodes.into())).ok()?;
        self.set_link(node, false)?;
        let duration = self.later(Undo::Connect(node));
        Some(format!("node {node} cut off for {duration:?}"))
    }

    /// Pulls or plugs a machine's cable. Nothing if it is not there to do that, or is stopped.
    fn set_link(&self, node: u32, up: bool) -> Option<()> {
        let socket = self.storm.cluster.home_path().join(format!("run/default/n{node}.qmp"));
        let mut stream = UnixStream::connect(socket).ok()?;
        stream.set_read_timeout(Some(MONITOR_TIME_MAX)).ok()?;
        let orders = [
            r#"{"execute": "qmp_capabilities"}"#.to_owned(),
            format!(r#"{{"execute": "set_link", "arguments": {{"name": "wire", "up": {up}}}}}"#),
        ];
        let mut lines = BufReader::new(stream.try_clone().ok()?).lines();
        let _greeting = lines.next()?.ok()?;
        for order in orders {
            stream.write_all(format!("{order}\n").as_bytes()).ok()?;
            while !lines.next()?.ok()?.contains("\"return\"") {}
        }
        Some(())
    }

    fn fill_disk(&mut self) -> Option<String> {
        if self.undo.iter().any(|(_, undo)| matches!(undo, Undo::Empty(_))) {
            return None;
        }
        let filler = fill(&self.storm.cluster.home_path());
        let duration = self.later(Undo::Empty(filler));
        Some(format!("disk full for {duration:?}"))
    }

    fn hang_root(&mut self) -> Option<String> {
        if self.undo.iter().any(|(_, undo)| matches!(undo, Undo::Answer)) {
            return None;
        }
        let root = self.storm.fragile_root.as_ref()?;
        assert!(self.storm.cluster.namespace()?.mount_dead(root.as_ref()), "a file system that does not answer");
        let duration = self.later(Undo::Answer);
        Some(format!("root dead for {duration:?}"))
    }

    /// Waits for a random time below that, and mends meanwhile what is to be mended.
    pub(super) fn wait_with_undoing(&mut self, milliseconds: u64) {
        let end = Instant::now() + self.random.time_below(milliseconds);
        while Instant::now() < end {
            let due = |at: Instant| at <= Instant::now();
            let (now, later) = std::mem::take(&mut self.undo).into_iter().partition(|(at, _)| due(*at));
            self.undo = later;
            self.mend(now);
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    fn undo_which(&mut self, which: impl Fn(&Undo) -> bool) {
        let (now, later) = std::mem::take(&mut self.undo).into_iter().partition(|(_, undo)| which(undo));
        self.undo = later;
        self.mend(now);
    }

    /// Mends all.
    pub(super) fn undo_all(&mut self) {
        self.undo_which(|_| true);
    }

    fn mend(&self, what: Vec<(Instant, Undo)>) {
        for (_, undo) in what {
            match undo {
                // It may have ended meanwhile.
                Undo::Continue(process) => drop(pidfd_send_signal(&process, Signal::CONT)),
                // If it has been booted anew meanwhile it has its cable.
                Undo::Connect(node) => drop(self.set_link(node, true)),
                Undo::Empty(filler) => std::fs::remove_file(filler).expect("removed"),
                Undo::Answer => {
                    let root = self.storm.fragile_root.as_ref().expect("it hung");
                    let namespace = self.storm.cluster.namespace().expect("it hung");
                    assert!(namespace.unmount_dead(root.as_ref()), "unmounted");
                }
            }
        }
    }
}

impl Drop for Faults<'_> {
    fn drop(&mut self) {
        self.undo_all();
    }
}
