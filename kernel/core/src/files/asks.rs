//! Checkpoints that programs ask for: `/proc/coppice/checkpoint`. Writing to it asks for one of the whole job; reading
//! says how many this node's ranks have asked for and how many were made; and it can be polled for that to change.
//!
//! What is read from the beginning is what is the case then, and what is read behind that is the rest of the same line.
//! The file is ready to be read while that line would be another one.

use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::Waker;

use serde::{Deserialize, Serialize};

use super::buffer::part;
use super::readiness::{Ready, Watchers};
use crate::errno::Errno;
use crate::quota::{Quota, shared_bytes};
use crate::sync::{LockLevel, Mutex};

/// How many checkpoints of a job there were, as far as its node knows. They go on in a job that goes on from one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counts {
    /// That ranks of the node have asked for.
    pub(crate) asked: u64,
    /// That were made, whoever asked.
    pub(crate) made: u64,
}

#[derive(Debug, Default)]
struct State {
    counts: Counts,
    /// Those of the job that this one goes on from.
    made_before: u64,
    /// One was asked for, and it was not said that that is over: whoever asks now asks for the same.
    is_open: bool,
}

/// What is told that one is asked for.
type Told = Arc<dyn Fn() + Send + Sync>;

/// What that takes.
const TOLD_BYTES: usize = shared_bytes::<[usize; 2]>();

/// What a node knows of the checkpoints of a job.
pub(crate) struct Asks {
    state: Mutex<State>,
    /// Told when something of it changes.
    watchers: Watchers,
    told: Mutex<Option<Told>>,
}

impl Asks {
    /// What it takes of the heap beside itself, bytes.
    pub(crate) const BYTES: usize = Watchers::BYTES_FREE + TOLD_BYTES;

    /// None were asked for or made.
    pub(crate) fn new(quota: &Arc<Quota>) -> Self {
        Self {
            state: Mutex::new(LockLevel::Fact, State::default()),
            watchers: Watchers::new(quota),
            told: Mutex::new(LockLevel::Fact, None),
        }
    }

    /// This is to be told when one is asked for, if nothing is yet.
    pub(crate) fn say(&self, told: impl Fn() + Send + Sync + 'static) {
        let told: Told = Arc::new(told);
        self.told.lock().get_or_insert(told);
    }

    /// A rank asks for one.
    pub(crate) fn ask(&self) {
        {
            let mut state = self.state.lock();
            if state.is_open {
                return;
            }
            state.is_open = true;
            state.counts.asked += 1;
        }
        self.watchers.notify();
        let told = self.told.lock().clone();
        if let Some(told) = told {
            told();
        }
    }

    /// So many of the job were made since it began, and what was asked for is over.
    pub(crate) fn made(&self, made: u64) {
        {
            let mut state = self.state.lock();
            let made = state.made_before.saturating_add(made);
            // Never fewer, in whatever order that is told.
            state.counts.made = state.counts.made.max(made);
            state.is_open = false;
        }
        self.watchers.notify();
    }

    /// The job goes on from a checkpoint in which it was so: that one was made.
    pub(crate) fn go_on(&self, then: Counts) {
        let mut state = self.state.lock();
        let made = then.made.saturating_add(1);
        *state = State { counts: Counts { made, ..then }, made_before: made, is_open: false };
    }

    /// How many there were.
    pub(crate) fn counts(&self) -> Counts {
        self.state.lock().counts
    }
}

/// The file, opened.
pub(crate) struct AskFile {
    asks: Arc<Asks>,
    /// What was read from it last.
    read: Mutex<Option<Counts>>,
}

impl AskFile {
    /// One that was not read yet, so that it is ready. It takes no more than its open file.
    pub(crate) fn new(asks: &Arc<Asks>) -> Self {
        Self { asks: Arc::clone(asks), read: Mutex::new(LockLevel::Fact, None) }
    }

    /// Asks for a checkpoint.
    pub(crate) fn ask(&self) {
        self.asks.ask();
    }

