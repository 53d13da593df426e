//! The programs that jobs are of: files whose headers and sizes are those of real ones. What their instructions would
//! do [`super::actor`] does.

use std::sync::OnceLock;

use coppice_protocol::ids::ProgramId;
use coppice_protocol::program::{PAGE_BYTES, tree};

use crate::random::Random;

/// Where instructions lie, and what else is never written.
pub(super) const TEXT: u64 = 0x40_0000;
/// Where variables lie, of which the file has the first.
pub(super) const DATA: u64 = 0x50_0000;
/// The first instruction.
pub(super) const ENTRY: u64 = TEXT + 0x400;
/// Bytes of all variables.
const DATA_BYTES: u64 = 0x5_0000;

/// Pages of instructions and of initialised variables of each program.
const PAGES: [(u64, u64); PROGRAMS] = [(1, 1), (2, 3), (5, 2), (9, 1), (3, 1), (1, 2)];
/// How many there are.
pub(super) const PROGRAMS: usize = 6;

/// A program.
#[derive(Debug)]
pub(super) struct Program {
    pub id: ProgramId,
    pub file: Vec<u8>,
    /// The hash tree of the file.
    tree: Vec<tree::TreeNode>,
    /// Bytes of instructions.
    pub text_bytes: u64,
}

impl Program {
    fn new(number: u64, (text_pages, data_pages): (u64, u64)) -> Self {
        let (text_bytes, data_bytes) = (text_pages * PAGE_BYTES, data_pages * PAGE_BYTES);
        // The last page has variables that are zeros, too.
        let data_in_file = data_bytes - PAGE_BYTES / 4;
        let mut random = Random::new(number);
        let length = usize::try_from(text_bytes + data_in_file).unwrap_or_default();
        let mut file: Vec<u8> = std::iter::repeat_with(|| random.next().to_le_bytes()).flatten().take(length).collect();
        let mut put = |offset: usize, bytes: &[u8]| file[offset..offset + bytes.len()].copy_from_slice(bytes);
        put(0, b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0\x01\0\0\0");
        put(52, &[64, 0, 56, 0, 2, 0]);
        // Rights: 4 to read, 2 to write, 1 to execute.
        let segment = |rights: u64, offset, address, in_file, bytes| {
            [rights << 32 | 1, offset, address, address, in_file, bytes, PAGE_BYTES]
        };
        let text = segment(5, 0, TEXT, text_bytes, text_bytes);
        let data = segment(6, text_bytes, DATA, data_in_file, DATA_BYTES);
        for (index, word) in [ENTRY, 64, 0].into_iter().enumerate() {
            put(24 + 8 * index, &word.to_le_bytes());
        }
        for (index, word) in text.into_iter().chain(data).enumerate() {
            put(64 + 8 * index, &word.to_le_bytes());
        }
        let tree = tree::of(&file);
        Self { id: ProgramId(tree.first().copied().unwrap_or_default()), file, tree, text_bytes }
    }

    /// Length of its file.
    pub(super) fn bytes(&self) -> u64 {
        self.file.len() as u64
    }

    /// Address behind the last page of which the file has something.
    pub(super) fn data_end(&self) -> u64 {
        DATA + (self.bytes() - self.text_bytes).next_multiple_of(PAGE_BYTES)
    }

    /// What the file has of the page at an address: shorter than a page where the file ends, `None` where it has
    /// nothing.
    pub(super) fn page_at(&self, address: u64) -> Option<&[u8]> {
        let offset = if (TEXT..TEXT + self.text_bytes).contains(&address) {
            address - TEXT
        } else {
            address.checked_sub(DATA)? + self.text_bytes
        };
        let rest = self.file.get(usize::try_from(offset).ok()?..)?;
        Some(rest.get(..PAGE_BYTES as usize).unwrap_or(rest))
    }

    /// Some pages of the file, and what is beside them in its tree.
    pub(super) fn read(&self, first: u32, count: u16) -> (Vec<u8>, Vec<tree::TreeNode>) {
        let at = |page: u64| usize::try_from(page * PAGE_BYTES).map_or(self.file.len(), |at| at.min(self.file.len()));
        let bytes = self.file[at(first.into())..at(u64::from(first) + u64::from(count))].to_vec();
        let places = if bytes.is_empty() { Vec::new() } else { tree::beside(self.bytes(), first.into(), count.into()) };
        let node = |place| self.tree.get(usize::try_from(place).ok()?).copied();
        (bytes, places.into_iter().filter_map(node).collect())
    }
}

/// All of them.
pub(super) fn all() -> &'static [Program] {
    static ALL: OnceLock<Vec<Program>> = OnceLock::new();
    ALL.get_or_init(|| (0..).zip(PAGES).map(|(number, pages)| Program::new(number, pages)).collect())
}

/// The one with this hash.
pub(super) fn find(id: ProgramId) -> Option<&'static Program> {
    all().iter().find(|program| program.id == id)
}

#[cfg(test)]
mod tests {
    use coppice_protocol::program::parse;

    use super::{DATA, ENTRY, TEXT, all};

    #[test]
    fn they_are_programs() {
        for program in all() {
            let image = parse(&program.file, program.bytes()).expect("a program");
            let segments: Vec<_> = image.segments.iter().map(|of| (of.address, of.write, of.execute)).collect();
            assert_eq!((image.entry, segments), (ENTRY, vec![(TEXT, false, true), (DATA, true, false)]));
            assert_eq!(program.page_at(TEXT).map(<[u8]>::len), Some(4096));
            assert_eq!(program.page_at(program.data_end() - 4096).map(<[u8]>::len), Some(3072));
            assert_eq!(program.page_at(program.data_end()), None);
        }
    }
}
