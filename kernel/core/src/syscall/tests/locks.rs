//! Locks of files between ranks: two on one node, whose locks the played I/O node has.

use coppice_protocol::ship::Call;
use coppice_protocol::syscalls as nr;

use crate::abi::u32_at;
use crate::errno::Errno;
use crate::files::flags;
use crate::process::testing::Bench;

const GETLK: u64 = 5;
const SETLK: u64 = 6;
const SETLKW: u64 = 7;
const OFD_GETLK: u64 = 36;
const OFD_SETLK: u64 = 37;
const OFD_SETLKW: u64 = 38;

const READ: u16 = 0;
const WRITE: u16 = 1;
const FREE: u16 = 2;

const SHARED: u64 = 1;
const EXCLUSIVE: u64 = 2;
const AT_ONCE: u64 = 4;
const UNLOCK: u64 = 8;

const BUSY: i64 = -(Errno::EAGAIN.0 as i64);

/// Two ranks that have the file open.
struct Two {
    ranks: [Bench; 2],
    files: [u64; 2],
}

impl Two {
    fn new() -> Self {
        let one = Bench::with_size(2, &[("/a", b"0123456789"), ("/b", b"0123456789")]);
        let other = one.sibling(None);
        let files = [&one, &other].map(|bench| bench.open("/a", flags::O_RDWR).cast_unsigned());
        Self { ranks: [one, other], files }
    }

    fn record(&self, rank: usize, kind: u16, first: i64, length: i64) -> u64 {
        let (first, length) = (first.to_le_bytes(), length.to_le_bytes());
        let record = [&kind.to_le_bytes()[..], &[0; 6], &first, &length, &[0; 8]].concat();
        self.ranks[rank].put(0x1000, &record)
    }

    fn of(&self, rank: usize, file: u64, command: u64, kind: u16, (first, length): (i64, i64)) -> i64 {
        self.ranks[rank].call(nr::FCNTL, &[file, command, self.record(rank, kind, first, length)])
    }

    fn set(&self, rank: usize, kind: u16, range: (i64, i64)) -> i64 {
        self.of(rank, self.files[rank], SETLK, kind, range)
    }

    fn flock(&self, rank: usize, how: u64) -> i64 {
        self.ranks[rank].call(nr::FLOCK, &[self.files[rank], how])
    }

    /// What the last question found: kind, first byte, length, process.
    fn found(&self, rank: usize) -> (u32, u32, u32, u32) {
        let record = self.ranks[rank].get(0x1000, 32);
        (u32_at(&record, 0), u32_at(&record, 8), u32_at(&record, 16), u32_at(&record, 24))
    }

    /// Ranks with anything locked, or in line.
    fn lockers(&self) -> usize {
        self.ranks[0].world.lock().lockers()
    }

    fn close(&self, rank: usize, file: u64) {
        assert_eq!(self.ranks[rank].call(nr::CLOSE, &[file]), 0);
    }
}

#[test]
fn ranks_lock_each_other_out_and_are_told_who_has_what() {
    let two = Two::new();
    assert_eq!(two.set(0, WRITE, (2, 4)), 0);
    assert_eq!((two.set(1, READ, (5, 1)), two.set(1, WRITE, (6, 0)), two.set(1, READ, (0, 2))), (BUSY, 0, 0));
    assert_eq!(two.of(1, two.files[1], GETLK, READ, (0, 0)), 0);
    assert_eq!(two.found(1), (WRITE.into(), 2, 4, 1002));
    assert_eq!(two.of(0, two.files[0], GETLK, WRITE, (8, 1)), 0);
    assert_eq!(two.found(0), (WRITE.into(), 6, 0, 1003), "up to the end");
    // What an open file has is nobody's, and its own process's are in its way.
    assert_eq!(two.of(1, two.files[1], OFD_SETLK, READ, (0, 1)), 0);
    assert_eq!(two.of(1, two.files[1], OFD_SETLK, READ, (6, 1)), BUSY);
    assert_eq!(two.set(1, FREE, (0, 0)), 0);
    assert_eq!(two.of(0, two.files[0], GETLK, WRITE, (0, 1)), 0);
    assert_eq!(two.found(0), (READ.into(), 0, 1, u32::MAX));
    assert_eq!(two.of(1, two.files[1], OFD_GETLK, FREE, (0, 0)), 0);
    assert_eq!(two.found(1), (READ.into(), 0, 1, u32::MAX), "its own");
    assert_eq!(two.of(0, two.files[0], GETLK, READ, (0, 0)), 0);
    assert_eq!(two.found(0).0, FREE.into());
}

#[test]
fn who_waits_has_it_when_it_is_free_and_others_work_meanwhile() {
    for (command, kind) in [(SETLKW, WRITE), (SETLKW, READ), (OFD_SETLKW, WRITE)] {
        let two = Two::new();
        let bench = &two.ranks[1];
        assert_eq!(two.set(0, WRITE, (0, 0)), 0);
        let wanted = two.record(1, kind, 3, 1);
        let waited = bench.wait_while(nr::FCNTL, &[two.files[1], command, wanted], |_| {
            // It holds neither a place on the connection nor its process's turn.
            assert_eq!(two.ranks[0].call(nr::PWRITE64, &[two.files[0], two.ranks[0].put(0, b"x"), 1, 0]), 1);
            assert_eq!(two.set(0, FREE, (4, 0)), 0);
            assert_eq!(two.lockers(), 2);
            assert_eq!(two.set(0, FREE, (0, 4)), 0);
        });
        assert_eq!(waited, Some(0), "{command}");
        assert_eq!(two.set(0, WRITE, (3, 1)), BUSY);
    }
    let two = Two::new();
    assert_eq!(two.flock(0, EXCLUSIVE), 0);
    let waited = two.ranks[1].wait_while(nr::FLOCK, &[two.files[1], SHARED], |_| {
        assert_eq!(two.flock(0, SHARED), 0, "what it has becomes less");
    });
    assert_eq!((waited, two.flock(0, EXCLUSIVE | AT_ONCE)), (Some(0), BUSY));
    assert_eq!(two.flock(1, EXCLUSIVE | AT_ONCE), 0, "what could not be made exclusive is gone");
    assert_eq!((two.flock(1, UNLOCK), two.lockers()), (0, 0));
}

