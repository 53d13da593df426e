//! What ranks have put, as frames between nodes carry it. A frame has a MAC that nobody else makes, so its body is
//! tried without it.

use coppice_protocol::limits::{PMI_BYTES_PER_JOB_MAX, PMI_KEYS_PER_JOB_MAX};
use coppice_protocol::pmi::{Card, Measures, pack, unpack};

use super::shape;

fn packed(cards: &[Card]) -> Vec<Vec<u8>> {
    let cards = cards.iter().map(|(node, key, value)| (*node, &**key, &**value));
    pack(cards, Measures::ALL).expect("memory")
}

pub(super) fn run(data: &[u8]) -> u64 {
    let read = unpack(data);
    if let Ok(cards) = &read {
        let bytes: usize = cards.iter().map(|(_, key, value)| key.len() + value.len()).sum();
        assert!(bytes <= PMI_BYTES_PER_JOB_MAX && cards.len() <= PMI_KEYS_PER_JOB_MAX);
        let again: Vec<Card> = packed(cards).iter().flat_map(|body| unpack(body).expect("packed")).collect();
        assert_eq!(&again, cards);
    }
    shape(&format!("{read:?}"))
}

/// Cards that have patterns, and such that have none.
pub(super) fn examples() -> Vec<Vec<u8>> {
    let addresses = |rank: u32| format!("description#node{}$port#{}$ifname#10.128.0.{rank}$", rank / 2, 40_000 + rank);
    let digits = |rank: u32| format!("mpi#0200{:08x}{:08x}$", rank.wrapping_mul(0x9e37_79b9), rank);
    let blob = |rank: u32| "\u{1}\0".repeat(rank as usize);
    let of = |count: u32, key: &str, value: &dyn Fn(u32) -> String| {
        let card = |rank| {
            let key = format!("{key}{rank}-businesscard");
            (rank / 2, Box::from(key.as_bytes()), Box::from(value(rank).as_bytes()))
        };
        packed(&(0..count).map(card).collect::<Vec<Card>>()).swap_remove(0)
    };
    (0..6).flat_map(|count| [of(count, "P", &addresses), of(count, "bc-", &digits), of(count, "", &blob)]).collect()
}
