//! Real tables in real frames against a map of pages.

extern crate std;

use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

use proptest::prelude::{Strategy, any, prop_oneof, proptest};
use proptest::{prop_assert, prop_assert_eq};
use x86_64::structures::paging::PageTableFlags;

use super::{Access, Effort, Entry, Marks, PageTable, Raw, Verdict};
use crate::addr::{PAGE_BYTES, PageRange, USER_END, UserPage};
use crate::frames::{FrameKind, FramePool};

mod snapshot;

const MIB: usize = 1024 * 1024;

fn page(number: u64) -> UserPage {
    UserPage::containing(number * PAGE_BYTES as u64).expect("a user page")
}

/// The entry as the processor's manual has it.
fn hardware(access: Access) -> PageTableFlags {
    PageTableFlags::from_bits_truncate(Raw::page(0x1234_5000, access, Marks::all()).0)
}

#[test]
fn entries_say_to_the_processor_what_they_mean() {
    let user = PageTableFlags::PRESENT | PageTableFlags::USER_ACCESSIBLE;
    let all = PageTableFlags::PRESENT
        | PageTableFlags::WRITABLE
        | PageTableFlags::USER_ACCESSIBLE
        | PageTableFlags::NO_EXECUTE
        | PageTableFlags::NO_CACHE
        | PageTableFlags::GLOBAL
        | PageTableFlags::HUGE_PAGE;
    assert_eq!(hardware(Access::READ) & all, user | PageTableFlags::NO_EXECUTE);
    assert_eq!(
        hardware(Access::READ | Access::WRITE) & all,
        user | PageTableFlags::WRITABLE | PageTableFlags::NO_EXECUTE
    );
    assert_eq!(hardware(Access::READ | Access::EXECUTE) & all, user);
    assert!(!hardware(Access::empty()).contains(PageTableFlags::PRESENT));
    let raw = Raw::page(0x000f_edcb_a987_6000, Access::WRITE, Marks::FILE);
    assert_eq!(raw.address(), 0x000f_edcb_a987_6000);
    assert_eq!(raw.access(), Access::READ | Access::WRITE);
    assert_eq!(raw.marks(), Marks::FILE);
    assert!(!Raw::page(0, Access::empty(), Marks::empty()).is_empty());
}

#[test]
fn shared_pages_are_held_by_both_tables() {
    let pool = FramePool::for_host(MIB);
    let free = pool.free_frames();
    let mut from = PageTable::new(pool).expect("memory");
    let mut to = PageTable::new(pool).expect("memory");
    // Two leaf tables; every third page has no mark, and one is there already.
    for number in 500..524 {
        let marks = if number % 3 == 0 { Marks::FILE } else { Marks::all() };
        let frame = pool.alloc(FrameKind::Pristine).expect("memory");
        from.map(page(number), frame, Access::READ, marks).expect("memory");
    }
    to.map(page(511), pool.alloc(FrameKind::User).expect("memory"), Access::READ, Marks::empty()).expect("memory");
    let all = PageRange::covering(501 * 4096, 524 * 4096).expect("in the user half");
    assert_eq!(from.share_marked(all, Marks::all(), Access::EXECUTE, &mut to), 14);
    let frame = |table: &PageTable, number| table.frame(page(number)).map(|frame| frame.address());
    for number in 500..524 {
        let is_shared = frame(&to, number).is_some() && frame(&to, number) == frame(&from, number);
        assert_eq!(is_shared, number % 3 != 0 && !matches!(number, 500 | 511), "page {number}");
    }
    let entry = to.entry(page(502)).expect("shared");
    assert_eq!((entry.access, entry.marks), (Access::READ | Access::EXECUTE, Marks::all()));
    drop(from);
    assert!(!to.lookup(page(502)).expect("it stays").is_shared());
    drop(to);
    assert_eq!(pool.free_frames(), free);
    // Without memory for a table pages are left out.
    let mut from = PageTable::new(pool).expect("memory");
    from.map(page(9), pool.alloc(FrameKind::User).expect("memory"), Access::READ, Marks::all()).expect("memory");
    let mut to = PageTable::new(pool).expect("memory");
    let held: Vec<_> = core::iter::from_fn(|| pool.alloc(FrameKind::User)).collect();
    assert_eq!(from.share_marked(PageRange::ALL, Marks::all(), Access::READ, &mut to), 0);
    drop(held);
    assert_eq!(from.share_marked(PageRange::ALL, Marks::all(), Access::READ, &mut to), 1);
}

