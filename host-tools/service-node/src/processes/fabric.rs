//! The fabric: told its ports once, then left alone.

use std::path::{Path, PathBuf};

use coppice_fabric::command::{Command, Direction, Event as FabricEvent, Message, Outcome, Reply, Request, Shape};
use coppice_fabric::names::LinkName;
use coppice_protocol::ids::{MacAddress, NodeId, PsetId};
use futures_util::StreamExt;
use tokio::io::AsyncRead;
use tokio::sync::mpsc;
use tokio_util::codec::{FramedRead, LinesCodec, LinesCodecError};

use super::helper::Process;
use crate::controller::Event;
use crate::limits::FABRIC_LINE_BYTES_MAX;
use crate::plant::{HelperEvent, PlantEvent};

/// Identifier of a question whose answer says that all commands before it are carried out, the fabric's set-up first.
const QUESTION_ID: u64 = 0;

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

/// The commands that set the fabric up: what links are like, the links, and a question that is answered after them.
pub(super) fn fabric_commands(ports: &[Port], shape: Shape) -> Vec<Vec<u8>> {
    let link = |port: &Port| LinkName::new(port.name.clone()).ok();
    let shape = Command::Shape { link: None, direction: Direction::Both, shape };
    let ports_added = ports.iter().filter_map(|port| Some(Command::AddPort { link: link(port)?, mac: port.mac }));
    let commands = std::iter::once(shape).chain(ports_added).zip(1..);
    let mut lines: Vec<Vec<u8>> = commands.map(|(command, id)| line(&Request { id, command })).collect();
    lines.push(question(ports));
    lines
}

/// A question that is answered if the fabric is alive.
pub(super) fn question(ports: &[Port]) -> Vec<u8> {
    let link = ports.first().and_then(|port| LinkName::new(port.name.clone()).ok());
    line(&Request { id: QUESTION_ID, command: Command::Counters { link } })
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
    output: impl AsyncRead + Unpin,
    events: &mpsc::Sender<Event>,
    report: impl Fn(HelperEvent<()>) -> PlantEvent,
) -> Option<String> {
    let mut lines = FramedRead::new(output, LinesCodec::new_with_max_length(FABRIC_LINE_BYTES_MAX));
    while let Some(line) = lines.next().await {
        let line = match line {
            Ok(line) => line,
            Err(LinesCodecError::MaxLineLengthExceeded) => {
                return Some(format!("it says a line of more than {FABRIC_LINE_BYTES_MAX} bytes"));
            }
            Err(LinesCodecError::Io(_)) => return None,
        };
        match serde_json::from_str::<Message>(&line) {
            Ok(Message::Reply(Reply { id: Some(QUESTION_ID), outcome: Outcome::Counters(_) })) => {
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

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::read;
    use crate::limits::FABRIC_LINE_BYTES_MAX;
    use crate::plant::{Incarnation, PlantEvent};

    #[tokio::test]
    async fn a_fabric_that_says_a_line_without_an_end_is_given_up() {
        let (events, _queue) = mpsc::channel(1);
        let report = |event| PlantEvent::Fabric { incarnation: Incarnation(1), event };
        let reason = read(tokio::io::repeat(b'x'), &events, report).await.expect("given up");
        assert!(reason.contains(&FABRIC_LINE_BYTES_MAX.to_string()), "{reason}");
        assert_eq!(read(tokio::io::empty(), &events, report).await, None);
    }
}
