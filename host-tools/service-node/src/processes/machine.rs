//! One node's QEMU, from its start to its end.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;

use coppice_api::limits::NODE_REGION_BYTES_MAX;
use coppice_api::shown;
use coppice_protocol::ids::{Generation, NodeId};
use coppice_protocol::personality::Personality;
use coppice_qemu::launch::{Exit, Running};
use coppice_qemu::machine::{Accelerator, Machine, Nic, QmpChannel, Serial};
use coppice_qemu::region::{REGION_BYTES_MAX, Region};
use tokio::sync::{mpsc, watch};

use super::fabric::Port;
use super::{Setup, last_words, region};
use crate::controller::Event;
use crate::plant::{LastWords, MachineEvent, PlantEvent};
use crate::store::plain;

/// Starts a machine and a task that watches it.
pub(super) fn boot(
    setup: &Setup,
    personality: &Personality,
    accelerator: Accelerator,
    killed: watch::Receiver<bool>,
    events: mpsc::Sender<Event>,
) {
    let (node, generation) = (personality.node, personality.generation);
    let console = setup.paths.console(node.0);
    let started = prepare(setup, personality).and_then(|()| {
        setup.programs.launcher.start(&machine(setup, personality, accelerator)).map_err(|e| e.to_string())
    });
    tokio::spawn(async move {
        let report = Report { node, generation, events };
        let (reason, has_said) = match started {
            Ok(running) => {
                report.send(MachineEvent::Started { pid: running.pid() }).await;
                watch_machine(running, killed).await
            }
            Err(reason) => (reason, false),
        };
        let last_words = if has_said { last_words::read(&console) } else { LastWords::None };
        report.send(MachineEvent::Ended { reason, last_words }).await;
    });
}

struct Report {
    node: NodeId,
    generation: Generation,
    events: mpsc::Sender<Event>,
}

impl Report {
    async fn send(&self, event: MachineEvent) {
        let event = PlantEvent::Machine { node: self.node, generation: self.generation, event };
        // The controller gone means that this process is about to end.
        let _ = self.events.send(Event::Plant(event)).await;
    }
}

/// Waits for the end of a machine. Returns how it ended, and whether its console may say why: one that was killed from
/// outside had no time for last words.
async fn watch_machine(mut running: Running, mut killed: watch::Receiver<bool>) -> (String, bool) {
    let ended = tokio::select! {
        ended = running.wait() => Some(ended),
        // An error means that the controller is gone: then nobody is left who wants the machine.
        _ = killed.wait_for(|killed| *killed) => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => running.kill().await,
    };
    match ended {
        Ok(exit) => (exit.to_string(), !matches!(exit, Exit::Signal(_))),
        Err(error) => (format!("the end of its machine could not be seen: {}", plain(&error)), false),
    }
}

const _: () = assert!(NODE_REGION_BYTES_MAX <= REGION_BYTES_MAX);

/// Writes the node's personality, readable by the user alone, makes sure of its region, and puts the last boot's
/// console aside.
fn prepare(setup: &Setup, personality: &Personality) -> Result<(), String> {
    let node = personality.node.0;
    let path = setup.paths.personality(node);
    let written = match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut file| file.write_all(&personality.encode())),
    };
    written.map_err(|error| format!("cannot write {}: {}", shown(&path), plain(&error)))?;
    if setup.region_bytes > 0 {
        region::prepare(&setup.paths.region(node), setup.region_bytes)?;
    }
    let console = setup.paths.console(node);
    // There is none before the first boot.
    let _ = std::fs::rename(&console, console.with_extension("log.1"));
    Ok(())
}

fn machine(setup: &Setup, personality: &Personality, accelerator: Accelerator) -> Machine {
    let (paths, node) = (&setup.paths, personality.node);
    let port = Port::of_node(node);
    let mut machine = Machine::new(
        format!("coppice-{}-node-{node}", paths.name()),
        &setup.programs.image,
        setup.memory_bytes,
        accelerator,
    );
    machine.cpus = setup.cores;
    machine.icount = setup.icount;
    machine.processor.clone_from(&setup.processor);
    machine.initrd = Some(paths.personality(node.0));
    let bytes = setup.region_bytes;
    machine.region = (bytes > 0).then(|| Region { path: paths.region(node.0), bytes });
    machine.nic = Some(Nic {
        mac: port.mac().0,
        mtu: personality.mtu,
        local: port.station_socket(paths.runtime()),
        remote: port.switch_socket(paths.runtime()),
    });
    machine.serial = Serial::File { path: paths.console(node.0), append: false };
    machine.qmp = QmpChannel::Socket(paths.qmp_socket(node.0));
    machine
}
