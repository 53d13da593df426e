//! Shared memory against a model that is one array of bytes, while two processes map it, write to it and cut it.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use coppice_hal::frames::FramePool;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};
use proptest::test_runner::TestCaseError;
use proptest::{prop_assert, prop_assert_eq};

use super::{MIB, PAGE, RW};
use crate::memory::{AddressSpace, Backing, Budget, SharedMemory, Snapshot, Taken};
use crate::quota::tests::quota;

const PAGES: u64 = 12;
const BYTES: u64 = PAGES * PAGE;
/// Where every process has it.
const AT: u64 = 0x10_0000;
/// Pages it may have, fewer than it is long.
const BUDGET: u64 = 10;

#[derive(Clone, Debug)]
enum Step {
    /// By call: offset, length, value.
    Write(u64, usize, u8),
    Read(u64, usize),
    Resize(u64),
    Allocate(u64, u64),
    /// Through a mapping of one of two processes.
    Store(bool, u64, usize, u8),
    Load(bool, u64, usize),
    /// One of two processes forgets what it has of some pages.
    Forget(bool, u64, u64),
    /// Both stand, and what it is now is kept from then on.
    Keep,
    /// A window of what is kept is taken out of it.
    Take,
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = || (0..BYTES, 1_usize..2 * PAGE as usize);
    prop_oneof![
        3 => (bytes(), any::<u8>()).prop_map(|((at, length), value)| Step::Write(at, length, value)),
        2 => bytes().prop_map(|(at, length)| Step::Read(at, length)),
        2 => (0..BYTES).prop_map(Step::Resize),
        1 => (0..BYTES, 1..2 * PAGE).prop_map(|(at, length)| Step::Allocate(at, length)),
        4 => (any::<bool>(), bytes(), any::<u8>())
            .prop_map(|(who, (at, length), value)| Step::Store(who, at, length, value)),
        4 => (any::<bool>(), bytes()).prop_map(|(who, (at, length))| Step::Load(who, at, length)),
        1 => (any::<bool>(), 0..PAGES, 1..PAGES).prop_map(|(who, page, count)| Step::Forget(who, page, count)),
        1 => Just(Step::Keep),
        1 => Just(Step::Take),
    ]
}

struct Check {
    pool: &'static FramePool,
    memory: Arc<SharedMemory>,
    retention: Arc<crate::memory::Retention>,
    spaces: [AddressSpace; 2],
    /// The bytes that there are.
    model: Vec<u8>,
    budget: Arc<Budget>,
    /// What is kept, and what it was, by whole pages.
    kept: Option<(Arc<Snapshot>, Vec<u8>)>,
}

impl Check {
    fn new(pool: &'static FramePool) -> Self {
        let budget = Arc::new(Budget::new(BUDGET));
        let retention = Arc::default();
        let memory = Arc::new(SharedMemory::new(pool, Arc::clone(&retention), 0, Some(Arc::clone(&budget))));
        let spaces = [(); 2].map(|()| {
            let mut space = AddressSpace::new(pool, Arc::default()).expect("memory");
            let backing = Backing::Shared { memory: Arc::clone(&memory), offset: 0, may_write: true };
            assert_eq!(space.map(AT, 2 * BYTES, RW, 0x11, backing), Ok(AT));
            space
        });
        Self { pool, memory, retention, spaces, model: Vec::new(), budget, kept: None }
    }

    /// Writes to the model, which grows.
    fn put(&mut self, at: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let end = at as usize + bytes.len();
        self.model.resize(end.max(self.model.len()), 0);
        self.model[at as usize..end].copy_from_slice(bytes);
    }

    fn keep(&mut self) {
        for space in &mut self.spaces {
            let none = AddressSpace::new(self.pool, Arc::default()).expect("memory");
            let (record, mut pages) = core::mem::replace(space, none).into_record(|_| 0);
            drop(pages.snapshot().expect("memory"));
            *space = record.make(pages, |_| None, &quota()).expect("as it was");
        }
        let mut was = self.model.clone();
        was.resize(was.len().next_multiple_of(PAGE as usize), 0);
        self.kept = Some((self.memory.snapshot().expect("memory"), was));
    }

