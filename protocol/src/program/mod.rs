//! What a program is, and why a file is not one.
//!
//! [`parse`] reads the first [`HEADER_BYTES`] bytes of an ELF file and either says exactly how the program lies in
//! memory or gives one line on why it cannot run and what to do. The service node calls it when a program is submitted,
//! and the kernel calls it again on what it was sent, because it trusts nobody.
//!
//! What a [`ProgramImage`] promises: at least one segment; segments in ascending order, no two in the same page, all of
//! them between [`USER_START`] and [`USER_END`], their file bytes within the file and congruent to their address modulo
//! the page size; the entry point in an executable one.
//!
//! A program that is linked dynamically names a dynamic linker (`PT_INTERP`), which [`parse_interpreter`] reads as
//! [`parse`] reads a program: it is started in the program's place and finds that, as on Linux, by the auxiliary
//! vector.

mod error;
mod headers;
mod layout;
pub mod tree;

use alloc::vec::Vec;

pub use self::error::{FileKind, ProgramError};

use self::headers::{Headers, ProgramHeader};
use crate::limits::PROGRAM_BYTES_MAX;
use crate::text::ByteString;

/// How much of a file's start [`parse`] needs, bytes (all of it, if the file is shorter).
pub const HEADER_BYTES: usize = 4096;

/// Bytes in a page.
pub const PAGE_BYTES: u64 = 4096;

/// Where position-independent programs lie, always: retained page tables rest on it. A multiple of any alignment that
/// [`parse`] takes.
pub const LOAD_BASE: u64 = 0x0000_5500_0000_0000;

/// Where dynamic linkers lie, always. A multiple of any alignment that [`parse`] takes, and a terabyte below
/// [`LOAD_BASE`].
pub const INTERPRETER_BASE: u64 = 0x0000_5400_0000_0000;

/// First address a program may use; below it null pointers fault, also those with an offset.
pub const USER_START: u64 = 0x1_0000;

/// End of the addresses a program may use.
pub const USER_END: u64 = 0x0000_7fff_ffff_f000;

/// Largest alignment of a segment, bytes.
pub const ALIGNMENT_MAX: u64 = 1 << 30;

/// How the linker fixed a program's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Linked to its addresses (`ET_EXEC`).
    Fixed,
    /// Runs anywhere (static-PIE), here at [`LOAD_BASE`].
    PositionIndependent,
}

/// A loadable segment. Addresses are where it really lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First byte in memory; congruent to `file_offset` modulo [`PAGE_BYTES`] if there are file bytes.
    pub address: u64,
    /// Length in memory; what is beyond `file_bytes` is zero.
    pub memory_bytes: u64,
    /// Where its bytes lie in the file.
    pub file_offset: u64,
    /// How many bytes of it are in the file, at most `memory_bytes`.
    pub file_bytes: u64,
    /// May be read.
    pub read: bool,
    /// May be written.
    pub write: bool,
    /// May be executed.
    pub execute: bool,
}

impl Segment {
    /// Address behind the last byte.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.address + self.memory_bytes
    }

    /// Address of the first page it touches.
    #[must_use]
    pub const fn first_page(&self) -> u64 {
        page_floor(self.address)
    }

    /// Address behind the last page it touches.
    #[must_use]
    pub const fn end_page(&self) -> u64 {
        page_ceil(self.end())
    }

    fn holds(&self, address: u64, bytes: u64) -> bool {
        address >= self.address && address.checked_add(bytes).is_some_and(|end| end <= self.end())
    }
}

/// Initial thread-local storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadLocal {
    /// Where its initial image lies in memory.
    pub address: u64,
    /// Length of the initial image, bytes.
    pub file_bytes: u64,
    /// Length of each thread's copy, bytes; what is beyond `file_bytes` starts as zero.
    pub memory_bytes: u64,
    /// Alignment of each thread's copy, bytes, a power of two.
    pub alignment: u64,
}

/// A program that can run. See the module for what it promises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramImage {
    /// Address of the first instruction.
    pub entry: u64,
    /// Which dynamic linker is to be started in its place, an absolute path; `None`: it is linked statically.
    pub interpreter: Option<ByteString>,
    /// How its addresses were fixed.
    pub placement: Placement,
    /// What lies where.
    pub segments: Vec<Segment>,
    /// Where the program headers lie in memory (`AT_PHDR`), if they do.
    pub headers_address: Option<u64>,
    /// How many program headers there are (`AT_PHNUM`).
    pub headers_count: u16,
    /// Address and length of what is read-only once the program has relocated itself (`PT_GNU_RELRO`).
    pub relro: Option<(u64, u64)>,
    /// Initial thread-local storage.
    pub thread_local: Option<ThreadLocal>,
    /// The program asks for a stack that code can run on.
    pub stack_executable: bool,
    bias: u64,
}

