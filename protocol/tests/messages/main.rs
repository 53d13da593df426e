//! Every message type goes out and comes back the same, and no bytes whatever make a parser panic.

mod strategies;
mod wire;

use core::fmt::Debug;

use coppice_protocol::frame::{Frame, FrameError};
use coppice_protocol::personality::{Personality, PersonalityError};
use coppice_protocol::pset::{self, FromPset, MESSAGE_BYTES_MAX, PsetError, ToPset};
use coppice_protocol::{control, ship};
use proptest::prelude::{Just, ProptestConfig, any, prop_oneof};
use proptest::{prop_assert, prop_assert_eq, proptest};
use serde::Serialize;
use serde::de::DeserializeOwned;

fn frame(body: Vec<u8>) -> Frame {
    Frame { id: 0, body, bulk: Vec::new() }
}

/// The message read back from its own bytes. Compared by their `Debug` and their bytes, since keys have no `==`.
fn round_trip<T: Serialize + DeserializeOwned + Debug>(message: &T) {
    let body = postcard::to_allocvec(message).expect("plain data");
    let read: T = frame(body.clone()).message().expect("what was written");
    assert_eq!(format!("{read:?}"), format!("{message:?}"));
    assert_eq!(postcard::to_allocvec(&read).expect("plain data"), body);
    // With a byte too many it is another message, with one too few none at all.
    let longer = [&body[..], &[0]].concat();
    assert_eq!(frame(longer).message::<T>().err(), Some(FrameError::Body));
    let shorter = body[..body.len() - 1].to_vec();
    assert_eq!(frame(shorter).message::<T>().err(), Some(FrameError::Body));
}

fn pset_round_trip<T: Serialize + DeserializeOwned + Debug>(message: &T) {
    round_trip(message);
    let bytes = pset::encode(message).expect("within the limit");
    for cut in 0..bytes.len() {
        assert!(matches!(pset::decode::<T>(&bytes[..cut]), Ok(None)), "cut at {cut}");
    }
    let stream = [&bytes[..], &[9, 9, 9]].concat();
    let (read, taken) = pset::decode::<T>(&stream).expect("a message").expect("a whole one");
    assert_eq!(taken, bytes.len());
    assert_eq!(format!("{read:?}"), format!("{message:?}"));
    assert_eq!(pset::encode(&read).expect("within the limit"), bytes);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn to_node_round_trips(message in strategies::to_node()) {
        round_trip(&message);
    }

    #[test]
    fn to_io_node_round_trips(message in strategies::to_io_node()) {
        round_trip(&message);
    }

    #[test]
    fn requests_round_trip(message in strategies::request()) {
        round_trip(&message);
    }

    #[test]
    fn notices_round_trip(message in strategies::notice()) {
        round_trip(&message);
    }

    #[test]
    fn replies_round_trip(message in strategies::reply()) {
        round_trip(&message);
    }

    #[test]
    fn to_pset_round_trips(message in strategies::to_pset()) {
        pset_round_trip(&message);
    }

    #[test]
    fn from_pset_round_trips(message in strategies::from_pset()) {
        pset_round_trip(&message);
    }

    #[test]
    fn personalities_round_trip(personality in strategies::personality(), padding in 0..512_usize) {
        let mut bytes = personality.encode();
        for cut in 0..bytes.len() {
            prop_assert!(Personality::decode(&bytes[..cut]).is_err());
        }
        let length = bytes.len();
        bytes.resize(length + padding, 0);
        let read = Personality::decode(&bytes).expect("what was written");
        prop_assert_eq!(format!("{read:?}"), format!("{personality:?}"));
        prop_assert_eq!(&read.encode()[..], &bytes[..length]);
    }

    #[test]
    fn random_bytes_never_panic(bytes in any::<Vec<u8>>(), version in prop_oneof![Just(true), Just(false)]) {
        let frame = frame(bytes.clone());
        // The results do not matter, that they come does.
        let _ = frame.message::<control::ToNode>();
        let _ = frame.message::<control::ToIoNode>();
        let _ = frame.message::<ship::Request>();
        let _ = frame.message::<ship::Reply>();
        let _ = pset::decode::<ToPset>(&bytes);
        let _ = pset::decode::<FromPset>(&bytes);
        let mut ramdisk = if version { b"COPPICE\x02".to_vec() } else { Vec::new() };
        ramdisk.extend(&bytes);
        let _ = Personality::decode(&ramdisk);
    }

    /// Random bytes are mostly no messages at all; changed messages come further.
    #[test]
    fn damaged_messages_never_panic(
        message in strategies::request(),
        report in strategies::to_io_node(),
        order in strategies::to_node(),
        place in any::<proptest::sample::Index>(),
        value in any::<u8>(),
    ) {
        let mut body = postcard::to_allocvec(&message).expect("plain data");
        *place.get_mut(&mut body[..]) = value;
        let _ = frame(body).message::<ship::Request>();
        let mut body = postcard::to_allocvec(&report).expect("plain data");
        *place.get_mut(&mut body[..]) = value;
        let _ = frame(body).message::<control::ToIoNode>();
        let mut body = postcard::to_allocvec(&order).expect("plain data");
        *place.get_mut(&mut body[..]) = value;
        let _ = frame(body).message::<control::ToNode>();
    }
}

