//! Blocks in memory of the tests' own, which is searched for what their users wrote.

use alloc::vec;
use alloc::vec::Vec;
use core::alloc::Layout;
use core::ptr::NonNull;

use proptest::prelude::*;

use super::Blocks;

/// What users write everywhere. No size or address has such a byte twice in a row.
const SECRET: u8 = 0xa5;

const KIB: usize = 1024;

/// Blocks, and the memory they are made of.
struct Stage {
    blocks: Blocks,
    memory: Vec<u64>,
    /// Bytes the blocks have of it.
    given: usize,
}

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, 1).unwrap()
}

impl Stage {
    fn new(bytes: usize) -> Self {
        let mut stage = Self { blocks: Blocks::new(), memory: vec![0; bytes / 8], given: 0 };
        stage.extend(bytes.min(64 * KIB));
        stage
    }

    fn extend(&mut self, bytes: usize) {
        let start = self.memory.as_mut_ptr().cast::<u8>();
        assert!(self.given + bytes <= self.memory.len() * 8);
        // SAFETY: a part of the memory that the blocks do not have yet; it lives as long as they do.
        unsafe { self.blocks.extend(start.add(self.given), bytes) };
        self.given += bytes;
    }

    /// Takes a block and fills it.
    fn take(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        let (start, end) = (self.memory.as_mut_ptr().cast::<u8>(), self.memory.len() * 8);
        let given = &mut self.given;
        let block = self.blocks.take(layout, |blocks, bytes| {
            let bytes = bytes.next_multiple_of(4 * KIB);
            let fits = *given + bytes <= end;
            if fits {
                // SAFETY: as in `extend`.
                unsafe { blocks.extend(start.add(*given), bytes) };
                *given += bytes;
            }
            fits
        })?;
        // SAFETY: the block is ours.
        unsafe { block.write_bytes(SECRET, layout.size()) };
        Some(block)
    }

    fn give(&mut self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the tests give back what they took.
        unsafe { self.blocks.give(block, layout) };
    }

    /// How many bytes the memory has of what users wrote, single ones not counted.
    fn secrets(&self) -> usize {
        let start = self.memory.as_ptr().cast::<u8>();
        // SAFETY: inside the memory. Blocks are written through pointers only.
        let is_secret = |at: usize| at < self.given && unsafe { start.add(at).read() } == SECRET;
        let beside = |at: usize| is_secret(at + 1) || at.checked_sub(1).is_some_and(is_secret);
        (0..self.given).filter(|at| is_secret(*at) && beside(*at)).count()
    }
}

#[test]
fn small_blocks_are_wiped_when_they_come_back() {
    let mut stage = Stage::new(64 * KIB);
    for bytes in [2, 7, 8, 15, 16, 17, 100, 127, 128, 129, 255, 1000, 2047, 2048] {
        let block = stage.take(layout(bytes)).unwrap();
        assert_eq!(stage.secrets(), bytes);
        stage.give(block, layout(bytes));
        assert_eq!(stage.secrets(), 0, "{bytes} bytes");
    }
}

#[test]
fn so_are_those_for_which_no_list_has_room() {
    let mut stage = Stage::new(1024 * KIB);
    let blocks: Vec<_> = (0..200).map(|_| stage.take(layout(2000)).unwrap()).collect();
    blocks.into_iter().for_each(|block| stage.give(block, layout(2000)));
    assert_eq!(stage.secrets(), 0);
}

#[test]
fn a_large_block_goes_unwiped_to_whoever_asks_for_its_size_and_is_washed() {
    let mut stage = Stage::new(1024 * KIB);
    stage.extend(512 * KIB);
    let block = stage.take(layout(100_000)).unwrap();
    stage.give(block, layout(100_000));
    assert_eq!(stage.secrets(), 100_000);
    let other = stage.take(layout(99_999)).unwrap();
    assert_ne!(other, block);
    stage.give(other, layout(99_999));
    assert_eq!(stage.take(layout(100_000)), Some(block));
    assert!(stage.blocks.wash());
    // The one that is in use is left alone.
    assert_eq!(stage.secrets(), 100_000);
    stage.give(block, layout(100_000));
    assert!(stage.blocks.wash());
    assert!(!stage.blocks.wash());
    assert_eq!((stage.secrets(), stage.blocks.used()), (0, 0));
}

#[test]
fn unwiped_blocks_are_limited_in_number_and_bytes() {
    let mut stage = Stage::new(4096 * KIB);
    let (small, large) = (layout(3000), layout(200 * KIB));
    let blocks: Vec<_> = (0..100).map(|_| stage.take(small).unwrap()).collect();
    blocks.into_iter().for_each(|block| stage.give(block, small));
    assert_eq!(stage.secrets(), 16 * 3000);
    let blocks: Vec<_> = (0..10).map(|_| stage.take(large).unwrap()).collect();
    blocks.into_iter().for_each(|block| stage.give(block, large));
    assert_eq!(stage.secrets(), 5 * 200 * KIB);
    let block = stage.take(layout(1100 * KIB)).unwrap();
    stage.give(block, layout(1100 * KIB));
    assert_eq!(stage.secrets(), 0);
}

