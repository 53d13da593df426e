//! What a node is told at boot. Run: `cargo +nightly fuzz run personality` in `protocol/`.
#![no_main]

use coppice_protocol::personality::{MAGIC, Personality};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = Personality::decode(data);
    let ramdisk = [&MAGIC[..], data].concat();
    if let Ok(personality) = Personality::decode(&ramdisk) {
        let bytes = personality.encode();
        let again = Personality::decode(&bytes).expect("what was written");
        assert_eq!(again.encode(), bytes);
    }
});
