//! The ELF header and the program headers, as far as they are the same for every program that runs here.

use alloc::vec::Vec;

use elf::abi;
use elf::endian::LittleEndian;
use elf::file::{Class, FileHeader};
pub(crate) use elf::segment::ProgramHeader;
use elf::segment::SegmentTable;

use crate::program::error::{FileKind, Machine, ProgramError};
use crate::program::{HEADER_BYTES, PROGRAM_HEADER_BYTES, Placement};
use crate::text::ByteString;

/// Length of an ELF header, bytes.
const ELF_HEADER_BYTES: usize = 64;

/// The headers of an x86-64 Linux program.
pub(crate) struct Headers {
    pub(crate) placement: Placement,
    /// Which dynamic linker it needs.
    pub(crate) interpreter: Option<ByteString>,
    /// Not biased.
    pub(crate) entry: u64,
    /// Where the program headers lie in the file.
    pub(crate) table_offset: u64,
    pub(crate) table: Vec<ProgramHeader>,
}

impl Headers {
    /// Reads the headers from the start of a file of `file_bytes` bytes.
    pub(crate) fn parse(start: &[u8], file_bytes: u64) -> Result<Self, ProgramError> {
        if !start.starts_with(&abi::ELFMAGIC) {
            return Err(ProgramError::NotElf(FileKind::of(start)));
        }
        let identity = |index: usize| start.get(index).copied().unwrap_or_default();
        if start.len() < ELF_HEADER_BYTES {
            return Err(ProgramError::Truncated { what: "headers", needed: ELF_HEADER_BYTES as u64, file_bytes });
        }
        check_machine(start)?;
        let (identity_bytes, tail) = start.split_at(abi::EI_NIDENT);
        let parsed = elf::file::parse_ident::<LittleEndian>(identity_bytes)
            .and_then(|identity| FileHeader::parse_tail(identity, tail))
            .map_err(|_| ProgramError::Damaged("header"))?;
        if parsed.version != u32::from(abi::EV_CURRENT) {
            return Err(ProgramError::Damaged("version"));
        }
        // What Linux toolchains write: "System V" or "GNU/Linux".
        let system = identity(abi::EI_OSABI);
        if system != abi::ELFOSABI_SYSV && system != abi::ELFOSABI_LINUX {
            return Err(ProgramError::WrongSystem(system));
        }
        let placement = match parsed.e_type {
            abi::ET_EXEC => Placement::Fixed,
            abi::ET_DYN => Placement::PositionIndependent,
            abi::ET_REL => return Err(ProgramError::ObjectFile),
            abi::ET_CORE => return Err(ProgramError::CoreFile),
            other => return Err(ProgramError::UnknownType(other)),
        };
        let table = read_table(&parsed, start, file_bytes)?;
        let named = table.iter().find(|header| header.p_type == abi::PT_INTERP);
        let interpreter =
            named.map(|header| interpreter(header, start).ok_or(ProgramError::Interpreter)).transpose()?;
        let headers = Self { placement, interpreter, entry: parsed.e_entry, table_offset: parsed.e_phoff, table };
        if headers.entry == 0 {
            return Err(ProgramError::NoEntry);
        }
        Ok(headers)
    }

    /// The first header of this type.
    pub(crate) fn find(&self, kind: u32) -> Option<&ProgramHeader> {
        self.table.iter().find(|header| header.p_type == kind)
    }

    /// How many headers there are. The table lies in [`HEADER_BYTES`] bytes, so it fits.
    pub(crate) fn count(&self) -> u16 {
        self.table.len() as u16
    }

    /// Length of the table, bytes.
    pub(crate) fn table_bytes(&self) -> u64 {
        self.table.len() as u64 * u64::from(PROGRAM_HEADER_BYTES)
    }
}

/// Says for which machine the file is before its format is judged: that is what its user needs to know.
fn check_machine(start: &[u8]) -> Result<(), ProgramError> {
    let big_endian = match start[abi::EI_DATA] {
        abi::ELFDATA2LSB => false,
        abi::ELFDATA2MSB => true,
        _ => return Err(ProgramError::Damaged("byte order")),
    };
    let bytes = [start[MACHINE_OFFSET], start[MACHINE_OFFSET + 1]];
    let machine = if big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) };
    if machine != abi::EM_X86_64 {
        return Err(ProgramError::WrongMachine(Machine(machine)));
    }
    match start[abi::EI_CLASS] {
        abi::ELFCLASS32 => return Err(ProgramError::ThirtyTwoBit),
        abi::ELFCLASS64 => {}
        _ => return Err(ProgramError::Damaged("class")),
    }
    if big_endian { Err(ProgramError::BigEndian) } else { Ok(()) }
}

/// Where the machine is named, in either class.
const MACHINE_OFFSET: usize = 18;

fn read_table(
    header: &FileHeader<LittleEndian>,
    start: &[u8],
    file_bytes: u64,
) -> Result<Vec<ProgramHeader>, ProgramError> {
    if header.e_phnum == 0 {
        return Err(ProgramError::NoSegments);
    }
    if header.e_phentsize != PROGRAM_HEADER_BYTES {
        return Err(ProgramError::Damaged("size of program headers"));
    }
    let table_bytes = u64::from(header.e_phnum) * u64::from(PROGRAM_HEADER_BYTES);
    let end = header.e_phoff.checked_add(table_bytes).ok_or(ProgramError::Damaged("place of program headers"))?;
    if end > file_bytes {
        return Err(ProgramError::Truncated { what: "program headers", needed: end, file_bytes });
    }
    if end > HEADER_BYTES as u64 {
        return Err(ProgramError::HeadersTooFar);
    }
    // Only short if the caller did not pass what it should.
    let table = start.get(header.e_phoff as usize..end as usize);
    let table = table.ok_or(ProgramError::Truncated { what: "program headers", needed: end, file_bytes })?;
    Ok(SegmentTable::new(LittleEndian, Class::ELF64, table).iter().collect())
}

/// The dynamic linker's path, which ends with a zero.
fn interpreter(header: &ProgramHeader, start: &[u8]) -> Option<ByteString> {
    let end = header.p_offset.checked_add(header.p_filesz)?;
    let bytes = start.get(usize::try_from(header.p_offset).ok()?..usize::try_from(end).ok()?)?;
    let path = bytes.strip_suffix(&[0])?;
    // What stands behind a zero is not read, as on Linux.
    let path = path.split(|byte| *byte == 0).next()?;
    path.starts_with(b"/").then(|| path.into())
}