    /// Up to `length` bytes of its line from `offset` on.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>, Errno> {
        let now = self.asks.counts();
        let counts = {
            let mut read = self.read.lock();
            if offset == 0 { *read.insert(now) } else { read.unwrap_or(now) }
        };
        part(&line(counts), offset, length)
    }

    /// Length of its line as it is now, bytes.
    pub(crate) fn length(&self) -> u64 {
        line(self.asks.counts()).len() as u64
    }

    /// See [`super::OpenFile::ready`].
    pub(crate) fn ready(&self) -> Ready {
        let now = self.asks.counts();
        if *self.read.lock() == Some(now) { Ready::WRITE } else { Ready::NEVER_WAITS }
    }

    /// See [`super::OpenFile::watch`].
    pub(crate) fn watch(&self, waker: &Waker) -> Result<(), Errno> {
        self.asks.watchers.watch(waker)
    }
}

fn line(Counts { asked, made }: Counts) -> Vec<u8> {
    format!("asked {asked} made {made}\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use alloc::sync::Arc;
    use core::sync::atomic::{AtomicU32, Ordering};

    use super::{AskFile, Asks, Counts};
    use crate::files::readiness::Ready;
    use crate::quota::tests::quota;
    use crate::testing::WakeCounter;

    fn line(file: &AskFile) -> String {
        String::from_utf8(file.read(0, 100).expect("memory")).expect("text")
    }

    #[test]
    fn who_asks_before_the_answer_asks_for_the_same() {
        let asks = Arc::new(Asks::new(&quota()));
        let told = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&told);
        asks.say(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        asks.say(|| panic!("the first is told"));
        let (one, other) = (AskFile::new(&asks), AskFile::new(&asks));
        one.ask();
        other.ask();
        assert_eq!((line(&one).as_str(), told.load(Ordering::Relaxed)), ("asked 1 made 0\n", 1));
        // None was made, but that is over.
        asks.made(0);
        other.ask();
        assert_eq!((line(&one).as_str(), told.load(Ordering::Relaxed)), ("asked 2 made 0\n", 2));
        asks.made(2);
        asks.made(1);
        assert_eq!(line(&one), "asked 2 made 2\n");
    }

    #[test]
    fn it_is_ready_while_its_line_is_another() {
        let asks = Arc::new(Asks::new(&quota()));
        let file = AskFile::new(&asks);
        let (counter, waker) = WakeCounter::new();
        assert_eq!(file.ready(), Ready::NEVER_WAITS, "nothing was read yet");
        assert_eq!(line(&file), "asked 0 made 0\n");
        file.watch(&waker).expect("memory");
        assert_eq!(file.ready(), Ready::WRITE);
        asks.made(1);
        assert_eq!((file.ready(), counter.count()), (Ready::NEVER_WAITS, 1));
        assert_eq!(line(&file), "asked 0 made 1\n");
        file.watch(&waker).expect("memory");
        // Over, and nothing else.
        asks.made(1);
        assert_eq!(file.ready(), Ready::WRITE);
    }

    #[test]
    fn what_is_read_piece_by_piece_is_one_line() {
        let asks = Arc::new(Asks::new(&quota()));
        let file = AskFile::new(&asks);
        assert_eq!(file.read(0, 6).as_deref(), Ok(&b"asked "[..]));
        asks.made(7);
        assert_eq!(file.read(6, 100).as_deref(), Ok(&b"0 made 0\n"[..]));
        for end in [15, 16, u64::MAX] {
            assert_eq!(file.read(end, 100).as_deref(), Ok(&b""[..]));
        }
        assert_eq!(file.ready(), Ready::NEVER_WAITS);
        assert_eq!((line(&file).as_str(), file.length()), ("asked 0 made 7\n", 15));
    }

    #[test]
    fn a_job_that_goes_on_counts_the_checkpoint_it_goes_on_from() {
        let asks = Arc::new(Asks::new(&quota()));
        asks.go_on(Counts { asked: 3, made: 2 });
        let file = AskFile::new(&asks);
        assert_eq!(line(&file), "asked 3 made 3\n");
        file.ask();
        asks.made(1);
        assert_eq!(line(&file), "asked 4 made 4\n");
    }
}
