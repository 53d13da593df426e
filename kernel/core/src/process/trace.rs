//! What a traced process does, on its way to whoever traces it.
//!
//! Its threads put records here, and its launch's task prints them as a stream of the rank. There is a place for some
//! records; whoever makes more waits until they are taken, so that none is lost and the kernel keeps few. A process
//! that is not traced has nothing here, and its threads look at nothing.

use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_protocol::control::Exit;
use coppice_protocol::limits::BULK_BYTES_MAX;
use coppice_protocol::ras::{RasEvent, RasKind, Severity};
use coppice_protocol::ship::Stream;
use coppice_protocol::syscalls::{self, Kind};
use coppice_protocol::trace::{
    CallRecord, EXCERPT_BYTES, Event, Excerpt, PIECE_BYTES, PIECES_MAX, RECORD_BYTES_MAX, Record, Wanted,
};

use crate::clock;
use crate::errno::Errno;
use crate::executor::WaitQueue;
use crate::memory::AddressSpace;
use crate::process::Process;
use crate::quota::{Charge, Quota};
use crate::ras;
use crate::ship::Client;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{LockLevel, Mutex};

/// As many bytes of records wait to be printed, beside one of each thread.
const QUEUE_BYTES: usize = 16 * 1024;

/// What a process that is traced is charged with, bytes: what waits, what is being printed, and a record that is made.
const TRACE_BYTES: usize = 2 * (QUEUE_BYTES + RECORD_BYTES_MAX) + 2 * RECORD_BYTES_MAX;

/// See this module.
pub(crate) struct Trace {
    is_on: AtomicBool,
    queue: Mutex<Queue>,
    changed: WaitQueue,
}

#[derive(Default)]
struct Queue {
    /// Records that nobody has taken.
    bytes: Vec<u8>,
    /// Some are being printed.
    is_printing: bool,
    /// What it takes.
    charge: Option<Charge>,
}

impl Queue {
    fn is_full(&self) -> bool {
        self.bytes.len() > QUEUE_BYTES
    }
}

impl Trace {
    /// Nothing is traced.
    pub(crate) fn new() -> Self {
        let queue = Mutex::new(LockLevel::Fact, Queue::default());
        Self { is_on: AtomicBool::new(false), queue, changed: WaitQueue::new() }
    }

    /// From now on the process is traced. Its threads are to be told ([`super::Process::call_all`]).
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn begin(&self, quota: &Arc<Quota>) -> Result<(), Errno> {
        let charge = quota.charge(TRACE_BYTES)?;
        self.queue.lock().charge.get_or_insert(charge);
        self.is_on.store(true, Ordering::Release);
        Ok(())
    }

    /// Nobody wants to know any more. What was not printed is forgotten.
    pub(crate) fn end(&self) {
        self.is_on.store(false, Ordering::Release);
        let mut queue = self.queue.lock();
        let (left, charge) = (core::mem::take(&mut queue.bytes), queue.charge.take());
        drop(queue);
        drop((left, charge));
        self.changed.wake_all();
    }

    /// Whether the process is traced.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// Takes a record, if there is a place for it.
    pub(crate) fn offer(&self, tid: u32, event: Event) -> Result<(), Record> {
        let record = Record { tid, at_ns: clock::realtime_ns(), event };
        let taken = self.put(&record);
        if taken { Ok(()) } else { Err(record) }
    }

    /// Takes a record of a few bytes, or one of each thread, whether there is a place for it or not.
    pub(crate) fn add(&self, tid: u32, event: Event) {
        let mut queue = self.queue.lock();
        // When nobody wants to know, nothing is kept.
        if queue.charge.is_none() {
            return;
        }
        Record { tid, at_ns: clock::realtime_ns(), event }.write(&mut queue.bytes);
        drop(queue);
        self.changed.wake_all();
    }

    /// Whether there is no place now.
    pub(crate) fn is_full(&self) -> bool {
        self.queue.lock().is_full()
    }

