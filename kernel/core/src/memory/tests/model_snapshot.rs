//! The model of [`super::model`] for a process of which snapshots are taken and kept, each only as far as it is not
//! known to be unchanged since the one before: what is kept is always what the process was then.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use coppice_hal::frames::{FrameKind, FramePool};
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};
use proptest::test_runner::TestCaseError;
use proptest::{prop_assert, prop_assert_eq};

use super::keeper::Keeper;
use super::model::{Check, Model, PAGES, START, Step, step};
use super::{ANONYMOUS, FIXED, MIB, PAGE, RW, World};
use crate::memory::limits::STEP_PAGES;
use crate::memory::{Backing, CopyError, GivenUp, Resolution, SharedMemory, Snapshot, WINDOW_PAGES};

/// Memory of others that the process shows privately, a page behind those of the model and in one window with some.
const OTHERS: u64 = START + (PAGES + 1) * PAGE;
const OTHERS_PAGES: u64 = 6;

/// A page far behind all else: there may be memory for the tables of all but this.
const FAR: u64 = 0x10_0000_0000;

/// Snapshots that wait at most: there is memory for so many.
const WAITING_MAX: usize = 8;

#[derive(Clone, Debug)]
enum Turn {
    Step(Step),
    /// A snapshot is taken and kept as a whole.
    Kept,
    /// A step in short steps, in the middle of which a snapshot is taken.
    Midway(Step),
    Snapshot,
    /// One that fails for want of memory, so many frames being left, and another at once, which is kept.
    Fails(u32),
    /// The first one that is not kept yet is kept, or given up, some windows of it having been taken.
    Keep,
    GiveUp(u8),
    /// A debugger writes.
    Poke(u64, usize, u8),
    /// The process writes, having made the page its own for that.
    Store(u64, u8),
    /// Others write to their memory; the process writes what is its own from then on, looks at it, or gives it up.
    OthersWrite(u64, u8),
    Own(u64, u8),
    Look(u64),
    Disown(u64),
}

/// Pages of which much is made: some in each window.
fn place() -> impl Strategy<Value = u64> {
    (0..3_u64, 0..3_u64).prop_map(|(window, index)| window * WINDOW_PAGES + 10 + index)
}

/// Something with a page or two, so that much else stays unchanged.
fn small() -> impl Strategy<Value = Step> {
    let range = || (place(), 1_u64..3);
    let byte = || place().prop_map(|number| number * PAGE + 5);
    prop_oneof![
        2 => range().prop_map(|(start, count)| Step::Zero(start, count, 3)),
        1 => range().prop_map(|(start, count)| Step::Unmap(start, count)),
        1 => (range(), 0_u8..8).prop_map(|((start, count), access)| Step::Protect(start, count, access)),
        1 => range().prop_map(|(start, count)| Step::DontNeed(start, count)),
        3 => (place(), place(), 1_u64..3).prop_map(|(from, to, count)| Step::Move(from, count, to, count)),
        3 => (byte(), any::<u8>()).prop_map(|(at, value)| Step::Write(at, 7, value)),
        2 => byte().prop_map(|at| Step::Read(at, 7)),
        1 => (byte(), 0_u8..3).prop_map(|(at, bit)| Step::Touch(at, 1 << bit)),
    ]
}

fn turn() -> impl Strategy<Value = Turn> {
    let others = || 0..OTHERS_PAGES;
    let at = || prop_oneof![3 => place().prop_map(|number| number * PAGE + 7), 1 => 0..PAGES * PAGE];
    prop_oneof![
        16 => small().prop_map(Turn::Step),
        3 => step().prop_map(Turn::Step),
        1 => small().prop_map(Turn::Midway),
        1 => step().prop_map(Turn::Midway),
        12 => Just(Turn::Kept),
        5 => Just(Turn::Snapshot),
        4 => Just(Turn::Keep),
        2 => (2_u32..7).prop_map(Turn::Fails),
        2 => (0_u8..3).prop_map(Turn::GiveUp),
        2 => (at(), 1_usize..200, any::<u8>()).prop_map(|(at, length, value)| Turn::Poke(at, length, value)),
        6 => (at(), any::<u8>()).prop_map(|(at, value)| Turn::Store(at, value)),
        1 => (others(), any::<u8>()).prop_map(|(page, value)| Turn::OthersWrite(page, value)),
        2 => (others(), any::<u8>()).prop_map(|(page, value)| Turn::Own(page, value)),
        1 => others().prop_map(Turn::Look),
        1 => others().prop_map(Turn::Disown),
    ]
}

