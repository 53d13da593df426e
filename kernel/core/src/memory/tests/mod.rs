//! Address spaces on real frames and page tables, with a program and files that are served from memory.

use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_hal::addr::UserPage;
use coppice_hal::frames::FramePool;
use coppice_hal::paging::Access;
use coppice_protocol::ids::ProgramId;
use coppice_protocol::program::{self, ProgramImage};
use coppice_protocol::retain::WalkCounts;
use spin::Mutex;

use super::{AddressSpace, CopyError, Fetch, FileIdentity, FileSource, Pages, Resolution, Retention, Signal, Source};
use crate::quota::tests::quota;

mod calls;
mod copies;
mod faults;
mod keeper;
mod mapping;
mod memory_end;
mod model;
mod model_pair;
mod model_snapshot;
mod remapping;
mod retention;
mod retention_end;
mod shared;
mod sharing;
mod snapshot;
mod start;
mod steps;
mod unchanged;

pub(super) const PAGE: u64 = 4096;
pub(super) const MIB: usize = 1024 * 1024;
pub(super) const RW: u64 = 3;
pub(super) const ANONYMOUS: u64 = 0x22;
pub(super) const FIXED: u64 = 0x10;

/// A file in memory that notes what was read of it.
pub(super) struct TestFile {
    pub(super) bytes: Vec<u8>,
    pub(super) reads: Mutex<Vec<(u64, usize)>>,
}

impl TestFile {
    /// A file in which no two pages are alike.
    pub(super) fn new(length: usize, seed: u8) -> Arc<Self> {
        Arc::new(Self { bytes: pattern(length, seed), reads: Mutex::default() })
    }
}

impl FileSource for TestFile {
    fn identity(&self) -> FileIdentity {
        FileIdentity { device: 1, inode: core::ptr::from_ref(self).addr() as u64 }
    }
}

/// Bytes in which no page is like another, and none is zero.
pub(super) fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|at| ((at / 4096 * 31 + at * 7 + usize::from(seed) * 13) % 255) as u8 + 1).collect()
}

/// A loadable segment: address, bytes in memory, offset in the file, bytes in the file, `rwx` as in ELF (4, 2, 1).
pub(super) type Load = (u64, u64, u64, u64, u32);

/// An ELF file of that length with these segments, its content a pattern where no header is.
pub(super) fn elf(loads: &[Load], entry: u64, length: usize, position_independent: bool) -> Vec<u8> {
    let mut file = pattern(length, 5);
    let mut header = Vec::new();
    header.extend_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    header.extend_from_slice(&(if position_independent { 3_u16 } else { 2 }).to_le_bytes());
    header.extend_from_slice(&62_u16.to_le_bytes());
    header.extend_from_slice(&1_u32.to_le_bytes());
    for value in [entry, 64, 0] {
        header.extend_from_slice(&value.to_le_bytes());
    }
    header.extend_from_slice(&0_u32.to_le_bytes());
    for value in [64, 56, loads.len() as u16, 64, 0, 0] {
        header.extend_from_slice(&value.to_le_bytes());
    }
    for (address, memory, offset, bytes, flags) in loads {
        header.extend_from_slice(&1_u32.to_le_bytes());
        header.extend_from_slice(&flags.to_le_bytes());
        for value in [offset, address, address, bytes, memory, &PAGE] {
            header.extend_from_slice(&value.to_le_bytes());
        }
    }
    file[..header.len()].copy_from_slice(&header);
    file
}

/// An address space with a program, whose file is served from memory.
pub(super) struct World {
    pub(super) pool: &'static FramePool,
    pub(super) retention: Arc<Retention>,
    pub(super) id: ProgramId,
    pub(super) space: AddressSpace,
    pub(super) image: ProgramImage,
    pub(super) file: Vec<u8>,
    /// Runs of the program's file that were fetched: first page, pages.
    pub(super) fetched: Vec<(u64, u16)>,
}

pub(super) const PROGRAM: ProgramId = ProgramId([7; 32]);

