//! What an ELF file says that its dynamic linker is to load, and from where.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_STRSZ, DT_STRTAB, DynamicTag, FileHeader64, PT_LOAD};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{LittleEndian, ReadCache, ReadRef};

/// Names of a file that are read, bytes: what lies behind is not found.
const STRINGS_BYTES_MAX: u64 = 64 << 20;

type Header = FileHeader64<LittleEndian>;

/// See this module. Of what is damaged, the dynamic linker complains.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Needs {
    /// Its dynamic linker.
    pub(super) interpreter: Option<PathBuf>,
    /// Libraries, by name.
    pub(super) libraries: Vec<PathBuf>,
    /// Where to look for them (`DT_RPATH`, `DT_RUNPATH`).
    pub(super) rpath: Vec<u8>,
    pub(super) runpath: Vec<u8>,
}

impl Needs {
    /// Reads them; `None`: it is no ELF file for this machine.
    pub(super) fn of(file: File) -> Option<Self> {
        Self::read(&ReadCache::new(file))
    }

    fn read<'a>(file: impl ReadRef<'a>) -> Option<Self> {
        let endian = LittleEndian;
        let header =
            Header::parse(file).ok().filter(|header| header.e_machine.get(endian) == object::elf::EM_X86_64)?;
        let headers = header.program_headers(endian, file).ok()?;
        let interpreter = headers.iter().find_map(|header| header.interpreter(endian, file).ok()?);
        let mut needs = Self { interpreter: interpreter.map(path), ..Self::default() };
        let Some(entries) = headers.iter().find_map(|header| header.dynamic(endian, file).ok()?) else {
            return Some(needs);
        };
        let value =
            |tag: DynamicTag| entries.iter().find(|entry| entry.d_tag(endian) == tag).map(|entry| entry.d_val(endian));
        let strings = || {
            let (address, length) = (value(DT_STRTAB)?, value(DT_STRSZ)?);
            let segment = headers.iter().filter(|header| header.p_type(endian) == PT_LOAD).find(|header| {
                let start = header.p_vaddr(endian);
                address >= start && address - start < header.p_filesz(endian)
            })?;
            let offset = segment.p_offset(endian).checked_add(address - segment.p_vaddr(endian))?;
            file.read_bytes_at(offset, length.min(STRINGS_BYTES_MAX)).ok()
        };
        let Some(strings) = strings() else { return Some(needs) };
        let text = |at: u64| strings.get(usize::try_from(at).ok()?..)?.split(|byte| *byte == 0).next();
        for entry in entries {
            let text = text(entry.d_val(endian)).unwrap_or_default();
            match entry.d_tag(endian) {
                DT_NEEDED => needs.libraries.push(path(text)),
                DT_RPATH => needs.rpath = text.to_vec(),
                DT_RUNPATH => needs.runpath = text.to_vec(),
                _ => {}
            }
        }
        Some(needs)
    }
}

fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}
