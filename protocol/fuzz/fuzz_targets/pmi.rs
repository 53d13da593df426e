//! What ranks say, and what comes on connections between nodes. Run: `cargo +nightly fuzz run pmi` in `protocol/`.
#![no_main]

use coppice_protocol::ids::{JobId, NodeId, Rank};
use coppice_protocol::limits::{PMI_ANSWER_BYTES_MAX, PMI_LINE_BYTES_MAX};
use coppice_protocol::pmi::{Conversation, PeerFrames, Place, Placement, Server};
use libfuzzer_sys::fuzz_target;

fn server(node: u32) -> Server {
    let place = |node| Place { node: NodeId(node), first: Rank(2 * node), count: 2 };
    let placement = Placement::new((0..3).map(place).collect()).expect("in order");
    Server::new(JobId(0), &[7; 32], placement, NodeId(node)).expect("a place")
}

fuzz_target!(|data: &[u8]| {
    let Some((&[choice, cut], stream)) = data.split_first_chunk::<2>() else { return };
    let mut server = server(u32::from(choice >> 2) % 3);
    if choice & 1 == 0 {
        let first = server.placement().place(u32::from(choice >> 2) % 3).expect("a place").first;
        let mut conversation =
            if choice & 2 == 0 { Conversation::on_descriptor(first) } else { Conversation::on_port() };
        for piece in stream.chunks(usize::from(cut) + 1) {
            let mut rest = piece;
            while !rest.is_empty() {
                rest = &rest[conversation.handle_bytes(rest, &mut server, 0)..];
                assert!(conversation.transmit().len() <= PMI_ANSWER_BYTES_MAX + 2 * PMI_LINE_BYTES_MAX);
                conversation.consume(conversation.transmit().len());
            }
        }
    } else {
        let mut frames = PeerFrames::default();
        for mut piece in stream.chunks(usize::from(cut) + 1) {
            while let Ok(Some(frame)) = frames.advance(&mut piece) {
                // The key is known to whoever reads this, but not to a fuzzer.
                assert!(server.handle_frame(&frame, 0).is_err());
            }
        }
    }
    while server.poll_event().is_some() {}
    assert!((0..3).all(|peer| server.poll_transmit(peer).is_none() || choice & 1 == 0));
});
