//! Program files. Run: `cargo +nightly fuzz run program` in `protocol/`; a few small programs in `fuzz/corpus/program`
//! are a good start.
#![no_main]

use coppice_protocol::program::{HEADER_BYTES, USER_END, USER_START, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    // The file may be longer than what is looked at: the first eight bytes say how much.
    let Some((length, start)) = data.split_first_chunk::<8>() else { return };
    let file_bytes = (u64::from_le_bytes(*length) >> 24).max(start.len() as u64);
    let start = &start[..start.len().min(HEADER_BYTES)];
    let Ok(image) = parse(start, file_bytes) else { return };
    let mut end = USER_START;
    for segment in &image.segments {
        assert!(segment.memory_bytes > 0 && segment.file_bytes <= segment.memory_bytes);
        assert!(segment.file_offset + segment.file_bytes <= file_bytes);
        assert!(segment.first_page() >= end, "no two in a page, in ascending order");
        assert!(segment.file_bytes == 0 || segment.address % 4096 == segment.file_offset % 4096);
        end = segment.end_page();
    }
    assert!(end <= USER_END && end == image.end_page());
    let holds_entry =
        |segment: &&coppice_protocol::program::Segment| segment.address <= image.entry && image.entry < segment.end();
    assert!(image.segments.iter().find(holds_entry).is_some_and(|segment| segment.execute));
});
