//! Files that are damaged, on purpose or not: whatever is said of them, it is said.

use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use proptest::prelude::*;

use super::build::{Built, C, CPP, here};
use crate::dwarf::look_up_here;
use crate::limits::LOOK_UP_TIME_MAX;
use crate::{Profile, Symbols};

/// Asks all there is to be asked of a file; debug information in this thread, so that nothing of it goes unnoticed.
fn ask(bytes: Vec<u8>, addresses: &[u64]) {
    look_up_here(&bytes, addresses, &AtomicBool::new(false), |_, _| true);
    let Ok(symbols) = Symbols::of("solve", bytes) else { return };
    let stacks = [(addresses.to_vec(), 7)];
    let profile = Profile::new(&symbols, &stacks, LOOK_UP_TIME_MAX);
    assert!(profile.folded().ends_with(" 7\n"));
    assert!(profile.pprof(Some(100)).to_file().is_ok());
}

fn addresses(built: &Built) -> Vec<u64> {
    let named = ["_start", "solve", "axpy", "within_twice"].map(|name| built.at(name));
    named.into_iter().chain([0, 0x1234, u64::MAX]).collect()
}

fn compressed() -> &'static Built {
    static COMPRESSED: OnceLock<Built> = OnceLock::new();
    COMPRESSED.get_or_init(|| Built::new(C, &["-static-pie", "-fPIE", "-g", "-gz=zlib"], false))
}

#[test]
fn a_file_may_end_anywhere() {
    for built in [Built::plain(), compressed()] {
        let addresses = addresses(built);
        for length in (0..built.bytes.len()).step_by(97) {
            ask(built.bytes[..length].to_vec(), &addresses);
        }
    }
    let cpp = Built::new(CPP, &["-static", "-g"], false);
    let addresses = [cpp.with("5solve"), cpp.with("4axpy")];
    for length in (0..cpp.bytes.len()).step_by(97) {
        ask(cpp.bytes[..length].to_vec(), &addresses);
    }
}

#[test]
fn sections_that_grow_without_end_are_not_used() {
    // What is said of how long a section is once it is no longer compressed.
    let built = compressed();
    let mut bytes = built.bytes.clone();
    let headers: Vec<usize> = (0..bytes.len().saturating_sub(24))
        .filter(|at| bytes[*at..at + 8] == [1, 0, 0, 0, 0, 0, 0, 0] && bytes[at + 24] == 0x78)
        .collect();
    assert!(!headers.is_empty(), "none is compressed");
    for at in headers {
        bytes[at + 8..at + 16].copy_from_slice(&(u64::MAX / 3).to_le_bytes());
    }
    let symbols = Symbols::of("solve", bytes).expect("a program");
    let place = here(coppice_protocol::program::LOAD_BASE + built.at("axpy"));
    let found = symbols.look_up(&BTreeSet::from([place]), LOOK_UP_TIME_MAX);
    assert_eq!((found[&place][0].function.as_str(), found[&place][0].line), ("axpy", 0));
}

proptest! {
    #[test]
    fn bytes_may_be_anything(
        plain in any::<bool>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..24),
    ) {
        let built = if plain { Built::plain() } else { compressed() };
        let mut bytes = built.bytes.clone();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        ask(bytes, &addresses(built));
    }
}
