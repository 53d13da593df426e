//! Stacks of threads, as their frames say them and as they do not.

use coppice_hal::frames::FramePool;
use proptest::collection::vec;
use proptest::prelude::any;
use proptest::sample::select;
use proptest::{prop_assert, proptest};

use super::{ANONYMOUS, FIXED, MIB, PAGE, RW};
use crate::memory::{AddressSpace, Backing};

const CODE: u64 = 0x50_0000;
const STACK: u64 = 0x7000_0000;
const STACK_END: u64 = STACK + 8 * PAGE;
/// What a thread does, which is at no place where a frame is missing.
const LEAF: u64 = CODE + 0x40;

/// A space with some code and a stack whose upper half is there.
struct Bench {
    space: AddressSpace,
}

/// Where the call of this number returns to.
const fn behind(number: u64) -> u64 {
    CODE + 0x100 + number * 8
}

impl Bench {
    fn new() -> Self {
        let mut space = AddressSpace::new(FramePool::for_host(4 * MIB), Default::default()).expect("memory");
        space.map(CODE, 2 * PAGE, RW, ANONYMOUS | FIXED, Backing::Zero).expect("room");
        space.map(STACK, STACK_END - STACK, RW, ANONYMOUS | FIXED, Backing::Zero).expect("room");
        let mut bench = Self { space };
        bench.code(CODE, &[0x90; 2 * PAGE as usize]);
        // A call of what follows it.
        (0..100).for_each(|number| bench.code(behind(number) - 5, &[0xe8, 0, 0, 0, 0]));
        for page in (STACK + 4 * PAGE..STACK_END).step_by(PAGE as usize) {
            bench.write(page, &[0; 8]);
        }
        bench
    }

    fn write(&mut self, address: u64, bytes: &[u8]) {
        assert!(self.space.write_bytes(address, bytes).is_ok());
    }

    fn code(&mut self, address: u64, bytes: &[u8]) {
        assert!(self.space.protect(CODE, 2 * PAGE, RW).is_ok());
        self.write(address, bytes);
        assert!(self.space.protect(CODE, 2 * PAGE, 5).is_ok());
    }

    /// A frame whose caller has that one.
    fn frame(&mut self, at: u64, next: u64, returns_to: u64) {
        self.write(at, &next.to_le_bytes());
        self.write(at + 8, &returns_to.to_le_bytes());
    }

    fn calls(&self, rip: u64, rsp: u64, rbp: u64) -> alloc::vec::Vec<u64> {
        let (mut all, before) = ([0; 64], self.space.stats());
        let count = self.space.calls(rip, rsp, rbp, &mut all);
        assert_eq!(self.space.stats(), before, "nothing is brought in");
        all[..count].to_vec()
    }
}

/// Frames of three calls, from here on.
const FRAMES: u64 = STACK + 6 * PAGE;

fn with_frames() -> Bench {
    let mut bench = Bench::new();
    bench.frame(FRAMES, FRAMES + 0x30, behind(1));
    // Over the end of a page.
    bench.frame(FRAMES + 0x30, FRAMES + PAGE + 0x40, behind(2));
    bench.frame(FRAMES + PAGE + 0x40, 0, behind(3));
    bench
}

#[test]
fn frames_say_in_which_calls_a_thread_is() {
    let bench = with_frames();
    let all = [LEAF, behind(1), behind(2), behind(3)];
    assert_eq!(bench.calls(LEAF, FRAMES - 0x20, FRAMES), all);
    assert_eq!(bench.calls(LEAF, FRAMES, FRAMES), all);
    // As many as there is room for.
    let mut few = [0; 2];
    assert_eq!((bench.space.calls(LEAF, FRAMES, FRAMES, &mut few), few), (2, [LEAF, behind(1)]));
    assert_eq!(bench.space.calls(LEAF, FRAMES, FRAMES, &mut []), 0);
}

