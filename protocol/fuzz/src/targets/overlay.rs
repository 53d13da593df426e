//! What front end, communication processes and nodes of an overlay say to each other. Each message comes behind a byte
//! that chooses who hears it and whom it is from, the time since the one before, and its length.

use std::collections::BTreeMap;

use coppice_protocol::ids::{NodeId, Rank};
use coppice_protocol::overlay::topology::Topology;
use coppice_protocol::overlay::{
    Above, Child, Down, Event, FrontEnd, Layout, METRICS, Node, Part, Source, Stacks, Subject, Up,
};
use coppice_protocol::ranks::Ranks;

use super::shape;

const NODES: u32 = 4;
const RANKS_EACH: u32 = 2;
/// How long the longest time between two messages is, ns.
const PAUSE_NS: u64 = 100_000_000;
/// The bytes before a message.
const FRONT_BYTES: usize = 3;
/// What comes of one message, at most: of all epochs that are open, and for all nodes.
const OUTPUTS_MAX: usize = 2000;

fn ranks(node: u32) -> Ranks {
    Ranks::range(Rank(node * RANKS_EACH), RANKS_EACH)
}

fn subject() -> Subject {
    Subject {
        size: NODES * RANKS_EACH,
        nodes: (0..NODES).map(|node| (NodeId(node), ranks(node))).collect(),
        layout: Layout::Given(Topology::parse("fe:0 => 0:0 1:0; 1:0 => 2:0;").unwrap_or_default()),
        period_ns: 1_000_000_000,
        sample_period_ns: 1_000_000,
    }
}

/// Written again it is the same.
fn up(bytes: &[u8]) -> Option<Up> {
    let message = Up::decode(bytes).ok()?;
    assert_eq!(Up::decode(&message.encode()).as_ref(), Ok(&message));
    Some(message)
}

fn down(bytes: &[u8]) -> Option<Down> {
    let message = Down::decode(bytes).ok()?;
    assert_eq!(Down::decode(&message.encode()).as_ref(), Ok(&message));
    Some(message)
}

pub(super) fn run(mut data: &[u8]) -> u64 {
    let (mut front_end, mut node) = (FrontEnd::new(1, subject(), 0), Node::new(NodeId(1)));
    let (mut now_ns, mut said) = (0, String::new());
    while let Some((&[choice, pause, length], behind)) = data.split_first_chunk::<FRONT_BYTES>() {
        let (bytes, others) = behind.split_at(behind.len().min(length.into()));
        data = others;
        now_ns += u64::from(pause) * PAUSE_NS / 255;
        let from = NodeId(u32::from(choice >> 2) % (NODES + 1));
        match choice & 3 {
            0 => front_end.handle_timeout(now_ns),
            1 => {
                if let Some(message) = up(bytes) {
                    front_end.handle(from, message, now_ns);
                }
            }
            2 => {
                let answer = down(bytes).and_then(|order| node.handle_down(order, &ranks(1), now_ns));
                said.push_str(&format!("{answer:?}"));
            }
            _ => {
                let heard = up(bytes).map(|message| node.handle_up(from, 0, message, now_ns));
                said.push_str(&format!("{heard:?}"));
            }
        }
        node.submit(now_ns / PAUSE_NS, &BTreeMap::from([(Rank(2), [7; METRICS])]).into());
        node.handle_timeout(now_ns);
        let mut outputs = 0;
        while let Some((above, message)) = node.poll_transmit(now_ns) {
            outputs += 1;
            said.push_str(&format!("{above:?} {:?}", message.generation()));
            assert!(!matches!(above, Above::Process { node: NodeId(1), .. }), "it says that to itself");
        }
        while let Some((to, order)) = front_end.poll_transmit() {
            outputs += 1;
            assert!(to.0 < NODES, "it speaks to node {to}");
            said.push_str(&format!("{order:?}"));
        }
        while let Some(event) = front_end.poll_event() {
            outputs += 1;
            if let Event::Epoch(part) | Event::Late(part) = &event {
                let size = NODES * RANKS_EACH;
                assert!(part.ranks().count() <= u64::from(size), "{:?}", part.ranks());
                assert!(Ranks::range(Rank(0), size).has_all(part.ranks()), "{:?}", part.ranks());
            }
            said.push_str(match event {
                Event::Started { .. } => "started",
                Event::Epoch(_) => "epoch",
                Event::Late(_) => "late",
                Event::Lie(_) => "lie",
                Event::Stacks(_) => "stacks",
                Event::TooWide => "too wide",
            });
        }
        assert!(outputs <= OUTPUTS_MAX, "{outputs} outputs of one message");
    }
    shape(&said)
}

