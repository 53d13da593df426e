//! The state machine and the frame by themselves; then calls of a process that signals interrupt.

use proptest::prelude::{any, proptest};

use super::outcome::{Delivery, Next, Outcome, Target};
use super::state::{Context, Signals};
use crate::abi::signal::{AlternateStack, SI_TKILL, SignalAction, SignalInfo};
use crate::abi::signal_set::{SIGKILL, SIGSEGV, SignalSet};
use crate::errno::Errno;
use crate::limits::SIGNALS_QUEUED_MAX;

mod calls;
mod frames;
mod model;

const SIGABRT: u32 = 6;
const SIGUSR1: u32 = 10;
const SIGUSR2: u32 = 12;
const SIGCHLD: u32 = 17;
const SIGCONT: u32 = 18;
const SIGSTOP: u32 = 19;
const SIGTSTP: u32 = 20;
const REAL_TIME: u32 = 34;

/// The first thread, and two more.
const FIRST: u32 = 1000;
const SECOND: u32 = 1001;
const THIRD: u32 = 1002;

const SIGPIPE: u32 = 13;

const HANDLER: u64 = 0x40_0000;

fn handled(flags: u64) -> SignalAction {
    SignalAction { handler: HANDLER, flags, ..SignalAction::default() }
}

const IGNORED: SignalAction = SignalAction { handler: 1, flags: 0, restorer: 0, mask: 0 };

fn info(signal: u32) -> SignalInfo {
    SignalInfo::user(signal, 1, 2)
}

fn taken(next: Next) -> u32 {
    match next {
        Next::Handler(delivery) => delivery.info.signal,
        other => panic!("no handler: {other:?}"),
    }
}

#[test]
fn defaults_are_linuxs() {
    for signal in 1..=64 {
        let mut signals = Signals::new(FIRST);
        let outcome = signals.send(Target::Process, info(signal)).expect("a signal");
        let next = signals.next(FIRST);
        match signal {
            17 | 18 | 23 | 28 => assert_eq!((outcome, next), (Outcome::Ignored, Next::Nothing), "signal {signal}"),
            19..=22 => {
                assert_eq!((outcome, next), (Outcome::Call(FIRST), Next::Stop { since_now: true }), "signal {signal}");
            }
            _ => assert_eq!(outcome, Outcome::End(signal)),
        }
    }
    let mut signals = Signals::new(FIRST);
    assert_eq!(signals.send(Target::Process, info(65)), Err(Errno::EINVAL));
    assert_eq!(signals.send(Target::Process, info(0)), Err(Errno::EINVAL));
    assert_eq!(signals.send(Target::Thread(5), info(9)), Err(Errno::ESRCH));
}

#[test]
fn standard_signals_are_pending_once_and_real_time_ones_in_order() {
    let mut signals = Signals::new(FIRST);
    signals.set_blocked(FIRST, SignalSet(u64::MAX));
    for signal in [SIGUSR1, REAL_TIME] {
        assert_eq!(signals.set_action(signal, handled(0)), Ok(false));
    }
    for sender in 1..=3 {
        for signal in [REAL_TIME, SIGUSR1] {
            let sent = signals.send(Target::Process, SignalInfo::user(signal, sender, 0));
            assert_eq!(sent, Ok(Outcome::Nothing));
        }
    }
    assert_eq!(signals.set_blocked(FIRST, SignalSet::NONE), [FIRST]);
    let mut got = alloc::vec::Vec::new();
    while let Next::Handler(delivery) = signals.next(FIRST) {
        got.push(delivery.info);
    }
    let expected = [(SIGUSR1, 1), (REAL_TIME, 1), (REAL_TIME, 2), (REAL_TIME, 3)];
    assert_eq!(got, expected.map(|(signal, sender)| SignalInfo::user(signal, sender, 0)));
}

