//! Bodies of frames: what goes in comes out, damaged ones are refused, few bytes stand for no more than a job may put,
//! and how few they are.

use std::fmt::Write as _;

use coppice_protocol::limits::{
    PMI_BYTES_PER_JOB_MAX, PMI_FRAME_BODY_BYTES_MAX, PMI_KEY_BYTES_MAX, PMI_KEYS_PER_JOB_MAX, PMI_PARTS_MAX,
    PMI_PATTERN_NUMBERS_MAX, PMI_PATTERNS_MAX, PMI_VALUE_BYTES_MAX,
};
use coppice_protocol::pmi::{Measures, PeerError, pack, unpack};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any};
use proptest::sample::{Index, select};
use proptest::{prop_assert, prop_assert_eq, prop_oneof, proptest};

use crate::barriers::Random;

/// Whose, key, value.
type Card = (u32, Vec<u8>, Vec<u8>);

const NONSENSE: PeerError = PeerError::Nonsense("body");

fn packed(cards: &[Card], measures: Measures) -> Vec<Vec<u8>> {
    pack(cards.iter().map(|(node, key, value)| (*node, &key[..], &value[..])), measures).expect("memory")
}

/// What is in bodies, of each on its own.
fn unpacked(bodies: &[Vec<u8>]) -> Vec<Card> {
    let read = bodies.iter().flat_map(|body| unpack(body).expect("a body"));
    read.map(|(node, key, value)| (node, key.into_vec(), value.into_vec())).collect()
}

/// Keys and values of any kind: numbers that are none, too large, no text, hexadecimal, nothing, much alike.
fn item(bytes_max: usize) -> impl Strategy<Value = Vec<u8>> {
    let text = |text: String| text.into_bytes();
    let item = prop_oneof![
        "P[0-9]{1,3}-businesscard".prop_map(text),
        "(00?)?[0-9]{0,22}[a-z]?[0-9]{18,22}".prop_map(text),
        "[0-9]{1,2}([.$][0-9]{0,3}){0,18}".prop_map(text),
        "[0-9a-f]{0,40}|[0-9A-F]{0,40}".prop_map(text),
        vec(any::<u8>(), 0..30),
        vec(select(&b"ab0"[..]), 0..6),
        Just(Vec::new()),
        (any::<u8>(), 0..=bytes_max).prop_map(|(byte, count)| vec![byte; count]),
    ];
    item.prop_map(move |mut item| {
        item.truncate(bytes_max);
        item
    })
}

fn cards() -> impl Strategy<Value = Vec<Card>> {
    let key = item(PMI_KEY_BYTES_MAX).prop_map(|key| if key.is_empty() { vec![b'k'] } else { key });
    let node = prop_oneof![0..5_u32, any::<u32>()];
    vec((node, key, item(PMI_VALUE_BYTES_MAX)), 0..80)
}

fn measures() -> impl Strategy<Value = Measures> {
    any::<[bool; 3]>().prop_map(|[patterns, front, hexadecimal]| Measures { patterns, front, hexadecimal })
}

proptest! {
    #[test]
    fn what_goes_in_comes_out(cards in cards(), measures in measures()) {
        let bodies = packed(&cards, measures);
        prop_assert!(!bodies.is_empty() && bodies.iter().all(|body| body.len() <= PMI_FRAME_BODY_BYTES_MAX));
        prop_assert_eq!(unpacked(&bodies), &cards[..]);
        // They are not much longer at worst, so that parts suffice.
        let bytes: usize = cards.iter().map(|(_, key, value)| key.len() + value.len() + 24).sum();
        prop_assert!(bodies.iter().map(Vec::len).sum::<usize>() <= bytes);
    }

    #[test]
    fn a_damaged_body_is_refused_or_another(
        cards in cards(), place in any::<Index>(), to in any::<u8>(), cuts in any::<bool>(),
    ) {
        let mut body = packed(&cards, Measures::ALL).swap_remove(0);
        if !body.is_empty() {
            let place = place.index(body.len());
            body[place] = to;
            body.truncate(if cuts { place } else { body.len() });
        }
        check(&body)?;
    }

    #[test]
    fn random_bytes_are_refused_or_a_body(body in vec(prop_oneof![0..8_u8, any::<u8>()], 0..200)) {
        check(&body)?;
    }
}

/// What a body is understood to be is packed again as the same.
fn check(body: &[u8]) -> Result<(), proptest::test_runner::TestCaseError> {
    match unpack(body) {
        Ok(puts) => {
            let bytes: usize = puts.iter().map(|(_, key, value)| key.len() + value.len()).sum();
            prop_assert!(bytes <= PMI_BYTES_PER_JOB_MAX && puts.len() <= PMI_KEYS_PER_JOB_MAX);
            let again = pack(puts.iter().map(|(node, key, value)| (*node, &**key, &**value)), Measures::ALL);
            let again =
                again.expect("memory").iter().flat_map(|body| unpack(body).expect("a body")).collect::<Vec<_>>();
            prop_assert_eq!(again, puts);
        }
        Err(error) => prop_assert!(matches!(error, PeerError::Nonsense(_))),
    }
    Ok(())
}

