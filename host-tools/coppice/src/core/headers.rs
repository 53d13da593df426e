//! The layout of a core file (ELF-64, x86-64): the header, a program header for the notes and one for each area, the
//! notes, and then memory, page by page.

use coppice_api::inspect::held::{MappedArea, Shows};

use super::{Put, Snapshot, notes};

const HEADER_BYTES: u64 = 64;
const PROGRAM_HEADER_BYTES: u64 = 56;
const PAGE: u64 = 4096;

/// `PT_LOAD` and `PT_NOTE`.
const LOAD: u32 = 1;
const NOTE: u32 = 4;

/// Most program headers: the number has 16 bits, and the last one means more than that (`PN_XNUM`).
const PROGRAM_HEADERS_MAX: usize = 0xfffe;

/// The file cannot say how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooManyAreas;

/// Memory that is in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Its first address.
    pub(crate) address: u64,
    /// Its length, bytes.
    pub(crate) length: u64,
    /// Where it is in the file, bytes.
    pub(crate) at: u64,
}

/// Where everything is.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// All that is in front of memory.
    pub(crate) head: Vec<u8>,
    /// Memory that is to be there.
    pub(crate) pieces: Vec<Piece>,
    /// The file's length, bytes.
    pub(crate) length: u64,
}

/// Whether an area's bytes are in the file: not if it shows a file and can only have what is there, and not if nobody
/// may use it.
fn is_kept(area: &MappedArea) -> bool {
    let is_of_file = matches!(area.shows, Shows::File { .. }) && !area.write;
    (area.read || area.write || area.execute) && !is_of_file
}

impl Layout {
    /// That of a core of this process.
    ///
    /// # Errors
    /// [`TooManyAreas`].
    pub(crate) fn of(snapshot: &Snapshot) -> Result<Self, TooManyAreas> {
        let count = snapshot.areas.len() + 1;
        if count > PROGRAM_HEADERS_MAX {
            return Err(TooManyAreas);
        }
        let notes = notes::all(snapshot);
        let notes_at = HEADER_BYTES + count as u64 * PROGRAM_HEADER_BYTES;
        let mut head = header(count as u16);
        program_header(&mut head, [NOTE, 0], [notes_at, 0, notes.len() as u64, 0, 4]);
        let mut at = (notes_at + notes.len() as u64).next_multiple_of(PAGE);
        let mut pieces = Vec::new();
        for area in &snapshot.areas {
            let length = area.end.saturating_sub(area.start);
            let kept = if is_kept(area) { length } else { 0 };
            program_header(&mut head, [LOAD, flags(area)], [at, area.start, kept, length, PAGE]);
            if kept > 0 {
                pieces.push(Piece { address: area.start, length: kept, at });
            }
            at = at.checked_add(kept).ok_or(TooManyAreas)?;
        }
        head.extend_from_slice(&notes);
        Ok(Self { head, pieces, length: at })
    }
}

/// `PF_X`, `PF_W` and `PF_R`.
fn flags(area: &MappedArea) -> u32 {
    u32::from(area.execute) | u32::from(area.write) << 1 | u32::from(area.read) << 2
}

fn header(program_headers: u16) -> Vec<u8> {
    // 64 bits, little-endian, version 1, System V.
    let mut bytes = b"\x7fELF\x02\x01\x01\x00\0\0\0\0\0\0\0\0".to_vec();
    let (core, x86_64, version) = (4_u16, 62_u16, 1_u32);
    bytes.put(core.to_le_bytes());
    bytes.put(x86_64.to_le_bytes());
    bytes.put(version.to_le_bytes());
    // No entry, program headers behind this, no section headers.
    [0, HEADER_BYTES, 0].into_iter().for_each(|word: u64| bytes.put(word.to_le_bytes()));
    bytes.put(0_u32.to_le_bytes());
    for half in [HEADER_BYTES as u16, PROGRAM_HEADER_BYTES as u16, program_headers, 0, 0, 0] {
        bytes.put(half.to_le_bytes());
    }
    bytes
}

/// Type and flags; offset in the file, address, length there and in memory, alignment.
fn program_header(to: &mut Vec<u8>, kind: [u32; 2], [at, address, file_bytes, memory_bytes, align]: [u64; 5]) {
    kind.into_iter().for_each(|word| to.put(word.to_le_bytes()));
    [at, address, 0, file_bytes, memory_bytes, align].into_iter().for_each(|word| to.put(word.to_le_bytes()));
}

#[cfg(test)]
mod tests {
    use coppice_api::inspect::held::{MappedArea, Shows};

    use super::{Layout, PROGRAM_HEADERS_MAX, Piece, TooManyAreas};
    use crate::core::Snapshot;

    fn area(page: u64, write: bool, shows: Shows) -> MappedArea {
        MappedArea { start: page << 12, end: (page + 2) << 12, read: true, write, execute: !write, shows }
    }

    fn word(bytes: &[u8], at: usize) -> u64 {
        u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
    }

    #[test]
    fn memory_follows_on_pages_of_its_own_without_what_files_have() {
        let file = |offset| Shows::File { path: "/f".into(), offset };
        let areas = vec![
            area(16, false, Shows::Program { offset: 0 }),
            area(32, false, file(0)),
            area(48, true, file(4096)),
            MappedArea { read: false, execute: false, ..area(64, false, Shows::Zeros) },
            area(80, true, Shows::Zeros),
        ];
        let layout = Layout::of(&Snapshot { areas, ..Snapshot::default() }).expect("few areas");
        let first = layout.pieces[0].at;
        assert!(first.is_multiple_of(4096) && layout.head.len() as u64 <= first);
        let piece = |page: u64, number: u64| Piece { address: page << 12, length: 8192, at: first + number * 8192 };
        assert_eq!(layout.pieces, [piece(16, 0), piece(48, 1), piece(80, 2)]);
        assert_eq!(layout.length, first + 3 * 8192);
        // The headers say the same: notes, then areas.
        assert_eq!(layout.head[56..58], 6_u16.to_le_bytes());
        let of = |number: usize| &layout.head[64 + number * 56..][..56];
        assert_eq!((of(0)[0], word(of(0), 8), of(1)[0], of(1)[4]), (4, 64 + 6 * 56, 1, 0b101));
        assert_eq!((word(of(2), 16), word(of(2), 32), word(of(2), 40)), (32 << 12, 0, 8192));
        assert_eq!((word(of(5), 8), word(of(5), 32), of(5)[4]), (first + 2 * 8192, 8192, 0b110));
        assert_eq!(layout.head.len() as u64, word(of(0), 8) + word(of(0), 32));
    }

    #[test]
    fn more_areas_than_the_header_counts_are_refused() {
        let areas = (0..PROGRAM_HEADERS_MAX as u64).map(|page| area(2 * page, true, Shows::Zeros)).collect();
        let snapshot = Snapshot { areas, ..Snapshot::default() };
        assert_eq!(Layout::of(&snapshot).err(), Some(TooManyAreas));
    }
}