#[test]
fn the_queue_has_its_limit() {
    let mut signals = Signals::new(FIRST);
    signals.set_blocked(FIRST, SignalSet(u64::MAX));
    for _ in 0..SIGNALS_QUEUED_MAX {
        assert_eq!(signals.send(Target::Process, SignalInfo::to_thread(REAL_TIME, 1, 1)), Ok(Outcome::Nothing));
    }
    assert_eq!(signals.send(Target::Process, SignalInfo::to_thread(REAL_TIME, 1, 1)), Err(Errno::EAGAIN));
    // Those that say nothing of importance are pending all the same, and a timer's always has room, once.
    assert_eq!(signals.send(Target::Process, info(SIGUSR1)), Ok(Outcome::Nothing));
    assert_eq!(signals.send(Target::Process, info(REAL_TIME + 1)), Ok(Outcome::Nothing));
    for _ in 0..2 {
        assert_eq!(signals.send(Target::Process, SignalInfo::timer(REAL_TIME + 2, 3, 4)), Ok(Outcome::Nothing));
    }
    let all = SignalSet(u64::MAX);
    assert_eq!(signals.take(FIRST, all), Some(SignalInfo::user(SIGUSR1, 0, 0)));
    assert_eq!(signals.take(FIRST, all).map(|info| (info.signal, info.code)), Some((REAL_TIME, SI_TKILL)));
    // There is room for one again: the timer's is one too many still.
    assert_eq!(signals.send(Target::Process, SignalInfo::to_thread(REAL_TIME, 1, 1)), Err(Errno::EAGAIN));
    signals.forget_timer(3);
    assert_eq!(signals.send(Target::Process, SignalInfo::to_thread(REAL_TIME, 1, 1)), Ok(Outcome::Nothing));
    assert!(!signals.pending(FIRST).contains(REAL_TIME + 2));
}

#[test]
fn who_says_to_be_a_timer_is_none() {
    let mut signals = Signals::new(FIRST);
    signals.set_blocked(FIRST, SignalSet(u64::MAX));
    let claimed = |signal| SignalInfo::parse(&SignalInfo::timer(signal, 3, 4).record().into_bytes(), signal);
    // A standard signal is pending once.
    for sent in [info(SIGUSR1), claimed(SIGUSR1)] {
        assert_eq!(signals.send(Target::Thread(FIRST), sent), Ok(Outcome::Nothing));
    }
    assert_eq!(signals.take(FIRST, SignalSet(u64::MAX)), Some(info(SIGUSR1)));
    assert!(signals.pending(FIRST).is_empty());
    // A real-time one as often as it is sent, and it does not go with a timer.
    for _ in 0..2 {
        assert_eq!(signals.send(Target::Process, claimed(REAL_TIME)), Ok(Outcome::Nothing));
    }
    signals.forget_timer(3);
    let got = [(); 3].map(|()| signals.take(FIRST, SignalSet(u64::MAX)));
    assert_eq!(got, [Some(claimed(REAL_TIME)), Some(claimed(REAL_TIME)), None]);
}

#[test]
fn kill_and_stop_cannot_be_caught_or_blocked() {
    let mut signals = Signals::new(FIRST);
    assert_eq!(signals.set_action(SIGKILL, handled(0)), Err(Errno::EINVAL));
    assert_eq!(signals.set_action(SIGSTOP, IGNORED), Err(Errno::EINVAL));
    signals.set_blocked(FIRST, SignalSet(u64::MAX));
    assert_eq!(signals.send(Target::Process, info(SIGKILL)), Ok(Outcome::End(SIGKILL)));
    assert_eq!(signals.send(Target::Process, info(SIGSTOP)), Ok(Outcome::Call(FIRST)));
    assert_eq!(signals.next(FIRST), Next::Stop { since_now: true });
    assert_eq!(signals.send(Target::Process, info(SIGKILL)), Ok(Outcome::End(SIGKILL)));
}

