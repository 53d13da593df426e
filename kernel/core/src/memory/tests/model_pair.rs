//! The model of [`super::model`] for two processes of one program that take turns, take pages from each other, end and
//! start again: each sees its own writes and the program's file alone, and when both have ended one table is left.

use alloc::collections::BTreeSet;

use coppice_hal::addr::PageRange;
use coppice_hal::frames::FramePool;
use coppice_hal::paging::Verdict;
use proptest::prelude::{ProptestConfig, Strategy, any, prop_oneof, proptest};
use proptest::test_runner::TestCaseError;
use proptest::{prop_assert, prop_assert_eq};

use super::MIB;
use super::model::{Check, PAGES, START, Step, step};
use super::{PAGE, World};

#[derive(Clone, Debug)]
enum Turn {
    /// One does something.
    Step(bool, Step),
    /// One takes what it would fetch from the other.
    Share(bool, u64),
    /// One ends, and another starts in its place.
    Again(bool),
}

fn turn() -> impl Strategy<Value = Turn> {
    prop_oneof![
        12 => (any::<bool>(), step()).prop_map(|(who, step)| Turn::Step(who, step)),
        4 => (any::<bool>(), 0..PAGES).prop_map(|(who, page)| Turn::Share(who, page)),
        1 => any::<bool>().prop_map(Turn::Again),
    ]
}

/// Frames that a process holds.
fn frames(world: &mut World, seen: &mut BTreeSet<u64>) {
    world.space.table.walk(PageRange::ALL, |_, entry| {
        seen.insert(entry.frame().address());
        Verdict::Keep
    });
    world.space.aside.each(|_, frame| {
        seen.insert(frame.address());
    });
}

/// One of two, and the other.
fn pair(checks: &mut [Check; 2], second: bool) -> (&mut Check, &mut Check) {
    let [one, two] = checks;
    if second { (two, one) } else { (one, two) }
}

fn take(checks: &mut [Check; 2], turn: Turn) -> Result<(), TestCaseError> {
    match turn {
        Turn::Step(who, step) => pair(checks, who).0.step(step),
        Turn::Share(who, page) => {
            let (one, other) = pair(checks, who);
            one.world.take_from(&other.world, START + page * PAGE);
            Ok(())
        }
        Turn::Again(who) => {
            let (one, other) = pair(checks, who);
            one.world.end();
            let mut world = other.world.beside();
            if !one.world.retention.held().is_empty() {
                world.relaunch();
            }
            *one = Check::of(world);
            Ok(())
        }
    }
}

/// Both end: what is left is the program's, once.
fn end(checks: &mut [Check; 2]) -> Result<(), TestCaseError> {
    let kept = checks.each_mut().map(|check| check.world.end().kept);
    let world = &mut checks[0].world;
    let usage = world.pool.usage();
    let held = world.retention.held();
    let pages = held.iter().map(|held| held.pages).sum::<u64>();
    prop_assert!(held.len() <= 1 && pages >= kept[0].max(kept[1]) && pages <= kept[0] + kept[1]);
    prop_assert_eq!((u64::from(usage.user), u64::from(usage.pristine)), (0, pages));
    // The emptied spaces' own tables are counted, but not held.
    let bytes = held.iter().map(|held| held.bytes).sum::<u64>();
    prop_assert_eq!(u64::from(usage.pristine + usage.tables) * PAGE, bytes + 2 * PAGE);
    world.relaunch();
    prop_assert_eq!(world.space.stats().pages_found, pages);
    let segments = world.image.segments.clone();
    for at in segments.iter().flat_map(|segment| (segment.first_page()..segment.end_page()).step_by(97)) {
        prop_assert_eq!(world.byte(at), Some(world.initial(at)), "{:#x}", at);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn two_processes_share_pages_and_nothing_else(turns in proptest::collection::vec(turn(), 1..80)) {
        std::thread_local!(static POOL: &'static FramePool = FramePool::for_host(8 * MIB));
        let pool = POOL.with(|pool| *pool);
        let free = pool.free_frames();
        let mut first = Check::new(pool);
        let second = Check::of(first.world.beside());
        let mut checks = [first, second];
        for turn in turns {
            take(&mut checks, turn)?;
        }
        let mut seen = BTreeSet::new();
        for check in &mut checks {
            check.invariants()?;
            for number in 0..PAGES {
                check.read(number * PAGE, PAGE as usize)?;
            }
            check.invariants()?;
            frames(&mut check.world, &mut seen);
        }
        prop_assert_eq!((pool.usage().user + pool.usage().pristine) as usize, seen.len());
        end(&mut checks)?;
        drop(checks);
        prop_assert_eq!(pool.free_frames(), free);
    }
}
