//! A recording of a link: the switch puts frames into a queue, and a thread of its own opens the file and writes them.
//! A disk that is slow costs frames in the recording, and one that does not answer costs the recording: the switch
//! waits for neither.
//!
//! Each record goes to the system in one write, so the file is whole whenever this process is killed.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::command::RecordingCounters;
use crate::limits::RECORDING_QUEUE_BYTES_MAX;
use crate::pcap::{HEADER_BYTES, RECORD_HEADER_BYTES, add_record, header, split_record};

/// Why a recording did not begin, or ended by itself.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordingError {
    #[error("the recording reached its size of {0} bytes")]
    Full(u64),
    #[error("cannot write the recording: {0}")]
    Io(#[from] io::Error),
    #[error("another recording is being made there")]
    InUse,
}

/// The switch's end of it. When it is dropped, the rest is written and the file closed.
#[derive(Debug)]
pub(crate) struct Recording {
    /// Which one it is.
    pub(crate) id: u64,
    queue: Arc<Queue>,
    counters: RecordingCounters,
    bytes_max: u64,
}

/// What is to be written.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Whole records.
    records: Vec<u8>,
    /// No more will come.
    is_closed: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for records and puts them into `records`, which is empty; false: there will be none.
    fn take(&self, records: &mut Vec<u8>) -> bool {
        let waiting = self.lock();
        let is_idle = |waiting: &mut Waiting| waiting.records.is_empty() && !waiting.is_closed;
        let mut waiting = self.changed.wait_while(waiting, is_idle).unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(records, &mut waiting.records);
        !records.is_empty()
    }
}

impl Recording {
    /// A recording of this number, of at most so many bytes, and the queue that [`write`] is to write.
    pub(crate) fn new(id: u64, bytes_max: u64) -> (Self, Arc<Queue>) {
        let queue = Arc::new(Queue::default());
        let counters = RecordingCounters { frames: 0, bytes: HEADER_BYTES as u64, missed: 0 };
        (Self { id, queue: Arc::clone(&queue), counters, bytes_max }, queue)
    }

    /// What is recorded so far.
    pub(crate) fn counters(&self) -> RecordingCounters {
        self.counters
    }

    /// Adds `frame` with the time of day `time_ns` since 1970, or counts it as missed if the disk is too slow.
    ///
    /// # Errors
    /// If the recording has its size: it is to be ended.
    pub(crate) fn add(&mut self, frame: &[u8], time_ns: u64) -> Result<(), RecordingError> {
        let record_bytes = RECORD_HEADER_BYTES + frame.len();
        if self.counters.bytes + record_bytes as u64 > self.bytes_max {
            return Err(RecordingError::Full(self.bytes_max));
        }
        let mut waiting = self.queue.lock();
        if waiting.records.len() + record_bytes > RECORDING_QUEUE_BYTES_MAX {
            self.counters.missed += 1;
            return Ok(());
        }
        let was_empty = waiting.records.is_empty();
        add_record(&mut waiting.records, frame, time_ns);
        drop(waiting);
        if was_empty {
            self.queue.changed.notify_one();
        }
        self.counters.frames += 1;
        self.counters.bytes += record_bytes as u64;
        Ok(())
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.queue.lock().is_closed = true;
        self.queue.changed.notify_one();
    }
}

/// Makes the file, in which nobody else records; one that is there is replaced.
pub(crate) fn open(path: &Path) -> Result<File, RecordingError> {
    // Not blocking: nobody may ever read a pipe.
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    // Emptied only once it is known to be ours.
    let options = || File::options().write(true).create(true).truncate(false).mode(0o600).clone();
    let mut file = options().custom_flags(nonblocking).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "give a path of an ordinary file").into());
    }
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => return Err(RecordingError::InUse),
        locked => locked.map_err(io::Error::from)?,
    }
    file.set_len(0)?;
    file.write_all(&header())?;
    Ok(file)
}

/// Writes what comes through the queue until it is closed and empty.
pub(crate) fn write(mut file: &File, queue: &Queue) -> Result<(), RecordingError> {
    let (mut bytes, mut batch) = (HEADER_BYTES as u64, Vec::new());
    while queue.take(&mut batch) {
        let mut rest = &batch[..];
        while let Some((record, behind)) = split_record(rest) {
            match file.write(record) {
                Ok(count) if count == record.len() => bytes += count as u64,
                written => {
                    // The disk is full, as a rule. Half a record would make the file unreadable.
                    file.set_len(bytes)?;
                    return Err(written.err().unwrap_or_else(|| io::ErrorKind::StorageFull.into()).into());
                }
            }
            rest = behind;
        }
        batch.clear();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{HEADER_BYTES, RECORDING_QUEUE_BYTES_MAX, Recording, RecordingError, open, write};

    #[test]
    fn a_slow_disk_costs_frames_and_no_more_memory() {
        let (mut recording, queue) = Recording::new(1, u64::MAX);
        let frame = [7; 9000];
        let fit = RECORDING_QUEUE_BYTES_MAX / (frame.len() + 16);
        (0..fit + 3).for_each(|_| recording.add(&frame, 1).expect("room"));
        let counters = recording.counters();
        assert_eq!((counters.frames, counters.missed), (fit as u64, 3));
        // What was not missed is written, and then there is room again.
        let directory = tempfile::tempdir().expect("directory");
        let file = open(&directory.path().join("x")).expect("opened");
        let mut batch = Vec::new();
        assert!(queue.take(&mut batch));
        assert_eq!(batch.len(), fit * (frame.len() + 16));
        recording.add(&frame, 1).expect("room");
        drop(recording);
        write(&file, &queue).expect("written");
        assert_eq!(file.metadata().expect("there").len(), (HEADER_BYTES + 16 + frame.len()) as u64);
    }

    #[test]
    fn a_file_is_recorded_to_once_at_a_time_whatever_it_is_called() {
        let directory = tempfile::tempdir().expect("directory");
        let (path, alias) = (directory.path().join("x"), directory.path().join("y"));
        std::fs::write(&path, "earlier").expect("written");
        let first = open(&path).expect("opened");
        std::fs::hard_link(&path, &alias).expect("linked");
        assert!(matches!(open(&alias), Err(RecordingError::InUse)));
        assert_eq!(std::fs::read(&path).expect("there").len(), HEADER_BYTES);
        drop(first);
        open(&alias).expect("free again");
    }
}