    /// Takes a record as soon as there is a place for it. False: `gives_up` said so before, and it was not taken; who
    /// waits is to be woken for that.
    pub(crate) async fn accept(&self, record: &Record, gives_up: impl Fn() -> bool) -> bool {
        let look = || {
            let is_done = !self.is_on() || self.put(record);
            (is_done || gives_up()).then_some(is_done)
        };
        self.changed.wait_until(look).await
    }

    fn put(&self, record: &Record) -> bool {
        let mut queue = self.queue.lock();
        // When nobody wants to know, nothing is kept.
        if queue.charge.is_none() {
            return true;
        }
        if queue.is_full() {
            return false;
        }
        record.write(&mut queue.bytes);
        drop(queue);
        self.changed.wake_all();
        true
    }

    /// Prints what there is, as long as it is polled. Never done.
    pub(crate) async fn print(&self, client: &Client) -> core::convert::Infallible {
        loop {
            let bytes = self.changed.wait_until(|| self.take()).await;
            // Without an I/O node nobody traces.
            let _ = client.print(Stream::Trace, bytes).await;
            self.queue.lock().is_printing = false;
            self.changed.wake_all();
        }
    }

    /// Some of what is to be printed, in whole records: it may be lost with its call.
    fn take(&self) -> Option<Vec<u8>> {
        let mut queue = self.queue.lock();
        if queue.bytes.is_empty() {
            return None;
        }
        queue.is_printing = true;
        let length = whole_records(&queue.bytes, BULK_BYTES_MAX);
        let left = queue.bytes.split_off(length);
        Some(core::mem::replace(&mut queue.bytes, left))
    }

    /// Waits until everything is printed.
    pub(crate) async fn printed(&self) {
        let is_done = || {
            let queue = self.queue.lock();
            queue.bytes.is_empty() && !queue.is_printing
        };
        self.changed.wait_until(|| is_done().then_some(())).await;
    }
}

impl Process {
    /// From now on what it does is printed, or not.
    pub(crate) fn follow_tracer(&self, is_traced: bool) {
        if is_traced == self.trace.is_on() {
            return;
        }
        if !is_traced {
            self.trace.end();
        } else if let Err(errno) = self.trace.begin(&self.node.quota) {
            let text = format!("it cannot be traced: {errno}");
            let (severity, kind) = (Severity::Warn, RasKind::OutOfMemory);
            let (job, rank) = (Some(self.identity.job), Some(self.identity.rank));
            return ras::report(RasEvent { severity, kind, job, rank, address: None, instruction: None, text });
        }
        self.call_all();
    }
}

/// How long the records are together that fit into so many bytes.
fn whole_records(bytes: &[u8], max: usize) -> usize {
    let mut whole = 0;
    while let Some((length, _)) = bytes.get(whole..).and_then(|rest| rest.split_first_chunk::<2>()) {
        let end = whole + 2 + usize::from(u16::from_le_bytes(*length));
        if end > max {
            break;
        }
        whole = end;
    }
    whole
}

/// The last that is said of a process.
pub(crate) fn end(exit: Exit) -> Event {
    match exit {
        Exit::Status(status) => Event::Exited { status },
        Exit::Signal(signal) => Event::Killed { signal },
        // It was traced, so it was started.
        Exit::NotStarted => Event::Killed { signal: 0 },
    }
}

/// What is said of a call; `result` is what came of it, if it did not fail. Without the program's memory nothing is
/// said of what is there.
pub(crate) fn record_of(
    space: Option<&Mutex<AddressSpace>>,
    number: u64,
    arguments: [u64; 6],
    result: Option<u64>,
) -> CallRecord {
    let kinds: &[Kind] = syscalls::call(number).map_or(&[], |call| call.arguments);
    let Some(space) = space else { return CallRecord { number, arguments, excerpts: Vec::new() } };
    let mut space = space.lock();
    let excerpt = |(index, kind): (usize, &Kind)| {
        let wanted = Wanted::of(*kind, index, &arguments, result)?;
        Some(Excerpt { argument: index as u8, bytes: read(&mut space, wanted)? })
    };
    let excerpts = kinds.iter().enumerate().filter_map(excerpt).collect();
    CallRecord { number, arguments, excerpts }
}

