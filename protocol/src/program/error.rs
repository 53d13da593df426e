//! Why a file is no program that runs here: each error is one line that says what the file is and what to do.

use core::fmt;

use crate::limits::{PROGRAM_BYTES_MAX, PROGRAM_SEGMENTS_MAX};
use crate::program::{HEADER_BYTES, USER_END, USER_START};

/// Why a file cannot run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// Another kind of file.
    #[error("not an ELF program but {0}")]
    NotElf(FileKind),
    /// The file ends before something that it announces.
    #[error("truncated: its {what} end at byte {needed}, the file at byte {file_bytes}; copy or build it again")]
    Truncated {
        /// What is cut off.
        what: &'static str,
        /// Where it would end, bytes.
        needed: u64,
        /// Where the file ends, bytes.
        file_bytes: u64,
    },
    /// It does not say well which dynamic linker it needs.
    #[error(
        "names no dynamic linker as an absolute path within the first {HEADER_BYTES} bytes: link it with the linker's \
         own script, or statically (-static)"
    )]
    Interpreter,
    /// A dynamic linker that needs one itself, or can lie at one address only.
    #[error("not a dynamic linker: {0}")]
    NoInterpreter(&'static str),
    /// A program for other hardware.
    #[error("built for {0}: build it for x86-64")]
    WrongMachine(Machine),
    /// A program in 32-bit format.
    #[error("a 32-bit program: build it as a 64-bit one (-m64)")]
    ThirtyTwoBit,
    /// A program in big-endian format.
    #[error("a big-endian program: build it for x86-64")]
    BigEndian,
    /// A program for another operating system.
    #[error("built for another operating system (ELF OS/ABI {0}): build it for Linux")]
    WrongSystem(u8),
    /// An object file.
    #[error("an object file (.o), not yet a program: link it")]
    ObjectFile,
    /// A core dump.
    #[error("a core dump, not a program: run the program that it came from")]
    CoreFile,
    /// A shared library, or something else that starts nowhere.
    #[error("has no entry point (a shared library?): link it as a program")]
    NoEntry,
    /// A type of ELF file that is none of the above.
    #[error("an ELF file of unknown type {0}: build a Linux program for x86-64")]
    UnknownType(u16),
    /// The header contradicts itself.
    #[error("damaged ELF file ({0}): build it again")]
    Damaged(&'static str),
    /// Larger than any program may be.
    #[error("a file of {bytes} bytes, programs may have {PROGRAM_BYTES_MAX}: strip it (strip -s)")]
    FileTooLarge {
        /// Its length.
        bytes: u64,
    },
    /// The program headers are not where [`crate::program::parse`] looks.
    #[error("program headers are not within the first {HEADER_BYTES} bytes: link it with the linker's own script")]
    HeadersTooFar,
    /// Too many loadable segments.
    #[error("{0} loadable segments, at most {PROGRAM_SEGMENTS_MAX} can be: link it with the linker's own script")]
    TooManySegments(usize),
    /// Nothing to load.
    #[error("has no loadable segment: link it as a program")]
    NoSegments,
    /// A segment that cannot be mapped page by page.
    #[error("segment at {address:#x} is not aligned to pages as in the file: link it without -N, -n or --omagic")]
    Unaligned {
        /// Its address in the file.
        address: u64,
    },
    /// A segment larger in the file than in memory, and the like.
    #[error("damaged segment at {address:#x} ({what}): build it again")]
    BadSegment {
        /// Its address in the file.
        address: u64,
        /// What is wrong with it.
        what: &'static str,
    },
    /// Two segments claim the same memory.
    #[error("segments at {first:#x} and {second:#x} overlap: link it with the linker's own script")]
    Overlap {
        /// Address of the lower one in the file.
        first: u64,
        /// Address of the upper one in the file.
        second: u64,
    },
    /// A segment lies, or ends, in memory that is the kernel's.
    #[error("segment at {address:#x} reaches into kernel addresses (above {USER_END:#x}): link it to lower addresses")]
    KernelAddress {
        /// Its address in the file.
        address: u64,
    },
    /// A segment lies where null pointers must fault.
    #[error("segment at {address:#x} is below {USER_START:#x}: link it to higher addresses")]
    LowAddress {
        /// Its address in the file.
        address: u64,
    },
    /// The entry point is not in an executable segment.
    #[error("entry point {address:#x} is in no executable segment: link it with the linker's own script")]
    Entry {
        /// The entry point in the file.
        address: u64,
    },
}

/// What a file that is not an ELF file looks like. Displayed with what to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// Nothing in it.
    Empty,
    /// `#!`.
    Script,
    /// A Windows or DOS program.
    Windows,
    /// A macOS program.
    MacOs,
    /// WebAssembly.
    WebAssembly,
    /// A static library.
    Archive,
    /// gzip, zip, xz, zstd, bzip2.
    Compressed,
    /// Text.
    Text,
    /// Anything else.
    Unknown,
}

