//! Whatever a program passes, the kernel answers or ends the program; it never panics and never loses anything.

use alloc::vec;
use alloc::vec::Vec;

use coppice_protocol::syscalls as nr;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};

use crate::process::testing::{Bench, MEMORY, MEMORY_BYTES, READ_ONLY};

/// Numbers that go wrong elsewhere.
fn argument() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0_u64..16,
        (0_u32..64).prop_map(|bit| 1 << bit),
        (0_u64..4096).prop_map(|below| u64::MAX - below),
        (0..MEMORY_BYTES).prop_map(|offset| MEMORY + offset),
        (0_u64..8).prop_map(|offset| MEMORY + offset * 8),
        (0_u64..5000).prop_map(|offset| READ_ONLY + offset),
        (0_u64..64).prop_map(|offset| 0x7fff_ffff_f000 - 32 + offset),
        Just((-100_i64).cast_unsigned()),
        Just(0xffff_8000_0000_0000),
        Just(i64::MAX.cast_unsigned()),
        Just(i64::MIN.cast_unsigned()),
    ]
}

fn make(memory: &[u8], calls: Vec<(u32, [u64; 6])>) {
    let bench = Bench::new(&[("/work/a", &[1; 5000])]);
    bench.put(0, memory);
    bench.text(0x100, "a");
    for (number, arguments) in calls {
        // Copies of gigabytes are right, and slow.
        let is_long = matches!(number, nr::GETRANDOM | nr::READ | nr::READV | nr::PREADV2)
            && arguments[1..].iter().any(|a| *a > 1 << 24);
        if is_long {
            continue;
        }
        // Some rightly wait for ever; then they are dropped.
        if let Some(Err(_)) = bench.attempt(number, &arguments) {
            break;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn no_call_panics(
        calls in proptest::collection::vec((0_u32..470, proptest::array::uniform6(argument())), 1..30),
        memory in proptest::collection::vec(any::<u8>(), 256),
    ) {
        // A thread is a core of its own: what a case leaves there ends with it.
        let case = std::thread::spawn(move || make(&memory, calls));
        assert!(case.join().is_ok());
    }
}
