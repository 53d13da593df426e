//! Messages of function shipping. Run: `cargo +nightly fuzz run ship` in `protocol/`.
#![no_main]

use coppice_protocol::frame::Frame;
use coppice_protocol::ship::{Notice, Reply, Request};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let frame = Frame { id: 0, body: data.to_vec(), bulk: Vec::new() };
    // What was read is read again the same from its own bytes.
    if let Ok(message) = frame.message::<Request>() {
        let body = postcard::to_allocvec(&message).expect("plain data");
        assert_eq!(Frame { body, ..frame.clone() }.message::<Request>(), Ok(message));
    }
    if let Ok(message) = frame.message::<Reply>() {
        let body = postcard::to_allocvec(&message).expect("plain data");
        assert_eq!(Frame { body, ..frame.clone() }.message::<Reply>(), Ok(message));
    }
    if let Ok(message) = frame.message::<Notice>() {
        let body = postcard::to_allocvec(&message).expect("plain data");
        assert_eq!(Frame { body, ..frame }.message::<Notice>(), Ok(message));
    }
});