impl FileKind {
    /// Looks at the start of a file.
    pub(crate) fn of(start: &[u8]) -> Self {
        const MAGICS: [(&[u8], FileKind); 15] = [
            (b"#!", FileKind::Script),
            (b"MZ", FileKind::Windows),
            (b"\xfe\xed\xfa\xce", FileKind::MacOs),
            (b"\xfe\xed\xfa\xcf", FileKind::MacOs),
            (b"\xce\xfa\xed\xfe", FileKind::MacOs),
            (b"\xcf\xfa\xed\xfe", FileKind::MacOs),
            (b"\xca\xfe\xba\xbe", FileKind::MacOs),
            (b"\0asm", FileKind::WebAssembly),
            (b"!<arch>\n", FileKind::Archive),
            (b"!<thin>\n", FileKind::Archive),
            (b"\x1f\x8b", FileKind::Compressed),
            (b"PK\x03\x04", FileKind::Compressed),
            (b"\xfd7zXZ", FileKind::Compressed),
            (b"\x28\xb5\x2f\xfd", FileKind::Compressed),
            (b"BZh", FileKind::Compressed),
        ];
        if start.is_empty() {
            return Self::Empty;
        }
        if let Some((_, kind)) = MAGICS.into_iter().find(|(magic, _)| start.starts_with(magic)) {
            return kind;
        }
        // Bytes of 0x80 and more are in any UTF-8 text that is not English.
        let is_text =
            start.iter().all(|byte| matches!(byte, b'\t' | b'\n' | b'\r' | 0x0c | 0x1b | 0x20..=0x7e | 0x80..));
        if is_text { Self::Text } else { Self::Unknown }
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const BUILD: &str = "build a Linux program for x86-64";
        let (what, remedy) = match self {
            Self::Empty => ("an empty file", BUILD),
            Self::Script => ("a script", "run its interpreter with the script as an argument"),
            Self::Windows => ("a Windows program", BUILD),
            Self::MacOs => ("a macOS program", BUILD),
            Self::WebAssembly => ("a WebAssembly module", BUILD),
            Self::Archive => ("a static library", "link it into a program"),
            Self::Compressed => ("a compressed file", "unpack it first"),
            Self::Text => ("text", BUILD),
            Self::Unknown => ("data of unknown kind", BUILD),
        };
        write!(f, "{what}: {remedy}")
    }
}

/// What hardware a program was built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine(pub u16);

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.0 {
            elf::abi::EM_386 => "32-bit x86 (i386)",
            elf::abi::EM_AARCH64 => "64-bit Arm (aarch64)",
            elf::abi::EM_ARM => "32-bit Arm",
            elf::abi::EM_RISCV => "RISC-V",
            elf::abi::EM_PPC64 => "64-bit PowerPC",
            elf::abi::EM_PPC => "PowerPC",
            elf::abi::EM_S390 => "s390x",
            elf::abi::EM_MIPS => "MIPS",
            elf::abi::EM_SPARC | elf::abi::EM_SPARCV9 => "SPARC",
            elf::abi::EM_BPF => "eBPF",
            258 => "LoongArch",
            number => return write!(f, "a machine of ELF number {number}"),
        };
        f.write_str(name)
    }
}
