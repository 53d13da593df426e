//! A conversation as OpenPMIx 4.2.2's own `simpclient` has it, byte for byte; the answers are those of its own server.

use coppice_protocol::pmix::Dialect;

use crate::nodes::{Nodes, message};

/// What the client says, and hears; nothing if that depends on the job.
const TALK: &[(&[u8], Option<&[u8]>)] = &[
    (b"\x02\x00", None),
    // The whole name space, a key of the server's, at once.
    (
        b"\x02\x04\x02\x06k0\x00\x02\xfe\xff\xff\xff\x0f\x02\x01\x02\x1epmix.immediate\x00\x00\x01\x01\
          \x02\x14pmix.cred\x00",
        Some(b"\x02\x5b"),
    ),
    // A handler for one event, and one for all.
    (b"\x02\x0d\x02\x01\x02\xa5\x02\x02\x00", Some(b"\x02\x00")),
    (b"\x02\x0d\x02\x00\x02\x00", Some(b"\x02\x00")),
    // A value for the node, and one for others.
    (
        b"\x02\x02\x02\x01\x02\x01\x12\x02\x1ak0-0-local-0\x00\x0f\xd2\x09\
          \x02\x02\x02\x01\x17\x02\x1ck0-0-remote-0\x00\x03\x0a1234\x00",
        Some(b"\x02\x00"),
    ),
    // All of the name space wait for each other; the other rank has come.
    (b"\x02\x03\x02\x01\x02\x06k0\x00\xfe\xff\xff\xff\x0f\x02\x00", Some(b"\x02\x00")),
    // What the other one has put for the node, and what it has put for other nodes.
    (
        b"\x02\x04\x02\x06k0\x00\x02\x01\x02\x00\x02\x1ak0-1-local-0\x00",
        Some(b"\x02\x00\x02\x18\x02\x06k0\x00\x01\x02\x1ak0-1-local-0\x00\x0f\xd2\x09"),
    ),
    (b"\x02\x05", Some(b"\x02\x00")),
];

#[test]
fn a_client_of_the_library_is_understood() {
    let mut nodes = Nodes::silent(&[2], Dialect::Short);
    for rank in [0, 1_u8] {
        let mut first = vec![0xff; 8];
        let body = [
            &b"native\x00\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00k0\x00\x00\x00\x00"[..],
            &[rank],
            b"4.2.2rc2\x00v41\x00\x01hash\x00\x00",
        ]
        .concat();
        first.extend_from_slice(&(body.len() as u64).to_le_bytes());
        first.extend_from_slice(&body);
        assert_eq!(nodes.say(rank.into(), &first), None);
        assert_eq!(nodes.hear_bytes(rank.into()), [0, 0, 0, 0, 0, 0, 0, rank]);
    }
    let fence = TALK[5].0;
    nodes.say(1, &message(105, &other_commit()));
    assert_eq!(nodes.hear(1), [(105, b"\x02\x00".to_vec())]);
    nodes.say(1, &message(106, fence));
    for ((says, hears), tag) in TALK.iter().zip(101..) {
        nodes.say(0, &message(tag, says));
        let heard = nodes.hear(0);
        let [(of, answer)] = &heard[..] else { panic!("{says:?}: {heard:?}") };
        assert_eq!(*of, tag);
        assert!(hears.is_none_or(|hears| hears == answer), "{says:?}: {answer:?}");
    }
}

/// The commit of the other rank.
fn other_commit() -> Vec<u8> {
    let mut bytes = TALK[4].0.to_vec();
    let names = bytes.windows(4).enumerate().filter(|(_, window)| window == b"k0-0").map(|(place, _)| place + 3);
    for place in names.collect::<Vec<_>>() {
        bytes[place] = b'1';
    }
    bytes
}