/// Text of 40 pages, read-only data whose last page is partial, data of 3 pages and a half, 5 pages of bss in all.
pub(super) const LOADS: [Load; 3] = [
    (0x40_0000, 40 * PAGE, 0, 40 * PAGE, 5),
    (0x42_8000, 2 * PAGE + 100, 40 * PAGE, 2 * PAGE + 100, 4),
    (0x42_b100, 8 * PAGE, 43 * PAGE + 0x100, 3 * PAGE + 0x700, 6),
];
pub(super) const FILE_BYTES: usize = 48 * PAGE as usize;
pub(super) const DATA: u64 = 0x42_b100;

impl World {
    pub(super) fn new(pool: &'static FramePool) -> Self {
        Self::with(pool, elf(&LOADS, 0x40_1000, FILE_BYTES, false))
    }

    pub(super) fn with(pool: &'static FramePool, file: Vec<u8>) -> Self {
        Self::on_node(pool, Arc::default(), PROGRAM, file)
    }

    /// A program of many on a node.
    pub(super) fn on_node(pool: &'static FramePool, retention: Arc<Retention>, id: ProgramId, file: Vec<u8>) -> Self {
        let image = program::parse(&file, file.len() as u64).expect("a good program");
        let mut space = AddressSpace::new(pool, Arc::clone(&retention)).expect("memory");
        space.load_image(&image, id).expect("a program that fits");
        Self { pool, retention, id, space, image, file, fetched: Vec::new() }
    }

    /// The process ends: what is left of it goes to the node.
    pub(super) fn end(&mut self) -> WalkCounts {
        let (counts, table) = self.space.cut_back();
        if let Some(table) = table {
            self.retention.keep(table, counts);
        }
        counts
    }

    /// Another process of the program starts, on what the node has of it.
    pub(super) fn relaunch(&mut self) {
        self.fetched.clear();
        let retention = Arc::clone(&self.retention);
        self.space = match retention.take(self.id) {
            Some(table) => AddressSpace::on_retained(self.pool, retention, table).expect("it ran before"),
            None => {
                let mut space = AddressSpace::new(self.pool, retention).expect("memory");
                space.load_image(&self.image, self.id).expect("a program that fits");
                space
            }
        };
    }

    /// Another process of the program, started while this one runs.
    pub(super) fn beside(&mut self) -> Self {
        let retention = Arc::clone(&self.retention);
        let space = AddressSpace::beside(self.pool, Arc::clone(&retention), self.id, &mut self.space);
        let space = space.expect("memory").expect("it runs the program");
        let (image, file) = (self.image.clone(), self.file.clone());
        Self { pool: self.pool, retention, id: self.id, space, image, file, fetched: Vec::new() }
    }

    /// Takes what a touch of `address` would fetch from another process, as far as that has it.
    pub(super) fn take_from(&mut self, other: &Self, address: u64) {
        let Resolution::Fetch(fetch) = self.space.resolve(address, Access::READ) else { return };
        for wanted in self.space.wanted(&fetch) {
            if let Some(frame) = other.space.pristine(wanted) {
                self.space.adopt(wanted, frame);
            }
        }
    }

    /// The process stands, as data, and goes on. It has no file mapped but this. Meanwhile `f` has its pages.
    pub(super) fn stand<R>(&mut self, file: Option<&Arc<TestFile>>, f: impl FnOnce(&mut Pages) -> R) -> R {
        let none = AddressSpace::new(self.pool, Arc::clone(&self.retention)).expect("memory");
        let (record, mut pages) = core::mem::replace(&mut self.space, none).into_record(|_| 0);
        let result = f(&mut pages);
        let file = |_| file.map(|file| Arc::clone(file) as Arc<dyn FileSource>);
        self.space = record.make(pages, file, &quota()).expect("as it was");
        result
    }

    /// What the source of a fetch has there.
    pub(super) fn serve(&mut self, fetch: &Fetch) -> Vec<u8> {
        let (offset, length) = (fetch.offset() as usize, fetch.length());
        let bytes = match &fetch.source {
            Source::Program(id) => {
                assert_eq!(*id, self.id);
                self.fetched.push((fetch.first_page, fetch.pages));
                &self.file
            }
            Source::File(file) => {
                let file: &dyn core::any::Any = file.as_ref();
                let file = file.downcast_ref::<TestFile>().expect("the only kind there is");
                file.reads.lock().push((fetch.offset(), length));
                &file.bytes
            }
            Source::Change => panic!("there is nothing to be read"),
        };
        bytes.get(offset.min(bytes.len())..(offset + length).min(bytes.len())).unwrap_or_default().to_vec()
    }

