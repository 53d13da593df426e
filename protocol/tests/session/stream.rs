//! Framing: whatever the network does to the pieces, the messages are the same.

use std::sync::Arc;

use coppice_protocol::frame::DIGEST_BYTES;
use coppice_protocol::session::{Channel, Event, Session};
use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof};
use proptest::{prop_assert_eq, proptest};

use crate::pair::{Pair, drain};

/// A message as a test sends it.
#[derive(Clone, Debug, PartialEq)]
struct Message {
    id: u64,
    text: String,
    bulk: Vec<u8>,
    /// Send it with bulk bytes of the session's own.
    owned: bool,
}

fn message() -> impl Strategy<Value = Message> {
    let bulk = prop_oneof![
        4 => vec(any::<u8>(), 0..64),
        1 => (16_000..40_000_usize, any::<u8>()).prop_map(|(length, byte)| vec![byte; length]),
    ];
    (any::<u64>(), any::<String>(), bulk, any::<bool>()).prop_map(|(id, text, bulk, owned)| Message {
        id,
        text,
        bulk,
        owned,
    })
}

fn received(session: &mut Session, owned: impl Iterator<Item = bool>) -> Vec<Message> {
    let frames = core::iter::from_fn(|| session.poll_event()).map(|event| match event {
        Event::Frame(frame) => frame,
        other => panic!("{other:?}"),
    });
    let messages = frames.zip(owned).map(|(frame, owned)| {
        let text = frame.message().expect("a string");
        Message { id: frame.id, text, bulk: frame.bulk, owned }
    });
    messages.collect()
}

fn send(session: &mut Session, message: &Message) {
    let Message { id, text, bulk, owned } = message;
    let queued = match (owned, id % 2) {
        (true, 0) => session.send_owned(*id, text, bulk.clone()),
        (true, _) => session.send_shared(*id, text, Arc::new(bulk.clone())),
        (false, _) => session.send(*id, text, bulk),
    };
    queued.expect("within the limits");
}

fn channels() -> impl Strategy<Value = Channel> {
    prop_oneof![Just(Channel::Control), Just(Channel::Ship)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_split_gives_the_same_messages(
        channel in channels(),
        messages in vec(message(), 1..6),
        cuts in vec(1..3000_usize, 1..200),
    ) {
        let mut pair = Pair::established(channel);
        for message in &messages {
            send(&mut pair.node, message);
        }
        let bytes = drain(&mut pair.node);
        let mut rest = &bytes[..];
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, behind) = rest.split_at((*cut).min(rest.len()));
            pair.io_node.handle_bytes(piece).expect("authentic");
            rest = behind;
        }
        prop_assert_eq!(pair.io_node.buffered_bytes(), 0);
        let got = received(&mut pair.io_node, messages.iter().map(|message| message.owned));
        prop_assert_eq!(got, messages);
    }

    /// The sender's side: sockets take as much as they like of what there is, while more is queued.
    #[test]
    fn any_rate_of_sending_gives_the_same_messages(
        channel in channels(),
        messages in vec(message(), 1..12),
        takes in vec(1..30_000_usize, 1..40),
    ) {
        let mut pair = Pair::established(channel);
        let mut takes = takes.iter().cycle();
        let mut waiting = messages.iter();
        let mut expected_queue = 0;
        loop {
            match waiting.next() {
                Some(message) => send(&mut pair.io_node, message),
                None if pair.io_node.queued_bytes() == 0 => break,
                None => {}
            }
            prop_assert_eq!(pair.io_node.queued_bytes() == 0, pair.io_node.transmit().is_empty());
            let take = takes.next().copied().unwrap_or(1).min(pair.io_node.transmit().len());
            let piece = pair.io_node.transmit()[..take].to_vec();
            pair.io_node.consume(take);
            expected_queue += piece.len();
            pair.node.handle_bytes(&piece).expect("authentic");
        }
        let sum: usize = messages
            .iter()
            .map(|message| {
                let digest = if channel == Channel::Ship && !message.bulk.is_empty() { DIGEST_BYTES } else { 0 };
                56 + postcard::to_allocvec(&message.text).expect("plain data").len() + digest + message.bulk.len()
            })
            .sum();
        prop_assert_eq!(expected_queue, sum);
        let got = received(&mut pair.node, messages.iter().map(|message| message.owned));
        prop_assert_eq!(got, messages);
    }

    /// A stream that ends anywhere gives the messages that were whole, and no error.
    #[test]
    fn a_cut_stream_gives_what_was_whole(messages in vec(message(), 1..5), cut in any::<proptest::sample::Index>()) {
        let mut pair = Pair::established(Channel::Control);
        let mut ends = Vec::new();
        let mut bytes = Vec::new();
        for message in &messages {
            send(&mut pair.node, message);
            bytes.extend(drain(&mut pair.node));
            ends.push(bytes.len());
        }
        let cut = cut.index(bytes.len() + 1);
        pair.io_node.handle_bytes(&bytes[..cut]).expect("authentic so far");
        let whole = ends.iter().filter(|end| **end <= cut).count();
        let got = received(&mut pair.io_node, messages.iter().map(|message| message.owned));
        prop_assert_eq!(&got[..], &messages[..whole]);
    }

    #[test]
    fn random_bytes_never_panic(
        bytes in vec(any::<u8>(), 0..400),
        established in any::<bool>(),
        prefix in any::<bool>(),
    ) {
        for channel in [Channel::Control, Channel::Ship] {
            let mut pair = if established { Pair::established(channel) } else { Pair::new(channel) };
            let mut stream = if prefix { b"Cpce\x01\0".to_vec() } else { Vec::new() };
            stream.extend(&bytes);
            let _ = pair.io_node.handle_bytes(&stream);
            let _ = pair.node.handle_bytes(&stream);
            while let Some(event) = pair.io_node.poll_event() {
                proptest::prop_assert!(!matches!(event, Event::Frame(_)), "nobody without the key is heard");
            }
        }
    }

    /// Any byte of a stream changed to anything else: messages before it come through, none from it on.
    #[test]
    fn a_changed_byte_ends_the_session_there(
        messages in vec(message(), 1..5),
        place in any::<proptest::sample::Index>(),
        change in 1..=255_u8,
    ) {
        let mut pair = Pair::established(Channel::Control);
        let mut ends = Vec::new();
        let mut bytes = Vec::new();
        for message in &messages {
            send(&mut pair.node, message);
            bytes.extend(drain(&mut pair.node));
            ends.push(bytes.len());
        }
        let place = place.index(bytes.len());
        bytes[place] ^= change;
        let failed = pair.io_node.handle_bytes(&bytes).is_err();
        let whole = ends.iter().filter(|end| **end <= place).count();
        let got = received(&mut pair.io_node, messages.iter().map(|message| message.owned));
        prop_assert_eq!(&got[..], &messages[..whole]);
        // A length that grew may leave the frame waiting for bytes that never come.
        proptest::prop_assert!(failed || pair.io_node.buffered_bytes() > 0);
    }
}

/// Small frames leave together: one write, not one each.
#[test]
fn small_frames_leave_together() {
    let mut pair = Pair::established(Channel::Ship);
    for id in 0..20 {
        pair.node.send(id, "small", &[]).expect("queued");
    }
    assert_eq!(pair.node.transmit().len(), pair.node.queued_bytes());
}