#[test]
fn what_is_ignored_is_not_kept_unless_it_is_blocked() {
    let mut signals = Signals::new(FIRST);
    assert_eq!(signals.set_action(SIGUSR1, IGNORED), Ok(false));
    assert_eq!(signals.send(Target::Process, info(SIGUSR1)), Ok(Outcome::Ignored));
    signals.set_blocked(FIRST, SignalSet::of(SIGUSR1).or(SignalSet::of(SIGCHLD)));
    for signal in [SIGUSR1, SIGCHLD] {
        assert_eq!(signals.send(Target::Process, info(signal)), Ok(Outcome::Nothing));
    }
    assert!(signals.pending(FIRST).contains(SIGUSR1) && signals.pending(FIRST).contains(SIGCHLD));
    // Setting it to be ignored forgets it; a default that does nothing does as well.
    assert_eq!(signals.set_action(SIGUSR1, IGNORED), Ok(false));
    assert_eq!(signals.set_action(SIGCHLD, SignalAction::default()), Ok(false));
    assert!(signals.pending(FIRST).is_empty());
}

#[test]
fn masks_hold_while_a_handler_runs() {
    let mut signals = Signals::new(FIRST);
    let action = SignalAction { mask: SignalSet::of(SIGUSR2).0, ..handled(0) };
    assert_eq!(signals.set_action(SIGUSR1, action), Ok(false));
    assert_eq!(signals.set_action(SIGUSR2, handled(SignalAction::NODEFER | SignalAction::RESETHAND)), Ok(false));
    assert_eq!(signals.send(Target::Process, info(SIGUSR1)), Ok(Outcome::Call(FIRST)));
    let Next::Handler(delivery) = signals.next(FIRST) else { panic!("there is a handler") };
    assert_eq!(signals.context(FIRST).mask, SignalSet::NONE);
    assert!(signals.enter(FIRST, &delivery).is_empty());
    assert_eq!(signals.blocked(FIRST), SignalSet::of(SIGUSR1).or(SignalSet::of(SIGUSR2)));
    assert_eq!(signals.send(Target::Process, info(SIGUSR2)), Ok(Outcome::Nothing));
    assert_eq!(signals.next(FIRST), Next::Nothing);
    assert_eq!(signals.set_blocked(FIRST, SignalSet::NONE), [FIRST]);
    let Next::Handler(delivery) = signals.next(FIRST) else { panic!("there is a handler") };
    assert!(signals.enter(FIRST, &delivery).is_empty());
    assert_eq!(signals.blocked(FIRST), SignalSet::NONE);
    // It was there once.
    assert_eq!(signals.action(SIGUSR2).map(|action| action.handler), Ok(0));
    assert_eq!(signals.send(Target::Process, info(SIGUSR2)), Ok(Outcome::End(SIGUSR2)));
}

#[test]
fn signals_go_to_threads_that_take_them() {
    let mut signals = Signals::new(FIRST);
    signals.join(SECOND, SignalSet::NONE);
    signals.join(THIRD, SignalSet::NONE);
    for signal in [SIGUSR1, SIGUSR2, REAL_TIME] {
        assert_eq!(signals.set_action(signal, handled(0)), Ok(false));
    }
    // The first one, if it can; else each in turn.
    assert_eq!(signals.send(Target::Process, info(REAL_TIME)), Ok(Outcome::Call(FIRST)));
    signals.set_blocked(FIRST, SignalSet(u64::MAX));
    let sent = [(); 3].map(|()| signals.send(Target::Process, info(REAL_TIME)));
    assert_eq!(sent, [THIRD, SECOND, THIRD].map(|id| Ok(Outcome::Call(id))));
    // One that waits for it comes first, and gets it although it blocks it.
    signals.set_blocked(SECOND, SignalSet::of(SIGUSR1));
    signals.set_awaited(SECOND, SignalSet::of(SIGUSR1));
    assert_eq!(signals.send(Target::Process, info(SIGUSR1)), Ok(Outcome::Call(SECOND)));
    assert_eq!(signals.interrupt(SECOND), Next::Handler(Delivery { info: info(REAL_TIME), action: handled(0) }));
    assert_eq!(signals.take(SECOND, SignalSet::of(SIGUSR1)), Some(info(SIGUSR1)));
    // One for a thread waits for that thread, and is gone with it; those of the process are passed on.
    assert_eq!(signals.send(Target::Thread(FIRST), info(SIGUSR2)), Ok(Outcome::Nothing));
    assert_eq!(taken(signals.next(THIRD)), REAL_TIME);
    assert_eq!(signals.leave(THIRD), [SECOND]);
    assert!(signals.pending(FIRST).contains(SIGUSR2) && !signals.pending(SECOND).contains(SIGUSR2));
    assert!(signals.leave(FIRST).is_empty(), "it took none of them");
    assert!(!signals.has(FIRST) && signals.has(SECOND));
}

