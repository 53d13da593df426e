//! What somebody without the key can do to a session, and somebody who replays what he heard: end it, nothing more.

use coppice_protocol::frame::{DIGEST_BYTES, FrameError, VERSION};
use coppice_protocol::ids::{Generation, NodeId};
use coppice_protocol::personality::NodeKey;
use coppice_protocol::session::{Channel, Event, Identity, Refusal, Session, SessionError};

use crate::pair::{HEADER_BYTES, IDENTITY, KEY, Pair, drain, message_bytes};

/// Everything that comes out of a session.
fn events(session: &mut Session) -> Vec<Event> {
    core::iter::from_fn(|| session.poll_event()).collect()
}

#[test]
fn a_node_with_a_wrong_key_is_not_believed() {
    let mut node = Session::connect(Channel::Control, IDENTITY, &NodeKey([1; 32]), [1; 16], 0);
    let mut io_node = Session::accept(Channel::Control, [2; 16], 0);
    io_node.handle_bytes(&drain(&mut node)).expect("anyone can say hello");
    io_node.supply_key(Some(&KEY));
    let challenge = drain(&mut io_node);
    // To the node it is the I/O node whose key is wrong.
    assert_eq!(node.handle_bytes(&challenge), Err(SessionError::Authentication));
    assert_eq!(events(&mut node), []);
    // A node that does not care and confirms under its own key.
    let mut liar = Pair::new(Channel::Control);
    liar.shake_hands();
    let mut replayed = Pair::new(Channel::Control);
    replayed.node_to_io().expect("hello");
    replayed.io_node.supply_key(Some(&NodeKey([1; 32])));
    let heard = {
        let mut pair = Pair::new(Channel::Control);
        pair.node_to_io().expect("hello");
        pair.io_node.supply_key(Some(&KEY));
        pair.io_to_node().expect("challenge");
        drain(&mut pair.node)
    };
    assert_eq!(replayed.io_node.handle_bytes(&heard), Err(SessionError::Unexpected("it belongs to another session")));
    assert!(!replayed.io_node.is_established());
}

/// A confirmation that names the right session but was not made with its key.
#[test]
fn a_confirmation_without_the_key_is_not_believed() {
    let mut pair = Pair::new(Channel::Ship);
    pair.node_to_io().expect("hello");
    pair.io_node.supply_key(Some(&KEY));
    pair.io_to_node().expect("challenge");
    let mut confirmation = drain(&mut pair.node);
    for byte in &mut confirmation[HEADER_BYTES - 16..] {
        *byte = 0;
    }
    assert_eq!(pair.io_node.handle_bytes(&confirmation), Err(SessionError::Authentication));
}

#[test]
fn an_unknown_node_learns_that_it_is_unknown() {
    let mut pair = Pair::new(Channel::Control);
    pair.node_to_io().expect("hello");
    pair.io_node.supply_key(None);
    let unknown = SessionError::UnknownNode(IDENTITY.generation);
    assert_eq!(pair.io_node.failure(), Some(unknown));
    assert_eq!(pair.io_to_node(), Err(SessionError::Refused(Refusal::UnknownNode)));
    assert_eq!(pair.io_node.handle_bytes(&[]), Err(unknown));
}

/// Whoever answers hellos can turn nodes away, but not once they know their I/O node.
#[test]
fn a_refusal_after_the_handshake_is_not_believed() {
    let refusal = {
        let mut pair = Pair::new(Channel::Control);
        pair.node_to_io().expect("hello");
        pair.io_node.supply_key(None);
        drain(&mut pair.io_node)
    };
    let mut pair = Pair::established(Channel::Control);
    assert_eq!(pair.node.handle_bytes(&refusal), Err(SessionError::Unexpected("handshake is done")));
}