#[test]
fn what_is_no_frame_ends_it() {
    let mut bench = with_frames();
    let outside = [0, 8, FRAMES - 8, FRAMES + 4, STACK_END - 8, STACK_END, CODE, u64::MAX, u64::MAX - 7, 1 << 47];
    for rbp in outside {
        assert_eq!(bench.calls(LEAF, FRAMES, rbp), [LEAF], "{rbp:#x}");
    }
    // Of the second one.
    for next in outside.into_iter().chain([FRAMES, FRAMES + 8]) {
        bench.frame(FRAMES, next, behind(1));
        assert_eq!(bench.calls(LEAF, FRAMES, FRAMES), [LEAF, behind(1)], "{next:#x}");
    }
    // A stack that is nowhere, or code that is.
    for rsp in [0, STACK_END, u64::MAX, STACK - 8] {
        assert_eq!(bench.calls(LEAF, rsp, FRAMES), [LEAF], "{rsp:#x}");
    }
    assert_eq!(bench.calls(1 << 46, FRAMES, FRAMES), [1 << 46, behind(1)]);
    assert_eq!(bench.calls(u64::MAX, FRAMES, FRAMES), [u64::MAX, behind(1)]);
}

#[test]
fn what_was_never_touched_is_not_brought_in_for_it() {
    let mut bench = with_frames();
    // The lower half of the stack.
    assert_eq!(bench.calls(LEAF, STACK, STACK), [LEAF]);
    bench.frame(STACK + 4 * PAGE - 16, FRAMES, behind(7));
    assert_eq!(bench.calls(LEAF, STACK, STACK + 4 * PAGE - 16), [LEAF, behind(7), behind(1), behind(2), behind(3)]);
    assert_eq!(bench.calls(LEAF, STACK, STACK + 3 * PAGE - 8), [LEAF], "half of it");
    // Nor what may not be read.
    assert!(bench.space.protect(FRAMES, PAGE, 0).is_ok());
    assert_eq!(bench.calls(LEAF, STACK, STACK + 4 * PAGE - 16), [LEAF, behind(7)]);
    // Code that is not there is nothing that was called.
    let far = 0x60_0000;
    bench.space.map(far, PAGE, 5, ANONYMOUS | FIXED, Backing::Zero).expect("room");
    bench.frame(FRAMES + PAGE, 0, far + 0x10);
    assert_eq!(bench.calls(LEAF, FRAMES + PAGE, FRAMES + PAGE), [LEAF]);
}

#[test]
fn a_round_comes_to_an_end() {
    let mut bench = Bench::new();
    bench.frame(FRAMES, FRAMES + 0x20, behind(1));
    bench.frame(FRAMES + 0x20, FRAMES, behind(2));
    assert_eq!(bench.calls(LEAF, FRAMES, FRAMES), [LEAF, behind(1), behind(2)]);
    // Recursion without end is as deep as there is room for.
    for frame in (FRAMES..FRAMES + 0x1000).step_by(16) {
        bench.frame(frame, frame + 16, behind(9));
    }
    let calls = bench.calls(LEAF, FRAMES, FRAMES);
    assert!(calls.len() == 64 && calls[1..].iter().all(|call| *call == behind(9)));
}

