//! The stack a program starts on: strings at the top, below them the auxiliary vector, environment and argument
//! pointers, and `argc` where the stack pointer points, as the x86-64 ABI has it.

use alloc::vec::Vec;

use coppice_hal::paging::Access;
use coppice_protocol::program::PROGRAM_HEADER_BYTES;
use coppice_protocol::text::ByteString;

use super::area::{Area, Content};
use super::copy::CopyError;
use super::limits::{ARGUMENT_STRING_BYTES_MAX, PAGE, STACK_BYTES, STACK_TOP, START_STACK_BYTES_MAX};
use super::space::{AddressSpace, Start};
use crate::errno::Errno;

/// Numbers of the auxiliary vector's entries, as Linux has them.
mod auxiliary {
    pub(super) const NULL: u64 = 0;
    pub(super) const PHDR: u64 = 3;
    pub(super) const PHENT: u64 = 4;
    pub(super) const PHNUM: u64 = 5;
    pub(super) const PAGESZ: u64 = 6;
    pub(super) const BASE: u64 = 7;
    pub(super) const FLAGS: u64 = 8;
    pub(super) const ENTRY: u64 = 9;
    pub(super) const UID: u64 = 11;
    pub(super) const EUID: u64 = 12;
    pub(super) const GID: u64 = 13;
    pub(super) const EGID: u64 = 14;
    pub(super) const PLATFORM: u64 = 15;
    pub(super) const HWCAP: u64 = 16;
    pub(super) const CLKTCK: u64 = 17;
    pub(super) const SECURE: u64 = 23;
    pub(super) const RANDOM: u64 = 25;
    pub(super) const HWCAP2: u64 = 26;
    pub(super) const EXECFN: u64 = 31;
}

/// Clock ticks per second that times(2) counts in.
const CLOCK_TICKS: u64 = 100;

/// What a program is told when it starts.
#[derive(Clone, Copy, Debug)]
pub struct StartInfo<'a> {
    /// Its arguments, its name first.
    pub arguments: &'a [ByteString],
    /// Its environment, `NAME=VALUE`.
    pub environment: &'a [ByteString],
    /// The path it was started by (`AT_EXECFN`).
    pub path: &'a [u8],
    /// What was added to the addresses of its dynamic linker, or 0 (`AT_BASE`).
    pub interpreter: u64,
    /// Sixteen random bytes (`AT_RANDOM`).
    pub random: [u8; 16],
    /// User id.
    pub user: u32,
    /// Group id.
    pub group: u32,
    /// The processor's features: `edx` of CPUID leaf 1 (`AT_HWCAP`).
    pub features: u64,
    /// More of them (`AT_HWCAP2`).
    pub features2: u64,
}

/// Writes downwards.
struct Stack<'a> {
    space: &'a mut AddressSpace,
    pointer: u64,
}

impl Stack<'_> {
    /// Puts bytes below what is there and returns their address.
    fn push(&mut self, bytes: &[u8]) -> Result<u64, Errno> {
        let pointer = self.pointer.checked_sub(bytes.len() as u64);
        self.pointer = pointer.filter(|pointer| *pointer >= STACK_TOP - START_STACK_BYTES_MAX).ok_or(Errno::E2BIG)?;
        match self.space.write_bytes(self.pointer, bytes) {
            Ok(()) => Ok(self.pointer),
            Err(CopyError::OutOfMemory) => Err(Errno::ENOMEM),
            Err(CopyError::Fetch { .. } | CopyError::Fault { .. }) => Err(Errno::EFAULT),
        }
    }

    /// Puts a string with its zero.
    fn push_string(&mut self, text: &[u8]) -> Result<u64, Errno> {
        if text.len() >= ARGUMENT_STRING_BYTES_MAX {
            return Err(Errno::E2BIG);
        }
        if text.contains(&0) {
            return Err(Errno::EINVAL);
        }
        self.push(&[0])?;
        self.push(text)
    }

    /// Puts several strings, the first one lowest, and returns their addresses in order.
    fn push_strings(&mut self, texts: &[ByteString]) -> Result<Vec<u64>, Errno> {
        let mut addresses = Vec::with_capacity(texts.len());
        for text in texts.iter().rev() {
            addresses.push(self.push_string(text)?);
        }
        addresses.reverse();
        Ok(addresses)
    }
}

