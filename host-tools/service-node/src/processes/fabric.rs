//! The fabric: told its links when it starts, asked now and then whether it is alive, and told what users want of
//! links.

mod convert;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use coppice_api::link::{LinkShapes, Station};
use coppice_fabric::command::{Command, Event as FabricEvent, Message, Outcome, Reply, Request};
use coppice_fabric::names::LinkName;
use coppice_protocol::ids::{MacAddress, NodeId, PsetId};
use futures_util::StreamExt;
use tokio::io::AsyncRead;
use tokio::sync::mpsc;
use tokio_util::codec::{FramedRead, LinesCodec, LinesCodecError};

use self::convert::{command_of, link_of, outcome_of, station_of};
use super::helper::Process;
use crate::controller::Event;
use crate::limits::FABRIC_LINE_BYTES_MAX;
use crate::plant::{FabricOrder, FromFabric, HelperEvent, PlantEvent};

/// Identifier of a question whose answer says that all commands before it are carried out, the fabric's set-up first.
const QUESTION_ID: u64 = 0;

/// Identifiers from here on are those of orders about links, by their numbers; those below are of the set-up.
const ORDERS_ID: u64 = 1 << 32;

/// A station's place in the fabric.
#[derive(Clone, Debug)]
pub(super) struct Port {
    station: Station,
    mac: MacAddress,
}

impl Port {
    pub(super) fn of_node(node: NodeId) -> Self {
        Self { station: Station::Node(node.0), mac: MacAddress::of(node.address()) }
    }

    pub(super) fn of_pset(pset: PsetId) -> Self {
        Self { station: Station::IoNode(pset.0), mac: MacAddress::of(pset.address()) }
    }

    fn name(&self) -> String {
        convert::name_of(self.station)
    }

    /// The station's own socket.
    pub(super) fn station_socket(&self, directory: &Path) -> PathBuf {
        directory.join(format!("{}.sock", self.name()))
    }

    /// The fabric's socket for the station.
    pub(super) fn switch_socket(&self, directory: &Path) -> PathBuf {
        directory.join(format!("{}.sw", self.name()))
    }

    pub(super) fn mac(&self) -> MacAddress {
        self.mac
    }

    fn link(&self) -> Option<LinkName> {
        link_of(self.station)
    }
}

/// The commands that set the fabric up: the links, what they are like, and a question that is answered after them.
pub(super) fn fabric_commands(ports: &[Port], links: &BTreeMap<Station, LinkShapes>) -> Vec<u8> {
    let added = ports.iter().filter_map(|port| Some(Command::AddPort { link: port.link()?, mac: port.mac }));
    let shaped = links.iter().filter(|(_, shapes)| **shapes != LinkShapes::default()).flat_map(|(station, shapes)| {
        shapes.directions().map(|(direction, shape)| FabricOrder::Shape(*station, direction, shape))
    });
    let commands = added.chain(shaped.filter_map(|order| command_of(&order)));
    let mut lines: Vec<u8> = commands.zip(1..).flat_map(|(command, id)| line(&Request { id, command })).collect();
    lines.extend(question(ports));
    lines
}

/// The commands of orders about links, each of which is answered with their number.
pub(super) fn fabric_orders(request: u64, orders: &[FabricOrder]) -> Vec<u8> {
    let id = ORDERS_ID + request;
    orders.iter().filter_map(command_of).flat_map(|command| line(&Request { id, command })).collect()
}

/// A question that is answered if the fabric is alive.
pub(super) fn question(ports: &[Port]) -> Vec<u8> {
    line(&Request { id: QUESTION_ID, command: Command::Counters { link: ports.first().and_then(Port::link) } })
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
    report: impl Fn(HelperEvent<FromFabric>) -> PlantEvent,
) {
    let reason = process.follow(|output| read(output, &events, &report)).await;
    let _ = events.send(Event::Plant(report(HelperEvent::Ended(reason)))).await;
}

