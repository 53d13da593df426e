//! Each step by itself, with the processor's own atomics.

use core::sync::atomic::AtomicU32;

use crate::attention::{Attention, Entry};

#[test]
fn a_kick_is_answered_once() {
    let core = Attention::of(AtomicU32::new(0));
    assert!(!core.kick(), "a core in the kernel is not interrupted");
    assert_eq!(core.enter(), Entry::Kicked);
    assert_eq!(core.enter(), Entry::Granted);
    core.leave();
    assert!(!core.kick());
    assert!(!core.halt());
    assert!(core.halt());
    core.wake();
}

#[test]
fn a_core_that_is_away_is_interrupted_once() {
    let core = Attention::of(AtomicU32::new(0));
    assert_eq!(core.enter(), Entry::Granted);
    assert!(core.kick());
    assert!(!core.kick(), "it is on its way already");
    core.leave();
    core.look();
    assert!(core.halt());
    assert!(core.kick());
    core.wake();
    assert_eq!(core.enter(), Entry::Granted);
}

#[test]
fn a_kick_before_a_look_counts_no_more() {
    let core = Attention::of(AtomicU32::new(0));
    core.kick();
    core.look();
    assert_eq!(core.enter(), Entry::Granted);
}