#[test]
fn what_waits_is_washed_before_the_heap_grows() {
    let mut stage = Stage::new(1024 * KIB);
    let block = stage.take(layout(50_000)).unwrap();
    stage.give(block, layout(50_000));
    let given = stage.given;
    let other = stage.take(layout(60_000)).unwrap();
    assert_eq!((stage.given, stage.secrets()), (given, 60_000));
    stage.give(other, layout(60_000));
    assert!(stage.take(layout(10_000 * KIB)).is_none());
    assert_eq!(stage.secrets(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn blocks_are_apart_and_leave_nothing(
        steps in prop::collection::vec((any::<bool>(), 1..9000_usize, 0..8_u32, any::<prop::sample::Index>()), 1..300)
    ) {
        let mut stage = Stage::new(256 * KIB);
        let mut live: Vec<(NonNull<u8>, Layout)> = Vec::new();
        for (take, bytes, align, which) in steps {
            if take || live.is_empty() {
                let layout = Layout::from_size_align(bytes, 1 << align).unwrap();
                let Some(block) = stage.take(layout) else { continue };
                prop_assert_eq!(block.addr().get() % layout.align(), 0);
                let start = block.addr().get();
                for (other, of) in &live {
                    let at = other.addr().get();
                    prop_assert!(start + bytes <= at || at + of.size() <= start, "blocks overlap");
                }
                live.push((block, layout));
            } else {
                let (block, layout) = live.swap_remove(which.index(live.len()));
                stage.give(block, layout);
            }
        }
        stage.blocks.wash();
        let written: usize = live.iter().map(|(_, layout)| layout.size()).sum();
        prop_assert!(stage.secrets() <= written);
        live.drain(..).for_each(|(block, layout)| stage.give(block, layout));
        stage.blocks.wash();
        prop_assert_eq!(stage.secrets(), 0);
    }
}

#[test]
fn what_waits_is_nobodys() {
    let mut stage = Stage::new(256 * KIB);
    let kept = stage.take(layout(4096)).unwrap();
    for bytes in [16, 64, 2048, 3000, 20 * KIB] {
        let block = stage.take(layout(bytes)).unwrap();
        assert!(stage.blocks.used() >= 4096 + bytes, "{bytes}");
        stage.give(block, layout(bytes));
        assert_eq!(stage.blocks.used(), 4096, "{bytes}");
    }
    stage.give(kept, layout(4096));
    assert_eq!(stage.blocks.used(), 0);
}

#[test]
fn pages_without_blocks_can_be_taken_out_and_put_back() {
    let mut stage = Stage::new(256 * KIB);
    stage.extend(192 * KIB);
    let blocks: Vec<_> = (0..40).map(|_| stage.take(layout(4000)).unwrap()).collect();
    let kept = stage.take(layout(100)).unwrap();
    blocks.into_iter().for_each(|block| stage.give(block, layout(4000)));
    // What waits is in the way.
    stage.blocks.wash();
    assert!(!stage.blocks.empty_lists());
    let small = stage.take(layout(64)).unwrap();
    stage.give(small, layout(64));
    assert!(stage.blocks.empty_lists() && !stage.blocks.empty_lists());
    let used = stage.blocks.used();
    let mut pages: Vec<_> = core::iter::from_fn(|| stage.blocks.take_page()).map(NonNull::addr).collect();
    assert_eq!(stage.blocks.used(), used, "they are nobody's");
    // All but those in which the block or the ends lie.
    assert!((60..=63).contains(&pages.len()), "{}", pages.len());
    assert!(
        pages
            .iter()
            .all(|page| page.get().is_multiple_of(4 * KIB) && kept.addr().get() / (4 * KIB) != page.get() / (4 * KIB))
    );
    assert!(!stage.blocks.has_run(8 * KIB));
    // Two that lie one behind the other are a run again.
    pages.sort_unstable();
    let (first, _) = pages.iter().zip(&pages[1..]).find(|(one, next)| next.get() - one.get() == 4 * KIB).unwrap();
    let start = stage.memory.as_mut_ptr().cast::<u8>();
    let first = NonNull::new(start.with_addr(first.get())).unwrap();
    // SAFETY: both were just taken out.
    unsafe { stage.blocks.put_pages(first, 2) };
    assert!(stage.blocks.has_run(8 * KIB) && !stage.blocks.has_run(16 * KIB));
    // What is left of a page before them is part of the run.
    let block = stage.take(layout(7000)).unwrap().addr().get();
    assert!((first.addr().get() - 4 * KIB..=first.addr().get() + KIB).contains(&block));
}
