//! Files nobody made: no bytes make the parser panic, and what it accepts keeps its promises.

use coppice_protocol::program::parse;
use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, Strategy, any, prop_oneof};
use proptest::proptest;
use proptest::sample::select;

use crate::elf_file::{ElfFile, Header};
use crate::{check_promises, parse_file};

/// Numbers where mistakes live: small, around pages and limits, anywhere.
fn number() -> impl Strategy<Value = u64> {
    let edges = vec![
        0,
        1,
        0xfff,
        0x1000,
        0x1001,
        0xffff,
        0x1_0000,
        0x40_0000,
        0x5500_0000_0000,
        0x7fff_ffff_e000,
        0x7fff_ffff_f000,
        0x8000_0000_0000,
        0xffff_8000_0000_0000,
        u64::MAX - 0xfff,
        u64::MAX,
    ];
    prop_oneof![
        4 => (0..16_u64, 0..3_u64).prop_map(|(pages, more)| pages * 0x1000 + more * 0x700),
        2 => select(edges),
        1 => any::<u64>(),
    ]
}

fn header() -> impl Strategy<Value = Header> {
    let kind = select(vec![1, 1, 1, 1, 2, 6, 7, 0x6474_e551, 0x6474_e552]);
    (kind, 0..8_u32, number(), number(), number(), number(), number()).prop_map(
        |(kind, flags, offset, address, file_bytes, memory_bytes, alignment)| Header {
            kind,
            flags,
            offset,
            address,
            file_bytes,
            memory_bytes,
            alignment,
        },
    )
}

/// Segments that are likely to be loaded side by side.
fn plausible_segment() -> impl Strategy<Value = Header> {
    (0..24_u64, 0..5_u64, 0..3_u64, 0..8_u32, 0..0x2800_u64, 0..0x2800_u64).prop_map(
        |(page, file_page, within, flags, file_bytes, zeros)| Header {
            kind: 1,
            flags,
            offset: file_page * 0x1000 + within * 0x555,
            address: 0x40_0000 + page * 0x1000 + within * 0x555,
            file_bytes,
            memory_bytes: file_bytes + if zeros % 2 == 0 { zeros } else { 0 },
            alignment: 0x1000,
        },
    )
}

fn check(file: &ElfFile) -> bool {
    let parsed = parse_file(file);
    if let Ok(image) = &parsed {
        check_promises(image, file.bytes);
    }
    parsed.is_ok()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn any_bytes(bytes in vec(any::<u8>(), 0..400), elf in any::<bool>(), file_bytes in any::<u64>()) {
        let mut start = if elf { vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0] } else { Vec::new() };
        start.extend(&bytes);
        if let Ok(image) = parse(&start, file_bytes) {
            check_promises(&image, file_bytes);
        }
        let _ = parse(&start, start.len() as u64);
    }

    #[test]
    fn any_headers(headers in vec(header(), 0..8), entry in number(), position_independent in any::<bool>()) {
        let file = if position_independent { ElfFile::position_independent() } else { ElfFile::fixed() };
        check(&ElfFile { headers, entry, ..file });
    }

    #[test]
    fn changed_headers(
        change in header(),
        index in 0..8_usize,
        keep in any::<[bool; 7]>(),
        position_independent in any::<bool>(),
    ) {
        let mut file = if position_independent { ElfFile::position_independent() } else { ElfFile::fixed() };
        let header = &mut file.headers[index];
        let [kind, flags, offset, address, file_bytes, memory_bytes, alignment] = keep;
        let old = *header;
        *header = Header {
            kind: if kind { old.kind } else { change.kind },
            flags: if flags { old.flags } else { change.flags },
            offset: if offset { old.offset } else { change.offset },
            address: if address { old.address } else { change.address },
            file_bytes: if file_bytes { old.file_bytes } else { change.file_bytes },
            memory_bytes: if memory_bytes { old.memory_bytes } else { change.memory_bytes },
            alignment: if alignment { old.alignment } else { change.alignment },
        };
        check(&file);
    }

    #[test]
    fn segments_side_by_side(segments in vec(plausible_segment(), 1..5), entry in 0..24_u64) {
        let entry = 0x40_0000 + entry * 0x1000;
        let mut file = ElfFile { headers: segments, entry, bytes: 0x8000, ..ElfFile::fixed() };
        file.headers.push(Header { flags: 5, ..crate::elf_file::load(5, 0, entry, 0x10, 0x10) });
        check(&file);
    }

    #[test]
    fn changed_bytes(place in 0..512_usize, value in any::<u8>(), position_independent in any::<bool>()) {
        let file = if position_independent { ElfFile::position_independent() } else { ElfFile::fixed() };
        let mut page = file.page();
        page[place] = value;
        if let Ok(image) = parse(&page, file.bytes) {
            check_promises(&image, file.bytes);
        }
    }
}

#[test]
fn the_strategies_make_programs_that_run_too() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut runs = 0;
    for _ in 0..200 {
        let tree = vec(plausible_segment(), 1..4).new_tree(&mut runner).expect("a value");
        let mut headers = tree.current();
        headers.push(crate::elf_file::load(5, 0, 0x80_0000, 0x10, 0x10));
        runs += usize::from(check(&ElfFile { headers, entry: 0x80_0000, bytes: 0x8000, ..ElfFile::fixed() }));
    }
    assert!(runs > 20, "only {runs} of 200");
}
