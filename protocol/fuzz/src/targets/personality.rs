//! What a node is told at boot.

use coppice_protocol::personality::{MAGIC, Personality};

use super::shape;

pub(super) fn run(data: &[u8]) -> u64 {
    let _ = Personality::decode(data);
    let ramdisk = if data.starts_with(&MAGIC) { data.to_vec() } else { [&MAGIC[..], data].concat() };
    match Personality::decode(&ramdisk) {
        Ok(personality) => {
            let bytes = personality.encode();
            let again = Personality::decode(&bytes).expect("what was written");
            assert_eq!(again.encode(), bytes);
            shape(&format!("{personality:?}"))
        }
        Err(error) => shape(&format!("{error:?}")),
    }
}
