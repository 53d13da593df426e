//! What happens at each limit of a session.

use coppice_protocol::frame::{DIGEST_BYTES, FrameError};
use coppice_protocol::limits::{
    BODY_BYTES_MAX, BULK_BYTES_MAX, FRAME_REST_BYTES_MIN, HANDSHAKE_BODY_BYTES_MAX, SEND_QUEUE_BYTES_MAX,
};
use coppice_protocol::session::{Channel, Event, RestWatch, SendError, Session, SessionError};

use crate::pair::{HEADER_BYTES, Pair, drain, message_bytes};

/// Where a header says how long the body is, and the bulk.
const BODY_FIELD: usize = 32;
const BULK_FIELD: usize = 36;

fn put_length(frame: &mut [u8], field: usize, length: usize) {
    let length = u32::try_from(length).expect("a length");
    frame[field..field + 4].copy_from_slice(&length.to_le_bytes());
}

#[test]
fn oversize_lengths_are_refused_with_the_header() {
    for length in [BODY_BYTES_MAX + 1, u32::MAX as usize] {
        let mut pair = Pair::established(Channel::Ship);
        let mut frame = message_bytes(&mut pair.node, 1, "x", &[]);
        put_length(&mut frame, BODY_FIELD, length);
        let refused = pair.io_node.handle_bytes(&frame[..HEADER_BYTES]);
        let expected = FrameError::BodyTooLong(u32::try_from(length).expect("a length"));
        assert_eq!(refused, Err(SessionError::Frame(expected)));
    }
    for length in [BULK_BYTES_MAX + 1, u32::MAX as usize] {
        let mut pair = Pair::established(Channel::Ship);
        let mut frame = message_bytes(&mut pair.node, 1, "x", &[]);
        put_length(&mut frame, BULK_FIELD, length);
        let refused = pair.io_node.handle_bytes(&frame[..HEADER_BYTES]);
        let expected = FrameError::BulkTooLong(u32::try_from(length).expect("a length"));
        assert_eq!(refused, Err(SessionError::Frame(expected)));
    }
}

/// One that comes slowly is waited for, one of which hardly anything comes is counted.
#[test]
fn half_a_frame_is_noticed() {
    let mut pair = Pair::established(Channel::Ship);
    let mut watch = RestWatch::default();
    let looks = |watch: &mut RestWatch, pair: &Pair| [(); 3].map(|()| watch.look(&pair.io_node));
    assert_eq!(looks(&mut watch, &pair), [0; 3], "nothing is there");
    let frame = message_bytes(&mut pair.node, 1, "x", &[7; 4 * FRAME_REST_BYTES_MIN]);
    let (mut given, mut counted) = (0, Vec::new());
    for count in [HEADER_BYTES, FRAME_REST_BYTES_MIN, FRAME_REST_BYTES_MIN - 1, 0] {
        pair.io_node.handle_bytes(&frame[given..given + count]).expect("as announced");
        given += count;
        counted.push(watch.look(&pair.io_node));
    }
    assert_eq!(counted, [0, 0, 1, 2]);
    pair.io_node.handle_bytes(&frame[given..]).expect("the rest");
    assert_eq!(looks(&mut watch, &pair), [0; 3]);
    // Two frames of which each look finds the beginning are not one that waits.
    for _ in 0..2 {
        let frame = message_bytes(&mut pair.node, 2, "y", &[]);
        pair.io_node.handle_bytes(&frame[..HEADER_BYTES]).expect("as announced");
        assert_eq!(watch.look(&pair.io_node), 0);
        pair.io_node.handle_bytes(&frame[HEADER_BYTES..]).expect("the rest");
    }
}

#[test]
fn before_the_handshake_next_to_nothing_is_buffered() {
    let unexpected = Err(SessionError::Unexpected("handshake frame with more than a handshake needs"));
    for (field, length) in [(BODY_FIELD, HANDSHAKE_BODY_BYTES_MAX + 1), (BULK_FIELD, 1)] {
        let mut pair = Pair::new(Channel::Control);
        let mut hello = drain(&mut pair.node);
        put_length(&mut hello, field, length);
        assert_eq!(pair.io_node.handle_bytes(&hello[..HEADER_BYTES]), unexpected);
        assert_eq!(pair.io_node.buffered_bytes(), 0);
    }
}