/// Length of one program header, bytes (`AT_PHENT`).
pub const PROGRAM_HEADER_BYTES: u16 = 56;

impl ProgramImage {
    /// What was added to the addresses in the file.
    #[must_use]
    pub const fn load_bias(&self) -> u64 {
        self.bias
    }

    /// Memory of all pages that its segments touch, bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.end_page() - segment.first_page()).sum()
    }

    /// What is to be zeroed by who maps whole pages of the file: address and length, bytes, less than a page each. As
    /// on Linux that is to the end of the last page of writable segments, beyond their ends: dynamic linkers take what
    /// they need first from there.
    pub fn zeros(&self) -> impl Iterator<Item = (u64, usize)> {
        let written = self.segments.iter().filter(|segment| segment.write && segment.file_bytes > 0);
        let ends = written.map(|segment| segment.address + segment.file_bytes);
        ends.map(|end| (end, (page_ceil(end) - end) as usize)).filter(|(_, length)| *length > 0)
    }

    /// Address behind the last page: where the heap (brk) may start.
    #[must_use]
    pub fn end_page(&self) -> u64 {
        self.segments.last().map_or(USER_START, Segment::end_page)
    }
}

pub(crate) const fn page_floor(address: u64) -> u64 {
    address & !(PAGE_BYTES - 1)
}

/// Only for addresses up to [`USER_END`].
pub(crate) const fn page_ceil(address: u64) -> u64 {
    page_floor(address + (PAGE_BYTES - 1))
}

/// Reads a program's headers. `header` is the start of the file, at least [`HEADER_BYTES`] of it or all; `file_bytes`
/// is the length of the whole file.
///
/// # Errors
/// [`ProgramError`]: one line on what the file is and what to do.
pub fn parse(header: &[u8], file_bytes: u64) -> Result<ProgramImage, ProgramError> {
    parse_at(header, file_bytes, LOAD_BASE)
}

/// As [`parse`], of a dynamic linker, which lies at [`INTERPRETER_BASE`].
///
/// # Errors
/// [`ProgramError`].
pub fn parse_interpreter(header: &[u8], file_bytes: u64) -> Result<ProgramImage, ProgramError> {
    let image = parse_at(header, file_bytes, INTERPRETER_BASE)?;
    if image.interpreter.is_some() {
        return Err(ProgramError::NoInterpreter("it needs one itself"));
    }
    if image.placement == Placement::Fixed {
        return Err(ProgramError::NoInterpreter("it is linked to fixed addresses"));
    }
    Ok(image)
}

fn parse_at(header: &[u8], file_bytes: u64, base: u64) -> Result<ProgramImage, ProgramError> {
    if file_bytes > PROGRAM_BYTES_MAX {
        return Err(ProgramError::FileTooLarge { bytes: file_bytes });
    }
    let within_file = usize::try_from(file_bytes).unwrap_or(usize::MAX).min(HEADER_BYTES);
    let header = header.get(..within_file).unwrap_or(header);
    let headers = Headers::parse(header, file_bytes)?;
    let (segments, bias) = layout::segments(&headers, file_bytes, base)?;
    let holder = |address: u64, bytes: u64| segments.iter().find(|segment| segment.holds(address, bytes));

    let entry = headers.entry.wrapping_add(bias);
    if headers.entry == 0 || !holder(entry, 1).is_some_and(|segment| segment.execute) {
        return Err(ProgramError::Entry { address: headers.entry });
    }
    let image = ProgramImage {
        entry,
        placement: headers.placement,
        headers_address: layout::headers_address(&headers, &segments, bias)?,
        headers_count: headers.count(),
        relro: layout::relro(&headers, &segments, bias)?,
        thread_local: layout::thread_local(&headers, &segments, bias)?,
        stack_executable: headers.find(elf::abi::PT_GNU_STACK).is_some_and(is_executable),
        interpreter: headers.interpreter,
        segments,
        bias,
    };
    Ok(image)
}

fn is_executable(header: &ProgramHeader) -> bool {
    header.p_flags & elf::abi::PF_X != 0
}
