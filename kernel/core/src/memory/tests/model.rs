//! Random mappings, accesses and copies against a model that is one array of pages. What a program reads is what its
//! file and its writes say, whatever was split, moved, fetched ahead or copied in between.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use coppice_hal::addr::PageRange;
use coppice_hal::frames::FramePool;
use coppice_hal::paging::{Access, Marks, Verdict};
use proptest::prelude::{Strategy, any, prop_oneof, proptest};
use proptest::test_runner::TestCaseError;
use proptest::{prop_assert, prop_assert_eq};

use super::{ANONYMOUS, FIXED, MIB, PAGE, TestFile, World};
use crate::errno::Errno;
use crate::memory::limits::STEP_PAGES;
use crate::memory::{AddressSpace, Backing};

/// The program's first page, and how many from there on take part.
pub(super) const START: u64 = 0x40_0000;
pub(super) const PAGES: u64 = 80;
const FILE_PAGES: u64 = 20;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Origin {
    Zero,
    /// A page of the file.
    File(u64),
    /// An address of the program's image.
    Program(u64),
}

impl Origin {
    fn next(self) -> Self {
        match self {
            Self::Zero => Self::Zero,
            Self::File(page) => Self::File(page + 1),
            Self::Program(address) => Self::Program(address + PAGE),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Page {
    access: Access,
    origin: Origin,
    /// What the program wrote to it; until then it shows its origin.
    pub(super) own: Option<Vec<u8>>,
}

impl Page {
    fn allows(&self, access: Access) -> bool {
        match access {
            Access::READ => !self.access.is_empty(),
            access => self.access.contains(access),
        }
    }
}

/// The window's pages.
pub(super) type Model = Vec<Option<Page>>;

#[derive(Clone, Debug)]
pub(super) enum Step {
    Zero(u64, u64, u8),
    File(u64, u64, u8, u64),
    Unmap(u64, u64),
    Protect(u64, u64, u8),
    DontNeed(u64, u64),
    Move(u64, u64, u64, u64),
    Write(u64, usize, u8),
    Read(u64, usize),
    Touch(u64, u8),
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let range = || (0..PAGES, 1_u64..12).prop_map(|(start, count)| (start, count.min(PAGES - start)));
    let bytes = || (0..PAGES * PAGE, 1_usize..3 * PAGE as usize);
    prop_oneof![
        2 => (range(), 0_u8..8).prop_map(|((start, count), access)| Step::Zero(start, count, access)),
        2 => (range(), 0_u8..8, 0..FILE_PAGES + 3)
            .prop_map(|((start, count), access, at)| Step::File(start, count, access, at)),
        1 => range().prop_map(|(start, count)| Step::Unmap(start, count)),
        3 => (range(), 0_u8..8).prop_map(|((start, count), access)| Step::Protect(start, count, access)),
        2 => range().prop_map(|(start, count)| Step::DontNeed(start, count)),
        2 => (range(), range()).prop_map(|((from, old), (to, new))| Step::Move(from, old, to, new)),
        5 => (bytes(), any::<u8>()).prop_map(|((at, length), value)| Step::Write(at, length, value)),
        3 => bytes().prop_map(|(at, length)| Step::Read(at, length)),
        4 => (0..PAGES * PAGE, 0_u8..3).prop_map(|(at, bit)| Step::Touch(at, 1 << bit)),
    ]
}

/// What another thread does between two steps of a change: it writes a byte somewhere else, and reads one anywhere.
#[derive(Clone, Copy, Debug)]
struct Between {
    write: u64,
    value: u8,
    read: u64,
}

fn between() -> impl Strategy<Value = Between> {
    let at = || 0..PAGES * PAGE;
    (at(), any::<u8>(), at()).prop_map(|(write, value, read)| Between { write, value, read })
}

pub(super) struct Check {
    pub(super) world: World,
    pub(super) file: Arc<TestFile>,
    pub(super) model: Model,
}

impl Check {
    pub(super) fn new(pool: &'static FramePool) -> Self {
        Self::of(World::new(pool))
    }

    /// A process that has just started.
    pub(super) fn of(world: World) -> Self {
        let model = (0..PAGES).map(|number| {
            let address = START + number * PAGE;
            let segment = world
                .image
                .segments
                .iter()
                .find(|segment| (segment.first_page()..segment.end_page()).contains(&address))?;
            let mut access = Access::empty();
            access.set(Access::READ, segment.read);
            access.set(Access::WRITE, segment.write);
            access.set(Access::EXECUTE, segment.execute);
            Some(Page { access, origin: Origin::Program(address), own: None })
        });
        let model = model.collect();
        Self { world, file: TestFile::new((FILE_PAGES * PAGE) as usize + 50, 2), model }
    }

    /// What a page shows; `None` if the file has no such page.
    pub(super) fn shows(&self, page: &Page) -> Option<Vec<u8>> {
        if let Some(own) = &page.own {
            return Some(own.clone());
        }
        let mut bytes = vec![0; PAGE as usize];
        match page.origin {
            Origin::Zero => {}
            Origin::File(number) => {
                let from = self.file.bytes.get((number * PAGE) as usize..).filter(|from| !from.is_empty())?;
                let count = from.len().min(bytes.len());
                bytes[..count].copy_from_slice(&from[..count]);
            }
            Origin::Program(address) => {
                for (byte, at) in bytes.iter_mut().zip(address..) {
                    *byte = self.world.initial(at);
                }
            }
        }
        Some(bytes)
    }

    /// How many of `length` bytes at `at` of the window can be used like that.
    fn reach(&self, at: u64, length: usize, access: Access) -> usize {
        let usable = |at: &u64| {
            let page = self.model.get((at / PAGE) as usize)?.as_ref()?;
            (page.allows(access) && self.shows(page).is_some()).then_some(())
        };
        let mut done = 0;
        while done < length && usable(&(at + done as u64)).is_some() {
            done += (PAGE - (at + done as u64) % PAGE) as usize;
        }
        done.min(length)
    }

    /// Replaces pages of the model.
    fn put(&mut self, start: u64, pages: impl IntoIterator<Item = Option<Page>>) {
        for (slot, page) in self.model.iter_mut().skip(start as usize).zip(pages) {
            *slot = page;
        }
    }

    /// How many pages from `start` on are mapped.
    fn mapped(&self, start: u64, count: u64) -> u64 {
        let run = self.model.iter().skip(start as usize).take(count as usize).take_while(|page| page.is_some());
        run.count() as u64
    }

    fn map(&mut self, start: u64, count: u64, access: u8, origin: Origin) -> Result<(), TestCaseError> {
        let (backing, flags) = match origin {
            Origin::File(page) => (Backing::File { file: self.file.clone(), offset: page * PAGE }, 2),
            _ => (Backing::Zero, ANONYMOUS),
        };
        let at = START + start * PAGE;
        let result = self.world.space.map(at, count * PAGE, access.into(), flags | FIXED, backing);
        prop_assert_eq!(result, Ok(at));
        let access = Access::from_bits_truncate(access);
        let mut next = origin;
        let pages = (0..count).map(|_| {
            let origin = next;
            next = next.next();
            Some(Page { access, origin, own: None })
        });
        self.put(start, pages.collect::<Vec<_>>());
        Ok(())
    }

    fn protect(&mut self, start: u64, count: u64, access: u8) -> Result<(), TestCaseError> {
        let mapped = self.mapped(start, count);
        let result = self.world.space.protect(START + start * PAGE, count * PAGE, access.into());
        prop_assert_eq!(result, if mapped == count { Ok(()) } else { Err(Errno::ENOMEM) });
        for page in self.model.iter_mut().skip(start as usize).take(mapped as usize).flatten() {
            page.access = Access::from_bits_truncate(access);
        }
        Ok(())
    }

    fn relocate(&mut self, from: u64, old: u64, to: u64, new: u64) -> Result<(), TestCaseError> {
        let kept = old.min(new);
        let source: Vec<_> = self.model.iter().skip(from as usize).take(kept as usize).cloned().collect();
        // One area: rights are the same and contents go on.
        let one = source.iter().all(Option::is_some)
            && source.windows(2).all(|pair| match (&pair[0], &pair[1]) {
                (Some(one), Some(two)) => one.access == two.access && one.origin.next() == two.origin,
                _ => false,
            });
        let result = self.world.space.remap(START + from * PAGE, old * PAGE, new * PAGE, 3, START + to * PAGE);
        if to < from + old && from < to + new {
            prop_assert_eq!(result, Err(Errno::EINVAL));
        } else if !one {
            prop_assert_eq!(result, Err(Errno::EFAULT));
        } else {
            prop_assert_eq!(result, Ok(START + to * PAGE));
            self.put(from, (0..old).map(|_| None));
            let mut pages = source;
            while (pages.len() as u64) < new {
                let last = pages.last().cloned().flatten();
                pages.push(last.map(|last| Page { origin: last.origin.next(), own: None, ..last }));
            }
            self.put(to, pages);
        }
        Ok(())
    }

    fn write(&mut self, at: u64, length: usize, value: u8) -> Result<(), TestCaseError> {
        let bytes: Vec<u8> = (0..length).map(|index| value.wrapping_add(index as u8)).collect();
        let reach = self.reach(at, length, Access::WRITE);
        let result = self.world.write(START + at, &bytes);
        prop_assert_eq!(result, if reach == length { Ok(()) } else { Err(reach) });
        self.note(at, &bytes[..reach]);
        Ok(())
    }

    /// These bytes were written there.
    pub(super) fn note(&mut self, at: u64, bytes: &[u8]) {
        for (at, byte) in (at..).zip(bytes) {
            let index = (at / PAGE) as usize;
            if self.model[index].as_ref().is_some_and(|page| page.own.is_none()) {
                let shown = self.model[index].as_ref().and_then(|page| self.shows(page));
                self.model[index].as_mut().expect("mapped").own = shown;
            }
            if let Some(own) = self.model[index].as_mut().and_then(|page| page.own.as_mut()) {
                own[(at % PAGE) as usize] = *byte;
            }
        }
    }

    /// Whether it may be read there.
    pub(super) fn is_readable(&self, at: u64) -> bool {
        self.reach(at, 1, Access::READ) == 1
    }

    pub(super) fn read(&mut self, at: u64, length: usize) -> Result<(), TestCaseError> {
        let mut out = vec![0; length];
        let reach = self.reach(at, length, Access::READ);
        let result = self.world.read(START + at, &mut out);
        prop_assert_eq!(result, if reach == length { Ok(()) } else { Err(reach) });
        let mut done = 0;
        while done < reach {
            let at = at + done as u64;
            let shown = self.model[(at / PAGE) as usize].as_ref().and_then(|page| self.shows(page));
            let shown = shown.expect("readable");
            let from = &shown[(at % PAGE) as usize..];
            let count = from.len().min(reach - done);
            prop_assert!(out[done..done + count] == from[..count], "page of {:#x}", START + at);
            done += count;
        }
        Ok(())
    }

    fn touch(&mut self, at: u64, access: Access) -> Result<(), TestCaseError> {
        let expected = match &self.model[(at / PAGE) as usize] {
            None => Some((11, 1)),
            Some(page) if !page.allows(access) => Some((11, 2)),
            Some(page) if self.shows(page).is_none() => Some((7, 2)),
            Some(_) => None,
        };
        let result = self.world.touch(START + at, access);
        prop_assert_eq!(super::kind(result), expected);
        if expected.is_none() {
            let page = coppice_hal::addr::UserPage::containing(START + at).expect("in the window");
            let entry = self.world.space.table().entry(page).expect("just touched");
            prop_assert!(entry.access.contains(access));
        }
        Ok(())
    }

    pub(super) fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Zero(start, count, access) => self.map(start, count, access, Origin::Zero),
            Step::File(start, count, access, at) => self.map(start, count, access, Origin::File(at)),
            Step::Unmap(start, count) => {
                prop_assert_eq!(self.world.space.unmap(START + start * PAGE, count * PAGE), Ok(()));
                self.put(start, (0..count).map(|_| None));
                Ok(())
            }
            Step::Protect(start, count, access) => self.protect(start, count, access),
            Step::DontNeed(start, count) => {
                let result = self.world.space.advise(START + start * PAGE, count * PAGE, 4);
                prop_assert_eq!(result.is_ok(), self.mapped(start, count) == count);
                for page in self.model.iter_mut().skip(start as usize).take(count as usize).flatten() {
                    page.own = None;
                }
                Ok(())
            }
            Step::Move(from, old, to, new) => self.relocate(from, old, to, new),
            Step::Write(at, length, value) => self.write(at, length, value),
            Step::Read(at, length) => self.read(at, length),
            Step::Touch(at, bit) => self.touch(at, Access::from_bits_truncate(bit)),
        }
    }

    /// As [`Self::step`], in the shortest steps there are, with what other threads do in between; then to the end.
    fn slowly(&mut self, step: Step, others: &[Between]) -> Result<(), TestCaseError> {
        let touched = match step {
            Step::Zero(start, count, _) | Step::File(start, count, ..) => [start..start + count, 0..0],
            Step::Unmap(start, count) | Step::Protect(start, count, _) | Step::DontNeed(start, count) => {
                [start..start + count, 0..0]
            }
            Step::Move(from, old, to, new) => [from..from + old, to..to + new],
            Step::Write(..) | Step::Read(..) | Step::Touch(..) => [0..0, 0..0],
        };
        self.world.space.changes.step_pages = 1;
        self.step(step)?;
        for Between { write, value, read } in others {
            if touched.iter().all(|pages| !pages.contains(&(write / PAGE))) {
                self.write(*write, 1, *value)?;
            }
            match touched.iter().all(|pages| !pages.contains(&(read / PAGE))) {
                true => self.read(*read, 1)?,
                // It is there as before, or waits, or is gone.
                false => drop(self.world.byte(START + read)),
            }
            self.world.space.step();
        }
        while !self.world.space.step() {}
        Ok(())
    }

    /// The process ends and another one starts on what the node keeps: it sees the file's bytes, and nothing is left
    /// of the first one.
    fn run_again(&mut self) -> Result<(), TestCaseError> {
        let pool = self.world.pool;
        let counts = self.world.end();
        let usage = pool.usage();
        prop_assert_eq!((u64::from(usage.user), u64::from(usage.pristine)), (0, counts.kept));
        let held: u64 = self.world.retention.held().iter().map(|held| held.bytes / PAGE).sum();
        // The emptied space's own table is counted, but not held.
        prop_assert_eq!(u64::from(usage.pristine + usage.tables), held + 1);
        self.world.relaunch();
        prop_assert_eq!(self.world.space.stats().pages_found, counts.kept);
        self.invariants()?;
        let segments = self.world.image.segments.clone();
        for segment in segments {
            for page in (segment.first_page()..segment.end_page()).step_by(PAGE as usize) {
                let mut bytes = vec![0; PAGE as usize];
                prop_assert_eq!(self.world.read(page, &mut bytes), Ok(()));
                prop_assert!(bytes.iter().zip(page..).all(|(byte, at)| *byte == self.world.initial(at)), "{:#x}", page);
            }
        }
        self.invariants()
    }

    /// What must hold whenever nothing is under way.
    pub(super) fn invariants(&mut self) -> Result<(), TestCaseError> {
        let AddressSpace { table, areas, aside, stats, .. } = &mut self.world.space;
        let mut pages = aside.pages();
        let mut seen = Vec::new();
        table.walk(PageRange::ALL, |page, entry| {
            pages += 1;
            let now = entry.get();
            let (start, area) = areas.find(page.address()).expect("only areas have pages");
            let mut bytes = vec![0; PAGE as usize];
            if now.marks.contains(Marks::PRISTINE) {
                entry.frame().read(0, &mut bytes);
                let super::super::area::Content::Program { address, .. } = &area.content else {
                    panic!("a pristine page that is not the program's")
                };
                seen.push((now.access, address + (page.address() - start), bytes));
            }
            // The processor never allows more than the area does.
            assert!(
                (area.access | Access::READ).contains(now.access) && (!area.access.is_empty() || now.access.is_empty())
            );
            Verdict::Keep
        });
        prop_assert_eq!(pages, stats.pages);
        aside.each(|page, frame| {
            let mut bytes = vec![0; PAGE as usize];
            frame.read(0, &mut bytes);
            seen.push((Access::READ, page.address(), bytes));
        });
        for (access, address, bytes) in seen {
            prop_assert!(!access.contains(Access::WRITE));
            prop_assert!(bytes.iter().zip(address..).all(|(byte, at)| *byte == self.world.initial(at)));
        }
        Ok(())
    }
}

/// Seen once: the pages put back were not readable, as if what may only be written could not be read.
#[test]
fn a_page_put_back_can_be_read_if_it_may_only_be_written() {
    let mut check = Check::new(FramePool::for_host(8 * MIB));
    for step in [Step::Protect(6, 4, 2), Step::Write(26530, 10335, 0), Step::DontNeed(6, 4), Step::Touch(24576, 1)] {
        check.step(step).expect("as the model says");
    }
    check.invariants().expect("as the model says");
}

proptest! {
    #[test]
    fn memory_reads_as_file_and_writes_say(
        steps in proptest::collection::vec((step(), any::<bool>(), proptest::collection::vec(between(), 0..6)), 1..60),
    ) {
        std::thread_local!(static POOL: &'static FramePool = FramePool::for_host(8 * MIB));
        let pool = POOL.with(|pool| *pool);
        let free = pool.free_frames();
        let mut check = Check::new(pool);
        for (step, slowly, others) in steps {
            match slowly {
                true => check.slowly(step, &others)?,
                false => check.step(step)?,
            }
            check.world.space.changes.step_pages = STEP_PAGES;
        }
        check.invariants()?;
        for number in 0..PAGES {
            check.read(number * PAGE, PAGE as usize)?;
        }
        check.invariants()?;
        prop_assert_eq!(u64::from(pool.usage().user + pool.usage().pristine), check.world.space.stats().pages);
        check.run_again()?;
        drop(check);
        prop_assert_eq!(pool.free_frames(), free);
    }
}
