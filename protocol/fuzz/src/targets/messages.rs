//! Messages of the three protocols: what was read is read again the same from its own bytes.

use core::fmt::Debug;

use coppice_protocol::control::{ToIoNode, ToNode};
use coppice_protocol::frame::Frame;
use coppice_protocol::pset::{FromPset, ToPset, decode, encode};
use coppice_protocol::ship::{Notice, Reply, Request};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::shape;
use crate::corpus::inputs;

/// Control messages, both ways.
pub(super) fn control(data: &[u8]) -> u64 {
    in_frame::<ToNode>(data) ^ in_frame::<ToIoNode>(data).rotate_left(1)
}

/// Function shipping, both ways, and what comes without being asked for.
pub(super) fn ship(data: &[u8]) -> u64 {
    in_frame::<Request>(data) ^ in_frame::<Reply>(data).rotate_left(1) ^ in_frame::<Notice>(data).rotate_left(2)
}

/// Between service node and I/O node, both ways.
pub(super) fn pset(data: &[u8]) -> u64 {
    in_pset::<ToPset>(data) ^ in_pset::<FromPset>(data).rotate_left(1)
}

/// The messages as they are on the pipe, behind their lengths.
pub(super) fn pset_examples() -> Vec<Vec<u8>> {
    let snapshot = include_str!("../../../tests/messages/snapshots/messages__wire__pset.snap");
    inputs(snapshot).map(|body| [&(body.len() as u32).to_le_bytes(), &body[..]].concat()).collect()
}

fn in_frame<T: Serialize + DeserializeOwned + PartialEq + Debug>(data: &[u8]) -> u64 {
    let frame = Frame { id: 0, body: data.to_vec(), bulk: Vec::new() };
    let Ok(message) = frame.message::<T>() else { return 0 };
    let body = postcard::to_allocvec(&message).expect("plain data");
    let made = shape(&format!("{message:?}"));
    assert_eq!(Frame { body, ..frame }.message::<T>(), Ok(message));
    made
}

fn in_pset<T: Serialize + DeserializeOwned + Debug>(data: &[u8]) -> u64 {
    match decode::<T>(data) {
        Ok(Some((message, taken))) => {
            assert!(taken <= data.len());
            let bytes = encode(&message).expect("no longer than it was");
            let (again, all) = decode::<T>(&bytes).expect("what was written").expect("whole");
            assert_eq!(all, bytes.len());
            assert_eq!(encode(&again).expect("no longer than it was"), bytes);
            shape(&format!("{message:?}"))
        }
        Ok(None) => 1,
        Err(error) => shape(&format!("{error:?}")),
    }
}
