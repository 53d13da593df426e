//! Models of several threads that wait at one epoll, on several cores.

use alloc::sync::Arc;

use shuttle::future::block_on;
use shuttle::thread;

use super::tests::{READ, add};
use super::{Poller, ask};
use crate::executor::check;
use crate::files::readiness::until_watched;
use crate::files::stream::{Stream, copy_from};
use crate::files::{Object, OpenFile, flags};
use crate::quota::tests::quota;

/// An epoll that watches a counter with this value.
fn watching(events: u32, value: u32) -> (Arc<Poller>, Arc<OpenFile>) {
    let poller = Poller::new(&quota()).expect("memory");
    let file = add(&poller, 4, READ | events, value);
    (Arc::new(poller), file)
}

/// Wakes whoever watches the counter.
fn count_up(file: &OpenFile) {
    let Object::Event(event) = &file.object else { panic!("no counter") };
    assert_eq!(event.put(8, &mut copy_from(&1_u64.to_le_bytes())), Ok(8));
}

/// Waits until there is something to look at, and looks.
fn wait(poller: &Poller) -> usize {
    block_on(until_watched(|waker| poller.watch(waker), || (poller.queued() > 0).then_some(()))).expect("memory");
    poller.collect(1, |_, _| true)
}

#[test]
fn what_is_asked_for_once_is_told_to_one_thread() {
    check(|| {
        let (poller, file) = watching(ask::ONCE, 1);
        let looking = [(); 2].map(|()| {
            let poller = Arc::clone(&poller);
            thread::spawn(move || poller.collect(1, |_, _| true))
        });
        count_up(&file);
        let told: usize = looking.map(|thread| thread.join().expect("no panic")).iter().sum();
        assert_eq!(told + poller.collect(1, |_, _| true), 1);
    });
}

#[test]
fn nobody_sleeps_while_something_is_ready() {
    check(|| {
        let (poller, file) = watching(0, 0);
        let waiting = [(); 2].map(|()| {
            let poller = Arc::clone(&poller);
            thread::spawn(move || while wait(&poller) == 0 {})
        });
        count_up(&file);
        waiting.into_iter().for_each(|thread| thread.join().expect("no panic"));
    });
}

/// One thread waits above, another one takes what is there out of the epoll below for a moment.
#[test]
fn nobody_sleeps_above_while_something_is_ready_below() {
    check(|| {
        let (below, file) = {
            let poller = Poller::new(&quota()).expect("memory");
            let file = add(&poller, 4, READ, 0);
            (Arc::new(OpenFile::object(Object::Poller(poller), flags::O_RDWR)), file)
        };
        let above = Arc::new(Poller::new(&quota()).expect("memory"));
        assert_eq!(above.add(5, &below, (READ, 5), &quota()), Ok(()));
        let (taken, waiting) = (Arc::clone(&below), Arc::clone(&above));
        let waiting = thread::spawn(move || while wait(&waiting) == 0 {});
        let taking = thread::spawn(move || {
            let Object::Poller(poller) = &taken.object else { panic!("no epoll") };
            poller.collect(1, |_, _| true);
        });
        count_up(&file);
        waiting.join().expect("no panic");
        taking.join().expect("no panic");
        drop(below);
    });
}

#[test]
fn each_change_is_told_to_somebody() {
    check(|| {
        let (poller, file) = watching(ask::EDGE, 0);
        let other = Arc::clone(&poller);
        let waiting = thread::spawn(move || while wait(&other) == 0 {});
        count_up(&file);
        waiting.join().expect("no panic");
    });
}

#[test]
fn what_was_removed_is_not_told_any_more() {
    check(|| {
        let (poller, file) = watching(0, 1);
        let other = Arc::clone(&poller);
        let looking = thread::spawn(move || other.collect(1, |_, _| true));
        assert_eq!(poller.remove(4, &file), Ok(()));
        looking.join().expect("no panic");
        assert_eq!(poller.collect(1, |_, _| true), 0);
    });
}