/// Reads what is wanted, if it is there; nothing is fetched for that.
fn read(space: &mut AddressSpace, wanted: Wanted) -> Option<Vec<u8>> {
    match wanted {
        Wanted::Text(address) => {
            let mut text = Vec::new();
            space.read_string(address, &mut text, coppice_protocol::limits::PATH_BYTES_MAX).ok()?;
            Some(text)
        }
        Wanted::Bytes { address, length } => bytes(space, address, length),
        Wanted::Pieces { address, count, filled } => {
            let mut left = filled as u64;
            let entries = bytes(space, address, count.min(PIECES_MAX) * PIECE_BYTES)?;
            let mut all = entries.clone();
            for entry in entries.chunks_exact(PIECE_BYTES) {
                let (base, length) = entry.split_first_chunk::<8>()?;
                let length = u64::from_le_bytes(length.try_into().ok()?).min(left);
                left -= length;
                let excerpt = length.min(EXCERPT_BYTES as u64) as usize;
                all.extend(bytes(space, u64::from_le_bytes(*base), excerpt)?);
            }
            Some(all)
        }
    }
}

fn bytes(space: &mut AddressSpace, address: u64, length: usize) -> Option<Vec<u8>> {
    let mut bytes = alloc::vec![0; length];
    space.read_bytes(address, &mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use alloc::sync::Arc;
    use alloc::vec;

    use coppice_protocol::trace::{CallRecord, Event, Excerpt, Reader};

    use super::{QUEUE_BYTES, TRACE_BYTES, Trace, whole_records};
    use crate::executor;
    use crate::quota::tests::quota;

    fn call(bytes: usize) -> Event {
        let excerpts = vec![Excerpt { argument: 0, bytes: vec![7; bytes] }];
        Event::Waits(CallRecord { number: 1, arguments: [0; 6], excerpts })
    }

    #[test]
    fn who_has_more_to_say_than_there_is_room_for_waits_until_it_is_taken_or_nobody_wants_it() {
        let (trace, quota) = (Arc::new(Trace::new()), quota());
        trace.begin(&quota).expect("memory");
        let mut offered = 0;
        let left = loop {
            match trace.offer(5, call(1000)) {
                Ok(()) => offered += 1,
                Err(record) => break record,
            }
        };
        assert_eq!(offered, 1 + QUEUE_BYTES / 1024, "each is a little longer than its excerpt");
        let waiting = Arc::clone(&trace);
        let done = executor::run_to_end(async move {
            let (late, later) = (Arc::clone(&waiting), left.clone());
            executor::spawn(async move {
                late.accept(&later, || false).await;
            })
            .expect("room");
            executor::yield_now().await;
            let first = waiting.take().expect("records");
            waiting.changed.wake_all();
            executor::yield_now().await;
            let second = waiting.take().expect("the one that waited");
            // Without anybody who wants it nobody waits.
            while waiting.offer(5, call(1000)).is_ok() {}
            waiting.end();
            waiting.accept(&left, || false).await;
            (first, second, waiting.take())
        });
        let (first, second, rest) = done.expect("its end");
        let count = |bytes: &[u8]| Reader::default().read(bytes).expect("records").len();
        assert_eq!((count(&first), count(&second), rest), (offered, 1, None));
        assert_eq!(quota.taken(), 0);
        // What is printed at once is cut between records.
        let cut = whole_records(&first, 2 * QUEUE_BYTES / 3);
        assert!(count(&first[..cut]) + count(&first[cut..]) == offered && cut > 0);
        assert_eq!((whole_records(&first, first.len()), whole_records(&first, 10)), (first.len(), 0));
    }

    #[test]
    fn a_process_without_memory_for_it_is_not_traced() {
        let (trace, quota) = (Trace::new(), quota());
        let mut all = quota.charge(0).expect("nothing");
        while all.grow(TRACE_BYTES / 2).is_ok() {}
        assert!(trace.begin(&quota).is_err() && !trace.is_on());
    }
}
