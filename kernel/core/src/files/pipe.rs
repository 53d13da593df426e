//! pipe(2): a channel with a descriptor for each side.

use alloc::sync::Arc;
use core::task::Waker;

use serde::{Deserialize, Serialize};

use super::channel::{Channel, Kind};
use super::readiness::Level;
use super::record::{MadeChannel, Number};
use super::serial;
use super::stream::{Sink, Source, Stream, Taken};
use crate::errno::Errno;
use crate::limits::PIPE_BYTES_MAX;
use crate::quota::Quota;

/// One end of a pipe. Its side of the channel is closed when this is dropped.
pub(crate) struct PipeEnd {
    channel: Arc<Channel>,
    side: Side,
    /// What can be done with it.
    pub(crate) level: Level,
    /// Tells it from other pipes.
    pub(crate) serial: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Side {
    Reads,
    Writes,
}

/// One end of a pipe as data.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PipeRecord {
    channel: Number,
    side: Side,
    serial: u64,
}

impl PipeRecord {
    /// The number of its channel, and whether it is the end that reads.
    pub(crate) fn side(&self) -> (Number, bool) {
        (self.channel, self.side == Side::Reads)
    }
}

/// A pipe: the end that is read and the one that is written. It may keep apart what was written apart.
///
/// # Errors
/// `ENOMEM`.
pub(crate) fn pipe(packets: bool, quota: &Arc<Quota>) -> Result<(PipeEnd, PipeEnd), Errno> {
    let kind = if packets { Kind::Packets } else { Kind::Pipe };
    let (reader, writer) = (Level::new(0), Level::new(0));
    let channel = Channel::new(kind, PIPE_BYTES_MAX, (&reader, &writer), quota)?;
    let serial = serial();
    let reads = PipeEnd { channel: Arc::clone(&channel), side: Side::Reads, level: reader, serial };
    Ok((reads, PipeEnd { channel, side: Side::Writes, level: writer, serial }))
}

impl PipeEnd {
    /// See [`super::OpenFile::watch`].
    pub(crate) fn watch(&self, waker: &Waker) -> Result<(), Errno> {
        match self.side {
            Side::Reads => self.channel.readers.watch(waker),
            Side::Writes => self.channel.writers.watch(waker),
        }
    }

    /// What lies between the ends.
    pub(crate) fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Whether what is written apart is kept apart.
    pub(crate) fn keeps_apart(&self) -> bool {
        self.channel.keeps_apart()
    }

    /// How many bytes it holds at most.
    pub(crate) fn limit(&self) -> usize {
        self.channel.limit()
    }

    /// Has it hold so many.
    ///
    /// # Errors
    /// `EBUSY`: more are in it.
    pub(crate) fn set_limit(&self, bytes: usize) -> Result<(), Errno> {
        self.channel.set_limit(bytes)
    }

    /// Writes it down; `number` says which channel that is.
    pub(crate) fn record(&self, mut number: impl FnMut(&Arc<Channel>) -> Number) -> PipeRecord {
        PipeRecord { channel: number(&self.channel), side: self.side, serial: self.serial }
    }

    /// Makes it again.
    pub(super) fn again(record: &PipeRecord, made: &MadeChannel) -> Self {
        let level = match record.side {
            Side::Reads => &made.reader,
            Side::Writes => &made.writer,
        };
        Self { channel: Arc::clone(&made.channel), side: record.side, level: level.clone(), serial: record.serial }
    }

    /// Bytes that are in the pipe.
    pub(crate) fn held(&self) -> usize {
        self.channel.held()
    }
}

impl Stream for PipeEnd {
    fn take(&self, limit: usize, peek: bool, sink: &mut Sink<'_>) -> Result<Taken, Errno> {
        self.channel.take(limit, peek, sink)
    }

    fn put(&self, length: usize, source: &mut Source<'_>) -> Result<usize, Errno> {
        self.channel.put(length, source)
    }
}