#[test]
fn a_body_is_what_it_says() {
    let read = |body: &[u8]| unpack(body).map(|puts| format!("{puts:?}"));
    let puts = |puts: &[(u32, &str, &str)]| {
        let boxed = |text: &str| Box::<[u8]>::from(text.as_bytes());
        Ok(format!("{:?}", puts.iter().map(|(node, key, value)| (*node, boxed(key), boxed(value))).collect::<Vec<_>>()))
    };
    assert_eq!(read(&[]), puts(&[]));
    assert_eq!(read(&[1, 0, 0, 1, b'k', 1, 0, 0, 0]), puts(&[(0, "k", "")]));
    // Node 3; a pattern with one number, twice; node 2.
    let pattern = [0, 6, 4, 1, 1, b'P', 1, b'-', 14, 5, 2, 0, 1, 5, 3, 2, 0, 0, 1, 0xab];
    assert_eq!(read(&pattern), puts(&[(3, "P7-", "P8-"), (2, "P6-", "ab")]));
    for refused in [
        &[1][..],
        &[1, 0, 0, 1, b'k'],
        &[1, 0, 0, 0, 1, 0, 0, 0],
        &[1, 1, 0, 0, 1, 0, 0, 0],
        &[1, 0, 1, 0, 1, 0, 0, 0],
        &[1, 0, 0, 1, b'k', 0, 2, 1, 0, 0, 0],
        &[0, 1, 1, 0, 0, 1, b'k', 1, 0, 0, 0],
        &[0, 0, 0, 0, 1, 0, 0, 1, b'k', 1, 0, 0, 0],
        &[5, 0, 1, 0, 0, 0],
        &[4, 0, 1, b'k', 1, 0, 0, 0],
        &[0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02, 0, 0, 1, b'k', 1, 0, 0, 0],
    ] {
        assert_eq!(read(refused), Err(NONSENSE), "{refused:?}");
    }
}

#[test]
fn patterns_are_limited() {
    let text = |text: &[u8]| [&[1, 0, 0, text.len() as u8][..], text].concat();
    // A pattern is a letter and a number.
    let patterns = |count: usize| {
        let one = |index: usize| [&[4, 1, 1, index as u8, 0, 2][..], &text(b"")].concat();
        unpack(&(0..count).flat_map(one).collect::<Vec<u8>>()).map(|puts| puts.len())
    };
    assert_eq!((patterns(PMI_PATTERNS_MAX), patterns(PMI_PATTERNS_MAX + 1)), (Ok(PMI_PATTERNS_MAX), Err(NONSENSE)));
    let numbers = |count: usize| {
        let pattern = [&[4, count as u8][..], &vec![0; count + 1], &vec![2; count], &text(b"")].concat();
        unpack(&pattern).map(|puts| puts[0].1.len())
    };
    assert_eq!(numbers(PMI_PATTERN_NUMBERS_MAX), Ok(PMI_PATTERN_NUMBERS_MAX));
    assert_eq!(numbers(PMI_PATTERN_NUMBERS_MAX + 1), Err(NONSENSE));
}

