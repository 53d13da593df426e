//! Recordings of a link (`coppice link --pcap`): the frames of one that is whole, and of one that goes on.

use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::Cluster;

const HEADER_BYTES: usize = 24;
const RECORD_HEADER_BYTES: usize = 16;

const ETHERNET_HEADER_BYTES: usize = 14;
const IPV4: [u8; 2] = [0x08, 0x00];
const TCP: u8 = 6;

/// The whole frames of a recording, and whether there is nothing else in it.
///
/// # Panics
/// If it is none: nanoseconds, version 2.4, Ethernet.
#[track_caller]
fn read(path: &Path) -> (Vec<Vec<u8>>, bool) {
    let bytes = std::fs::read(path).expect("a recording");
    let number =
        |at: usize| bytes.get(at..).and_then(|rest| rest.first_chunk()).map(|number| u32::from_le_bytes(*number));
    assert_eq!((number(0), number(4), number(20)), (Some(0xa1b2_3c4d), Some(0x0004_0002), Some(1)));
    let (mut at, mut frames) = (HEADER_BYTES, Vec::new());
    while let Some(length) = number(at + 8) {
        assert_eq!(number(at + 12), Some(length), "no frame is cut short");
        let begin = at + RECORD_HEADER_BYTES;
        let Some(frame) = bytes.get(begin..begin + length as usize) else { break };
        frames.push(frame.to_vec());
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
    frames
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
        let packet = frame.get(ETHERNET_HEADER_BYTES..).filter(|_| frame[12..14] == IPV4)?;
        let length: usize = u16::from_be_bytes(*packet.get(2..)?.first_chunk()?).into();
        let packet = packet.get(..length).filter(|packet| packet.len() > 9 && packet[9] == TCP)?;
        let segment = packet.get(usize::from(packet[0] & 0xf) * 4..)?;
        let port = |at: usize| segment.get(at..)?.first_chunk().map(|port| u16::from_be_bytes(*port));
        let payload = segment.get(usize::from(segment.get(12)? >> 4) * 4..).filter(|payload| !payload.is_empty())?;
        Some(Self { from_port: port(0)?, to_port: port(2)?, payload })
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

    /// Waits until so many frames of a kind were recorded. Not if a process ends before.
    ///
    /// # Panics
    /// If neither is so within the limit.
    #[track_caller]
    pub fn wait_for(&self, limit: Duration, until: &Child, count: usize, is_one: impl Fn(&[u8]) -> bool) -> bool {
        let process =
            pidfd_open(Pid::from_child(until), PidfdFlags::empty()).expect("it is there until it is waited for");
        let changes = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK).expect("inotify");
        inotify::add_watch(&changes, &self.path, inotify::WatchFlags::MODIFY).expect("a watch");
        let end = Instant::now() + limit;
        // First to be told of changes, then a look.
        while read(&self.path).0.iter().filter(|frame| is_one(frame)).count() < count {
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "neither so many frames nor an end of the process within {limit:?}");
            let left = Timespec::try_from(left).expect("a time");
            let mut events = [&changes, &process].map(|of| PollFd::new(of, PollFlags::IN));
            poll(&mut events, Some(&left)).expect("poll");
            if !events[1].revents().is_empty() {
                return false;
            }
            let mut buffer = [0; 4096];
            let _ = rustix::io::read(&changes, &mut buffer);
        }
        true
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
