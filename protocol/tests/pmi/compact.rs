//! Bodies of frames: what goes in comes out, damaged ones are refused, and few bytes stand for no more than a job may
//! put.

use coppice_protocol::limits::{
    PMI_BYTES_PER_JOB_MAX, PMI_FRAME_BODY_BYTES_MAX, PMI_HOLES_MAX, PMI_KEY_BYTES_MAX, PMI_KEYS_PER_JOB_MAX,
    PMI_PARTS_MAX, PMI_PATTERN_NUMBERS_MAX, PMI_PATTERNS_MAX, PMI_ROWS_MAX, PMI_VALUE_BYTES_MAX,
};
use coppice_protocol::pmi::{Measures, PeerError, pack, unpack};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any};
use proptest::sample::{Index, select};
use proptest::{prop_assert, prop_assert_eq, prop_oneof, proptest};

use crate::barriers::Random;

/// Whose, key, value.
pub(crate) type Card = (u32, Vec<u8>, Vec<u8>);

const NONSENSE: PeerError = PeerError::Nonsense("body");

pub(crate) fn packed(cards: &[Card], measures: Measures) -> Vec<Vec<u8>> {
    pack(cards.iter().map(|(node, key, value)| (*node, &key[..], &value[..])), measures).expect("memory")
}

/// What is in bodies, of each on its own.
pub(crate) fn unpacked(bodies: &[Vec<u8>]) -> Vec<Card> {
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
    prop_oneof![vec((node, key, item(PMI_VALUE_BYTES_MAX)), 0..80), alike()]
}

/// Cards of a few kinds, of which some bytes differ from one to the next, and sometimes their length.
fn alike() -> impl Strategy<Value = Vec<Card>> {
    let kinds = vec((vec(any::<u8>(), 1..30), item(200)), 1..12);
    let changes = vec((any::<Index>(), select(&b"07af\xff"[..])), 0..6);
    (kinds, vec((0..3_u32, any::<Index>(), changes, 0..20_u8), 0..80)).prop_map(|(mut kinds, cards)| {
        let card = |(node, kind, changes, length): (u32, Index, Vec<(Index, u8)>, u8)| {
            let kind = kind.index(kinds.len());
            let (key, value) = &mut kinds[kind];
            for (place, byte) in changes {
                let place = place.index(key.len() + value.len());
                *key.iter_mut().chain(&mut *value).nth(place).expect("one of them") = byte;
            }
            match length {
                0 => value.extend(b"00"),
                1 => value.truncate(value.len().saturating_sub(1)),
                _ => {}
            }
            (node, key.clone(), value.clone())
        };
        cards.into_iter().map(card).collect()
    })
}

fn measures() -> impl Strategy<Value = Measures> {
    any::<[bool; 4]>().prop_map(|[patterns, front, holes, hexadecimal]| Measures {
        patterns,
        front,
        holes,
        hexadecimal,
    })
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
    assert_eq!(read(&[1, 0, 1, b'k', 1, 0, 0]), puts(&[(0, "k", "")]));
    // Node 3; a pattern with one number, twice; node 2.
    let pattern = [0, 6, 4, 1, 1, b'P', 1, b'-', 14, 21, 2, 0, 1, 21, 3, 2, 0, 1, 0xab];
    assert_eq!(read(&pattern), puts(&[(3, "P7-", "P8-"), (2, "P6-", "ab")]));
    for refused in [
        &[1][..],
        &[1, 0, 1, b'k'],
        &[1, 0, 0, 1, 0, 0],
        &[1, 1, 0, 0, 1, b'k', 1, 0, 0],
        &[1, 0, 1, b'k', 0, 2, 1, 0, 0],
        &[0, 1, 1, 0, 1, b'k', 1, 0, 0],
        &[0, 0, 0, 0, 1, 0, 1, b'k', 1, 0, 0],
        &[21, 0, 1, 0, 0],
        &[4, 0, 1, b'k', 1, 0, 0],
        &[0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02, 0, 1, b'k', 1, 0, 0],
    ] {
        assert_eq!(read(refused), Err(NONSENSE), "{refused:?}");
    }
}

/// What bodies say of rows, whose keys are these; the values are nothing.
fn keys(items: &[&[u8]]) -> Result<Vec<String>, PeerError> {
    let nothing = &[1, 0, 0][..];
    let body: Vec<u8> = items.iter().flat_map(|item| [item, nothing].concat()).collect();
    Ok(unpack(&body)?.iter().map(|(_, key, _)| String::from_utf8_lossy(key).into_owned()).collect())
}