/// What pages were.
struct Was {
    model: Model,
    /// Pages of others that the process has written.
    own: BTreeMap<u64, Vec<u8>>,
}

struct Kept {
    check: Check,
    memory: Arc<SharedMemory>,
    /// Pages of others that the process has written.
    own: BTreeMap<u64, Vec<u8>>,
    keeper: Keeper,
    /// Snapshots that are not kept yet, with all pages as they were.
    waiting: VecDeque<(Arc<Snapshot>, Was)>,
}

impl Kept {
    fn new(pool: &'static FramePool) -> Self {
        let mut check = Check::new(pool);
        let World { retention, space, .. } = &mut check.world;
        let memory = Arc::new(SharedMemory::new(pool, Arc::clone(retention), OTHERS_PAGES * PAGE, None));
        let backing = Backing::Shared { memory: Arc::clone(&memory), offset: 0, may_write: false };
        assert_eq!(space.map(OTHERS, OTHERS_PAGES * PAGE, RW, 2 | FIXED, backing), Ok(OTHERS));
        assert_eq!(space.map(FAR, PAGE, RW, ANONYMOUS | FIXED, Backing::Zero), Ok(FAR));
        assert_eq!(check.world.write(FAR, b"far"), Ok(()));
        Self { check, memory, own: BTreeMap::new(), keeper: Keeper::default(), waiting: VecDeque::new() }
    }

    /// All pages as they are.
    fn pages(&self) -> Was {
        Was { model: self.check.model.clone(), own: self.own.clone() }
    }

    fn snapshot(&mut self) -> Result<(), TestCaseError> {
        let was = self.pages();
        let file = Arc::clone(&self.check.file);
        let snapshot = self.check.world.stand(Some(&file), |pages| pages.snapshot().expect("memory"));
        self.check.world.space.changes.step_pages = STEP_PAGES;
        self.waiting.push_back((snapshot, was));
        if self.waiting.len() > WAITING_MAX { self.keep() } else { Ok(()) }
    }

    /// One fails, if there is too little memory for it.
    fn fail(&mut self, left: u32) {
        let (was, pool) = (self.pages(), self.check.world.pool);
        let file = Arc::clone(&self.check.file);
        let snapshot = self.check.world.stand(Some(&file), |pages| {
            let held: Vec<_> = (left..pool.available_frames()).map(|_| pool.alloc(FrameKind::User)).collect();
            let snapshot = pages.snapshot();
            drop(held);
            snapshot
        });
        self.waiting.extend(snapshot.ok().map(|snapshot| (snapshot, was)));
    }

    fn keep(&mut self) -> Result<(), TestCaseError> {
        let Some((snapshot, was)) = self.waiting.pop_front() else { return Ok(()) };
        match self.keeper.keep(&snapshot) {
            Ok(_) => {}
            Err(GivenUp) => return Ok(()),
        }
        for (at, page) in (START..).step_by(PAGE as usize).zip(&was.model) {
            match (self.keeper.page(at), page) {
                (Some(kept), Some(page)) => prop_assert!(Some(kept) == self.check.shows(page), "page {:#x}", at),
                (Some(_), None) => prop_assert!(false, "page {at:#x} was none"),
                // It is to be seen again where it came from.
                (None, Some(page)) => prop_assert!(page.own.is_none(), "page {at:#x} is not kept"),
                (None, None) => {}
            }
        }
        for (number, at) in (OTHERS..).step_by(PAGE as usize).enumerate().take(OTHERS_PAGES as usize) {
            prop_assert!(self.keeper.page(at).as_ref() == was.own.get(&(number as u64)), "page {:#x}", at);
        }
        Ok(())
    }