#[test]
fn a_length_that_is_announced_is_not_believed() {
    let announced = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f];
    // A string of 2⁶² bytes in a "ready", as many programs in a "discarded".
    for start in [&[0][..], &[7, 8]] {
        let body = [start, &announced].concat();
        assert_eq!(frame(body).message::<control::ToIoNode>().err(), Some(FrameError::Body));
    }
    // More members than a message can hold.
    let announced = [&[0xff, 0xff, 0xff, 0xff][..], &[0; 64]].concat();
    assert!(matches!(pset::decode::<ToPset>(&announced), Err(PsetError::TooLong(0xffff_ffff))));
}

#[test]
fn a_pset_message_over_the_limit_is_not_sent() {
    let job = coppice_protocol::ids::JobId(1);
    let message = ToPset::Input { job, bytes: vec![0; MESSAGE_BYTES_MAX] };
    assert!(matches!(pset::encode(&message), Err(PsetError::TooLong(length)) if length > MESSAGE_BYTES_MAX));
}

#[test]
fn a_pset_message_is_all_of_its_bytes() {
    let mut bytes = pset::encode(&ToPset::Shutdown).expect("within the limit");
    bytes.push(0);
    bytes[0] += 1;
    assert_eq!(pset::decode::<ToPset>(&bytes).err(), Some(PsetError::Damaged));
}

#[test]
fn impossible_personalities_are_refused() {
    let good = strategies::example_personality();
    assert!(Personality::decode(&good.encode()).is_ok());
    type Change = fn(&mut Personality);
    let changes: [(Change, &str); 6] = [
        (|personality| personality.prefix = 33, "network prefix"),
        (|personality| personality.prefix = 0, "network prefix"),
        (|personality| personality.address = [224, 0, 0, 1].into(), "address of the node"),
        (|personality| personality.io_node = [0, 0, 0, 0].into(), "address of the I/O node"),
        (|personality| personality.mac.0[0] = 1, "Ethernet address"),
        (|personality| personality.mtu = 100, "MTU"),
    ];
    for (change, what) in changes {
        let mut bad = good.clone();
        change(&mut bad);
        assert_eq!(Personality::decode(&bad.encode()).err(), Some(PersonalityError::Impossible(what)));
    }
    assert_eq!(Personality::decode(b"COPPICE\x04").err(), Some(PersonalityError::Magic));
    assert_eq!(Personality::decode(b"COPPICE\x03").err(), Some(PersonalityError::Damaged));
    assert_eq!(Personality::decode(b"").err(), Some(PersonalityError::Magic));
}

#[test]
fn keys_are_not_printed() {
    let text = format!("{:?}", strategies::example_personality());
    assert!(text.contains("NodeKey(..)"), "{text}");
    assert!(!text.contains("170, 170"), "{text}");
}
