//! epolls that watch epolls.

use alloc::vec::Vec;

use coppice_protocol::syscalls as nr;

use super::polling::{ADD, DEL, ET, IN, OUT, control, drain, error, pair, poll, send, told};
use crate::errno::Errno;
use crate::limits::{NESTED_DEPTH_MAX, NESTED_MAX};
use crate::process::testing::{Bench, MEMORY};

fn epoll(bench: &Bench) -> u64 {
    bench.call(nr::EPOLL_CREATE1, &[0]) as u64
}

/// Epolls each of which but the first watches the one before it.
fn chain(bench: &Bench, length: usize) -> Vec<u64> {
    let chain: Vec<u64> = (0..length).map(|_| epoll(bench)).collect();
    for two in chain.windows(2) {
        assert_eq!(control(bench, two[1], ADD, two[0], IN), 0);
    }
    chain
}

#[test]
fn what_comes_is_told_through_all_of_them() {
    let bench = Bench::new(&[]);
    let chain = chain(&bench, NESTED_DEPTH_MAX + 1);
    let (lowest, top) = (chain[0], chain[NESTED_DEPTH_MAX]);
    let (one, other) = pair(&bench);
    assert_eq!(control(&bench, lowest, ADD, one, IN), 0);
    let wait = [top, MEMORY, 10, u64::MAX];
    let at = bench.put(0x1000, b"x");
    for _ in 0..2 {
        assert_eq!(told(&bench, top, 9), []);
        assert_eq!(bench.call_during(nr::EPOLL_WAIT, &wait, &[(nr::WRITE, &[other, at, 1], 1)]), 1);
        for _ in 0..2 {
            assert_eq!(poll(&bench, &[(top, IN)], 0), (1, Vec::from([IN])));
            for two in chain.windows(2).rev() {
                assert_eq!(told(&bench, two[1], 9), [(two[0], IN)]);
            }
            assert_eq!(told(&bench, lowest, 9), [(one, IN)]);
        }
        assert_eq!(drain(&bench, one), 1);
    }
    // A file that comes while somebody waits at the top.
    send(&bench, other, 1);
    assert_eq!(control(&bench, lowest, DEL, one, 0), 0);
    let event = bench.put(0x200, crate::abi::io::epoll_event(IN, 0).bytes());
    let add = [lowest, ADD, one, event];
    assert_eq!(bench.call_during(nr::EPOLL_WAIT, &wait, &[(nr::EPOLL_CTL, &add, 0)]), 1);
    // One in the middle that goes.
    assert_eq!(bench.call(nr::CLOSE, &[chain[2]]), 0);
    assert_eq!(told(&bench, top, 9), []);
    assert_eq!(told(&bench, chain[1], 9), [(lowest, IN)]);
}

#[test]
fn edges_are_told_once_and_are_edges_of_the_inner_one() {
    let bench = Bench::new(&[]);
    let (outer, inner) = (epoll(&bench), epoll(&bench));
    let (one, other) = pair(&bench);
    assert_eq!(control(&bench, inner, ADD, one, IN | ET), 0);
    assert_eq!(control(&bench, outer, ADD, inner, IN | ET), 0);
    for _ in 0..2 {
        send(&bench, other, 1);
        assert_eq!((told(&bench, outer, 9), told(&bench, outer, 9)), (Vec::from([(inner, IN)]), Vec::new()));
        assert_eq!(poll(&bench, &[(inner, IN)], 0), (1, Vec::from([IN])), "a look changes nothing");
        assert_eq!(told(&bench, outer, 9), []);
        assert_eq!((told(&bench, inner, 9), told(&bench, inner, 9)), (Vec::from([(one, IN)]), Vec::new()));
        assert_eq!(told(&bench, outer, 9), []);
    }
    // What nobody asks for is neither told nor looked at for ever.
    let wanted_otherwise = epoll(&bench);
    assert_eq!(control(&bench, wanted_otherwise, ADD, inner, OUT), 0);
    send(&bench, other, 1);
    assert_eq!(bench.call(nr::EPOLL_WAIT, &[wanted_otherwise, MEMORY, 9, 20]), 0);
    assert_eq!(told(&bench, outer, 9), [(inner, IN)]);
}

/// As on Linux, whichever end a chain grows at.
#[test]
fn rings_and_long_chains_are_refused() {
    let bench = Bench::new(&[]);
    let (lower, upper) = (chain(&bench, 2), chain(&bench, 3));
    assert_eq!(control(&bench, lower[0], ADD, lower[1], IN), error(Errno::ELOOP));
    assert_eq!(control(&bench, upper[0], ADD, upper[2], IN), error(Errno::ELOOP));
    assert_eq!(control(&bench, upper[0], ADD, lower[1], IN), 0, "five of them");
    let one_more = epoll(&bench);
    assert_eq!(control(&bench, one_more, ADD, upper[2], IN), error(Errno::ELOOP));
    assert_eq!(control(&bench, lower[0], ADD, one_more, IN), error(Errno::ELOOP));
    assert_eq!(control(&bench, lower[0], ADD, upper[2], IN), error(Errno::ELOOP));
    assert_eq!(control(&bench, upper[2], ADD, one_more, IN), 0, "beside the chain");
    assert_eq!(control(&bench, one_more, ADD, lower[0], IN), 0);
    // Once it is parted, there is room at both ends, and what was a ring is none.
    assert_eq!(control(&bench, upper[0], DEL, lower[1], 0), 0);
    assert_eq!(control(&bench, upper[0], ADD, lower[1], IN), 0);
    assert_eq!(control(&bench, upper[0], DEL, lower[1], 0), 0);
    assert_eq!(control(&bench, upper[2], DEL, one_more, 0), 0);
    assert_eq!(control(&bench, one_more, DEL, lower[0], 0), 0);
    assert_eq!(control(&bench, lower[0], ADD, upper[2], IN), 0, "the other way round");
    assert_eq!(control(&bench, upper[0], ADD, lower[1], IN), error(Errno::ELOOP));
    // A part that is closed is not there any more.
    assert_eq!(bench.call(nr::CLOSE, &[upper[1]]), 0);
    assert_eq!(control(&bench, upper[0], ADD, lower[1], IN), 0);
}

#[test]
fn so_many_are_watched_and_give_their_memory_back() {
    let bench = Bench::new(&[]);
    let charged = bench.process.node.quota.taken();
    let (outer, others): (u64, Vec<u64>) = (epoll(&bench), (0..=NESTED_MAX).map(|_| epoll(&bench)).collect());
    for (at, other) in others.iter().enumerate() {
        let wanted = if at < NESTED_MAX { 0 } else { error(Errno::ENOSPC) };
        assert_eq!(control(&bench, outer, ADD, *other, IN), wanted);
    }
    let (one, other) = pair(&bench);
    assert_eq!(control(&bench, outer, ADD, one, IN), 0, "other files are");
    assert_eq!(bench.call(nr::CLOSE, &[others[0]]), 0);
    assert_eq!(control(&bench, outer, ADD, others[NESTED_MAX], IN), 0);
    for number in others.iter().skip(1).chain([&outer, &one, &other]) {
        assert_eq!(bench.call(nr::CLOSE, &[*number]), 0);
    }
    assert_eq!(bench.process.node.quota.taken(), charged);
}