    /// Takes another one, and keeps all.
    fn keep_all(&mut self) -> Result<(), TestCaseError> {
        self.snapshot()?;
        while !self.waiting.is_empty() {
            self.keep()?;
        }
        Ok(())
    }

    fn poke(&mut self, at: u64, length: usize, value: u8) -> Result<(), TestCaseError> {
        // In one page.
        let bytes = vec![value; length.min((PAGE - at % PAGE) as usize)];
        let world = &mut self.check.world;
        let poked = loop {
            match world.space.poke(START + at, &bytes) {
                Err(CopyError::Fetch { fetch, .. }) => {
                    let served = world.serve(&fetch);
                    if !matches!(world.space.install(&fetch, &served), Resolution::Ready) {
                        break false;
                    }
                }
                result => break result.is_ok(),
            }
        };
        prop_assert!(poked || !self.check.is_readable(at));
        if poked {
            self.check.note(at, &bytes);
        }
        Ok(())
    }

    fn store(&mut self, at: u64, value: u8) {
        if self.check.world.store(START + at, value).is_ok() {
            self.check.note(at, &[value]);
        }
    }

    fn take(&mut self, turn: Turn) -> Result<(), TestCaseError> {
        match turn {
            Turn::Step(step) => self.check.step(step)?,
            Turn::Midway(step) => {
                self.check.world.space.changes.step_pages = 1;
                self.check.step(step)?;
                self.snapshot()?;
            }
            Turn::Kept => self.keep_all()?,
            Turn::Snapshot => self.snapshot()?,
            Turn::Fails(left) => {
                self.fail(left);
                self.keep_all()?;
            }
            Turn::Keep => self.keep()?,
            Turn::GiveUp(windows) => {
                if let Some((snapshot, _)) = self.waiting.pop_front() {
                    let taken = (0..windows).try_for_each(|_| snapshot.take(&mut Vec::new(), |_| None).map(|_| ()));
                    prop_assert_eq!(snapshot.give_up(), taken.is_ok());
                }
            }
            Turn::Poke(at, length, value) => self.poke(at, length, value)?,
            Turn::Store(at, value) => self.store(at, value),
            Turn::OthersWrite(page, value) => {
                prop_assert_eq!(self.memory.write(Some(page * PAGE), &[value; 9]).2, Ok(()));
            }
            Turn::Own(page, value) => {
                let at = OTHERS + page * PAGE;
                prop_assert_eq!(self.check.world.write(at, &[value; 5]), Ok(()));
                let mut bytes = vec![0; PAGE as usize];
                self.memory.read(page * PAGE, &mut bytes);
                self.own.entry(page).or_insert(bytes)[..5].fill(value);
            }
            Turn::Look(page) => prop_assert!(self.check.world.byte(OTHERS + page * PAGE).is_some()),
            Turn::Disown(page) => {
                prop_assert_eq!(self.check.world.space.advise(OTHERS + page * PAGE, PAGE, 4), Ok(()));
                self.own.remove(&page);
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn what_is_kept_is_what_was(turns in proptest::collection::vec(turn(), 1..100)) {
        std::thread_local!(static POOL: &'static FramePool = FramePool::for_host(16 * MIB));
        let pool = POOL.with(|pool| *pool);
        let free = pool.free_frames();
        let mut kept = Kept::new(pool);
        for turn in turns {
            kept.take(turn)?;
        }
        kept.keep_all()?;
        kept.check.invariants()?;
        for number in 0..PAGES {
            kept.check.read(number * PAGE, PAGE as usize)?;
        }
        kept.check.world.end();
        let retention = Arc::clone(&kept.check.world.retention);
        drop(kept);
        super::reap(&retention);
        drop(retention);
        prop_assert_eq!(pool.free_frames(), free);
    }
}
