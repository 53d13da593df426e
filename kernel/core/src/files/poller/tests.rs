//! Several threads that wait at one epoll, on several cores.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Poller, ask};
use crate::abi::time::TimerSetting;
use crate::executor;
use crate::files::{Event, Object, OpenFile, Ready, TimerFile, flags};
use crate::quota::Quota;
use crate::quota::tests::quota;

pub(super) const READ: u32 = Ready::READ.bits() as u32;

fn counter(value: u32, quota: &Arc<Quota>) -> Arc<OpenFile> {
    let event = Event::new(value, false, quota).expect("memory");
    Arc::new(OpenFile::object(Object::Event(event), flags::O_RDWR))
}

pub(super) fn add(poller: &Poller, number: i32, events: u32, value: u32) -> Arc<OpenFile> {
    let (quota, data) = (quota(), number.cast_unsigned().into());
    let file = counter(value, &quota);
    assert_eq!(poller.add(number, &file, (events, data), &quota), Ok(()));
    file
}

fn collect(poller: &Poller) -> Vec<u64> {
    let mut told = Vec::new();
    poller.collect(9, |_, data| {
        told.push(data);
        true
    });
    told
}

#[test]
fn what_could_not_be_told_is_told_later() {
    for events in [READ, READ | ask::EDGE, READ | ask::ONCE] {
        let poller = Poller::new(&quota()).expect("memory");
        let _file = add(&poller, 4, events, 1);
        assert_eq!(poller.collect(9, |_, _| false), 0);
        assert_eq!(collect(&poller), [4], "{events:#x}");
    }
}

#[test]
fn one_that_was_removed_while_it_was_looked_at_is_not_told_again() {
    let poller = Poller::new(&quota()).expect("memory");
    let file = add(&poller, 4, READ, 1);
    let told = poller.collect(9, |_, _| {
        assert_eq!(poller.remove(4, &file), Ok(()));
        true
    });
    assert_eq!((told, collect(&poller)), (1, Vec::new()));
}

/// It is up, and its alarm has not rung, for nobody has looked at the alarms.
#[test]
fn a_timer_is_told_once_however_late_its_alarm_is() {
    let told = executor::run_to_end(async {
        let (quota, poller) = (quota(), Poller::new(&quota()).expect("memory"));
        let timer = TimerFile::new(false, &quota).expect("memory");
        let file = Arc::new(OpenFile::object(Object::Timer(timer), flags::O_RDWR));
        assert_eq!(poller.add(4, &file, (READ | ask::EDGE, 4), &quota), Ok(()));
        let mut told = Vec::from([collect(&poller)]);
        let Object::Timer(timer) = &file.object else { panic!("it is a timer") };
        for _ in 0..2 {
            // The first is found by looking, as setting it queues it; the others have been looked at before.
            timer.set(TimerSetting { value_ns: 1, interval_ns: 0 }, true);
            told.push(collect(&poller));
            executor::sleep(10).await;
            told.push(collect(&poller));
        }
        told
    });
    let once = [&[][..], &[4], &[], &[4], &[]].map(Vec::from);
    assert_eq!(told, Ok(Vec::from(once)));
}
