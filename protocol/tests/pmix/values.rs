//! Numbers and values as bytes.

use coppice_protocol::limits::PMIX_DEPTH_MAX;
use coppice_protocol::pmix::{Dialect, Kind, Process, Reader, Status, Value, Writer};
use proptest::collection::vec;
use proptest::prelude::any;
use proptest::{prop_assert, prop_assert_eq, proptest};

const BOTH: [Dialect; 2] = [Dialect::Short, Dialect::Wide];

fn written(dialect: Dialect, write: impl FnOnce(&mut Writer) -> &mut Writer) -> Vec<u8> {
    let mut writer = Writer::new(dialect);
    write(&mut writer);
    writer.into_bytes()
}

#[test]
fn numbers_are_as_the_library_writes_them() {
    // `flex128`: seven bits in a byte, a sign at the low end.
    for (value, bytes) in [
        (0, &[0][..]),
        (1, &[2]),
        (-1, &[1]),
        (63, &[0x7e]),
        (64, &[0x80, 1]),
        (i32::MAX, &[0xfe, 0xff, 0xff, 0xff, 0x0f]),
        (i32::MIN, &[0xff, 0xff, 0xff, 0xff, 0x0f]),
    ] {
        assert_eq!(written(Dialect::Short, |writer| writer.i32(value)), bytes, "{value}");
    }
    assert_eq!(written(Dialect::Short, |writer| writer.u64(u64::MAX)), [0xff; 9]);
    assert_eq!(written(Dialect::Short, |writer| writer.size(300)), [0xac, 2]);
    // A size says what it is, where numbers are wide.
    assert_eq!(written(Dialect::Wide, |writer| writer.size(300)), [0, 15, 0, 0, 0, 0, 0, 0, 1, 44]);
    assert_eq!(written(Dialect::Wide, |writer| writer.int(-2)), [0, 9, 0xff, 0xff, 0xff, 0xfe]);
    assert_eq!(written(Dialect::Wide, |writer| writer.text(b"ab")), [0, 0, 0, 3, b'a', b'b', 0]);
}

#[test]
fn a_text_has_one_end() {
    for bytes in [&[4, b'a', b'b'][..], &[4, 0, 0], &[8, b'a', 0], &[3]] {
        assert_eq!(Reader::new(bytes, Dialect::Short).text(), Err(Status::UNPACK_FAILURE), "{bytes:?}");
    }
    assert_eq!(Reader::new(&[0], Dialect::Short).text(), Ok(&[][..]));
}

#[test]
fn values_in_values_have_an_end() {
    // A data array of one value that is a data array of one value …
    let nested = |depth: usize| {
        let mut bytes = Vec::new();
        for _ in 0..depth {
            bytes.extend_from_slice(&[39, 1]);
        }
        bytes.extend_from_slice(&[2, 1, 7]);
        bytes
    };
    let skip = |bytes: &[u8]| Kind::DATA_ARRAY.skip(&mut Reader::new(bytes, Dialect::Short));
    assert_eq!(skip(&nested(PMIX_DEPTH_MAX - 1)), Ok(()));
    assert_eq!(skip(&nested(PMIX_DEPTH_MAX + 1)), Err(Status::UNPACK_FAILURE));
    // More elements than there are bytes.
    assert_eq!(skip(&[2, 0xff, 0xff, 0xff, 0xff, 0x0f, 1]), Err(Status::UNPACK_FAILURE));
    // Elements that are nothing.
    assert_eq!(skip(&[0, 5]), Ok(()));
}

#[test]
fn nobody_knows_how_long_a_value_of_an_unknown_type_is() {
    for kind in [28_000, 49, 56, 61, 70, 200] {
        assert_eq!(Kind(kind).skip(&mut Reader::new(&[0; 64], Dialect::Short)), Err(Status::UNKNOWN_DATA_TYPE));
    }
}

proptest! {
    #[test]
    fn numbers_come_back(signed in any::<i32>(), word in any::<u32>(), long in any::<u64>(), short in any::<u16>()) {
        for dialect in BOTH {
            let bytes = written(dialect, |writer| {
                writer.i32(signed).u32(word).u64(long).u16(short).size(long as usize).int(signed)
            });
            let mut reader = Reader::new(&bytes, dialect);
            prop_assert_eq!(reader.i32(), Ok(signed));
            prop_assert_eq!(reader.u32(), Ok(word));
            prop_assert_eq!(reader.u64(), Ok(long));
            prop_assert_eq!(reader.u16(), Ok(short));
            prop_assert_eq!(reader.size(), Ok(long as usize));
            prop_assert_eq!(reader.int(), Ok(signed));
            prop_assert!(reader.is_empty());
        }
    }

    #[test]
    fn values_are_walked_through_whole(text in "[a-z]{0,40}", bytes in vec(any::<u8>(), 0..300), rank in any::<u32>()) {
        let process = Process { space: b"k7", rank };
        let inner = [("in", Value::Text(&text)), ("rank", Value::Rank(rank)), ("who", Value::Process(process))];
        for value in [
            Value::Text(&text),
            Value::Bytes(&bytes),
            Value::Process(process),
            Value::Infos(&inner),
            Value::Short(7),
            Value::Truth(true),
            Value::Status(Status::TIMEOUT),
        ] {
            for dialect in BOTH {
                let mut all = written(dialect, |writer| writer.value(&value));
                let length = all.len();
                all.extend_from_slice(&[1, 2, 3]);
                let mut reader = Reader::new(&all, dialect);
                prop_assert_eq!(Kind::VALUE.skip(&mut reader), Ok(()));
                prop_assert_eq!(reader.rest(), &[1, 2, 3]);
                for cut in 0..length {
                    prop_assert!(Kind::VALUE.skip(&mut Reader::new(&all[..cut], dialect)).is_err());
                }
            }
        }
    }

    #[test]
    fn any_bytes_are_a_value_or_none(kind in 0_u16..80, bytes in vec(any::<u8>(), 0..200)) {
        for dialect in BOTH {
            let mut reader = Reader::new(&bytes, dialect);
            if Kind(kind).skip(&mut reader).is_ok() {
                prop_assert!(bytes.ends_with(reader.rest()));
            }
        }
    }
}
