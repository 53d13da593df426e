//! The kernel that the loader carries.
//!
//! Its segments are mapped where they lie in the carried file; only what the file does not have (the zeros behind the
//! data, and the page on which they begin) gets frames of its own.

use bootloader_api::BootloaderConfig;
use bootloader_api::info::TlsTemplate;
use elf::ElfBytes;
use elf::abi::{EM_X86_64, ET_EXEC, PF_W, PF_X, PT_INTERP, PT_LOAD, PT_TLS};
use elf::endian::LittleEndian;
use elf::segment::ProgramHeader;
use x86_64::structures::paging::PageTableFlags;

use crate::error::Error;
use crate::layout::Layout;
use crate::memory::{FRAME_BYTES, Memory, Range};
use crate::tables::Tables;

/// A file, aligned so that its pages can be mapped.
#[repr(C, align(4096))]
struct Carried<T: ?Sized>(T);

/// The kernel's file.
static FILE: &Carried<[u8]> = &Carried(*include_bytes!(env!("COPPICE_KERNEL_ELF")));

/// Section with what the kernel asks for.
const CONFIG: &str = ".bootloader-config";

/// The kernel.
pub(crate) struct Kernel {
    file: ElfBytes<'static, LittleEndian>,
}

impl Kernel {
    /// The carried kernel, checked.
    pub(crate) fn carried() -> Result<Self, Error> {
        let file = ElfBytes::minimal_parse(&FILE.0)?;
        if file.ehdr.e_machine != EM_X86_64 {
            return Err(Error::Kernel("it is for another processor"));
        }
        if file.ehdr.e_type != ET_EXEC {
            return Err(Error::Kernel("it is not linked to fixed addresses"));
        }
        Ok(Self { file })
    }

    /// Where the file lies in memory.
    pub(crate) fn place(&self) -> Range {
        Range::new((&raw const FILE.0).addr() as u64, FILE.0.len() as u64)
    }

    /// Address of the first instruction.
    pub(crate) fn entry(&self) -> u64 {
        self.file.ehdr.e_entry
    }

    /// What it asks for.
    pub(crate) fn config(&self) -> Result<BootloaderConfig, Error> {
        let section = self.file.section_header_by_name(CONFIG)?.ok_or(Error::Config("there is no section of it"))?;
        let (bytes, _) = self.file.section_data(&section)?;
        BootloaderConfig::deserialize(bytes).map_err(Error::Config)
    }

    /// Template of thread-local data.
    pub(crate) fn tls_template(&self) -> Option<TlsTemplate> {
        let segment = self.segments().find(|segment| segment.p_type == PT_TLS)?;
        Some(TlsTemplate { start_addr: segment.p_vaddr, file_size: segment.p_filesz, mem_size: segment.p_memsz })
    }

    /// Notes the addresses it occupies.
    pub(crate) fn occupy(&self, layout: &mut Layout) {
        for segment in self.segments().filter(|segment| segment.p_type == PT_LOAD) {
            layout.occupy(Range::new(segment.p_vaddr, segment.p_memsz));
        }
    }

    /// Maps its segments.
    pub(crate) fn map(&self, tables: &mut Tables, memory: &mut Memory) -> Result<(), Error> {
        for segment in self.segments() {
            match segment.p_type {
                PT_INTERP => return Err(Error::Kernel("it needs a dynamic linker")),
                PT_LOAD => self.map_segment(&segment, tables, memory)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn segments(&self) -> impl Iterator<Item = ProgramHeader> {
        self.file.segments().into_iter().flat_map(|segments| segments.iter())
    }

    /// Maps a segment: whole pages of the file as they lie there, all others as copies.
    fn map_segment(&self, segment: &ProgramHeader, tables: &mut Tables, memory: &mut Memory) -> Result<(), Error> {
        let in_file = Range::new(segment.p_offset, segment.p_filesz);
        if segment.p_filesz > segment.p_memsz || in_file.end > self.place().bytes() {
            return Err(Error::Kernel("a segment is longer than the file"));
        }
        if segment.p_offset % FRAME_BYTES != segment.p_vaddr % FRAME_BYTES {
            return Err(Error::Kernel("a segment lies across the file's pages"));
        }
        let all = Range::new(segment.p_vaddr, segment.p_memsz);
        let file_end = segment.p_vaddr + segment.p_filesz;
        // Bytes behind the file's part are another segment's if they are not to be zero.
        let has_zeros = segment.p_memsz > segment.p_filesz;
        let flags = flags(segment);
        let pages = all.frames_touched();
        for page in (pages.start..pages.end).step_by(FRAME_BYTES as usize) {
            let from_file = file_end.saturating_sub(page).min(FRAME_BYTES);
            let source = self.place().start + (segment.p_offset + page).wrapping_sub(segment.p_vaddr);
            if from_file == FRAME_BYTES || from_file > 0 && !has_zeros {
                tables.map(memory, page, source, flags)?;
                continue;
            }
            let frame = memory.take(1)?.start;
            // SAFETY: the source is in the carried file, the frame is our own, and physical memory is mapped to itself.
            unsafe { core::ptr::copy_nonoverlapping(source as *const u8, frame as *mut u8, from_file as usize) };
            tables.map(memory, page, frame, flags)?;
        }
        Ok(())
    }
}

/// A segment's rights.
fn flags(segment: &ProgramHeader) -> PageTableFlags {
    let mut flags = PageTableFlags::PRESENT;
    flags.set(PageTableFlags::WRITABLE, segment.p_flags & PF_W != 0);
    flags.set(PageTableFlags::NO_EXECUTE, segment.p_flags & PF_X == 0);
    flags
}
