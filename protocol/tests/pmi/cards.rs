//! How few bytes cards of ranks are in the bodies of frames, of a job of 16,384 nodes with 64 ranks each.

use std::fmt::Write as _;
use std::io::Write as _;

use coppice_protocol::limits::PMI_VALUE_BYTES_MAX;
use coppice_protocol::pmi::Measures;

use crate::barriers::Random;
use crate::compact::{Card, packed, unpacked};

/// Nodes of the sample, out of the middle of a large job, and their ranks.
const NODES: std::ops::Range<u32> = 8000..8064;
const RANKS_PER_NODE: u32 = 64;

/// The cards of all ranks of the sample.
fn sample(card: impl Fn(u32, u32, &mut Random) -> (Vec<u8>, Vec<u8>)) -> Vec<Card> {
    let mut random = Random(99);
    let ranks = NODES.flat_map(|node| (0..RANKS_PER_NODE).map(move |rank| (node, node * RANKS_PER_NODE + rank)));
    let mut cards = Vec::new();
    for (node, rank) in ranks {
        let (key, value) = card(node, rank, &mut random);
        cards.push((node, key, value));
    }
    cards
}

/// An ephemeral port, as they come: not in order.
fn port(random: &mut Random) -> u16 {
    32_768 + random.below(28_232) as u16
}

/// MPICH with ch3:nemesis:tcp.
fn channel_3() -> Vec<Card> {
    sample(|node, rank, random| {
        let [_, a, b, c] = (0x0a80_0001 + node).to_be_bytes();
        let value = format!("description#node{node}$port#{}$ifname#10.{a}.{b}.{c}$", port(random));
        (format!("P{rank}-businesscard").into_bytes(), value.into_bytes())
    })
}

/// MPICH with ch4:ofi over sockets: an address of the kernel's in hexadecimal.
fn channel_4_sockets() -> Vec<Card> {
    sample(|node, rank, random| {
        let value = format!("mpi#0200{:04X}{:08X}0000000000000000$", port(random), 0x0a80_0001 + node);
        (format!("bc-{rank}").into_bytes(), value.into_bytes())
    })
}

/// The same with ch4:ucx: a worker's address, some of it random, in hexadecimal.
fn channel_4_workers() -> Vec<Card> {
    sample(|node, rank, random| {
        let mut address = [0x5a; 120];
        address[1..5].copy_from_slice(&node.to_be_bytes());
        (20..28).chain(60..68).for_each(|byte| address[byte] = random.below(256) as u8);
        address[90..92].copy_from_slice(&port(random).to_be_bytes());
        let digits: String = address.iter().map(|byte| format!("{byte:02x}")).collect();
        (format!("bc-{rank}").into_bytes(), format!("mpi#{digits}$").into_bytes())
    })
}

/// The key of what a rank has committed: how it is written, rank, number and version.
fn pmix_key(rank: u32) -> Vec<u8> {
    [&[0, 4][..], &rank.to_be_bytes(), &0_u32.to_be_bytes(), &1_u64.to_be_bytes()].concat()
}

/// What a fence of PMIx collects: a blob of each rank with several addresses, some of it random.
fn pmix_blobs() -> Vec<Card> {
    sample(|node, rank, random| {
        let mut blob = b"\x01\x00pml.ob1\x00btl.tcp.5.0\x00\x1b\x00\x00\x00\x58".to_vec();
        blob.extend(
            [&[0; 40][..], &(0x0a80_0001 + node).to_be_bytes(), &port(random).to_be_bytes(), &[0; 30]].concat(),
        );
        blob.extend(b"btl.sm.5.0\x00");
        blob.extend((0..16).map(|_| random.below(256) as u8));
        (pmix_key(rank), blob)
    })
}