impl Drop for PipeEnd {
    fn drop(&mut self) {
        match self.side {
            Side::Reads => self.channel.close_reader(),
            Side::Writes => self.channel.close_writer(),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::super::readiness::Ready;
    use super::super::stream::{Stream, Taken, copy_from};
    use super::{Channel, PIPE_BYTES_MAX, PipeEnd, pipe};
    use crate::errno::Errno;
    use crate::limits::CHANNEL_BYTES_MIN;
    use crate::quota::tests::quota;

    fn ready(end: &PipeEnd) -> Ready {
        Ready::from_bits(end.level.bits()).expect("nothing else")
    }

    fn put(end: &PipeEnd, bytes: &[u8]) -> Result<usize, Errno> {
        end.put(bytes.len(), &mut copy_from(bytes))
    }

    fn read(end: &PipeEnd, limit: usize) -> Result<Vec<u8>, Errno> {
        let mut bytes = Vec::new();
        end.take(limit, false, &mut |part| {
            bytes.extend_from_slice(part);
            part.len()
        })
        .map(|_| bytes)
    }

    #[test]
    fn short_writes_are_in_one_piece_and_long_ones_in_parts() {
        let (reads, writes) = pipe(false, &quota()).expect("memory");
        assert_eq!(read(&reads, 1), Err(Errno::EAGAIN));
        assert_eq!(put(&writes, &vec![1; PIPE_BYTES_MAX - 10]), Ok(PIPE_BYTES_MAX - 10));
        assert_eq!(ready(&writes), Ready::empty());
        assert_eq!(put(&writes, &[2; 11]), Err(Errno::EAGAIN));
        assert_eq!(put(&writes, &[2; CHANNEL_BYTES_MIN + 1]), Ok(10));
        assert_eq!(put(&writes, &[2; CHANNEL_BYTES_MIN + 1]), Err(Errno::EAGAIN));
        assert_eq!(reads.held(), PIPE_BYTES_MAX);
        assert_eq!(read(&reads, CHANNEL_BYTES_MIN).map(|bytes| bytes.len()), Ok(CHANNEL_BYTES_MIN));
        assert_eq!(ready(&writes), Ready::WRITE);
        assert_eq!(put(&writes, &[3; CHANNEL_BYTES_MIN]), Ok(CHANNEL_BYTES_MIN));
    }

    #[test]
    fn packets_stay_apart_and_are_moved_one_by_one() {
        let (reads, writes) = pipe(true, &quota()).expect("memory");
        for packet in [&b"abc"[..], b"defg"] {
            assert_eq!(put(&writes, packet), Ok(packet.len()));
        }
        assert_eq!(read(&reads, 2).as_deref(), Ok(&b"ab"[..]));
        let (into, writes_into) = pipe(false, &quota()).expect("memory");
        assert_eq!(reads.channel().transfer(writes_into.channel(), 3, true), Ok(3));
        assert_eq!(reads.channel().transfer(writes_into.channel(), 3, false), Ok(3));
        assert_eq!(reads.channel().transfer(writes_into.channel(), 3, false), Ok(1));
        assert_eq!(reads.channel().transfer(writes_into.channel(), 3, false), Err(Errno::EAGAIN));
        assert_eq!(reads.channel().transfer(writes.channel(), 3, false), Err(Errno::EINVAL));
        assert_eq!(read(&into, 9).as_deref(), Ok(&b"defdefg"[..]));
        assert_eq!(put(&writes, &[1; CHANNEL_BYTES_MIN + 1]), Ok(CHANNEL_BYTES_MIN));
        drop(into);
        assert_eq!(reads.channel().transfer(writes_into.channel(), 3, false), Err(Errno::EPIPE));
        drop(writes);
        assert_eq!(read(&reads, 2 * CHANNEL_BYTES_MIN).map(|bytes| bytes.len()), Ok(CHANNEL_BYTES_MIN));
        assert_eq!(read(&reads, 9).as_deref(), Ok(&b""[..]));
    }

    #[test]
    fn what_a_sink_does_not_take_stays() {
        let (reads, writes) = pipe(false, &quota()).expect("memory");
        assert_eq!(put(&writes, b"abcdef"), Ok(6));
        let two = reads.take(6, false, &mut |_| 2);
        assert_eq!(two, Ok(Taken { copied: 2, length: 6 }));
        assert_eq!(reads.take(3, true, &mut |part| part.len()), Ok(Taken { copied: 3, length: 4 }));
        assert_eq!(read(&reads, 100).as_deref(), Ok(&b"cdef"[..]));
    }

    #[test]
    fn the_ends_tell_each_other_when_they_go() {
        let (reads, writes) = pipe(false, &quota()).expect("memory");
        assert_eq!(put(&writes, b"x"), Ok(1));
        drop(writes);
        assert_eq!(ready(&reads), Ready::READ | Ready::HANG_UP);
        assert_eq!(read(&reads, 10).as_deref(), Ok(&b"x"[..]));
        assert_eq!(ready(&reads), Ready::HANG_UP);
        assert_eq!(read(&reads, 10).as_deref(), Ok(&b""[..]));
        let (reads, writes) = pipe(false, &quota()).expect("memory");
        drop(reads);
        assert_eq!(ready(&writes), Ready::WRITE | Ready::ERROR);
        assert_eq!(put(&writes, b"x"), Err(Errno::EPIPE));
    }

    #[test]
    fn a_pipe_without_memory_stays_small_and_says_so() {
        let quota = quota();
        let (reads, writes) = pipe(false, &quota).expect("memory");
        let mut rest = quota.charge(0).expect("nothing");
        let mut step = 1 << 24;
        while step > 0 {
            if rest.grow(step).is_err() {
                step /= 2;
            }
        }
        assert_eq!(pipe(false, &quota).err(), Some(Errno::ENOMEM));
        assert_eq!(put(&writes, &[1; CHANNEL_BYTES_MIN - 1]), Ok(CHANNEL_BYTES_MIN - 1));
        assert_eq!(put(&writes, &[1; 2]), Err(Errno::EAGAIN));
        assert_eq!(ready(&writes), Ready::empty());
        drop(rest);
        assert_eq!(quota.taken(), CHANNEL_BYTES_MIN + Channel::bytes(0));
        drop((reads, writes));
        assert_eq!(quota.taken(), 0);
    }

    proptest! {
        #[test]
        fn bytes_come_out_as_they_went_in(steps in proptest::collection::vec((any::<bool>(), 0_usize..9000), 1..60)) {
            let (reads, writes) = pipe(false, &quota()).expect("memory");
            let (mut sent, mut received) = (0_u32, 0_u32);
            for (writing, length) in steps {
                if writing {
                    let bytes: Vec<u8> = (0..length as u32).map(|index| ((sent + index) % 251) as u8).collect();
                    match put(&writes, &bytes) {
                        Ok(count) => {
                            prop_assert!(count == length || length > CHANNEL_BYTES_MIN);
                            sent += count as u32;
                        }
                        Err(errno) => prop_assert_eq!(errno, Errno::EAGAIN),
                    }
                } else if let Ok(bytes) = read(&reads, length) {
                    for byte in bytes {
                        prop_assert_eq!(byte, (received % 251) as u8);
                        received += 1;
                    }
                }
                prop_assert_eq!(reads.held() as u32, sent - received);
            }
        }
    }
}