#[test]
fn a_blocked_signal_finds_another_thread() {
    let mut signals = Signals::new(FIRST);
    signals.join(SECOND, SignalSet::NONE);
    assert_eq!(signals.set_action(SIGUSR1, handled(0)), Ok(false));
    assert_eq!(signals.send(Target::Process, info(SIGUSR1)), Ok(Outcome::Call(FIRST)));
    // The first one blocks it before it looks.
    assert_eq!(signals.set_blocked(FIRST, SignalSet::of(SIGUSR1)), [SECOND]);
    assert_eq!(signals.next(FIRST), Next::Nothing);
    assert_eq!(taken(signals.next(SECOND)), SIGUSR1);
}

#[test]
fn a_signal_that_nobody_waits_for_any_more_finds_another_thread() {
    let mut signals = Signals::new(FIRST);
    signals.join(SECOND, SignalSet::NONE);
    assert_eq!(signals.set_action(SIGUSR1, handled(0)), Ok(false));
    assert!(signals.set_blocked(FIRST, SignalSet::of(SIGUSR1)).is_empty());
    assert!(signals.set_awaited(FIRST, SignalSet::of(SIGUSR1)).is_empty());
    assert_eq!(signals.send(Target::Process, info(SIGUSR1)), Ok(Outcome::Call(FIRST)));
    // Its time is up before it looks.
    assert_eq!(signals.set_awaited(FIRST, SignalSet::NONE), [SECOND]);
    assert_eq!(signals.next(FIRST), Next::Nothing);
    assert_eq!(taken(signals.next(SECOND)), SIGUSR1);
}

#[test]
fn a_stopped_process_goes_on_when_told_to() {
    let mut signals = Signals::new(FIRST);
    signals.join(SECOND, SignalSet::NONE);
    assert_eq!(signals.set_action(SIGUSR1, handled(0)), Ok(false));
    assert_eq!(signals.send(Target::Process, info(SIGTSTP)), Ok(Outcome::Call(FIRST)));
    assert_eq!(signals.next(FIRST), Next::Stop { since_now: true });
    assert_eq!(signals.next(SECOND), Next::Stop { since_now: false });
    // Nothing runs and nothing ends it, but SIGKILL, until then.
    assert_eq!(signals.send(Target::Process, info(SIGUSR1)), Ok(Outcome::Call(FIRST)));
    assert_eq!(signals.send(Target::Process, info(SIGABRT)), Ok(Outcome::Call(FIRST)));
    assert_eq!(signals.next(FIRST), Next::Stop { since_now: false });
    assert_eq!(signals.send(Target::Process, info(SIGSTOP)), Ok(Outcome::Call(FIRST)));
    assert_eq!(signals.send(Target::Process, info(SIGCONT)), Ok(Outcome::CallAll));
    assert!(!signals.is_stopped());
    assert_eq!(signals.next(FIRST), Next::End(SIGABRT));
    assert_eq!(taken(signals.next(FIRST)), SIGUSR1);
    assert_eq!(signals.next(FIRST), Next::Nothing, "what would have stopped it again is forgotten");
}

