//! Messages of the control protocol. Run: `cargo +nightly fuzz run control` in `protocol/`.
#![no_main]

use coppice_protocol::control::{ToIoNode, ToNode};
use coppice_protocol::frame::Frame;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let frame = Frame { id: 0, body: data.to_vec(), bulk: Vec::new() };
    // What was read is read again the same from its own bytes.
    if let Ok(message) = frame.message::<ToNode>() {
        let body = postcard::to_allocvec(&message).expect("plain data");
        assert_eq!(Frame { body, ..frame.clone() }.message::<ToNode>(), Ok(message));
    }
    if let Ok(message) = frame.message::<ToIoNode>() {
        let body = postcard::to_allocvec(&message).expect("plain data");
        assert_eq!(Frame { body, ..frame }.message::<ToIoNode>(), Ok(message));
    }
});
