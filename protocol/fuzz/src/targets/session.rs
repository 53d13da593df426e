//! The bytes of a session, at both ends, before and after the handshake. The first byte chooses which, the second how
//! the rest is cut.

use coppice_protocol::ids::{Generation, NodeId};
use coppice_protocol::limits::{BODY_BYTES_MAX, BULK_BYTES_MAX};
use coppice_protocol::personality::NodeKey;
use coppice_protocol::session::{Channel, Event, Identity, Session};

use super::shape;

const KEY: NodeKey = NodeKey([7; 32]);
const IDENTITY: Identity = Identity { node: NodeId(1), generation: Generation(2) };

pub(super) fn run(data: &[u8]) -> u64 {
    let Some((&[choice, cut], stream)) = data.split_first_chunk::<2>() else { return 0 };
    let channel = if choice & 1 == 0 { Channel::Control } else { Channel::Ship };
    let mut node = Session::connect(channel, IDENTITY, &KEY, [1; 16], 0);
    let mut io_node = Session::accept(channel, [2; 16], 0);
    if choice & 2 != 0 {
        hand_over(&mut node, &mut io_node);
        while io_node.poll_event().is_some() {}
        io_node.supply_key(Some(&KEY));
        hand_over(&mut io_node, &mut node);
        hand_over(&mut node, &mut io_node);
        assert!(node.is_established() && io_node.is_established());
        while io_node.poll_event().is_some() {}
        while node.poll_event().is_some() {}
    }
    let mut became = String::new();
    for session in [&mut node, &mut io_node] {
        for piece in stream.chunks(usize::from(cut) + 1) {
            if let Err(error) = session.handle_bytes(piece) {
                became.push_str(&format!("{error:?}"));
            }
            assert!(session.buffered_bytes() < BODY_BYTES_MAX + BULK_BYTES_MAX + 56);
            while let Some(event) = session.poll_event() {
                became.push_str("event");
                match event {
                    Event::KeyWanted(_) => session.supply_key((choice & 4 != 0).then_some(&KEY)),
                    // The keys are known to whoever reads this, but not to what is tried. Only what the other end
                    // itself said, with the same numbers in it, could be taken for true.
                    Event::Established(_) | Event::Frame(_) => panic!("accepted without the key"),
                }
            }
        }
    }
    shape(&became)
}

/// Another handshake's bytes: the numbers in it are not those of the sessions that are tried.
pub(super) fn examples() -> Vec<Vec<u8>> {
    let mut examples = Vec::new();
    for (number, channel) in [Channel::Control, Channel::Ship].into_iter().enumerate() {
        let mut node = Session::connect(channel, IDENTITY, &NodeKey([9; 32]), [3; 16], 0);
        let hello = node.transmit().to_vec();
        let mut io_node = Session::accept(channel, [4; 16], 0);
        hand_over(&mut node, &mut io_node);
        io_node.supply_key(Some(&NodeKey([9; 32])));
        let challenge = io_node.transmit().to_vec();
        for bytes in [&hello, &challenge] {
            for choice in [0, 2, 4, 6] {
                examples.push([&[choice | number as u8, 255], &bytes[..]].concat());
            }
        }
    }
    examples
}

fn hand_over(from: &mut Session, to: &mut Session) {
    while !from.transmit().is_empty() {
        to.handle_bytes(from.transmit()).expect("authentic");
        from.consume(from.transmit().len());
    }
}