#[test]
fn masks_of_calls_end_with_them() {
    let mut signals = Signals::new(FIRST);
    assert_eq!(signals.set_action(SIGUSR1, handled(0)), Ok(false));
    let before = SignalSet::of(SIGUSR1);
    signals.set_blocked(FIRST, before);
    assert_eq!(signals.send(Target::Process, info(SIGUSR1)), Ok(Outcome::Nothing));
    assert_eq!(signals.block_for_call(FIRST, SignalSet::NONE), [FIRST]);
    // Nothing came of it: as before.
    assert!(signals.restore(FIRST).is_empty());
    assert_eq!(signals.blocked(FIRST), before);
    // It was interrupted: the handler returns to the mask of before.
    assert_eq!(signals.block_for_call(FIRST, SignalSet::NONE), [FIRST]);
    let Next::Handler(delivery) = signals.interrupt(FIRST) else { panic!("there is a handler") };
    assert!(signals.restore(FIRST).is_empty());
    assert_eq!(signals.blocked(FIRST), SignalSet::NONE);
    assert_eq!(signals.next(FIRST), Next::Handler(delivery), "it is left for when the call has ended");
    assert_eq!(signals.context(FIRST), Context { mask: before, ..signals.context(FIRST) });
    signals.enter(FIRST, &delivery);
    assert!(signals.restore(FIRST).is_empty());
    assert_eq!(signals.blocked(FIRST), before);
}

#[test]
fn faults_that_are_blocked_or_ignored_end_the_process() {
    let fault = SignalInfo::fault(SIGSEGV, 1, 0x10);
    let context = super::FaultContext { vector: 14, error: 6, address: 0x10 };
    let mut signals = Signals::new(FIRST);
    assert_eq!(signals.fault(FIRST, fault, context), None);
    assert_eq!(signals.set_action(SIGSEGV, IGNORED), Ok(false));
    assert_eq!(signals.fault(FIRST, fault, context), None);
    assert_eq!(signals.set_action(SIGSEGV, handled(0)), Ok(false));
    assert_eq!(signals.fault(FIRST, fault, context), Some(Delivery { info: fault, action: handled(0) }));
    assert_eq!(signals.context(FIRST).fault, context);
    signals.set_blocked(FIRST, SignalSet::of(SIGSEGV));
    assert_eq!(signals.fault(FIRST, fault, context), None);
    // The address of the last page fault stays with what comes later.
    let divide = super::FaultContext { vector: 0, error: 0, address: 0 };
    assert_eq!(signals.fault(FIRST, SignalInfo::fault(8, 1, 5), divide), None);
    assert_eq!(signals.context(FIRST).fault, super::FaultContext { address: 0x10, ..divide });
    // A frame that cannot be written: SIGSEGV, unless that is what it was for.
    signals.set_blocked(FIRST, SignalSet::NONE);
    assert_eq!(signals.bad_frame(FIRST, SIGSEGV), None);
    assert_eq!(signals.bad_frame(FIRST, SIGUSR1).map(|instead| instead.info), Some(SignalInfo::kernel(SIGSEGV)));
}

#[test]
fn stacks_that_disarm_themselves_are_there_once() {
    let mut signals = Signals::new(FIRST);
    let stack = AlternateStack { address: 0x1000, flags: AlternateStack::AUTODISARM, bytes: 0x1000 };
    signals.set_stack(FIRST, stack);
    let delivery = Delivery { info: info(SIGUSR1), action: handled(0) };
    assert_eq!(signals.context(FIRST).stack, stack);
    signals.enter(FIRST, &delivery);
    assert_eq!(signals.stack(FIRST), AlternateStack::NONE);
}

proptest! {
    #[test]
    fn no_signal_number_or_mask_panics(signal in any::<u32>(), mask in any::<u64>(), handler in any::<u64>()) {
        let mut signals = Signals::new(FIRST);
        let set = signals.set_action(signal, SignalAction { handler, ..SignalAction::default() });
        signals.set_blocked(FIRST, SignalSet(mask));
        let sent = signals.send(Target::Process, info(signal));
        assert_eq!(set.is_ok(), (1..=64).contains(&signal) && signal != SIGKILL && signal != SIGSTOP);
        assert_eq!(sent.is_ok(), (1..=64).contains(&signal));
        signals.set_blocked(FIRST, SignalSet(!mask));
        let _ = signals.next(FIRST);
    }
}