/// Reads until the end; returns why nothing more can be done with it, if it said so.
async fn read(
    output: impl AsyncRead + Unpin,
    events: &mpsc::Sender<Event>,
    report: impl Fn(HelperEvent<FromFabric>) -> PlantEvent,
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
        let said = match serde_json::from_str::<Message>(&line) {
            Ok(message) => said(message),
            Err(error) => Err(format!("it says what is not understood: {error}")),
        };
        match said {
            Ok(Some(said)) => {
                let _ = events.send(Event::Plant(report(HelperEvent::Said(said)))).await;
            }
            Ok(None) => tracing::trace!(line, "fabric"),
            Err(reason) => return Some(reason),
        }
    }
    None
}

/// What of a message the controller is told; an error: why the fabric is of no use.
fn said(message: Message) -> Result<Option<FromFabric>, String> {
    Ok(match message {
        Message::Reply(Reply { id: Some(id), outcome }) if (ORDERS_ID..u64::MAX).contains(&id) => {
            Some(FromFabric::Answer { request: id - ORDERS_ID, outcome: outcome_of(outcome) })
        }
        Message::Reply(Reply { id: Some(QUESTION_ID), outcome: Outcome::Counters { .. } }) => Some(FromFabric::Alive),
        Message::Reply(Reply { outcome: Outcome::Failed { reason }, .. }) => return Err(reason),
        Message::Event(FabricEvent::PcapEnded { link, reason }) => {
            station_of(&link).map(|link| FromFabric::RecordingEnded { link, reason })
        }
        Message::Event(FabricEvent::EventsLost { count }) => {
            tracing::warn!(count, "fabric events lost");
            None
        }
        Message::Reply(_) | Message::Event(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use coppice_api::limits::NODES_MAX;
    use coppice_api::link::{Direction, LinkShape, Station};
    use coppice_fabric::command::{DirectionCounters, Dropped, LinkCounters, RecordingCounters};
    use tokio::sync::mpsc;

    use super::*;
    use crate::plant::{FabricOutcome, Incarnation};

    fn report(event: HelperEvent<FromFabric>) -> PlantEvent {
        PlantEvent::Fabric { incarnation: Incarnation(1), event }
    }

    /// What the controller is told of these lines, and why the fabric is given up, if it is.
    async fn told(lines: &str) -> (Vec<FromFabric>, Option<String>) {
        let (events, mut queue) = mpsc::channel(10_000);
        let reason = read(lines.as_bytes(), &events, report).await;
        drop(events);
        let mut told = Vec::new();
        while let Some(Event::Plant(PlantEvent::Fabric { event: HelperEvent::Said(said), .. })) = queue.recv().await {
            told.push(said);
        }
        (told, reason)
    }

    #[tokio::test]
    async fn a_fabric_that_says_a_line_without_an_end_is_given_up() {
        let (events, _queue) = mpsc::channel(1);
        let reason = read(tokio::io::repeat(b'x'), &events, report).await.expect("given up");
        assert!(reason.contains(&FABRIC_LINE_BYTES_MAX.to_string()), "{reason}");
        assert_eq!(read(tokio::io::empty(), &events, report).await, None);
    }

    #[tokio::test]
    async fn an_order_that_fails_is_answered_and_a_set_up_that_fails_ends_the_fabric() {
        let reply = |id: u64, outcome: Outcome| {
            let message = Message::Reply(Reply { id: Some(id), outcome });
            format!("{}\n", serde_json::to_string(&message).expect("json"))
        };
        let failed = |reason: &str| Outcome::Failed { reason: reason.into() };
        let counted = Outcome::Counters { at_ns: 5, links: Vec::new() };
        let lines = [
            reply(1, Outcome::Done),
            reply(ORDERS_ID + 7, failed("no disk")),
            reply(ORDERS_ID + 8, Outcome::Done),
            reply(QUESTION_ID, counted),
            r#"{"event":{"event":"pcap-ended","link":"p3","reason":"full"}}"#.to_owned() + "\n",
            reply(2, failed("no room")),
            reply(ORDERS_ID + 9, Outcome::Done),
        ];
        let (told, reason) = told(&lines.concat()).await;
        let expected = [
            FromFabric::Answer { request: 7, outcome: Err("no disk".into()) },
            FromFabric::Answer { request: 8, outcome: Ok(FabricOutcome::Done) },
            FromFabric::Alive,
            FromFabric::RecordingEnded { link: Station::IoNode(3), reason: "full".into() },
        ];
        assert_eq!((told, reason), (expected.to_vec(), Some("no room".to_owned())));
    }

    /// Whatever was counted on as many links as there can be is one line that is read.
    #[tokio::test]
    async fn the_longest_answer_is_read() {
        let stations = (0..NODES_MAX).flat_map(|number| [Station::Node(number), Station::IoNode(number)]);
        let most = u64::MAX;
        let dropped = Dropped {
            cut: most,
            loss: most,
            queue_full: most,
            absent: most,
            oversize: 0,
            malformed: most,
            spoofed: most,
            refused: most,
        };
        let counters = DirectionCounters { frames: most, bytes: most, dropped };
        let links = stations.filter_map(link_of).map(|link| LinkCounters {
            link,
            from_station: counters,
            to_station: counters,
            queued_frames: most,
            up: false,
            recording: Some(RecordingCounters { frames: most, bytes: most, missed: most }),
        });
        let outcome = Outcome::Counters { at_ns: most, links: links.collect() };
        let message = Message::Reply(Reply { id: Some(ORDERS_ID + 1), outcome });
        let (told, reason) = told(&(serde_json::to_string(&message).expect("json") + "\n")).await;
        assert_eq!(reason, None);
        let [FromFabric::Answer { outcome: Ok(FabricOutcome::Counted(counts)), .. }] = &told[..] else {
            panic!("{told:?}")
        };
        assert_eq!((counts.links.len(), counts.at_ns), (2 * NODES_MAX as usize, most));
    }

    #[test]
    fn a_fabric_is_set_up_with_the_links_as_they_are_to_be() {
        let ports = [Port::of_pset(PsetId(0)), Port::of_node(NodeId(0)), Port::of_node(NodeId(1))];
        let slow = LinkShape { latency_ns: 7, ..LinkShape::default() };
        let links = BTreeMap::from([
            (Station::Node(0), LinkShapes::default()),
            (Station::Node(1), LinkShapes { to: slow, ..LinkShapes::default() }),
            (Station::IoNode(0), LinkShapes::both(slow)),
        ]);
        let lines = String::from_utf8(fabric_commands(&ports, &links)).expect("text");
        let commands = lines.lines().map(|line| serde_json::from_str::<Request>(line).expect("a request").command);
        let shaped: Vec<_> = commands
            .filter_map(|command| match command {
                Command::Shape { link, direction, shape } => {
                    Some((link.expect("one link").to_string(), direction, shape.latency_ns))
                }
                _ => None,
            })
            .collect();
        use coppice_fabric::command::Direction::{Both, FromStation, ToStation};
        assert_eq!(shaped, [("n1".into(), ToStation, 7), ("n1".into(), FromStation, 0), ("p0".into(), Both, 7)]);
        assert!(lines.lines().last().is_some_and(|line| line.contains("counters")), "{lines}");
        let orders = [FabricOrder::Shape(Station::Node(1), Direction::To, slow), FabricOrder::Count];
        let lines = String::from_utf8(fabric_orders(3, &orders)).expect("text");
        let ids = lines.lines().map(|line| serde_json::from_str::<Request>(line).expect("a request").id);
        assert_eq!(ids.collect::<Vec<_>>(), [ORDERS_ID + 3; 2]);
    }
}
