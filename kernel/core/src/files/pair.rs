//! socketpair(2): two channels, one each way. Also how the kernel talks to a program over a descriptor: the other end
//! of a pair may be the kernel's own.

pub(crate) mod record;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::Waker;

use serde::{Deserialize, Serialize};

use super::channel::{Channel, Kind};
use super::readiness::{Level, Ready, until_watched};
use super::serial;
use super::socket_options::Options;
use super::stream::{Shape, Sink, Source, Stream, Taken, copy_from};
use crate::errno::Errno;
use crate::limits::PAIR_BYTES_MAX;
use crate::quota::Quota;
use crate::sync::{LockLevel, Mutex};

/// One end of a pair. Both its directions are closed when this is dropped.
pub(crate) struct PairEnd {
    incoming: Arc<Channel>,
    outgoing: Arc<Channel>,
    /// What can be done with it.
    pub(crate) level: Level,
    /// Whether what is written apart is kept apart.
    pub(crate) kind: PairKind,
    /// Tells it from other ends.
    pub(crate) serial: u64,
    options: Mutex<Options>,
    /// It was told that its peer is not there any more, and has none now. (Datagrams.)
    has_lost_peer: AtomicBool,
}

/// What a pair keeps apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum PairKind {
    /// Nothing (`SOCK_STREAM`).
    Stream,
    /// Messages (`SOCK_SEQPACKET`).
    Sequence,
    /// Messages (`SOCK_DGRAM`).
    Datagrams,
}

/// Two ends that are connected with each other.
///
/// # Errors
/// `ENOMEM`.
pub(crate) fn pair(kind: PairKind, quota: &Arc<Quota>) -> Result<(PairEnd, PairEnd), Errno> {
    let channels = if kind == PairKind::Stream { Kind::Stream } else { Kind::Messages };
    let (one, other) = (Level::new(0), Level::new(0));
    let there = Channel::new(channels, PAIR_BYTES_MAX, (&other, &one), quota)?;
    let back = Channel::new(channels, PAIR_BYTES_MAX, (&one, &other), quota)?;
    let end = |incoming: &Arc<Channel>, outgoing: &Arc<Channel>, level| PairEnd {
        incoming: Arc::clone(incoming),
        outgoing: Arc::clone(outgoing),
        level,
        kind,
        serial: serial(),
        options: Mutex::new(LockLevel::Fact, Options::default()),
        has_lost_peer: AtomicBool::new(false),
    };
    Ok((end(&back, &there, one), end(&there, &back, other)))
}

impl PairEnd {
    /// See [`super::OpenFile::ready`].
    pub(crate) fn ready(&self) -> Ready {
        let bits = self.level.bits();
        let mut ready = Ready::from_bits_truncate(bits);
        let over = bits & Level::LOOK_CLOSER != 0 && ready.contains(Ready::READ_HANG_UP);
        ready.set(Ready::HANG_UP, over);
        ready
    }

    /// See [`super::OpenFile::watch`].
    pub(crate) fn watch(&self, waker: &Waker) -> Result<(), Errno> {
        self.incoming.readers.watch(waker)?;
        self.outgoing.writers.watch(waker)
    }

    /// What was asked of it: told again, and no more.
    pub(crate) fn options(&self) -> Options {
        *self.options.lock()
    }

    /// Asks something else of it.
    pub(crate) fn set_options(&self, options: Options) {
        *self.options.lock() = options;
    }

    /// What lies between this end's writes and the other end.
    pub(crate) fn outgoing(&self) -> &Channel {
        &self.outgoing
    }

    /// What lies between the other end's writes and this end.
    pub(crate) fn incoming(&self) -> &Channel {
        &self.incoming
    }

    /// Bytes that can be read.
    pub(crate) fn held(&self) -> usize {
        // Of datagrams, the next one's, as on Linux.
        if self.kind == PairKind::Datagrams { self.incoming.first_bytes() } else { self.incoming.held() }
    }

    /// Nothing will be read any more, or written, or both.
    pub(crate) fn shut_down(&self, reading: bool, writing: bool) {
        if reading {
            // Whoever waits for bytes finds the end.
            self.incoming.refuse();
        }
        match self.kind {
            _ if !writing => {}
            PairKind::Datagrams => self.outgoing.stop_writer(),
            PairKind::Stream | PairKind::Sequence => self.outgoing.close_writer(),
        }
    }

    /// Takes the error that waits to be told: the peer went and left unread what was sent to it.
    pub(crate) fn take_error(&self) -> Option<Errno> {
        (self.kind != PairKind::Datagrams && self.outgoing.take_lost()).then_some(Errno::ECONNRESET)
    }

