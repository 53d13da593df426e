//! The fabric: told its ports once, then left alone.

use std::path::{Path, PathBuf};

use coppice_fabric::command::{Command, Event as FabricEvent, Message, Outcome, Reply, Request};
use coppice_fabric::names::LinkName;
use coppice_protocol::ids::{MacAddress, NodeId, PsetId};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::ChildStdout;
use tokio::sync::mpsc;

use super::helper::Process;
use crate::controller::Event;
use crate::plant::{HelperEvent, PlantEvent};

/// Identifier of the last command of the set-up: when it is answered all ports are there.
const LAST_SETUP_ID: u64 = 0;

/// A station's place in the fabric.
#[derive(Clone, Debug)]
pub(super) struct Port {
    name: String,
    mac: MacAddress,
}

impl Port {
    pub(super) fn of_node(node: NodeId) -> Self {
        Self { name: format!("n{node}"), mac: MacAddress::of(node.address()) }
    }

    pub(super) fn of_pset(pset: PsetId) -> Self {
        Self { name: format!("p{pset}"), mac: MacAddress::of(pset.address()) }
    }

    /// The station's own socket.
    pub(super) fn station_socket(&self, directory: &Path) -> PathBuf {
        directory.join(format!("{}.sock", self.name))
    }

    /// The fabric's socket for the station.
    pub(super) fn switch_socket(&self, directory: &Path) -> PathBuf {
        directory.join(format!("{}.sw", self.name))
    }

    pub(super) fn mac(&self) -> MacAddress {
        self.mac
    }
}

/// The commands that set the fabric up.
pub(super) fn fabric_commands(ports: &[Port]) -> Vec<Vec<u8>> {
    let add = |port: &Port| {
        let link = LinkName::new(port.name.clone()).ok()?;
        Some(Command::AddPort { link, mac: port.mac })
    };
    let mut commands: Vec<Vec<u8>> =
        ports.iter().filter_map(add).zip(1..).map(|(command, id)| line(&Request { id, command })).collect();
    // Asking for nothing: answered in order, so after the ports.
    commands.push(line(&Request { id: LAST_SETUP_ID, command: Command::Counters { link: first_link(ports) } }));
    commands
}

fn first_link(ports: &[Port]) -> Option<LinkName> {
    ports.first().and_then(|port| LinkName::new(port.name.clone()).ok())
}

/// The command that ends the fabric.
pub(super) fn shutdown_command() -> Vec<u8> {
    line(&Request { id: u64::MAX, command: Command::Shutdown })
}

fn line(request: &Request) -> Vec<u8> {
    // Plain data: serialising it cannot fail.
    let mut line = serde_json::to_vec(request).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Follows the fabric to its end.
pub(super) async fn follow(
    process: Process,
    events: mpsc::Sender<Event>,
    report: impl Fn(HelperEvent<()>) -> PlantEvent,
) {
    let reason = process.follow(|output| read(output, &events, &report)).await;
    let _ = events.send(Event::Plant(report(HelperEvent::Ended(reason)))).await;
}

/// Reads until the end; returns why nothing more can be done with it, if it said so.
async fn read(
    output: ChildStdout,
    events: &mpsc::Sender<Event>,
    report: impl Fn(HelperEvent<()>) -> PlantEvent,
) -> Option<String> {
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        match serde_json::from_str::<Message>(&line) {
            Ok(Message::Reply(Reply { id: Some(LAST_SETUP_ID), outcome: Outcome::Counters(_) })) => {
                let _ = events.send(Event::Plant(report(HelperEvent::Said(())))).await;
            }
            Ok(Message::Reply(Reply { outcome: Outcome::Failed { reason }, .. })) => return Some(reason),
            Ok(Message::Event(FabricEvent::EventsLost { count })) => tracing::warn!(count, "fabric events lost"),
            Ok(message) => tracing::trace!(?message, "fabric"),
            Err(error) => return Some(format!("it says what is not understood: {error}")),
        }
    }
    None
}
