//! Program files. The file may be longer than what is looked at: the first eight bytes say how much.

use coppice_protocol::program::{HEADER_BYTES, Segment, USER_END, USER_START, parse};

use super::shape;

pub(super) fn run(data: &[u8]) -> u64 {
    let Some((length, start)) = data.split_first_chunk::<8>() else { return 0 };
    let file_bytes = (u64::from_le_bytes(*length) >> 24).max(start.len() as u64);
    let start = &start[..start.len().min(HEADER_BYTES)];
    let image = match parse(start, file_bytes) {
        Ok(image) => image,
        Err(error) => return shape(&format!("{error:?}")),
    };
    let mut end = USER_START;
    for segment in &image.segments {
        assert!(segment.memory_bytes > 0 && segment.file_bytes <= segment.memory_bytes);
        assert!(segment.file_offset + segment.file_bytes <= file_bytes);
        assert!(segment.first_page() >= end, "no two in a page, in ascending order");
        assert!(segment.file_bytes == 0 || segment.address % 4096 == segment.file_offset % 4096);
        end = segment.end_page();
    }
    assert!(end <= USER_END && end == image.end_page());
    let holds_entry = |segment: &&Segment| segment.address <= image.entry && image.entry < segment.end();
    assert!(image.segments.iter().find(holds_entry).is_some_and(|segment| segment.execute));
    shape(&format!("{image:?}"))
}

/// Small programs: text alone, and with data; at a fixed place and at any.
pub(super) fn examples() -> Vec<Vec<u8>> {
    let text = [1, 5, 0, 0x40_0000, 0x40_0000, 0x2000, 0x2000, 4096];
    let data = [1, 6, 0x2000, 0x40_3000, 0x40_3000, 0x100, 0x900, 4096];
    let stack = [0x6474_e551, 6, 0, 0, 0, 0, 0, 16];
    let moved = [1, 5, 0, 0, 0, 0x2000, 0x2000, 4096];
    vec![elf(2, 0x40_1000, &[text]), elf(2, 0x40_1000, &[text, data, stack]), elf(3, 0x1000, &[moved, stack])]
}

/// A file of 64 KiB of that kind and entry with these program headers: kind, flags, offset, addresses, lengths,
/// alignment.
fn elf(kind: u16, entry: u64, headers: &[[u64; 8]]) -> Vec<u8> {
    let mut file = (0x1_0000_u64 << 24).to_le_bytes().to_vec();
    file.extend(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    file.extend([kind.to_le_bytes(), 62_u16.to_le_bytes()].concat());
    file.extend(1_u32.to_le_bytes());
    file.extend([entry, 64, 0].map(u64::to_le_bytes).concat());
    file.extend(0_u32.to_le_bytes());
    file.extend([64, 56, headers.len() as u16, 64, 0, 0].map(u16::to_le_bytes).concat());
    for [kind, flags, fields @ ..] in headers {
        file.extend([*kind as u32, *flags as u32].map(u32::to_le_bytes).concat());
        file.extend(fields.map(u64::to_le_bytes).concat());
    }
    file
}