    /// Why a datagram has nobody to go to.
    fn refusal(&self) -> Errno {
        if self.has_lost_peer.swap(true, Ordering::Relaxed) {
            return Errno::ENOTCONN;
        }
        // What the peer sent before goes with it, as on Linux.
        self.incoming.clear();
        Errno::ECONNREFUSED
    }

    /// Reads what there is, up to `limit` bytes; waits until there is something. Nothing at the end. For the kernel's
    /// own end; dropped while it waits it has read nothing.
    #[cfg_attr(not(test), expect(dead_code, reason = "for servers in the kernel"))]
    pub(crate) async fn read(&self, limit: usize) -> Vec<u8> {
        let attempt = || {
            let mut bytes = Vec::new();
            let taken = self.incoming.take(limit, false, &mut |part| {
                if bytes.try_reserve(part.len()).is_err() {
                    return 0;
                }
                bytes.extend_from_slice(part);
                part.len()
            });
            match taken {
                // Without memory it is tried again at the next change.
                Ok(Taken { copied: 0, length }) if length > 0 => None,
                Ok(_) => Some(bytes),
                Err(_) => None,
            }
        };
        // There is one reader, for which there always is room.
        until_watched(|waker| self.incoming.readers.watch(waker), attempt).await.unwrap_or_default()
    }

    /// Writes all bytes; waits as often as there is no room. Dropped while it waits, it may have written some.
    ///
    /// # Errors
    /// `EPIPE`: nobody reads them.
    #[cfg_attr(not(test), expect(dead_code, reason = "for servers in the kernel"))]
    pub(crate) async fn write(&self, mut bytes: &[u8]) -> Result<(), Errno> {
        while !bytes.is_empty() {
            let attempt = || match self.outgoing.put(bytes.len(), &mut copy_from(bytes)) {
                Err(Errno::EAGAIN) => None,
                other => Some(other),
            };
            let count = until_watched(|waker| self.outgoing.writers.watch(waker), attempt).await??;
            bytes = &bytes[count..];
        }
        Ok(())
    }
}

impl Stream for PairEnd {
    fn take(&self, limit: usize, peek: bool, sink: &mut Sink<'_>) -> Result<Taken, Errno> {
        // Messages wait behind the error, bytes before it.
        if (self.kind == PairKind::Sequence || self.incoming.is_over())
            && let Some(errno) = self.take_error()
        {
            return Err(errno);
        }
        self.incoming.take(limit, peek, sink)
    }

    fn put(&self, length: usize, source: &mut Source<'_>) -> Result<usize, Errno> {
        if self.kind == PairKind::Sequence
            && let Some(errno) = self.take_error()
        {
            return Err(errno);
        }
        match self.outgoing.put(length, source) {
            Err(Errno::EPIPE) if self.kind == PairKind::Datagrams && !self.outgoing.is_writer_stopped() => {
                // The message is read before it is looked whether anybody takes it, as on Linux.
                if !can_be_read(length, source) {
                    return Ok(0);
                }
                Err(if self.outgoing.is_reader_closed() { self.refusal() } else { Errno::EPIPE })
            }
            result => result,
        }
    }

    fn shape(&self) -> Shape {
        self.outgoing.shape()
    }
}

/// Whether there are as many bytes as that.
fn can_be_read(length: usize, source: &mut Source<'_>) -> bool {
    let mut left = length;
    let mut bytes = [0; 256];
    while left > 0 {
        let part = &mut bytes[..left.min(256)];
        if source(part) < part.len() {
            return false;
        }
        left -= part.len();
    }
    // They were the program's.
    bytes.fill(0);
    true
}