#[test]
fn a_page_without_rights_keeps_its_frame() {
    let pool = FramePool::for_host(MIB);
    let mut table = PageTable::new(pool).expect("memory");
    let frame = pool.alloc(FrameKind::User).expect("memory");
    frame.write(0, b"still here");
    table.map(page(77), frame, Access::READ | Access::WRITE, Marks::FILE).expect("memory");
    assert!(table.protect(page(77), Access::empty(), Marks::FILE));
    assert_eq!(
        table.entry(page(77)),
        Some(Entry { access: Access::empty(), marks: Marks::FILE, accessed: false, dirty: false, unchanged: false })
    );
    let mut text = [0; 10];
    table.lookup(page(77)).expect("held").read(0, &mut text);
    assert_eq!(&text, b"still here");
    let mut more = Vec::with_capacity(9);
    more.extend_from_slice(b"is ");
    table.lookup(page(77)).expect("held").append(6, 4, &mut more);
    assert_eq!(more, b"is here");
    assert!(!table.protect(page(78), Access::READ, Marks::empty()));
    assert!(!table.protect(page(77 + (1 << 30)), Access::READ, Marks::empty()));
}

#[test]
fn a_kernel_write_marks_the_page_dirty() {
    let pool = FramePool::for_host(MIB);
    let mut table = PageTable::new(pool).expect("memory");
    table.map(page(5), pool.alloc(FrameKind::User).expect("memory"), Access::READ, Marks::empty()).expect("memory");
    assert!(!table.entry(page(5)).expect("mapped").dirty);
    table.lookup(page(5)).expect("mapped").write(4095, b"x");
    assert!(table.entry(page(5)).expect("mapped").dirty);
    table.walk(PageRange::ALL, |_, entry| {
        entry.clear_dirty();
        Verdict::Keep
    });
    assert!(!table.entry(page(5)).expect("mapped").dirty);
}

#[test]
fn a_map_that_fails_changes_nothing() {
    let pool = FramePool::for_host(MIB);
    let mut table = PageTable::new(pool).expect("memory");
    let mut frames: Vec<_> = std::iter::from_fn(|| pool.alloc(FrameKind::User)).collect();
    for spare in 0..3 {
        let frame = frames.pop().expect("some are left");
        let (free, tables) = (pool.free_frames(), pool.usage().tables);
        let refused = table.map(page(1 << 30), frame, Access::READ, Marks::empty()).expect_err("no tables to be had");
        assert_eq!((pool.free_frames(), pool.usage().tables), (free, tables), "with {spare} frames to spare");
        drop(refused);
    }
    drop(frames.pop());
    let frame = pool.alloc(FrameKind::User).expect("four were freed");
    table.map(page(1 << 30), frame, Access::READ, Marks::empty()).expect("three tables were free");
}

#[test]
fn retention_by_hand_keeps_what_was_not_writable() {
    // Program P0: pages 0, 1, 3 executable, page 2 writable. Program P1 is gone as a whole.
    let pool = FramePool::for_host(MIB);
    let free = pool.free_frames();
    let mut kept = PageTable::new(pool).expect("memory");
    let mut other = PageTable::new(pool).expect("memory");
    let mut at = BTreeMap::new();
    for number in [0, 1, 3] {
        let frame = pool.alloc(FrameKind::Pristine).expect("memory");
        frame.write(0, b"code");
        at.insert(number, frame.address());
        kept.map(page(number), frame, Access::READ | Access::EXECUTE, Marks::PRISTINE).expect("memory");
    }
    let secret = pool.alloc(FrameKind::User).expect("memory");
    secret.write(0, b"secret");
    kept.map(page(2), secret, Access::READ | Access::WRITE, Marks::empty()).expect("memory");
    for number in 0..4 {
        let frame = pool.alloc(FrameKind::User).expect("memory");
        frame.write(0, b"secret");
        other.map(page(number), frame, Access::READ | Access::WRITE, Marks::empty()).expect("memory");
    }
    drop(other);
    kept.walk(PageRange::ALL, |_, entry| match entry.get().marks.contains(Marks::PRISTINE) {
        true => Verdict::Keep,
        false => Verdict::Drop,
    });
    assert!(kept.entry(page(2)).is_none());
    for (number, address) in at {
        assert_eq!(kept.frame(page(number)).map(|frame| frame.address()), Some(address));
    }
    // Three pages and four tables are all that is in use, and the rest reads as zeros.
    assert_eq!(free - pool.free_frames(), 3 + 4);
    for frame in std::iter::from_fn(|| pool.alloc(FrameKind::Kernel)).collect::<Vec<_>>() {
        let mut bytes = [1; PAGE_BYTES];
        frame.read(0, &mut bytes);
        assert!(bytes.iter().all(|byte| *byte == 0));
    }
}