#[test]
fn a_replayed_hello_comes_to_nothing() {
    // Somebody recorded a whole connection and plays the node's part again.
    let mut recorded = Pair::with_nonces(Channel::Control, [1; 16], [2; 16]);
    let hello = drain(&mut recorded.node);
    recorded.io_node.handle_bytes(&hello).expect("hello");
    recorded.io_node.supply_key(Some(&KEY));
    recorded.io_to_node().expect("challenge");
    let confirmation = drain(&mut recorded.node);
    recorded.io_node.handle_bytes(&confirmation).expect("confirmation");
    let message = message_bytes(&mut recorded.node, 0, "reboot", &[]);

    // Each connection has its own challenge, so the old proof is no proof.
    let mut fresh = Session::accept(Channel::Control, [3; 16], 0);
    fresh.handle_bytes(&hello).expect("anyone can say hello");
    fresh.supply_key(Some(&KEY));
    let answer = fresh.handle_bytes(&[confirmation, message].concat());
    assert_eq!(answer, Err(SessionError::Unexpected("it belongs to another session")));
    assert_eq!(events(&mut fresh), [Event::KeyWanted(IDENTITY)]);
}

#[test]
fn a_replayed_challenge_comes_to_nothing() {
    let mut recorded = Pair::with_nonces(Channel::Control, [1; 16], [2; 16]);
    recorded.node_to_io().expect("hello");
    recorded.io_node.supply_key(Some(&KEY));
    let challenge = drain(&mut recorded.io_node);
    let mut node = Session::connect(Channel::Control, IDENTITY, &KEY, [4; 16], 0);
    assert_eq!(node.handle_bytes(&challenge), Err(SessionError::Authentication));
}

#[test]
fn reflected_frames_are_refused() {
    for channel in [Channel::Control, Channel::Ship] {
        let mut pair = Pair::established(channel);
        let message = message_bytes(&mut pair.node, 1, "mine", &[]);
        let refused = Err(SessionError::Unexpected("it travels the other way"));
        assert_eq!(pair.node.handle_bytes(&message), refused);
        // Turning the direction byte does not help: each direction has a key.
        let mut pair = Pair::established(channel);
        let mut message = message_bytes(&mut pair.io_node, 1, "mine", &[]);
        message[7] = 0;
        message[16] = 2;
        assert_eq!(pair.io_node.handle_bytes(&message), Err(SessionError::Authentication));
    }
    // A node that is sent its own hello.
    let mut pair = Pair::new(Channel::Control);
    let hello = drain(&mut pair.node);
    assert_eq!(pair.node.handle_bytes(&hello), Err(SessionError::Unexpected("it travels the other way")));
}

#[test]
fn replayed_dropped_and_reordered_frames_are_refused() {
    let mut pair = Pair::established(Channel::Ship);
    let first = message_bytes(&mut pair.node, 1, "first", &[]);
    let second = message_bytes(&mut pair.node, 2, "second", &[]);
    pair.io_node.handle_bytes(&first).expect("in order");
    let replayed = pair.io_node.handle_bytes(&first);
    assert_eq!(replayed, Err(SessionError::Sequence { expected: 3, found: 2 }));
    assert_eq!(pair.io_node.handle_bytes(&second), replayed, "a failed session stays failed");
    assert_eq!(events(&mut pair.io_node).len(), 1, "what came before is still there");

    let mut pair = Pair::established(Channel::Ship);
    drop(message_bytes(&mut pair.node, 1, "lost", &[]));
    let second = message_bytes(&mut pair.node, 2, "second", &[]);
    assert_eq!(pair.io_node.handle_bytes(&second), Err(SessionError::Sequence { expected: 2, found: 3 }));

    // Writing the expected number into it does not help.
    let mut pair = Pair::established(Channel::Ship);
    drop(message_bytes(&mut pair.node, 1, "lost", &[]));
    let mut second = message_bytes(&mut pair.node, 2, "second", &[]);
    second[16] = 2;
    assert_eq!(pair.io_node.handle_bytes(&second), Err(SessionError::Authentication));
}

