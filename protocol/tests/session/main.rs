//! Sessions: the handshake, what attacks on it come to, framing under any split of the stream, and limits.

mod attacks;
mod limits;
mod pair;
mod stream;
mod wire;

use coppice_protocol::session::{Channel, Event, SendError, Session, SessionError};

use crate::pair::{IDENTITY, KEY, Pair};

#[test]
fn the_handshake_takes_three_frames() {
    for channel in [Channel::Control, Channel::Ship] {
        let mut pair = Pair::new(channel);
        assert_eq!(pair.node.identity(), Some(IDENTITY));
        assert_eq!(pair.io_node.identity(), None);
        assert!(pair.node_to_io().is_ok());
        assert_eq!(pair.io_node.poll_event(), Some(Event::KeyWanted(IDENTITY)));
        assert_eq!(pair.io_node.poll_event(), None);
        assert!(pair.io_node.transmit().is_empty(), "nothing is said before the key is there");
        pair.io_node.supply_key(Some(&KEY));
        assert!(pair.io_to_node().is_ok());
        assert_eq!(pair.node.poll_event(), Some(Event::Established(IDENTITY)));
        assert!(!pair.io_node.is_established(), "the node has proved nothing yet");
        assert!(pair.node_to_io().is_ok());
        assert_eq!(pair.io_node.poll_event(), Some(Event::Established(IDENTITY)));
        assert!(pair.node.is_established() && pair.io_node.is_established());
        assert_eq!(pair.node.channel(), channel);
    }
}

#[test]
fn messages_come_as_they_went() {
    let mut pair = Pair::established(Channel::Ship);
    pair.node.send(7, "first", b"bulk").expect("queued");
    pair.node.send_owned(8, "second", b"own bulk".to_vec()).expect("queued");
    pair.node.send(9, "third", &[]).expect("queued");
    pair.node_to_io().expect("authentic");
    let mut seen = Vec::new();
    while let Some(event) = pair.io_node.poll_event() {
        let Event::Frame(frame) = event else { panic!("{event:?}") };
        seen.push((frame.id, frame.message::<String>().expect("a string"), frame.bulk));
    }
    let expected = [
        (7, "first".to_owned(), b"bulk".to_vec()),
        (8, "second".to_owned(), b"own bulk".to_vec()),
        (9, "third".to_owned(), Vec::new()),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn a_node_may_send_as_soon_as_it_has_confirmed() {
    let mut pair = Pair::new(Channel::Control);
    pair.node_to_io().expect("hello");
    pair.io_node.supply_key(Some(&KEY));
    pair.io_to_node().expect("challenge");
    pair.node.send(0, "ready", &[]).expect("established");
    pair.node_to_io().expect("confirmation and message");
    let events: Vec<Event> = core::iter::from_fn(|| pair.io_node.poll_event()).collect();
    assert!(
        matches!(&events[..], [Event::KeyWanted(_), Event::Established(_), Event::Frame(_)]),
        "each in its order: {events:?}"
    );
}

#[test]
fn nothing_is_sent_before_the_handshake() {
    let mut pair = Pair::new(Channel::Ship);
    let hello = pair.node.queued_bytes();
    assert_eq!(pair.node.send(1, "early", &[]), Err(SendError::NotEstablished));
    assert_eq!(pair.io_node.send(1, "early", &[]), Err(SendError::NotEstablished));
    assert_eq!(pair.node.queued_bytes(), hello);
    assert_eq!(pair.io_node.queued_bytes(), 0);
}

#[test]
fn a_slow_handshake_ends() {
    let start_ns = 1_000;
    let deadline_ns = start_ns + coppice_protocol::limits::HANDSHAKE_TIMEOUT_NS;
    for mut session in [
        Session::connect(Channel::Control, IDENTITY, &KEY, [1; 16], start_ns),
        Session::accept(Channel::Control, [2; 16], start_ns),
    ] {
        assert_eq!(session.poll_timeout(), Some(deadline_ns));
        assert_eq!(session.handle_timeout(deadline_ns - 1), Ok(()));
        assert_eq!(session.handle_timeout(deadline_ns), Err(SessionError::HandshakeTimeout));
        assert_eq!(session.poll_timeout(), None);
        assert_eq!(session.failure(), Some(SessionError::HandshakeTimeout));
        assert_eq!(session.handle_bytes(&[]), Err(SessionError::HandshakeTimeout));
    }
    let mut pair = Pair::established(Channel::Control);
    assert_eq!(pair.node.poll_timeout(), None);
    assert_eq!(pair.node.handle_timeout(u64::MAX), Ok(()));
    assert_eq!(pair.io_node.handle_timeout(u64::MAX), Ok(()));
}

#[test]
fn a_key_nobody_asked_for_does_nothing() {
    let mut pair = Pair::new(Channel::Control);
    pair.io_node.supply_key(Some(&KEY));
    pair.io_node.supply_key(None);
    pair.node.supply_key(None);
    assert!(pair.io_node.transmit().is_empty());
    pair.shake_hands();
    pair.io_node.supply_key(None);
    assert!(pair.io_node.is_established());
}

#[test]
fn secrets_are_not_printed() {
    let pair = Pair::established(Channel::Control);
    let text = format!("{:?} {:?}", pair.node, pair.io_node);
    assert!(!text.contains("119, 119"), "{text}");
}
