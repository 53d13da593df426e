//! The protocol between service node and I/O node. Run: `cargo +nightly fuzz run pset` in `protocol/`.
#![no_main]

use coppice_protocol::pset::{FromPset, ToPset, decode, encode};
use libfuzzer_sys::fuzz_target;
use serde::Serialize;
use serde::de::DeserializeOwned;

fuzz_target!(|data: &[u8]| {
    check::<ToPset>(data);
    check::<FromPset>(data);
});

/// What was read is read again the same from its own bytes.
fn check<T: Serialize + DeserializeOwned>(data: &[u8]) {
    if let Ok(Some((message, taken))) = decode::<T>(data) {
        assert!(taken <= data.len());
        let bytes = encode(&message).expect("no longer than it was");
        let (again, all) = decode::<T>(&bytes).expect("what was written").expect("whole");
        assert_eq!(all, bytes.len());
        assert_eq!(encode(&again).expect("no longer than it was"), bytes);
    }
}