#[test]
fn the_largest_message_goes_through() {
    // Its postcard form is three bytes of length and the text.
    let text = "x".repeat(BODY_BYTES_MAX - 3);
    let bulk = vec![5; BULK_BYTES_MAX];
    for channel in [Channel::Control, Channel::Ship] {
        let mut pair = Pair::established(channel);
        pair.io_node.send(1, text.as_str(), &bulk).expect("within the limits");
        pair.io_to_node().expect("within the limits");
        let Some(Event::Frame(frame)) = pair.node.poll_event() else { panic!("no frame") };
        assert_eq!(frame.body.len(), BODY_BYTES_MAX);
        assert_eq!(frame.message::<&str>(), Ok(text.as_str()));
        assert_eq!(frame.bulk, bulk);
    }
}

#[test]
fn longer_messages_are_not_sent_and_leave_nothing_behind() {
    let mut pair = Pair::established(Channel::Ship);
    pair.node.send(1, "before", &[]).expect("queued");
    let queued = pair.node.queued_bytes();
    let text = "x".repeat(BODY_BYTES_MAX);
    let too_long = |part, limit| Err(SendError::TooLong { part, limit });
    assert_eq!(pair.node.send(2, text.as_str(), &[]), too_long("message", BODY_BYTES_MAX));
    let bulk = vec![0; BULK_BYTES_MAX + 1];
    assert_eq!(pair.node.send(3, "x", &bulk), too_long("bulk data", BULK_BYTES_MAX));
    assert_eq!(pair.node.send_owned(4, "x", bulk), too_long("bulk data", BULK_BYTES_MAX));
    assert_eq!(pair.node.queued_bytes(), queued);
    pair.node.send(5, "after", &[]).expect("queued");
    pair.node_to_io().expect("no gap in the sequence");
    let ids = core::iter::from_fn(|| pair.io_node.poll_event()).map(|event| match event {
        Event::Frame(frame) => frame.id,
        other => panic!("{other:?}"),
    });
    assert_eq!(ids.collect::<Vec<_>>(), [1, 5]);
}

#[test]
fn a_full_queue_takes_no_more_until_something_left() {
    let mut pair = Pair::established(Channel::Ship);
    let bulk = vec![0; BULK_BYTES_MAX];
    let mut sent = 0;
    while pair.node.send(sent, "x", &bulk).is_ok() {
        sent += 1;
    }
    assert_eq!(pair.node.send(sent, "x", &[]), Err(SendError::Full));
    assert!(pair.node.queued_bytes() > SEND_QUEUE_BYTES_MAX);
    assert!(pair.node.queued_bytes() <= SEND_QUEUE_BYTES_MAX + HEADER_BYTES + 2 + DIGEST_BYTES + BULK_BYTES_MAX);
    let first = pair.node.transmit().len();
    pair.node.consume(first);
    assert_eq!(pair.node.send(sent, "x", &[]), Ok(()));
}

/// A peer that announces much and sends little costs what it sends, and what it announces within the limits.
#[test]
fn a_stalled_frame_is_bounded() {
    let mut pair = Pair::established(Channel::Control);
    let mut frame = message_bytes(&mut pair.node, 1, "x", &[]);
    put_length(&mut frame, BODY_FIELD, BODY_BYTES_MAX);
    put_length(&mut frame, BULK_FIELD, BULK_BYTES_MAX);
    pair.io_node.handle_bytes(&frame[..HEADER_BYTES]).expect("within the limits");
    pair.io_node.handle_bytes(&vec![0; BODY_BYTES_MAX - 1]).expect("not whole yet");
    assert_eq!(pair.io_node.buffered_bytes(), HEADER_BYTES + BODY_BYTES_MAX - 1);
    pair.io_node.handle_bytes(&vec![0; BULK_BYTES_MAX]).expect("not whole yet");
    assert_eq!(pair.io_node.handle_bytes(&[0]), Err(SessionError::Authentication));
    assert_eq!(pair.io_node.buffered_bytes(), 0);
}

/// On the shipping channel nothing is allocated for bulk bytes before the header that announces them is authentic.
#[test]
fn unauthentic_bulk_is_refused_with_the_body() {
    let mut pair = Pair::established(Channel::Ship);
    let mut frame = message_bytes(&mut pair.node, 1, "x", &[]);
    put_length(&mut frame, BULK_FIELD, BULK_BYTES_MAX);
    frame.extend([0; DIGEST_BYTES]);
    assert_eq!(pair.io_node.handle_bytes(&frame), Err(SessionError::Authentication));
}

#[test]
fn consuming_more_than_there_is_changes_nothing() {
    let mut session = Session::accept(Channel::Ship, [0; 16], 0);
    session.consume(100);
    assert_eq!((session.queued_bytes(), session.transmit()), (0, &[][..]));
}