impl Drop for PairEnd {
    fn drop(&mut self) {
        if self.kind == PairKind::Datagrams {
            // Nobody is told that there was something.
            self.incoming.clear();
        }
        self.incoming.close_reader();
        // Nobody who waits for datagrams is told that no more will come, as on Linux.
        if self.kind != PairKind::Datagrams {
            self.outgoing.close_writer();
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::sync::Arc;
    use alloc::vec;
    use alloc::vec::Vec;

    use super::super::stream::{Stream, Taken, copy_from};
    use super::{PAIR_BYTES_MAX, PairEnd, PairKind, Ready, pair};
    use crate::errno::Errno;
    use crate::executor;
    use crate::limits::CHANNEL_MESSAGES_MAX;
    use crate::quota::tests::quota;

    fn put(end: &PairEnd, bytes: &[u8]) -> Result<usize, Errno> {
        end.put(bytes.len(), &mut copy_from(bytes))
    }

    fn read(end: &PairEnd, limit: usize) -> Result<(Vec<u8>, usize), Errno> {
        let mut bytes = Vec::new();
        end.take(limit, false, &mut |part| {
            bytes.extend_from_slice(part);
            part.len()
        })
        .map(|taken| (bytes, taken.length))
    }

    #[test]
    fn both_directions_are_apart() {
        let (one, other) = pair(PairKind::Stream, &quota()).expect("memory");
        assert_eq!(one.ready(), Ready::WRITE);
        assert_eq!(put(&one, b"ab"), Ok(2));
        assert_eq!(put(&one, b"c"), Ok(1));
        assert_eq!((one.held(), other.held()), (0, 3));
        assert_eq!(other.ready(), Ready::READ | Ready::WRITE);
        assert_eq!(read(&other, 9), Ok((b"abc".to_vec(), 3)));
        assert_eq!(read(&other, 9), Err(Errno::EAGAIN));
    }

    #[test]
    fn messages_stay_apart_and_are_cut_to_what_is_asked_for() {
        let (one, other) = pair(PairKind::Datagrams, &quota()).expect("memory");
        for message in [&b"abc"[..], b"", b"defg"] {
            assert_eq!(put(&one, message), Ok(message.len()));
        }
        assert_eq!(other.take(2, true, &mut |part| part.len()), Ok(Taken { copied: 2, length: 3 }));
        assert_eq!(read(&other, 2), Ok((b"ab".to_vec(), 3)));
        assert_eq!(read(&other, 9), Ok((Vec::new(), 0)));
        assert_eq!(read(&other, 9), Ok((b"defg".to_vec(), 4)));
        assert_eq!(put(&one, &vec![0; PAIR_BYTES_MAX + 1]), Err(Errno::EMSGSIZE));
        assert_eq!(put(&one, &vec![0; PAIR_BYTES_MAX]), Ok(PAIR_BYTES_MAX));
        assert_eq!(put(&one, b"x"), Err(Errno::EAGAIN));
        assert_eq!(read(&other, 0), Ok((Vec::new(), PAIR_BYTES_MAX)));
        for _ in 0..CHANNEL_MESSAGES_MAX {
            assert_eq!(put(&one, b""), Ok(0));
        }
        assert_eq!(put(&one, b""), Err(Errno::EAGAIN));
        assert_eq!(one.ready(), Ready::empty());
    }

    #[test]
    fn an_end_that_goes_hangs_up() {
        let (one, other) = pair(PairKind::Stream, &quota()).expect("memory");
        assert_eq!(put(&one, b"last"), Ok(4));
        drop(one);
        assert_eq!(other.ready(), Ready::READ | Ready::WRITE | Ready::READ_HANG_UP | Ready::HANG_UP);
        assert_eq!(read(&other, 9), Ok((b"last".to_vec(), 4)));
        assert_eq!(read(&other, 9), Ok((Vec::new(), 0)));
        assert_eq!(put(&other, b"x"), Err(Errno::EPIPE));
    }

    #[test]
    fn shutting_down_ends_one_direction() {
        let (one, other) = pair(PairKind::Stream, &quota()).expect("memory");
        one.shut_down(false, true);
        assert_eq!(put(&one, b"x"), Err(Errno::EPIPE));
        assert_eq!(other.ready(), Ready::READ | Ready::WRITE | Ready::READ_HANG_UP);
        assert_eq!(read(&other, 9), Ok((Vec::new(), 0)));
        assert_eq!(put(&other, b"y"), Ok(1));
        assert_eq!(read(&one, 9), Ok((b"y".to_vec(), 1)));
        one.shut_down(true, false);
        assert_eq!(put(&other, b"z"), Err(Errno::EPIPE));
        assert_eq!(read(&one, 9), Ok((Vec::new(), 0)));
    }

    #[test]
    fn the_kernels_end_waits_and_loses_nothing_when_dropped() {
        let (kernel, program) = pair(PairKind::Stream, &quota()).expect("memory");
        let program = Arc::new(program);
        let writer = Arc::clone(&program);
        let sent = executor::run_to_end(async move {
            let gave_up = executor::timeout(1000, kernel.read(3)).await;
            assert!(gave_up.is_err());
            assert_eq!(put(&program, b"hello"), Ok(5));
            let (first, rest) = (kernel.read(3).await, kernel.read(9).await);
            assert_eq!((&*first, &*rest), (&b"hel"[..], &b"lo"[..]));
            // More than there is room for: the program has to take some meanwhile.
            let much = vec![7; PAIR_BYTES_MAX + 5];
            let spawned = executor::spawn(async move {
                executor::sleep(1000).await;
                assert_eq!(read(&writer, 10).map(|(bytes, _)| bytes.len()), Ok(10));
            });
            assert!(spawned.is_ok());
            let written = kernel.write(&much).await;
            drop(program);
            (written, kernel.write(b"x").await, kernel.read(1).await)
        });
        assert_eq!(sent, Ok((Ok(()), Err(Errno::EPIPE), Vec::new())));
    }
}