#[test]
fn what_is_alike_is_said_once() {
    let read = |items: &[&[u8]]| keys(&[&[&b"\x01\0\x05port1"[..]], items].concat()).map(|keys| keys[1..].join(" "));
    let is = |keys: &str| Ok(keys.to_owned());
    assert_eq!(read(&[&[5], &[5]]), is("port1 port1"));
    // Other holes once, and from then on if those before did not fit right before that.
    assert_eq!(read(&[b"\x0d\x04\x042", b"\x053"]), is("port2 port3"));
    let once = b"\x0d\0\x04\x04m";
    assert_eq!(read(&[b"\x0d\x04\x042", b"\x053", once, b"\x054", b"\x055"]), is("port2 port3 mort3 mort4 mort5"));
    assert_eq!(read(&[b"\x0d\x04\x042", once, b"\x05s", b"\x05f"]), is("port2 mort2 sort2 fort2"));
    // Another row; then the one before, and again the other; one that is like the first of both.
    let node = b"\x01\0\x04node";
    let rows: &[&[u8]] = &[node, &[6], b"\x0e\x01\x08\x01am", &[6], b"\x01\x01\x05\0\x01s"];
    assert_eq!(read(&rows[..4]), is("node port1 name port1"));
    assert_eq!(read(&rows[..5]), is("node port1 name port1 port1s"));
    assert_eq!(read(&[rows[0], rows[4]]), Err(NONSENSE));
    // Hexadecimal digits.
    let digits = b"\x02\0\x02\xab\xcd";
    assert_eq!(read(&[digits, &[13, 0, 5, 2, 0x12], &[5, 0x34], &[13, 2, 6, 0xef]]), is("abcd 12cd 34cd 34EF"));
    for refused in [
        &[6][..],
        &[13],
        &[13, 4],
        &[13, 6],
        &[13, 4, 0],
        &[13, 4, 3, b'2'],
        &[13, 4, 4],
        &[13, 4, 5, 0x12],
        &[13, 3, 12, 1, 2, 3],
        &[13, 4, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
        &[13, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 4, 1],
        &[14, 5],
        &[1, 2, 0, 0, 1, b'x'],
        &[1, 1, 6, 0, 0],
        &[1, 1, 0, 6, 0],
    ] {
        assert_eq!(read(&[refused]), Err(NONSENSE), "{refused:?}");
    }
}

#[test]
fn rows_and_their_holes_are_limited() {
    // The first row makes room, and comes last.
    let letters: Vec<[u8; 4]> = (0..=PMI_ROWS_MAX as u8).map(|index| [1, 0, 1, b'a' + index]).collect();
    let last = |row: usize| {
        let like = [1, row as u8, 1, 0, 0];
        let items: Vec<&[u8]> = letters.iter().map(|letter| &letter[..]).chain([&like[..]]).collect();
        keys(&items).map(|keys| keys.last().cloned())
    };
    assert_eq!((last(PMI_ROWS_MAX), last(PMI_ROWS_MAX + 1)), (Ok(Some("b".into())), Err(NONSENSE)));
    // Values of as many bytes as can be, with holes of one after each one.
    let holes = |count: usize| {
        let long = [&[1, 0, 1, b'k', 1, 0, 0x80, 8][..], &[b'v'; PMI_VALUE_BYTES_MAX]].concat();
        let rest = PMI_VALUE_BYTES_MAX - 2 * count;
        let next = [&[5, 13][..], &[1, 4].repeat(count), &[rest as u8 | 0x80, (rest >> 7) as u8], &vec![b'x'; count]];
        unpack(&[long, next.concat()].concat()).map(|puts| puts[1].2.iter().filter(|byte| **byte == b'x').count())
    };
    assert_eq!((holes(PMI_HOLES_MAX), holes(PMI_HOLES_MAX + 1)), (Ok(PMI_HOLES_MAX), Err(NONSENSE)));
}

#[test]
fn patterns_are_limited() {
    let text = |text: &[u8]| [&[1, 0, text.len() as u8][..], text].concat();
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
    let nothing = [1, 0, 0];
    let long = [&[1, 0, 1, b'k', 1, 0, 0x80, 8][..], &[b'v'; PMI_VALUE_BYTES_MAX]].concat();
    // The same again, of both.
    let body = |repeats: usize| [&long[..], &[5, 5].repeat(repeats)].concat();
    let all = PMI_BYTES_PER_JOB_MAX / (PMI_VALUE_BYTES_MAX + 1);
    let more_than_a_body = body(all).len().div_ceil(PMI_FRAME_BODY_BYTES_MAX);
    assert!(more_than_a_body == 1, "one body is enough for it");
    assert_eq!(unpack(&body(all - 1)).map(|puts| puts.len()), Ok(all));
    let refused = PeerError::Nonsense("more than a job may put");
    assert_eq!(unpack(&body(all)), Err(refused));
    let many = |keys: usize| [&[1, 0, 1, b'k'][..], &nothing].concat().repeat(keys);
    assert_eq!(unpack(&many(PMI_KEYS_PER_JOB_MAX)).map(|puts| puts.len()), Ok(PMI_KEYS_PER_JOB_MAX));
    assert_eq!(unpack(&many(PMI_KEYS_PER_JOB_MAX + 1)), Err(refused));
    // The longest key and value, by whatever way, and what is longer by one.
    let key = |count: usize| {
        let longest = [&[1, 1, 1, 1, count as u8][..], &vec![b'x'; count]].concat();
        keys(&[b"\x01\0\x02ab", &[1, 1, 1, 1, 0], &longest]).map(|keys| keys[2].len())
    };
    assert_eq!((key(PMI_KEY_BYTES_MAX - 2), key(PMI_KEY_BYTES_MAX - 1)), (Ok(PMI_KEY_BYTES_MAX), Err(NONSENSE)));
    let digits = |pairs: u8| {
        let digits = [&[2, 0, pairs][..], &vec![0xff; pairs.into()]].concat();
        keys(&[&digits]).map(|keys| keys[0].len())
    };
    assert_eq!((digits(32), digits(33)), (Ok(PMI_KEY_BYTES_MAX), Err(NONSENSE)));
    let filled = |text: usize| {
        let filled = [&[4, 1, text as u8][..], &vec![b'x'; text], &[0, 18]].concat();
        keys(&[&filled]).map(|keys| keys[0].len())
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
