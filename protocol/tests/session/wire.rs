//! The bytes of the handshake and of a message as they are now. A change here is a change of the protocol: raise
//! [`coppice_protocol::frame::VERSION`] with it.

use core::fmt::Write;

use coppice_protocol::session::Channel;

use crate::pair::{KEY, Pair, drain, message_bytes};

fn dump(text: &mut String, name: &str, bytes: &[u8]) {
    writeln!(text, "{name}").expect("a string takes anything");
    for line in bytes.chunks(16) {
        let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(text, "  {}", hex.join(" ")).expect("a string takes anything");
    }
}

#[test]
fn a_whole_session() {
    let mut text = String::new();
    for channel in [Channel::Control, Channel::Ship] {
        let mut pair = Pair::new(channel);
        writeln!(text, "{channel}").expect("a string takes anything");
        let hello = drain(&mut pair.node);
        dump(&mut text, "hello", &hello);
        pair.io_node.handle_bytes(&hello).expect("hello");
        pair.io_node.supply_key(Some(&KEY));
        let challenge = drain(&mut pair.io_node);
        dump(&mut text, "challenge", &challenge);
        pair.node.handle_bytes(&challenge).expect("challenge");
        let confirmation = drain(&mut pair.node);
        dump(&mut text, "confirmation", &confirmation);
        pair.io_node.handle_bytes(&confirmation).expect("confirmation");
        dump(&mut text, "message up", &message_bytes(&mut pair.node, 0x0102_0304, "text", b"bulk"));
        dump(&mut text, "message down", &message_bytes(&mut pair.io_node, 5, "text", b"bulk"));
    }
    let mut pair = Pair::new(Channel::Control);
    pair.node_to_io().expect("hello");
    pair.io_node.supply_key(None);
    dump(&mut text, "refusal", &drain(&mut pair.io_node));
    insta::assert_snapshot!(text);
}