    /// Takes a window, and holds it against what it was. All are in one.
    fn take(&mut self) -> Result<(), TestCaseError> {
        let Some((snapshot, was)) = &self.kept else { return Ok(()) };
        let mut bytes = Vec::new();
        let taken = snapshot.take(&mut bytes, |_| None).expect("there is memory enough");
        let Some(Taken::Changed(window)) = taken else {
            self.kept = None;
            return Ok(());
        };
        let mut filled = bytes.chunks(PAGE as usize);
        for (number, was) in was.chunks(PAGE as usize).enumerate() {
            let is_filled = window.filled & 1 << number != 0;
            let page = if is_filled { filled.next() } else { None };
            let is_same = page.map_or(was.iter().all(|byte| *byte == 0), |page| page == was);
            prop_assert!(is_same, "page {} is another", number);
        }
        prop_assert_eq!(filled.next(), None);
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        let length = self.model.len() as u64;
        match *step {
            Step::Write(at, count, value) => {
                let bytes = vec![value; count];
                let (done, end, result) = self.memory.write(Some(at), &bytes);
                prop_assert_eq!((done == count, end), (result.is_ok(), at + done as u64));
                prop_assert!(result.is_ok() || self.memory.pages() == BUDGET);
                if done > 0 {
                    self.put(at, &bytes[..done]);
                }
            }
            Step::Read(at, count) => {
                let mut bytes = vec![1; count];
                let given = self.memory.read(at, &mut bytes);
                let there = self.model.get(at as usize..).unwrap_or_default();
                prop_assert_eq!(&bytes[..given], &there[..there.len().min(count)]);
            }
            Step::Resize(to) => {
                if let Some(first) = self.memory.set_length(to) {
                    for space in &mut self.spaces {
                        let mut from = Some(0);
                        while let Some(at) = from {
                            from = space.forget_shared(&self.memory, first, at);
                        }
                    }
                    super::reap(&self.retention);
                }
                self.model.resize(to as usize, 0);
            }
            Step::Allocate(at, count) => {
                let grows = self.memory.allocate(at, count, true).is_ok();
                if grows && length < at + count {
                    self.model.resize((at + count) as usize, 0);
                }
            }
            Step::Store(who, at, count, value) => {
                // Not behind the end: what is written there shows when the memory grows, as on Linux.
                let count = count.min(length.saturating_sub(at) as usize);
                let bytes = vec![value; count];
                let done = match self.spaces[usize::from(who)].write_bytes(AT + at, &bytes) {
                    Ok(()) => count,
                    Err(crate::memory::CopyError::Fault { done }) => done,
                    Err(error) => return Err(TestCaseError::fail(alloc::format!("{error:?}"))),
                };
                prop_assert!(done == count || self.memory.pages() == BUDGET);
                self.put(at, &bytes[..done]);
            }
            Step::Load(who, at, count) => {
                let mut bytes = vec![1; count];
                let done = match self.spaces[usize::from(who)].read_bytes(AT + at, &mut bytes) {
                    Ok(()) => count,
                    Err(crate::memory::CopyError::Fault { done }) => done,
                    Err(error) => return Err(TestCaseError::fail(alloc::format!("{error:?}"))),
                };
                // Whole pages can be read.
                let reach = length.next_multiple_of(PAGE).saturating_sub(at).min(count as u64) as usize;
                prop_assert!(done == reach || done < reach && self.memory.pages() == BUDGET);
                let there = self.model.get(at as usize..).unwrap_or_default();
                let known = there.len().min(done);
                prop_assert_eq!(&bytes[..known], &there[..known]);
                prop_assert!(bytes[known..done].iter().all(|byte| *byte == 0), "zeros behind the end");
            }
            Step::Keep => self.keep(),
            Step::Take => self.take()?,
            Step::Forget(who, page, count) => {
                let advised = self.spaces[usize::from(who)].advise(AT + page * PAGE, count * PAGE, 4);
                prop_assert_eq!(advised, Ok(()));
            }
        }
        prop_assert_eq!(self.memory.length(), self.model.len() as u64);
        prop_assert_eq!(self.budget.pages(), (BUDGET, self.memory.pages()));
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn shared_memory_is_one_array_of_bytes(steps in proptest::collection::vec(step(), 1..60)) {
        std::thread_local!(static POOL: &'static FramePool = FramePool::for_host(2 * MIB));
        let pool = POOL.with(|pool| *pool);
        let free = pool.free_frames();
        let mut check = Check::new(pool);
        for step in &steps {
            check.step(step)?;
        }
        check.take()?;
        check.kept = None;
        prop_assert_eq!(u64::from(pool.usage().user), check.memory.pages(), "frames that were cut off are free");
        let memory = Arc::downgrade(&check.memory);
        drop(check);
        prop_assert_eq!((memory.strong_count(), pool.free_frames()), (0, free));
    }
}
