//! The kernel's ELF file: what it asks for, and its segments in memory.

use bootloader_api::BootloaderConfig;
use bootloader_api::info::TlsTemplate;
use elf::ElfBytes;
use elf::abi::{EM_X86_64, ET_EXEC, PF_W, PF_X, PT_LOAD, PT_TLS};
use elf::endian::LittleEndian;
use elf::segment::ProgramHeader;

use crate::frames::{FRAME_BYTES, Frames, bytes_at};
use crate::tables::{AddressSpace, Flags};

/// Section the kernel's `entry_point!` leaves its configuration in.
const CONFIG_SECTION: &str = ".bootloader-config";

/// A kernel and what it asks for.
pub(crate) struct Kernel<'a> {
    file: ElfBytes<'a, LittleEndian>,
    bytes: &'a [u8],
    /// What it wants mapped where.
    pub(crate) config: BootloaderConfig,
}

impl<'a> Kernel<'a> {
    /// Reads and checks the headers.
    ///
    /// # Errors
    /// If it is no kernel this loader can load.
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self, &'static str> {
        let file = ElfBytes::minimal_parse(bytes).map_err(|_| "the kernel is no ELF file")?;
        if file.ehdr.e_machine != EM_X86_64 || file.ehdr.e_type != ET_EXEC {
            return Err("the kernel is not linked for x86-64 at fixed addresses");
        }
        let section = file.section_header_by_name(CONFIG_SECTION).ok().flatten();
        let section = section.ok_or("the kernel has no bootloader_api configuration")?;
        let (config, _) = file.section_data(&section).map_err(|_| "the kernel's configuration is damaged")?;
        let config = BootloaderConfig::deserialize(config)?;
        Ok(Self { file, bytes, config })
    }

    /// Virtual address of the first instruction.
    pub(crate) fn entry(&self) -> u64 {
        self.file.ehdr.e_entry
    }

    /// What is to be loaded.
    pub(crate) fn segments(&self) -> impl Iterator<Item = ProgramHeader> + '_ {
        let all = self.file.segments().into_iter().flatten();
        all.filter(|segment| segment.p_type == PT_LOAD && segment.p_memsz > 0)
    }

    /// The template for thread-local storage, if the kernel has any.
    pub(crate) fn tls_template(&self) -> Option<TlsTemplate> {
        let mut all = self.file.segments().into_iter().flatten();
        all.find(|segment| segment.p_type == PT_TLS).map(|segment| TlsTemplate {
            start_addr: segment.p_vaddr,
            file_size: segment.p_filesz,
            mem_size: segment.p_memsz,
        })
    }

    /// Copies all segments into fresh frames and maps them with their rights.
    ///
    /// # Errors
    /// If a segment is damaged or there is not enough memory.
    pub(crate) fn map(&self, space: &mut AddressSpace, frames: &mut Frames) -> Result<(), &'static str> {
        self.segments().try_for_each(|segment| self.map_segment(&segment, space, frames))
    }

    fn map_segment(
        &self,
        segment: &ProgramHeader,
        space: &mut AddressSpace,
        frames: &mut Frames,
    ) -> Result<(), &'static str> {
        const DAMAGED: &str = "a segment of the kernel is damaged";
        let end = segment.p_vaddr.checked_add(segment.p_memsz).ok_or(DAMAGED)?;
        let file_end = segment.p_offset.checked_add(segment.p_filesz).ok_or(DAMAGED)?;
        let data = self.bytes.get(segment.p_offset as usize..file_end as usize).ok_or(DAMAGED)?;
        if segment.p_filesz > segment.p_memsz {
            return Err(DAMAGED);
        }
        let mut flags = Flags::empty();
        flags.set(Flags::WRITABLE, segment.p_flags & PF_W != 0);
        flags.set(Flags::NO_EXECUTE, segment.p_flags & PF_X == 0);

        let first = segment.p_vaddr / FRAME_BYTES * FRAME_BYTES;
        for page in (first..end).step_by(FRAME_BYTES as usize) {
            // The end of one segment and the start of the next may share a page.
            let frame = match space.frame_of(page) {
                Some(frame) => frame,
                None => frames.take()?,
            };
            space.map(page, frame, flags, 1, frames)?;
            let from = page.max(segment.p_vaddr);
            let source = data.get((from - segment.p_vaddr) as usize..).unwrap_or_default();
            let length = source.len().min((page + FRAME_BYTES - from) as usize);
            // SAFETY: `length` bytes of `source`, and at most to the end of a frame that only this loader uses.
            unsafe { core::ptr::copy_nonoverlapping(source.as_ptr(), bytes_at(frame + (from - page)), length) };
        }
        Ok(())
    }
}