#[test]
fn the_other_channels_port_is_refused() {
    let mut node = Session::connect(Channel::Ship, IDENTITY, &KEY, [1; 16], 0);
    let mut io_node = Session::accept(Channel::Control, [2; 16], 0);
    let wrong = SessionError::Channel { expected: Channel::Control, found: Channel::Ship };
    assert_eq!(io_node.handle_bytes(&drain(&mut node)), Err(wrong));
    assert_eq!(events(&mut io_node), []);
    assert_eq!(node.handle_bytes(&drain(&mut io_node)), Err(SessionError::Refused(Refusal::Channel)));
    // Somebody on the way turns a shipping connection into a control connection.
    let mut node = Session::connect(Channel::Ship, IDENTITY, &KEY, [1; 16], 0);
    let mut io_node = Session::accept(Channel::Control, [2; 16], 0);
    let mut hello = drain(&mut node);
    hello[HEADER_BYTES] = 1;
    io_node.handle_bytes(&hello).expect("it says control");
    io_node.supply_key(Some(&KEY));
    assert_eq!(node.handle_bytes(&drain(&mut io_node)), Err(SessionError::Authentication));
}

#[test]
fn frames_of_another_session_are_refused() {
    let mut one = Pair::established(Channel::Control);
    let mut other = Pair::with_nonces(Channel::Control, [5; 16], [6; 16]);
    other.shake_hands();
    let message = message_bytes(&mut one.node, 0, "kill", &[]);
    let foreign = Err(SessionError::Unexpected("it belongs to another session"));
    assert_eq!(other.io_node.handle_bytes(&message), foreign);
}

#[test]
fn an_earlier_boot_is_not_the_node() {
    let earlier = Identity { node: NodeId(3), generation: Generation(8) };
    let mut node = Session::connect(Channel::Control, earlier, &KEY, [1; 16], 0);
    let mut io_node = Session::accept(Channel::Control, [2; 16], 0);
    let mut hello = drain(&mut node);
    io_node.handle_bytes(&hello).expect("hello");
    assert_eq!(events(&mut io_node), [Event::KeyWanted(earlier)], "the I/O node sees which boot it is");
    // Claiming to be the later boot changes the keys that the I/O node derives, even with the same node key.
    let mut io_node = Session::accept(Channel::Control, [2; 16], 0);
    hello[HEADER_BYTES + 8] = 9;
    io_node.handle_bytes(&hello).expect("hello");
    assert_eq!(events(&mut io_node), [Event::KeyWanted(IDENTITY)]);
    io_node.supply_key(Some(&KEY));
    assert_eq!(node.handle_bytes(&drain(&mut io_node)), Err(SessionError::Authentication));
}

#[test]
fn another_version_is_named() {
    let mut pair = Pair::new(Channel::Control);
    let mut hello = drain(&mut pair.node);
    hello[4] = 99;
    // The first bytes are enough to know.
    let error = pair.io_node.handle_bytes(&hello[..6]);
    assert_eq!(error, Err(SessionError::Frame(FrameError::Version { theirs: 99 })));
    let text = error.expect_err("another version").to_string();
    let versions = format!("peer speaks protocol version 99, this is version {VERSION}");
    assert_eq!(text, format!("{versions}: install the same release on both ends"));
    // The other end is told, in a frame whose header has this end's version.
    let mut refusal = drain(&mut pair.io_node);
    assert_eq!(pair.node.handle_bytes(&refusal), Err(SessionError::Refused(Refusal::Version)));
    let mut other_node = Session::connect(Channel::Control, IDENTITY, &KEY, [1; 16], 0);
    refusal[4] = 98;
    let error = other_node.handle_bytes(&refusal);
    assert_eq!(error, Err(SessionError::Frame(FrameError::Version { theirs: 98 })));
}

#[test]
fn other_protocols_are_seen_at_once() {
    for foreign in [&b"GET / HTTP/1.1\r\n"[..], b"\x16\x03\x01\x02\0", b"SSH-2.0-x\r\n", &[0; 6]] {
        let mut io_node = Session::accept(Channel::Ship, [2; 16], 0);
        let mut answer = Ok(());
        for byte in foreign {
            answer = io_node.handle_bytes(&[*byte]);
        }
        if foreign.len() >= 6 {
            assert_eq!(answer, Err(SessionError::Frame(FrameError::Magic)));
        }
        assert!(io_node.transmit().is_empty(), "strangers get no answer");
    }
}

