//! Which pages an entry says to be unchanged since a snapshot: never one with which anything was done but to read it.

use core::sync::atomic::Ordering;

use super::{MIB, page};
use crate::addr::PageRange;
use crate::frames::{Frame, FrameKind, FramePool};
use crate::paging::{Access, Effort, Marks, PageTable, Verdict};

const WRITE: Access = Access::READ.union(Access::WRITE);

/// A table with a page that may be written, of which a snapshot was taken and is gone.
struct World {
    pool: &'static FramePool,
    table: PageTable,
}

impl World {
    fn new() -> Self {
        let pool = FramePool::for_host(MIB);
        let table = PageTable::new(pool).expect("memory");
        let mut world = Self { pool, table };
        let frame = world.frame();
        world.table.map(page(5), frame, WRITE, Marks::empty()).expect("memory");
        assert!(!world.is_unchanged(5), "there was no snapshot");
        assert!(!world.snapshot(5));
        assert!(world.is_unchanged(5));
        world
    }

    fn frame(&self) -> Frame {
        self.pool.alloc(FrameKind::User).expect("memory")
    }

    /// Takes a snapshot, which then goes. Whether the page was unchanged by that.
    fn snapshot(&mut self, number: u64) -> bool {
        let mut with = PageTable::new(self.pool).expect("memory");
        assert_eq!(self.table.snapshot(PageRange::ALL, &mut with, Marks::empty()), Some(1));
        with.entry(page(number)).expect("it is there").unchanged
    }

    fn is_unchanged(&self, number: u64) -> bool {
        let entry = self.table.entry(page(number)).expect("it is there");
        let noticed = !entry.access.contains(Access::WRITE) && entry.marks.contains(Marks::COPY_ON_WRITE);
        assert!(!entry.unchanged || noticed, "the next write would not be noticed");
        entry.unchanged
    }
}

/// Whether a page is no longer unchanged when that was done, nor in the next snapshot.
fn notices(number: u64, change: impl FnOnce(&mut World)) -> bool {
    let mut world = World::new();
    change(&mut world);
    let said = world.is_unchanged(number);
    !world.snapshot(number) && !said
}

#[test]
fn what_is_only_looked_at_stays_unchanged() {
    let mut world = World::new();
    let mapped = world.table.lookup(page(5)).expect("it is there");
    mapped.read(0, &mut [0; 8]);
    assert_eq!(mapped.word(4), Some(0));
    drop(world.table.frame(page(5)));
    world.table.walk(PageRange::ALL, |_, entry| {
        drop(entry.frame());
        Verdict::Keep
    });
    assert!(!world.table.relocate(page(5), page(5)));
    assert!(world.is_unchanged(5) && world.snapshot(5) && world.snapshot(5));
    // The second table has the mark, and nothing but that.
    let mut with = PageTable::new(world.pool).expect("memory");
    world.table.snapshot(PageRange::ALL, &mut with, Marks::empty()).expect("memory");
    let (frame, entry) = with.take(page(5)).expect("it is there");
    assert!(entry.unchanged && entry.access.is_empty() && frame.is_shared());
}

#[test]
fn rights_and_marks_anew_are_a_change() {
    for access in [WRITE, Access::READ, Access::empty()] {
        for marks in [Marks::empty(), Marks::COPY_ON_WRITE] {
            assert!(notices(5, |world| assert!(world.table.protect(page(5), access, marks))));
            assert!(notices(5, |world| {
                world.table.walk(PageRange::ALL, |_, entry| {
                    entry.set(access, marks);
                    Verdict::Keep
                });
            }));
        }
    }
    let rights = [Access::READ, WRITE];
    assert!(rights.into_iter().all(|access| notices(5, |world| {
        world.table.keep_marked(PageRange::ALL, Marks::COPY_ON_WRITE, access, &mut { Effort::WHOLE });
    })));
}

/// Neighbours that are alike are passed over together, but not if they are unchanged.
#[test]
fn nothing_is_unchanged_in_what_is_kept_of_a_table() {
    let mut world = World::new();
    for number in 8..16 {
        let frame = world.frame();
        world.table.map(page(number), frame, Access::READ, Marks::all()).expect("memory");
    }
    let mut with = PageTable::new(world.pool).expect("memory");
    assert_eq!(world.table.snapshot(PageRange::ALL, &mut with, Marks::empty()), Some(9));
    assert!((8..16).all(|number| world.is_unchanged(number)));
    world.table.keep_marked(PageRange::ALL, Marks::all(), Access::READ, &mut { Effort::WHOLE });
    assert!((8..16).all(|number| !world.is_unchanged(number)));
}

#[test]
fn another_frame_is_a_change() {
    assert!(notices(5, |world| {
        let frame = world.frame();
        world.table.map(page(5), frame, Access::READ, Marks::COPY_ON_WRITE).expect("memory");
    }));
    // The same one taken out and put back is, too.
    assert!(notices(5, |world| {
        let frame = world.table.unmap(page(5)).expect("it is there");
        world.table.map(page(5), frame, Access::READ, Marks::COPY_ON_WRITE).expect("memory");
    }));
}

#[test]
fn another_place_is_a_change() {
    let go = |world: &mut World, from, to| {
        assert!(world.table.prepare(page(to)) && world.table.relocate(page(from), page(to)));
    };
    assert!(notices(6, |world| go(world, 5, 6)));
    assert!(notices(1 << 20, |world| go(world, 5, 1 << 20)));
    assert!(notices(5, |world| {
        go(world, 5, 6);
        go(world, 6, 5);
    }));
}

/// Nobody is to write to a page that is to be copied first; if somebody does, it is no longer said to be unchanged.
#[test]
fn a_write_of_the_kernel_is_a_change() {
    assert!(notices(5, |world| world.table.lookup(page(5)).expect("it is there").write(7, b"x")));
    assert!(notices(5, |world| {
        let mapped = world.table.lookup(page(5)).expect("it is there");
        mapped.words(8, 1).expect("aligned")[0].store(1, Ordering::Relaxed);
    }));
}

#[test]
fn another_table_that_shows_the_frame_knows_nothing_of_it() {
    let mut world = World::new();
    let mut other = PageTable::new(world.pool).expect("memory");
    assert_eq!(world.table.share_marked(PageRange::ALL, Marks::COPY_ON_WRITE, Access::READ, &mut other), 1);
    assert!(!other.entry(page(5)).expect("it is there").unchanged);
}

#[test]
fn what_others_may_write_is_never_unchanged() {
    let mut world = World::new();
    for _ in 0..2 {
        let mut with = PageTable::new(world.pool).expect("memory");
        assert_eq!(world.table.snapshot_page(page(5), &mut with, false), Some(1));
        assert!(!world.is_unchanged(5));
    }
    assert!(!world.snapshot(5));
}
