//! The bytes of a session, at both ends, before and after the handshake. Run: `cargo +nightly fuzz run session` in
//! `protocol/`.
#![no_main]

use coppice_protocol::ids::{Generation, NodeId};
use coppice_protocol::limits::{BODY_BYTES_MAX, BULK_BYTES_MAX};
use coppice_protocol::personality::NodeKey;
use coppice_protocol::session::{Channel, Event, Identity, Session};
use libfuzzer_sys::fuzz_target;

const KEY: NodeKey = NodeKey([7; 32]);
const IDENTITY: Identity = Identity { node: NodeId(1), generation: Generation(2) };

fuzz_target!(|data: &[u8]| {
    let Some((&[choice, cut], stream)) = data.split_first_chunk::<2>() else { return };
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
    for session in [&mut node, &mut io_node] {
        for piece in stream.chunks(usize::from(cut) + 1) {
            let _ = session.handle_bytes(piece);
            assert!(session.buffered_bytes() < BODY_BYTES_MAX + BULK_BYTES_MAX + 56);
            while let Some(event) = session.poll_event() {
                match event {
                    Event::KeyWanted(_) => session.supply_key((choice & 4 != 0).then_some(&KEY)),
                    // The keys are known to whoever reads this, but not to a fuzzer.
                    Event::Established(_) | Event::Frame(_) => panic!("accepted without the key"),
                }
            }
        }
    }
});

fn hand_over(from: &mut Session, to: &mut Session) {
    while !from.transmit().is_empty() {
        to.handle_bytes(from.transmit()).expect("authentic");
        from.consume(from.transmit().len());
    }
}
