//! Why a kernel cannot be started.

use core::fmt;

/// Why a kernel cannot be started.
#[derive(Debug)]
pub(crate) enum Error {
    /// The loader was entered by something that does not speak PVH.
    NoStartInfo,
    /// QEMU did not say what memory there is.
    NoMemoryMap,
    /// There are more areas of memory than the loader has room for.
    MemoryMapTooLong,
    /// There is no memory left.
    OutOfMemory,
    /// The processor lacks something.
    Processor(&'static str),
    /// The carried file is no ELF file as it should be.
    Elf(elf::ParseError),
    /// The carried file is an ELF file that cannot be loaded.
    Kernel(&'static str),
    /// What the kernel asks for cannot be read.
    Config(&'static str),
    /// The kernel asks for something this loader does not have.
    Unsupported(&'static str),
    /// There is no room in the address space as the kernel wants it.
    NoAddresses,
    /// Two things would be mapped at one address.
    Overlap(u64),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoStartInfo => f.write_str("not entered as PVH says: give this file to QEMU's -kernel"),
            Self::NoMemoryMap => f.write_str("no memory map: this QEMU is too old"),
            Self::MemoryMapTooLong => f.write_str("more areas of memory than there is room for"),
            Self::OutOfMemory => f.write_str("not enough memory for the kernel: give the machine more"),
            Self::Processor(what) => {
                write!(f, "the processor has no {what}: give the node another (coppice up --cpu MODEL)")
            }
            Self::Elf(error) => write!(f, "the kernel is no ELF file: {error}"),
            Self::Kernel(reason) => write!(f, "the kernel cannot be loaded: {reason}"),
            Self::Config(reason) => write!(f, "what the kernel asks for cannot be read: {reason}"),
            Self::Unsupported(what) => write!(f, "the kernel asks for {what}, which this loader does not have"),
            Self::NoAddresses => f.write_str("no room in the address space as the kernel wants it"),
            Self::Overlap(address) => write!(f, "two things would be mapped at {address:#x}"),
        }
    }
}

impl From<elf::ParseError> for Error {
    fn from(error: elf::ParseError) -> Self {
        Self::Elf(error)
    }
}