#[test]
fn messages_before_the_handshake_are_refused() {
    let mut pair = Pair::established(Channel::Ship);
    let message = message_bytes(&mut pair.node, 1, "open", &[]);
    let mut io_node = Session::accept(Channel::Ship, [2; 16], 0);
    assert_eq!(io_node.handle_bytes(&message), Err(SessionError::Unexpected("handshake is not done")));
    // Nor while the key is being looked for.
    let mut pair = Pair::new(Channel::Ship);
    pair.node_to_io().expect("hello");
    assert_eq!(pair.io_node.handle_bytes(&message), Err(SessionError::Unexpected("handshake is not done")));
}

/// Every single bit of the handshake and of messages matters.
#[test]
fn any_flipped_bit_ends_the_session() {
    for channel in [Channel::Control, Channel::Ship] {
        let mut reference = Pair::new(channel);
        let frames = {
            let hello = drain(&mut reference.node);
            reference.io_node.handle_bytes(&hello).expect("hello");
            reference.io_node.supply_key(Some(&KEY));
            let challenge = drain(&mut reference.io_node);
            reference.node.handle_bytes(&challenge).expect("challenge");
            let confirmation = drain(&mut reference.node);
            reference.io_node.handle_bytes(&confirmation).expect("confirmation");
            let message = message_bytes(&mut reference.node, 77, "a message", b"bulk");
            [hello, challenge, confirmation, message]
        };
        for (index, frame) in frames.iter().enumerate() {
            for bit in 0..frame.len() * 8 {
                let mut flipped = frames.clone();
                flipped[index][bit / 8] ^= 1 << (bit % 8);
                assert!(!play(channel, &flipped), "{channel} frame {index} bit {bit}");
            }
        }
        assert!(play(channel, &frames));
    }
}

/// What TCP's sum does not see: words that have changed places.
#[test]
fn bulk_bytes_that_were_changed_end_the_session() {
    for (channel, error) in [(Channel::Control, SessionError::Authentication), (Channel::Ship, SessionError::Damaged)] {
        let bulk: Vec<u8> = (0..5000_u32).flat_map(u32::to_le_bytes).collect();
        for (one, other) in [(4, 6), (4, 19_996), (10_000, 10_002)] {
            let mut pair = Pair::established(channel);
            let mut frame = message_bytes(&mut pair.node, 1, "x", &bulk);
            let start = frame.len() - bulk.len();
            let words = [one, other].map(|at| [frame[start + at], frame[start + at + 1]]);
            assert_ne!(words[0], words[1]);
            for (at, word) in [(one, words[1]), (other, words[0])] {
                frame[start + at..start + at + 2].copy_from_slice(&word);
            }
            assert_eq!(pair.io_node.handle_bytes(&frame), Err(error), "{channel} {one} {other}");
            assert_eq!(events(&mut pair.io_node), []);
        }
    }
}

/// Two messages of a session change their bulk bytes with each other, and their digests, too.
#[test]
fn bulk_bytes_belong_to_their_message() {
    let mut pair = Pair::established(Channel::Ship);
    let mut first = message_bytes(&mut pair.node, 1, "x", b"one");
    let second = message_bytes(&mut pair.node, 2, "x", b"two");
    let tail = first.len() - DIGEST_BYTES - 3;
    first[tail..].copy_from_slice(&second[tail..]);
    assert_eq!(pair.io_node.handle_bytes(&first), Err(SessionError::Authentication));
}

/// Plays four frames between two ends; whether the message came through.
fn play(channel: Channel, frames: &[Vec<u8>; 4]) -> bool {
    let [hello, challenge, confirmation, message] = frames;
    let mut pair = Pair::new(channel);
    drain(&mut pair.node);
    let _ = pair.io_node.handle_bytes(hello);
    // Whoever says to be somebody else is not known.
    let known = events(&mut pair.io_node) == [Event::KeyWanted(IDENTITY)];
    pair.io_node.supply_key(known.then_some(&KEY));
    drain(&mut pair.io_node);
    let _ = pair.node.handle_bytes(challenge);
    if !pair.node.is_established() {
        return false;
    }
    let _ = pair.io_node.handle_bytes(confirmation);
    let _ = pair.io_node.handle_bytes(message);
    events(&mut pair.io_node).iter().any(|event| matches!(event, Event::Frame(_)))
}
