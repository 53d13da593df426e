//! What lies in a program where.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use coppice_protocol::program::{self, HEADER_BYTES, ProgramError};
use object::Object;

use crate::dwarf;
use crate::limits::FILE_BYTES_MAX;
use crate::names::{cut, demangled};
use crate::table::Table;

/// Why a file tells nothing.
#[derive(Debug, thiserror::Error)]
pub enum SymbolsError {
    /// It cannot be read.
    #[error("cannot read '{}': {error}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// It is longer than can be looked into.
    #[error("the program's file has more than {} MiB", FILE_BYTES_MAX >> 20)]
    TooLong,
    /// No node would run it.
    #[error("the program's file is none: {0}")]
    NoProgram(#[from] ProgramError),
    /// Its headers for nodes make sense, those for linkers and debuggers do not.
    #[error("the program's file is damaged: {0}")]
    Damaged(#[from] object::Error),
}

/// A place in a program: where a thread was, or where it was to go on after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Its address.
    pub address: u64,
    /// A call returns there. The call itself is before it, and may be the last instruction of another line or function.
    pub is_return: bool,
}

impl Place {
    /// Those of a stack, innermost first.
    pub fn of_stack(stack: &[u64]) -> impl Iterator<Item = Self> + '_ {
        stack.iter().enumerate().map(|(index, address)| Self { address: *address, is_return: index > 0 })
    }

    /// An address within the instruction that was under way.
    #[must_use]
    pub fn instruction(self) -> u64 {
        self.address.saturating_sub(u64::from(self.is_return))
    }
}

/// A function that was under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its name as its language writes it.
    pub function: String,
    /// As linkers have it.
    pub linkage_name: String,
    /// The file of the source that the place is in, if that is known.
    pub file: Option<String>,
    /// Its line there; 0: not known.
    pub line: u32,
}

/// A program, as far as its file tells what lies where.
#[derive(Debug)]
pub struct Symbols {
    program: String,
    file: Option<ProgramFile>,
}

#[derive(Debug)]
struct ProgramFile {
    bytes: Arc<Vec<u8>>,
    /// What was added to the addresses in the file.
    bias: u64,
    /// Where it lies in memory.
    addresses: Range<u64>,
    /// Where its code lies in the file.
    file_offset: u64,
    /// Where its code lies in memory.
    code: Vec<Range<u64>>,
    table: Table,
    has_debug: bool,
    build_id: Option<Vec<u8>>,
}

impl Symbols {
    /// Of a program of that name whose file is gone: addresses are all there is.
    #[must_use]
    pub fn without_file(program: &str) -> Self {
        Self { program: cut(program), file: None }
    }

    /// Reads a program's file.
    ///
    /// # Errors
    /// [`SymbolsError`], one line.
    pub fn open(program: &str, path: &Path) -> Result<Self, SymbolsError> {
        let unread = |error| SymbolsError::Read { path: path.to_owned(), error };
        let file = File::open(path).map_err(unread)?;
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unread)?;
        Self::of(program, bytes)
    }

    /// Takes a file's bytes.
    ///
    /// # Errors
    /// [`SymbolsError`], one line.
    pub fn of(program: &str, bytes: Vec<u8>) -> Result<Self, SymbolsError> {
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(SymbolsError::TooLong);
        }
        let start = bytes.get(..HEADER_BYTES).unwrap_or(&bytes);
        // As nodes read it, so that it lies here where it lies there.
        let image = program::parse(start, bytes.len() as u64)?;
        let bias = image.load_bias();
        let executable: Vec<_> = image.segments.iter().filter(|segment| segment.execute).collect();
        let code: Vec<_> = executable.iter().map(|segment| segment.address..segment.end()).collect();
        let first = executable.first().map_or((0, 0), |segment| (segment.address, segment.file_offset));
        let addresses = image.segments.first().map_or(0, program::Segment::first_page)..image.end_page();
        let in_file: Vec<_> =
            code.iter().map(|range| range.start.wrapping_sub(bias)..range.end.wrapping_sub(bias)).collect();
        let (table, has_debug, build_id) = {
            let file = object::File::parse(bytes.as_slice())?;
            let build_id = file.build_id().ok().flatten().map(<[u8]>::to_vec);
            (Table::of(&file, &in_file), dwarf::is_in(&file), build_id)
        };
        let file_offset = first.1;
        let bytes = Arc::new(bytes);
        let file = ProgramFile { bytes, bias, addresses, file_offset, code, table, has_debug, build_id };
        Ok(Self { program: cut(program), file: Some(file) })
    }

    /// The program's name.
    #[must_use]
    pub fn program(&self) -> &str {
        &self.program
    }

    /// The first code of the program in memory, from where to where, and where that begins in the file.
    #[must_use]
    pub fn mapping(&self) -> Option<(Range<u64>, u64)> {
        let file = self.file.as_ref()?;
        Some((file.code.first()?.clone(), file.file_offset))
    }

    /// What linkers tell builds of a program apart by.
    #[must_use]
    pub fn build_id(&self) -> Option<&[u8]> {
        self.file.as_ref()?.build_id.as_deref()
    }

    /// What functions are under way at these places, innermost first, for each at least one; so much time is spent on
    /// debug information.
    #[must_use]
    pub fn look_up(&self, places: &BTreeSet<Place>, patience: Duration) -> BTreeMap<Place, Vec<Frame>> {
        let Some(file) = &self.file else {
            return places.iter().map(|place| (*place, vec![named(format!("{:#x}", place.address))])).collect();
        };
        let in_file = |place: &Place| place.instruction().wrapping_sub(file.bias);
        let inside = places.iter().filter(|place| file.code.iter().any(|code| code.contains(&place.instruction())));
        let wanted: BTreeSet<u64> = inside.map(in_file).collect();
        let mut found: BTreeMap<u64, Vec<Frame>> = BTreeMap::new();
        if file.has_debug && !wanted.is_empty() {
            found.extend(dwarf::look_up(&file.bytes, wanted.iter().copied().collect(), patience));
        }
        let frames = |place: &Place| match found.get(&in_file(place)).filter(|frames| !frames.is_empty()) {
            Some(frames) => frames.clone(),
            None => vec![self.without_debug(file, *place)],
        };
        places.iter().map(|place| (*place, frames(place))).collect()
    }

    /// By the symbol table, or how far into the program it is.
    fn without_debug(&self, file: &ProgramFile, place: Place) -> Frame {
        if let Some(name) = file.table.at(place.instruction().wrapping_sub(file.bias)) {
            return Frame { function: demangled(name), linkage_name: cut(name), file: None, line: 0 };
        }
        if file.addresses.contains(&place.address) {
            return named(format!("{}+{:#x}", self.program, place.address - file.addresses.start));
        }
        Frame::unknown()
    }
}

impl Frame {
    /// What is not in the program, or not told apart.
    pub(crate) fn unknown() -> Self {
        named("[unknown]".to_owned())
    }
}

fn named(name: String) -> Frame {
    Frame { linkage_name: name.clone(), function: name, file: None, line: 0 }
}