#[test]
fn a_call_returns_behind_a_call() {
    let mut bench = Bench::new();
    let is_call = |bench: &mut Bench, code: &[u8]| {
        let end = CODE + 0x800;
        bench.code(end - 16, &[0x90; 16]);
        bench.code(end - code.len() as u64, code);
        bench.frame(FRAMES, 0, end);
        bench.calls(LEAF, FRAMES, FRAMES).len() == 2
    };
    let calls: [&[u8]; 12] = [
        &[0xe8, 0xfb, 0xff, 0xff, 0xff],
        &[0xff, 0xd0],
        &[0x41, 0xff, 0xd3],
        &[0xff, 0x13],
        &[0xff, 0x14, 0xc3],
        &[0xff, 0x50, 0x18],
        &[0xff, 0x54, 0x24, 0x18],
        &[0xff, 0x15, 1, 2, 3, 4],
        &[0xff, 0x93, 1, 2, 3, 4],
        &[0xff, 0x94, 0x24, 1, 2, 3, 4],
        &[0xff, 0x14, 0x25, 1, 2, 3, 4],
        &[0x42, 0xff, 0x14, 0xfd, 1, 2, 3, 4],
    ];
    for code in calls {
        assert!(is_call(&mut bench, code), "{code:x?}");
    }
    let others: [&[u8]; 8] = [
        &[0x90],
        // To where no code is.
        &[0xe8, 0, 0, 0, 0x10],
        &[0xe9, 0, 0, 0, 0],
        // Jumps, and a push.
        &[0xff, 0xe0],
        &[0xff, 0x25, 1, 2, 3, 4],
        &[0xff, 0x75, 8],
        // One whose distance goes on behind it.
        &[0xff, 0x15, 1, 2],
        &[0xff, 0x54, 0x24],
    ];
    for code in others {
        assert!(!is_call(&mut bench, code), "{code:x?}");
    }
    // Data is not called, whatever it looks like.
    bench.write(FRAMES + 0x100, &[0xff, 0xd0]);
    bench.frame(FRAMES, 0, FRAMES + 0x102);
    assert_eq!(bench.calls(LEAF, FRAMES, FRAMES), [LEAF]);
    bench.frame(FRAMES, 0, 3);
    assert_eq!(bench.calls(LEAF, FRAMES, FRAMES), [LEAF]);
    // An instruction on two pages; and the first one of all.
    bench.code(CODE + PAGE - 2, &[0xe8, 0, 0, 0, 0]);
    bench.frame(FRAMES, 0, CODE + PAGE + 3);
    assert_eq!(bench.calls(LEAF, FRAMES, FRAMES), [LEAF, CODE + PAGE + 3]);
    bench.code(CODE, &[0xff, 0xd0]);
    bench.frame(FRAMES, 0, CODE + 2);
    assert_eq!(bench.calls(LEAF, FRAMES, FRAMES), [LEAF, CODE + 2]);
}

/// The caller has its frame, and who was called has none yet or any more.
#[test]
fn where_a_frame_begins_and_ends_nobody_is_left_out() {
    let mut bench = with_frames();
    let (rsp, caller) = (FRAMES - 0x40, FRAMES);
    let all = [behind(8), behind(1), behind(2), behind(3)];
    for code in [&[0xf3, 0x0f, 0x1e, 0xfa][..], &[0x55], &[0xc3], &[0xc2, 8, 0]] {
        bench.code(LEAF, code);
        bench.write(rsp, &behind(8).to_le_bytes());
        let calls = bench.calls(LEAF, rsp, caller);
        assert_eq!((calls[0], &calls[1..]), (LEAF, &all[..]), "{code:x?}");
    }
    for code in [[0x48, 0x89, 0xe5], [0x48, 0x8b, 0xec]] {
        bench.code(LEAF, &code);
        bench.frame(rsp, caller, behind(8));
        assert_eq!(bench.calls(LEAF, rsp, caller)[1..], all, "{code:x?}");
    }
    // What only looks so is not taken for it.
    bench.code(LEAF, &[0x55]);
    bench.write(rsp, &behind(8).wrapping_add(1).to_le_bytes());
    assert_eq!(bench.calls(LEAF, rsp, caller)[1..], all[1..]);
    assert_eq!(bench.calls(LEAF, u64::MAX, caller), [LEAF]);
    bench.code(LEAF, &[0x48, 0x89, 0xe5]);
    assert_eq!(bench.calls(LEAF, u64::MAX - 3, caller), [LEAF]);
}

/// What a stack may have.
const WORDS: [u64; 7] = [FRAMES, FRAMES + 16, FRAMES + 64, behind(1), behind(50), 7, CODE];

proptest! {
    #[test]
    fn whatever_is_there_is_walked_and_nothing_is_invented(
        words in vec((0_u64..1024, select(WORDS.to_vec())), 0..99),
        registers in any::<[u64; 3]>(), near in 0_u64..1024, code in vec(any::<u8>(), 0..16),
    ) {
        let mut bench = Bench::new();
        words.iter().for_each(|(at, word)| bench.write(FRAMES + at * 8, &word.to_le_bytes()));
        bench.code(LEAF, &code);
        let [rip, rsp, rbp] = registers;
        let near_frame = FRAMES + near * 8;
        let all = [(rip, rsp, rbp), (LEAF, FRAMES, rbp), (rip, FRAMES, near_frame), (LEAF, near, near)];
        for (rip, rsp, rbp) in all {
            let calls = bench.calls(rip, rsp, rbp);
            prop_assert!(calls[0] == rip && calls[1..].iter().all(|call| [behind(1), behind(50)].contains(call)));
        }
    }
}
