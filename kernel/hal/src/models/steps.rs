//! Each step by itself, with the processor's own atomics.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::cell::RefCell;
use std::vec;
use std::vec::Vec;

use crate::attention::{Attention, Entry, Users};

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
    assert!(core.is_halted());
    assert!(core.kick());
    core.wake();
    assert!(!core.is_halted());
    assert_eq!(core.enter(), Entry::Granted);
}

#[test]
fn a_kick_before_a_look_counts_no_more() {
    let core = Attention::of(AtomicU32::new(0));
    core.kick();
    core.look();
    assert_eq!(core.enter(), Entry::Granted);
}

#[test]
fn a_core_flushes_before_it_goes_on() {
    let cores = [const { Attention::of(AtomicU32::new(0)) }; 3];
    let users = Users::of(AtomicU64::new(0), AtomicBool::new(false));
    for core in 0..2 {
        users.join(core);
    }
    assert!(users.any());
    assert_eq!(users.cores(), 0b11);
    let interrupted = RefCell::new(Vec::new());
    let pause = || {
        let leave = |core: usize| {
            interrupted.borrow_mut().push(core);
            cores[core].leave();
        };
        users.pause(1, |core| &cores[core], leave);
        users.resume();
    };
    pause();
    assert_eq!(*interrupted.borrow(), vec![], "nobody was in a program");
    assert_eq!(cores[0].enter(), Entry::Stale);
    assert_eq!(cores[0].enter(), Entry::Granted);
    assert_eq!(cores[1].enter(), Entry::Granted, "who changes a table sees to itself");
    assert_eq!(cores[2].enter(), Entry::Granted, "it does not use the table");
    pause();
    assert_eq!(*interrupted.borrow(), vec![0]);
    assert_eq!(cores[0].enter(), Entry::Stale);
    users.part(0);
    users.part(1);
    assert!(!users.any());
}

#[test]
fn a_kick_comes_before_a_flush_and_leaves_it_to_be_done() {
    let core = Attention::of(AtomicU32::new(0));
    let users = Users::of(AtomicU64::new(0), AtomicBool::new(false));
    users.join(0);
    users.pause(1, |_| &core, |_| {});
    users.resume();
    core.kick();
    assert_eq!(core.enter(), Entry::Kicked);
    assert_eq!(core.enter(), Entry::Stale);
    assert_eq!(core.enter(), Entry::Granted);
}
