//! Recordings of a link (`coppice link --pcap`): the frames of one that is whole, and of one that goes on.

use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use smoltcp::wire::{EthernetFrame, EthernetProtocol, IpProtocol, Ipv4Packet, TcpPacket};

use crate::Cluster;

const HEADER_BYTES: usize = 24;
const RECORD_HEADER_BYTES: usize = 16;

/// A frame, and when it was recorded.
type Recorded = (SystemTime, Vec<u8>);

/// The whole frames of a recording, and whether there is nothing else in it.
///
/// # Panics
/// If it is none: nanoseconds, version 2.4, Ethernet.
#[track_caller]
fn read(path: &Path) -> (Vec<Recorded>, bool) {
    let bytes = std::fs::read(path).expect("a recording");
    let number =
        |at: usize| bytes.get(at..).and_then(|rest| rest.first_chunk()).map(|number| u32::from_le_bytes(*number));
    assert_eq!((number(0), number(4), number(20)), (Some(0xa1b2_3c4d), Some(0x0004_0002), Some(1)));
    let (mut at, mut frames) = (HEADER_BYTES, Vec::new());
    while let Some(length) = number(at + 8) {
        assert_eq!(number(at + 12), Some(length), "no frame is cut short");
        let begin = at + RECORD_HEADER_BYTES;
        let Some(frame) = bytes.get(begin..begin + length as usize) else { break };
        let time = number(at).zip(number(at + 4)).map(|(seconds, ns)| Duration::new(seconds.into(), ns));
        frames.push((UNIX_EPOCH + time.expect("it is before the length"), frame.to_vec()));
        at = begin + frame.len();
    }
    (frames, at == bytes.len())
}

/// The frames of a recording that has ended.
///
/// # Panics
/// If it is not whole.
#[must_use]
#[track_caller]
pub fn frames(path: &Path) -> Vec<Vec<u8>> {
    let (frames, is_whole) = read(path);
    assert!(is_whole, "the last record is not whole");
    frames.into_iter().map(|(_, frame)| frame).collect()
}

/// What a frame carries, if that is some bytes of a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// Port that it comes from.
    pub from_port: u16,
    /// Port that it goes to.
    pub to_port: u16,
    /// The bytes, at least one.
    pub payload: &'a [u8],
}

impl<'a> Segment<'a> {
    /// What a frame carries.
    #[must_use]
    pub fn of(frame: &'a [u8]) -> Option<Self> {
        let frame = EthernetFrame::new_checked(frame).ok()?;
        let is_ipv4 = frame.ethertype() == EthernetProtocol::Ipv4;
        let packet = Ipv4Packet::new_checked(frame.payload()).ok().filter(|_| is_ipv4)?;
        let is_tcp = packet.next_header() == IpProtocol::Tcp;
        let segment = TcpPacket::new_checked(packet.payload()).ok().filter(|_| is_tcp)?;
        let payload = Some(segment.payload()).filter(|payload| !payload.is_empty())?;
        Some(Self { from_port: segment.src_port(), to_port: segment.dst_port(), payload })
    }
}

/// A recording of a node's link that goes on.
pub struct Recording<'a> {
    cluster: &'a Cluster,
    node: usize,
    path: PathBuf,
}

impl<'a> Recording<'a> {
    /// Begins it.
    ///
    /// # Panics
    /// If it does not begin.
    #[must_use]
    #[track_caller]
    pub fn of(cluster: &'a Cluster, node: usize) -> Self {
        let name = format!("link-{node}.pcap");
        let _ = cluster.coppice(&["link", &node.to_string(), "--pcap", &name]).success();
        Self { cluster, node, path: cluster.root().join(name) }
    }

    /// Waits until so many frames of a kind were recorded; when the last of these was. Not if a process ends before.
    ///
    /// # Panics
    /// If neither is so within the limit.
    #[track_caller]
    pub fn wait_for(
        &self,
        limit: Duration,
        until: &Child,
        count: usize,
        is_one: impl Fn(&[u8]) -> bool,
    ) -> Option<SystemTime> {
        let process =
            pidfd_open(Pid::from_child(until), PidfdFlags::empty()).expect("it is there until it is waited for");
        let changes = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK).expect("inotify");
        inotify::add_watch(&changes, &self.path, inotify::WatchFlags::MODIFY).expect("a watch");
        let end = Instant::now() + limit;
        let mut has_ended = false;
        // First to be told of changes, and of the end, then a look.
        loop {
            let (frames, _) = read(&self.path);
            let last = frames.iter().filter(|(_, frame)| is_one(frame)).nth(count.saturating_sub(1));
            if last.is_some() || has_ended {
                return last.map(|(time, _)| *time);
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "neither so many frames nor an end of the process within {limit:?}");
            let left = Timespec::try_from(left).expect("a time");
            let mut events = [&changes, &process].map(|of| PollFd::new(of, PollFlags::IN));
            if let Err(error) = poll(&mut events, Some(&left)) {
                // Whoever stops this test and has it go on ends its waits.
                assert_eq!(error, Errno::INTR, "poll");
                continue;
            }
            has_ended = !events[1].revents().is_empty();
            let mut buffer = [0; 4096];
            let _ = rustix::io::read(&changes, &mut buffer);
        }
    }

    /// Ends it; its frames.
    ///
    /// # Panics
    /// If it does not end, or is not whole.
    #[must_use]
    #[track_caller]
    pub fn end(self) -> Vec<Vec<u8>> {
        let _ = self.cluster.coppice(&["link", &self.node.to_string(), "--pcap-stop"]).success();
        frames(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::Segment;

    #[test]
    fn a_frames_bytes_are_found() {
        let mut frame = vec![0; 12];
        frame.extend([8, 0]);
        // IPv4 of 24 header bytes, TCP of 24, three bytes, and what fills the frame up.
        let packet = [&[0x46, 0, 0, 51, 0, 0, 0, 0, 64, 6][..], &[0; 14]].concat();
        let segment = [&[0x1b, 0x5b, 0, 80][..], &[0; 8], &[0x60], &[0; 11], b"abc", &[0; 5]].concat();
        frame.extend([packet, segment].concat());
        let expected = Segment { from_port: 7003, to_port: 80, payload: b"abc" };
        assert_eq!(Segment::of(&frame), Some(expected));
        for bytes in 0..frame.len() - 5 {
            assert_eq!(Segment::of(&frame[..bytes]), None, "{bytes}");
        }
        frame[23] = 17;
        assert_eq!(Segment::of(&frame), None);
    }
}