#[derive(Clone, Debug)]
enum Step {
    Map(u64, u8, u8, u8),
    Unmap(u64),
    Protect(u64, u8, u8),
    DropRange(u64, u64),
    DropMarked(u64, u64, u8),
    Restrict(u64, u64),
    Prepare(u64),
    Write(u64, u8),
    Snapshot(u64, u64),
    Replace(u64),
}

/// What is known of a page: the byte that it is full of, what may be done with it, what is noted, and whether it is
/// unchanged.
type Known = (u8, Access, Marks, bool);

/// Page numbers that meet in tables of every level, and the last one there is.
fn number() -> impl Strategy<Value = u64> {
    let last = USER_END / PAGE_BYTES as u64;
    prop_oneof![
        0_u64..20,
        500_u64..530,
        (0_u64..4).prop_map(|index| index << 9),
        (0_u64..4).prop_map(|index| (index << 18) + 511),
        (0_u64..255).prop_map(|index| index << 27),
        (1_u64..3).prop_map(move |back| last - back),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let range = || (number(), number()).prop_map(|(one, other)| (one.min(other), one.max(other)));
    prop_oneof![
        6 => (number(), any::<u8>(), 0_u8..8, 0_u8..8)
            .prop_map(|(n, value, access, marks)| Step::Map(n, value, access, marks)),
        2 => number().prop_map(Step::Unmap),
        2 => (number(), 0_u8..8, 0_u8..8).prop_map(|(n, access, marks)| Step::Protect(n, access, marks)),
        1 => range().prop_map(|(start, end)| Step::DropRange(start, end)),
        1 => (range(), 0_u8..8).prop_map(|((start, end), marks)| Step::DropMarked(start, end, marks)),
        1 => range().prop_map(|(start, end)| Step::Restrict(start, end)),
        1 => number().prop_map(Step::Prepare),
        2 => (number(), any::<u8>()).prop_map(|(n, value)| Step::Write(n, value)),
        2 => range().prop_map(|(start, end)| Step::Snapshot(start, end)),
        2 => number().prop_map(Step::Replace),
    ]
}

fn range(start: u64, end: u64) -> PageRange {
    PageRange::covering(start * PAGE_BYTES as u64, end * PAGE_BYTES as u64).expect("in order")
}

/// What the processor makes of rights: any include reading.
fn effective(access: Access) -> Access {
    if access.is_empty() { access } else { access | Access::READ }
}

/// Tables that the pages need: one per level and distinct prefix, and the top one.
fn tables(model: &BTreeMap<u64, Known>) -> u32 {
    let level = |shift: u32| model.keys().map(|number| number >> shift).collect::<BTreeSet<_>>().len() as u32;
    1 + level(9) + level(18) + level(27)
}

proptest! {
    #[test]
    fn a_table_says_what_was_put_into_it(
        steps in proptest::collection::vec(step(), 1..80),
        searches in proptest::collection::vec((number(), number()), 20),
    ) {
        std::thread_local!(static POOL: &'static FramePool = FramePool::for_host(4 * MIB));
        let pool = POOL.with(|pool| *pool);
        let free = pool.free_frames();
        let mut table = PageTable::new(pool).expect("memory");
        let mut model: BTreeMap<u64, Known> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Map(number, value, access, marks) => {
                    let (access, marks) = (Access::from_bits_truncate(access), Marks::from_bits_truncate(marks));
                    let frame = pool.alloc(FrameKind::User).expect("memory");
                    frame.write(0, &[value; PAGE_BYTES]);
                    let before = table.map(page(number), frame, access, marks).expect("memory");
                    let expected = model.insert(number, (value, effective(access), marks, false));
                    let mut byte = [0];
                    let before = before.map(|frame| { frame.read(9, &mut byte); byte[0] });
                    prop_assert_eq!(before, expected.map(|(value, ..)| value));
                }
                Step::Unmap(number) => {
                    prop_assert_eq!(table.unmap(page(number)).is_some(), model.remove(&number).is_some());
                }
                Step::Protect(number, access, marks) => {
                    let (access, marks) = (Access::from_bits_truncate(access), Marks::from_bits_truncate(marks));
                    let known = model.get_mut(&number);
                    prop_assert_eq!(table.protect(page(number), access, marks), known.is_some());
                    if let Some(known) = known {
                        *known = (known.0, effective(access), marks, false);
                    }
                }
                Step::DropRange(start, end) => {
                    table.walk(range(start, end), |_, _| Verdict::Drop);
                    model.retain(|number, _| !(start..end).contains(number));
                }
                Step::DropMarked(start, end, marks) => {
                    let marks = Marks::from_bits_truncate(marks);
                    let mut seen = Vec::new();
                    table.walk(range(start, end), |page, entry| {
                        seen.push(page.number());
                        if entry.get().marks == marks { Verdict::Drop } else { Verdict::Keep }
                    });
                    prop_assert_eq!(&seen, &model.range(start..end).map(|(number, _)| *number).collect::<Vec<_>>());
                    model.retain(|number, known| !((start..end).contains(number) && known.2 == marks));
                }
                Step::Restrict(start, end) => {
                    table.walk(range(start, end), |_, entry| {
                        entry.set(Access::READ, Marks::COPY_ON_WRITE);
                        Verdict::Keep
                    });
                    for (_, known) in model.range_mut(start..end) {
                        *known = (known.0, Access::READ, Marks::COPY_ON_WRITE, false);
                    }
                }
                Step::Replace(number) => {
                    let (new, there) = (pool.alloc(FrameKind::User).expect("memory"), table.frame(page(number)));
                    if let Some(there) = &there {
                        new.copy_from(there);
                    }
                    let address = new.address();
                    let before = there.map_or(address, |there| there.address());
                    prop_assert_eq!(table.replace(page(number), new).address(), before);
                    let now = table.frame(page(number)).map(|frame| frame.address());
                    prop_assert_eq!(now, model.contains_key(&number).then_some(address));
                }
                Step::Prepare(number) => {
                    prop_assert!(table.prepare(page(number)));
                    table.prune(page(number));
                }
                Step::Write(number, value) => {
                    let mapped = table.lookup(page(number));
                    prop_assert_eq!(mapped.is_some(), model.contains_key(&number));
                    if let (Some(mapped), Some(known)) = (mapped, model.get_mut(&number)) {
                        mapped.write(0, &[value; PAGE_BYTES]);
                        (known.0, known.3) = (value, false);
                    }
                }
                Step::Snapshot(start, end) => {
                    let mut other = PageTable::new(pool).expect("memory");
                    let taken = table.snapshot(range(start, end), &mut other, Marks::PRISTINE).expect("memory");
                    let all = model.range_mut(start..end).filter(|(_, known)| !known.2.contains(Marks::PRISTINE));
                    let mut count = 0;
                    for (number, known) in all {
                        let there = other.entry(page(*number)).map(|entry| (entry.marks, entry.unchanged));
                        prop_assert_eq!(there, Some((known.2, known.3)));
                        let access = known.1.difference(Access::WRITE);
                        *known = (known.0, access, known.2 | Marks::COPY_ON_WRITE, true);
                        count += 1;
                    }
                    prop_assert_eq!((taken, pages_in(&other)), (count, count));
                }
            }
            prop_assert_eq!(free - pool.free_frames(), model.len() as u32 + tables(&model));
        }
        for (number, (value, access, marks, unchanged)) in &model {
            let mapped = table.lookup(page(*number)).expect("in the model");
            let mut bytes = [0; 3];
            mapped.read(PAGE_BYTES - 3, &mut bytes);
            prop_assert_eq!((bytes, mapped.access(), mapped.marks()), ([*value; 3], *access, *marks));
            prop_assert_eq!(table.entry(page(*number)).expect("it is there").unchanged, *unchanged);
        }
        let mut rest = PageRange::ALL;
        let mut found = Vec::new();
        while let Some(page) = table.first_in(rest) {
            found.push(page.number());
            rest = rest.after(page);
        }
        prop_assert_eq!(found, model.keys().copied().collect::<Vec<_>>());
        for (start, end) in searches.into_iter().filter(|(start, end)| start <= end) {
            let expected = model.range(start..end).next().map(|(number, _)| page(*number));
            prop_assert_eq!(table.first_in(range(start, end)), expected);
        }
        drop(table);
        prop_assert_eq!(pool.free_frames(), free);
    }
}