#[test]
fn what_is_closed_is_unlocked_before_that_returns() {
    let two = Two::new();
    let again = two.ranks[0].open("/a", flags::O_RDONLY).cast_unsigned();
    let copy = two.ranks[0].call(nr::DUP, &[two.files[0]]).cast_unsigned();
    let locked = || assert_eq!((two.set(0, WRITE, (0, 0)), two.set(1, READ, (0, 1))), (0, BUSY));
    // The process's own, however the file is closed.
    let closings: [&dyn Fn(); 4] = [
        &|| two.close(0, copy),
        &|| two.close(0, again),
        &|| assert_eq!(two.ranks[0].call(nr::DUP2, &[0, copy]), copy.cast_signed()),
        &|| assert_eq!(two.ranks[0].call(nr::CLOSE_RANGE, &[copy, copy, 0]), 0),
    ];
    for (index, close) in closings.iter().enumerate() {
        if index > 1 {
            assert_eq!(two.ranks[0].call(nr::DUP2, &[two.files[0], copy]), copy.cast_signed());
        }
        locked();
        close();
        assert_eq!(two.set(1, READ, (0, 1)), 0, "{index}");
        assert_eq!(two.set(1, FREE, (0, 0)), 0);
    }
    // Open files' with the last of their descriptors.
    assert_eq!(two.ranks[0].call(nr::DUP2, &[two.files[0], copy]), copy.cast_signed());
    assert_eq!((two.flock(0, EXCLUSIVE), two.of(0, copy, OFD_SETLK, WRITE, (0, 1))), (0, 0));
    two.close(0, copy);
    assert_eq!((two.flock(1, SHARED | AT_ONCE), two.set(1, READ, (0, 1))), (BUSY, BUSY));
    two.close(0, two.files[0]);
    assert_eq!((two.flock(1, SHARED | AT_ONCE), two.set(1, READ, (0, 1))), (0, 0));
    two.close(1, two.files[1]);
    assert_eq!(two.lockers(), 0);
}

#[test]
fn who_gives_up_does_not_stand_in_line() {
    let two = Two::new();
    assert_eq!((two.set(0, WRITE, (0, 0)), two.flock(0, EXCLUSIVE)), (0, 0));
    let wanted = two.record(1, WRITE, 0, 1);
    two.ranks[1].drop_call(nr::FCNTL, &[two.files[1], SETLKW, wanted]);
    two.ranks[1].drop_call(nr::FLOCK, &[two.files[1], EXCLUSIVE]);
    two.ranks[1].rest();
    assert_eq!(two.lockers(), 1);
    assert_eq!((two.set(0, FREE, (0, 0)), two.flock(0, UNLOCK)), (0, 0));
    // Nobody's turn comes first.
    assert_eq!((two.set(0, WRITE, (0, 0)), two.flock(0, EXCLUSIVE | AT_ONCE)), (0, 0));
}

#[test]
fn who_would_wait_for_itself_does_not() {
    let two = Two::new();
    let others = [0, 1].map(|rank: usize| two.ranks[rank].open("/b", flags::O_RDWR).cast_unsigned());
    assert_eq!((two.set(0, WRITE, (0, 0)), two.of(1, others[1], SETLK, WRITE, (0, 0))), (0, 0));
    let wanted = two.record(1, WRITE, 0, 0);
    let waited = two.ranks[1].wait_while(nr::FCNTL, &[two.files[1], SETLKW, wanted], |_| {
        let deadlock = -i64::from(Errno::EDEADLK.0);
        assert_eq!(two.of(0, others[0], SETLKW, WRITE, (0, 0)), deadlock);
        two.close(0, two.files[0]);
    });
    assert_eq!(waited, Some(0));
}

#[test]
fn what_ranks_elsewhere_would_not_know_of_is_refused() {
    let lock = [0_u8; 32];
    for (size, expected) in [(1, 0), (2, -i64::from(Errno::ENOLCK.0))] {
        let bench = Bench::with_size(size, &[]);
        let file = bench.open("/dev/shm/a", flags::O_RDWR | 0o100).cast_unsigned();
        let at = bench.put(0x1000, &lock);
        assert_eq!(bench.call(nr::FCNTL, &[file, SETLK, at]), expected);
        assert_eq!(bench.call(nr::FLOCK, &[file, EXCLUSIVE]), expected);
        assert_eq!(bench.call(nr::FCNTL, &[file, GETLK, at]), expected);
        assert_eq!(bench.get(0x1000, 1)[0], if size == 1 { 2 } else { 0 });
        // What is the process's own can be locked.
        let own = bench.call(nr::EVENTFD2, &[0, 0]).cast_unsigned();
        assert_eq!((bench.call(nr::FLOCK, &[own, EXCLUSIVE]), bench.call(nr::FLOCK, &[own, UNLOCK])), (0, 0));
        let is_about_locks = |call: &Call| matches!(call, Call::Lock { .. } | Call::Unlock(_) | Call::TestLock(_));
        assert!(!bench.world.lock().calls.iter().any(is_about_locks));
    }
}