/// Messages one behind the other.
#[derive(Clone, Default)]
struct Script(Vec<u8>);

impl Script {
    fn say(&mut self, choice: u8, bytes: &[u8]) {
        // Longer ones have no place in it.
        if let Ok(length) = u8::try_from(bytes.len()) {
            self.0.extend([choice, 10, length]);
            self.0.extend_from_slice(bytes);
        }
    }
}

/// Whom a message is from.
fn from(node: u32) -> u8 {
    (node as u8) << 2
}

fn part(source: Source, rank: u32, is_apart: bool) -> Vec<u8> {
    let part = Part::of(3, Rank(rank), &[0; METRICS]);
    Up::Part { generation: 1, source, is_apart, part }.encode()
}

/// A whole start with an epoch, to the front end, to a node, and to both.
pub(super) fn examples() -> Vec<Vec<u8>> {
    let generation = 1;
    let mut to_front_end = Script::default();
    for node in 0..NODES {
        to_front_end.say(from(node) | 1, &Up::Here { generation, node: NodeId(node), ranks: ranks(node) }.encode());
    }
    for (index, node) in [(0, 0), (1, 1), (2, 2)] {
        to_front_end.say(from(node) | 1, &Up::Ready { generation, index }.encode());
    }
    to_front_end.say(from(0) | 1, &part(Source::Process(0), 0, false));
    to_front_end.say(from(0) | 1, &part(Source::Process(0), 1, true));
    let mut stacks = Stacks::default();
    stacks.add(&[0x40_1000, 0x40_2000], 3);
    let stacks = |source| Up::Stacks { generation, source, number: 1, stacks: stacks.clone() }.encode();
    to_front_end.say(from(0) | 1, &stacks(Source::Process(0)));

    let mut to_node = Script::default();
    to_node.say(
        2,
        &Down::Announce { generation, period_ns: 1_000_000_000, sample_period_ns: 1_000_000, size: 100 }.encode(),
    );
    let above = Above::FrontEnd;
    let children = vec![
        Child { source: Source::BackEnds(NodeId(1)), ranks: ranks(1) },
        Child { source: Source::Process(2), ranks: ranks(2) },
    ];
    to_node.say(2, &Down::Begin { generation, index: 0, above, height: 2, children: children.clone() }.encode());
    let here = Above::Process { index: 0, node: NodeId(1) };
    to_node.say(2, &Down::Attach { generation, ranks: ranks(1), above: here }.encode());
    to_node.say(from(2) | 3, &part(Source::Process(2), 4, false));
    to_node.say(from(2) | 3, &stacks(Source::Process(2)));
    let began = to_node.clone();
    to_node.say(2, &Down::Below { generation, index: 0, without: Some(Source::Process(2)), with: children }.encode());
    let above = Above::Process { index: 1, node: NodeId(3) };
    to_node.say(2, &Down::Move { generation, index: 0, above }.encode());
    to_node.say(2, &Down::End { generation }.encode());

    let both = [&to_front_end.0[..], &to_node.0].concat();
    vec![to_front_end.0, began.0, to_node.0, both]
}