/// What Open MPI 4.1.4 has committed for others elsewhere, byte for byte as OpenPMIx 4.2.2 writes it: an address and a
/// port of one network card, from 1024 on as they are free.
fn pmix_open_mpi() -> Vec<Card> {
    sample(|node, rank, _| {
        let mut blob = b"\x02\x02\x02\x18btl.tcp.4.1\x00\x1b\x18".to_vec();
        let port = 1024 + (rank * 37 + node) as u16 % RANKS_PER_NODE as u16;
        blob.extend(
            [&(0x0a80_0001 + node).to_be_bytes()[..], &[0; 12], &port.to_be_bytes(), &[4, 0, 0, 0, 0, 0]].concat(),
        );
        (pmix_key(rank), blob)
    })
}

/// The same of MPICH 4.0.2 with ch4:ofi over sockets.
fn pmix_mpich() -> Vec<Card> {
    sample(|node, rank, random| {
        let name = format!("-allgather-shm-1-{rank}");
        let mut blob = vec![2, 2, 2, 2 * (name.len() as u8 + 1)];
        let address = 0x0a80_0001 + node;
        write!(blob, "{name}\0\x03B0200{:04X}{address:08X}0000000000000000\0", port(random)).expect("memory");
        (pmix_key(rank), blob)
    })
}

/// What ranks put that put several things each: two addresses, and what is longer than a value may be.
fn several() -> Vec<Card> {
    let of_rank =
        |rank: u32, cards: &[Vec<Card>]| cards.iter().map(|cards| cards[rank as usize].clone()).collect::<Vec<_>>();
    let long = sample(|node, rank, random| {
        let mut value = vec![0x11; PMI_VALUE_BYTES_MAX];
        value[500..504].copy_from_slice(&node.to_be_bytes());
        value[900..908].fill_with(|| random.below(256) as u8);
        (format!("long-{rank}").into_bytes(), value)
    });
    let all = [channel_4_sockets(), pmix_blobs(), long];
    (0..RANKS_PER_NODE * 8).flat_map(|rank| of_rank(rank, &all)).collect()
}

/// What a body was before: lists of nodes with their lists, each key and value with its length.
fn plain_bytes(cards: &[Card]) -> usize {
    let length = |bytes: usize| if bytes < 0x80 { 1 } else { 2 };
    let of = |item: &[u8]| length(item.len()) + item.len();
    cards.iter().map(|(_, key, value)| of(key) + of(value)).sum::<usize>() + NODES.len() * 3 + 1
}

fn all_bytes(cards: &[Card], measures: Measures) -> usize {
    packed(cards, measures).iter().map(Vec::len).sum()
}

/// For a card each, in hundredths of a byte.
#[test]
fn how_few_bytes_cards_are() {
    let only = Measures { patterns: false, front: false, holes: false, hexadecimal: false };
    let steps = [
        ("indices", only),
        ("+ front", Measures { front: true, ..only }),
        ("+ hex", Measures { front: true, hexadecimal: true, ..only }),
        ("+ patterns", Measures { holes: false, ..Measures::ALL }),
        ("+ holes", Measures::ALL),
    ];
    let mut table = format!("{:<16}{:>8}", "bytes a card", "plain");
    steps.iter().for_each(|(name, _)| write!(table, "{name:>12}").expect("a text"));
    table.push_str("   of plain\n");
    let samples = [
        ("ch3", channel_3()),
        ("ch4 sockets", channel_4_sockets()),
        ("ch4 workers", channel_4_workers()),
        ("PMIx", pmix_blobs()),
        ("PMIx, Open MPI", pmix_open_mpi()),
        ("PMIx, MPICH", pmix_mpich()),
        ("several each", several()),
    ];
    for (name, cards) in samples {
        assert_eq!(unpacked(&packed(&cards, Measures::ALL)), cards);
        let a_card = |bytes: usize| bytes as f64 / cards.len() as f64;
        let plain = plain_bytes(&cards);
        write!(table, "{name:<16}{:>8.2}", a_card(plain)).expect("a text");
        for (_, measures) in steps {
            write!(table, "{:>12.2}", a_card(all_bytes(&cards, measures))).expect("a text");
        }
        let part = all_bytes(&cards, Measures::ALL) as f64 / plain as f64;
        writeln!(table, "{part:>11.3}").expect("a text");
        assert!(part <= 0.4, "{name}: {part}");
    }
    insta::assert_snapshot!(table);
}