    /// The program touches an address: `Err` is the signal it gets.
    pub(super) fn touch(&mut self, address: u64, access: Access) -> Result<(), Signal> {
        let mut resolution = self.space.fault(address, access);
        for _ in 0..1000 {
            resolution = match resolution {
                Resolution::Ready => return Ok(()),
                Resolution::Fetch(Fetch { source: Source::Change, .. }) => {
                    self.space.step();
                    self.space.resolve(address, access)
                }
                Resolution::Fetch(fetch) => {
                    let bytes = self.serve(&fetch);
                    match self.space.install(&fetch, &bytes) {
                        Resolution::Ready => self.space.resolve(address, access),
                        other => other,
                    }
                }
                Resolution::Signal(signal) => return Err(signal),
                Resolution::OutOfMemory => panic!("out of memory"),
            };
        }
        panic!("touching {address:#x} comes to no end");
    }

    /// The program writes a byte, if it may: the processor does, past the kernel.
    pub(super) fn store(&mut self, address: u64, byte: u8) -> Result<(), Signal> {
        self.touch(address, Access::WRITE)?;
        let page = UserPage::containing(address).expect("it was touched");
        let entry = self.space.table().entry(page).expect("it was touched");
        assert!(entry.access.contains(Access::WRITE));
        self.space.table().frame(page).expect("it was touched").write((address % PAGE) as usize, &[byte]);
        Ok(())
    }

    /// Copies from the program as a system call does. `Err`: how much was copied before the fault.
    pub(super) fn read(&mut self, address: u64, out: &mut [u8]) -> Result<(), usize> {
        let mut done = 0;
        loop {
            let result = self.space.read_bytes(address.wrapping_add(done as u64), &mut out[done..]);
            done = self.go_on(result, done)?;
            if done == usize::MAX {
                return Ok(());
            }
        }
    }

    /// Copies to the program as a system call does.
    pub(super) fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), usize> {
        let mut done = 0;
        loop {
            let result = self.space.write_bytes(address.wrapping_add(done as u64), &bytes[done..]);
            done = self.go_on(result, done)?;
            if done == usize::MAX {
                return Ok(());
            }
        }
    }

    /// Fetches what a copy wants. Returns how far it is then, `usize::MAX` at its end.
    fn go_on(&mut self, result: Result<(), CopyError>, before: usize) -> Result<usize, usize> {
        match result {
            Ok(()) => Ok(usize::MAX),
            Err(CopyError::Fault { done }) => Err(before + done),
            Err(CopyError::OutOfMemory) => panic!("out of memory"),
            Err(CopyError::Fetch { done, fetch: Fetch { source: Source::Change, .. } }) => {
                self.space.step();
                Ok(before + done)
            }
            Err(CopyError::Fetch { done, fetch }) => {
                let bytes = self.serve(&fetch);
                match self.space.install(&fetch, &bytes) {
                    Resolution::Ready => Ok(before + done),
                    _ => Err(before + done),
                }
            }
        }
    }

    /// One byte of the program's memory.
    pub(super) fn byte(&mut self, address: u64) -> Option<u8> {
        let mut byte = [0];
        self.read(address, &mut byte).ok().map(|()| byte[0])
    }

    /// What the program's file says about a byte of its memory.
    pub(super) fn initial(&self, address: u64) -> u8 {
        let segment = self.image.segments.iter().find(|segment| (segment.address..segment.end()).contains(&address));
        segment.map_or(0, |segment| {
            let inside = address - segment.address;
            if inside < segment.file_bytes { self.file[(segment.file_offset + inside) as usize] } else { 0 }
        })
    }
}

/// Takes apart what waits for that.
pub(super) fn reap(retention: &Retention) {
    while retention.reaper().step() {}
}

/// The signal's number and `si_code`.
pub(super) fn kind(result: Result<(), Signal>) -> Option<(u8, i32)> {
    result.err().map(|signal| (signal.number, signal.code))
}