/// A few bytes that stand for long values, or for many keys.
#[test]
fn what_expands_to_more_than_a_job_may_put_is_refused() {
    let long = [&[1, 0, 0, 1, b'k', 1, 0, 0, 0x80, 8][..], &[b'v'; PMI_VALUE_BYTES_MAX]].concat();
    let repeat = [1, 1, 0, 0, 1, 0x80, 8, 0, 0];
    let body = |repeats: usize| [&long[..], &repeat.repeat(repeats)].concat();
    let all = PMI_BYTES_PER_JOB_MAX / (PMI_VALUE_BYTES_MAX + 1);
    let more_than_a_body = body(all).len().div_ceil(PMI_FRAME_BODY_BYTES_MAX);
    assert!(more_than_a_body == 1, "one body is enough for it");
    assert_eq!(unpack(&body(all - 1)).map(|puts| puts.len()), Ok(all));
    let refused = PeerError::Nonsense("more than a job may put");
    assert_eq!(unpack(&body(all)), Err(refused));
    let many = |keys: usize| [1, 0, 0, 1, b'k', 1, 0, 0, 0].repeat(keys);
    assert_eq!(unpack(&many(PMI_KEYS_PER_JOB_MAX)).map(|puts| puts.len()), Ok(PMI_KEYS_PER_JOB_MAX));
    assert_eq!(unpack(&many(PMI_KEYS_PER_JOB_MAX + 1)), Err(refused));
    // The longest key and value, by whatever way, and what is longer by one.
    let key = |count: usize| {
        let rest =
            [&[1, 1, 1, 0][..], &[1, 0, 0, 0], &[1, 1, 1, count as u8], &vec![b'x'; count], &[1, 0, 0, 0]].concat();
        unpack(&[&[1, 0, 0, 2, b'a', b'b', 1, 0, 0, 0][..], &rest].concat()).map(|puts| puts[2].1.len())
    };
    assert_eq!((key(PMI_KEY_BYTES_MAX - 2), key(PMI_KEY_BYTES_MAX - 1)), (Ok(PMI_KEY_BYTES_MAX), Err(NONSENSE)));
    let digits = |pairs: u8| {
        let key = [&[2, 0, 0, pairs][..], &vec![0xff; pairs.into()], &[1, 0, 0, 0]].concat();
        unpack(&key).map(|puts| puts[0].1.len())
    };
    assert_eq!((digits(32), digits(33)), (Ok(PMI_KEY_BYTES_MAX), Err(NONSENSE)));
    let filled = |text: usize| {
        let key = [&[4, 1, text as u8][..], &vec![b'x'; text], &[0, 18], &[1, 0, 0, 0]].concat();
        unpack(&key).map(|puts| puts[0].1.len())
    };
    assert_eq!((filled(PMI_KEY_BYTES_MAX - 1), filled(PMI_KEY_BYTES_MAX)), (Ok(PMI_KEY_BYTES_MAX), Err(NONSENSE)));
}

/// All that a job may put, as little alike as can be.
#[test]
fn parts_suffice_for_all_that_a_job_may_put() {
    let mut random = Random(7);
    let bytes = PMI_BYTES_PER_JOB_MAX / PMI_KEYS_PER_JOB_MAX - 8;
    let mut cards: Vec<Card> = Vec::new();
    for card in 0..PMI_KEYS_PER_JOB_MAX {
        let value = (0..bytes).map(|_| random.below(256) as u8).collect();
        cards.push((random.below(1 << 32) as u32, card.to_be_bytes().to_vec(), value));
    }
    let bodies = packed(&cards, Measures::ALL);
    assert!(bodies.len() < PMI_PARTS_MAX as usize / 2, "{}", bodies.len());
    assert_eq!(unpacked(&bodies[..1]), cards[..unpacked(&bodies[..1]).len()]);
}

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

/// What a fence of PMIx collects: a blob of each rank, under a key of its rank, number and version.
fn pmix_blobs() -> Vec<Card> {
    sample(|node, rank, random| {
        let key = [&[0, 1][..], &rank.to_be_bytes(), &0_u32.to_be_bytes(), &1_u64.to_be_bytes()].concat();
        let mut blob = b"\x01\x00pml.ob1\x00btl.tcp.5.0\x00\x1b\x00\x00\x00\x58".to_vec();
        blob.extend(
            [&[0; 40][..], &(0x0a80_0001 + node).to_be_bytes(), &port(random).to_be_bytes(), &[0; 30]].concat(),
        );
        blob.extend(b"btl.sm.5.0\x00");
        blob.extend((0..16).map(|_| random.below(256) as u8));
        (key, blob)
    })
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
    let only = Measures { patterns: false, front: false, hexadecimal: false };
    let steps = [
        ("indices", only),
        ("+ front", Measures { front: true, ..only }),
        ("+ hex", Measures { front: true, hexadecimal: true, ..only }),
        ("+ patterns", Measures::ALL),
        ("patterns only", Measures { patterns: true, ..only }),
    ];
    let mut table = format!("{:<12}{:>8}", "bytes a card", "plain");
    steps.iter().for_each(|(name, _)| write!(table, "{name:>15}").expect("a text"));
    table.push_str("   of plain\n");
    let samples = [
        ("ch3", channel_3()),
        ("ch4 sockets", channel_4_sockets()),
        ("ch4 workers", channel_4_workers()),
        ("PMIx", pmix_blobs()),
    ];
    for (name, cards) in samples {
        assert_eq!(unpacked(&packed(&cards, Measures::ALL)), cards);
        let a_card = |bytes: usize| bytes as f64 / cards.len() as f64;
        let plain = plain_bytes(&cards);
        write!(table, "{name:<12}{:>8.2}", a_card(plain)).expect("a text");
        for (_, measures) in steps {
            write!(table, "{:>15.2}", a_card(all_bytes(&cards, measures))).expect("a text");
        }
        let part = all_bytes(&cards, Measures::ALL) as f64 / plain as f64;
        writeln!(table, "{part:>11.3}").expect("a text");
        assert!(name != "ch3" || part <= 0.4, "{part}");
    }
    insta::assert_snapshot!(table);
}