/// Numbers of pages, near each other and far apart.
fn numbers() -> impl Strategy<Value = BTreeSet<u64>> {
    let number = prop_oneof![
        0_u64..40,
        500_u64..530,
        (0_u64..6).prop_map(|far| far << 9),
        (0_u64..60).prop_map(|far| far << 27)
    ];
    proptest::collection::btree_set(number, 0..40)
}

/// A table with these pages, and the frames that were free before.
fn table_of(numbers: &BTreeSet<u64>) -> (&'static FramePool, u32, PageTable) {
    std::thread_local!(static POOL: &'static FramePool = FramePool::for_host(4 * MIB));
    let pool = POOL.with(|pool| *pool);
    let free = pool.free_frames();
    let mut table = PageTable::new(pool).expect("memory");
    for number in numbers {
        let frame = pool.alloc(FrameKind::User).expect("memory");
        frame.write(0, &number.to_le_bytes());
        table.map(page(*number), frame, Access::READ, Marks::empty()).expect("memory");
    }
    (pool, free, table)
}

/// How many pages a table has.
fn pages_in(table: &PageTable) -> u64 {
    let mut pages = 0;
    table.look(PageRange::ALL, &mut { Effort::WHOLE }, |_| pages += 1);
    pages
}

/// The pages of a table, each of which must hold its number.
fn pages_of(table: &PageTable) -> BTreeSet<u64> {
    let mut seen = BTreeSet::new();
    table.look(PageRange::ALL, &mut { Effort::WHOLE }, |page| {
        let mut number = [0; 8];
        table.lookup(page).expect("it was seen").read(0, &mut number);
        assert_eq!(u64::from_le_bytes(number), page.number());
        seen.insert(page.number());
    });
    seen
}

proptest! {
    #[test]
    fn walks_in_parts_come_to_all_pages(numbers in numbers(), effort in 0_u32..9, drops in any::<bool>()) {
        let (pool, free, mut table) = table_of(&numbers);
        prop_assert_eq!(&pages_of(&table), &numbers);
        let mut seen = BTreeSet::new();
        let (mut rest, mut parts) = (PageRange::ALL, 0);
        while !rest.is_empty() {
            let before = rest.first_number();
            let mut left = Effort::of(effort);
            let (walked, after) = table.walk_part(rest, &mut left, |page, _| {
                seen.insert(page.number());
                if drops { Verdict::Drop } else { Verdict::Keep }
            });
            prop_assert!(walked.visited <= u64::from(effort.max(1)), "a part is as long as it may be");
            prop_assert!(after.is_empty() || after.first_number() > before, "and comes on");
            rest = after;
            parts += 1;
        }
        prop_assert!(parts >= numbers.len() / effort.max(1) as usize);
        prop_assert_eq!(&seen, &numbers);
        prop_assert_eq!(pages_of(&table).len(), if drops { 0 } else { numbers.len() });
        if drops {
            prop_assert_eq!(table.frames(), 1, "tables left empty are gone");
        }
        drop(table);
        prop_assert_eq!(pool.free_frames(), free);
    }

    #[test]
    fn all_is_split_off_from_a_page_on(numbers in numbers(), at in prop_oneof![0_u64..530, any::<u64>()]) {
        let at = at % ((1 << 35) - 1);
        let (pool, free, mut table) = table_of(&numbers);
        let frames = table.frames() - 1;
        let other = table.split_off(page(at)).expect("memory");
        prop_assert_eq!(pages_of(&table), numbers.range(..at).copied().collect());
        prop_assert_eq!(pages_of(&other), numbers.range(at..).copied().collect());
        prop_assert!(table.frames() + other.frames() <= frames + 2 + 3, "a path of tables more, and a root");
        drop(other);
        prop_assert_eq!(pages_of(&table), numbers.range(..at).copied().collect());
        // Neither keeps a table that holds nothing.
        for number in numbers.range(..at) {
            table.unmap(page(*number));
        }
        prop_assert_eq!(table.frames(), 1);
        drop(table);
        prop_assert_eq!(pool.free_frames(), free);
    }

    #[test]
    fn pages_are_relocated_one_by_one(numbers in numbers(), by in prop_oneof![0_u64..600, any::<u64>()]) {
        let (pool, free, mut table) = table_of(&numbers);
        let by = by % (1 << 30) + (1 << 34);
        let target = |number: u64| page(number + by);
        prop_assert!(numbers.iter().all(|number| table.prepare(target(*number))));
        let free_before = pool.free_frames();
        for number in &numbers {
            prop_assert!(table.relocate(page(*number), target(*number)));
            prop_assert!(!table.relocate(page(*number), target(*number)), "there is nothing any more");
        }
        prop_assert!(pool.free_frames() >= free_before, "it takes no frame");
        for number in &numbers {
            let mut text = [0; 8];
            table.lookup(target(*number)).expect("it went there").read(0, &mut text);
            prop_assert_eq!(u64::from_le_bytes(text), *number);
        }
        drop(table);
        prop_assert_eq!(pool.free_frames(), free);
    }
}