impl AddressSpace {
    /// Maps the stack, fills it for the program that was loaded, and returns the stack pointer to start with.
    ///
    /// # Errors
    /// `E2BIG` if strings and pointers take more than [`START_STACK_BYTES_MAX`] or one string is too long, `EINVAL` if
    /// a string has a zero in it, `ENOMEM` if there is no memory (or something is mapped there), `ENOEXEC` if no
    /// program is loaded.
    pub fn build_stack(&mut self, info: &StartInfo<'_>) -> Result<u64, Errno> {
        let image = self.image.clone().ok_or(Errno::ENOEXEC)?;
        let bottom = STACK_TOP - STACK_BYTES;
        if !self.areas.is_free(bottom, STACK_TOP) {
            return Err(Errno::ENOMEM);
        }
        let mut access = Access::READ | Access::WRITE;
        access.set(Access::EXECUTE, image.layout.stack_executable);
        let area = Area { end: STACK_TOP, access, may_write: true, content: Content::Zero };
        self.areas.check_room(bottom, STACK_TOP, 1)?;
        self.areas.insert(bottom, area);

        let mut stack = Stack { space: self, pointer: STACK_TOP };
        // Linux leaves a word of zeros at the very top.
        stack.push(&[0; 8])?;
        let path = stack.push_string(info.path)?;
        let environment = stack.push_strings(info.environment)?;
        let arguments = stack.push_strings(info.arguments)?;
        let platform = stack.push_string(b"x86_64")?;
        let random = stack.push(&info.random)?;

        let layout = &image.layout;
        let (user, group) = (u64::from(info.user), u64::from(info.group));
        let mut vector = Vec::with_capacity(20);
        if let Some(headers) = layout.headers_address {
            vector.push([auxiliary::PHDR, headers]);
            vector.push([auxiliary::PHENT, u64::from(PROGRAM_HEADER_BYTES)]);
            vector.push([auxiliary::PHNUM, u64::from(layout.headers_count)]);
        }
        vector.extend([
            [auxiliary::PAGESZ, PAGE],
            [auxiliary::BASE, info.interpreter],
            [auxiliary::FLAGS, 0],
            [auxiliary::ENTRY, layout.entry],
            [auxiliary::UID, user],
            [auxiliary::EUID, user],
            [auxiliary::GID, group],
            [auxiliary::EGID, group],
            [auxiliary::SECURE, 0],
            [auxiliary::RANDOM, random],
            [auxiliary::EXECFN, path],
            [auxiliary::PLATFORM, platform],
            [auxiliary::HWCAP, info.features],
            [auxiliary::HWCAP2, info.features2],
            [auxiliary::CLKTCK, CLOCK_TICKS],
            [auxiliary::NULL, 0],
        ]);
        let auxiliary: Vec<u8> = vector.iter().flatten().flat_map(|word| word.to_le_bytes()).collect();
        let words = [arguments.len() as u64]
            .into_iter()
            .chain(arguments)
            .chain([0])
            .chain(environment)
            .chain([0])
            .chain(vector.into_iter().flatten());
        let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        // The pointer to argc must be a multiple of 16.
        stack.pointer = stack
            .pointer
            .checked_sub(bytes.len() as u64)
            .map(|pointer| pointer / 16 * 16 + bytes.len() as u64)
            .ok_or(Errno::E2BIG)?;
        let pointer = stack.push(&bytes)?;
        self.start = Start { stack: pointer, auxiliary };
        Ok(pointer)
    }
}
