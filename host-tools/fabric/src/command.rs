//! The JSON lines that control a running switch: one [`Request`] per line on its standard input, one [`Message`] per
//! line on its standard output.
//!
//! ```text
//! > {"id":1,"command":{"do":"add-port","link":"n0","mac":"02:00:0a:40:00:01"}}
//! < {"reply":{"id":1,"outcome":"done"}}
//! > {"id":2,"command":{"do":"shape","link":"n0","direction":"both","shape":{"latency_ns":50000,"loss_ppm":10000}}}
//! < {"reply":{"id":2,"outcome":"done"}}
//! > {"id":3,"command":{"do":"counters"}}
//! < {"reply":{"id":3,"outcome":{"counters":{"at_ns":…,"links":[{"link":"n0", …}]}}}}
//! ```
//! Every request is answered by one reply with its id, in order; only those that begin and end recordings are answered
//! when the disk has done its part. A line that is no request is answered with id `null`.

use std::path::PathBuf;

use coppice_protocol::ids::MacAddress;
use serde::{Deserialize, Serialize};

use crate::names::{LinkName, mac_text};

/// One line to the switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Comes back in the reply.
    pub id: u64,
    /// What to do.
    pub command: Command,
}

/// What the switch can be told to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Command {
    /// Makes a link; its switch-side socket exists when the reply comes.
    AddPort {
        /// The new link's name.
        link: LinkName,
        /// The station's address. No other link may have it, and frames from other links that bear it are dropped.
        #[serde(with = "mac_text")]
        mac: MacAddress,
    },
    /// Removes a link, its socket and its counters.
    RemovePort {
        /// The link.
        link: LinkName,
    },
    /// Replaces the shape of a link.
    Shape {
        /// The link; none for all there are and all that will be added.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        link: Option<LinkName>,
        /// Which way.
        #[serde(default)]
        direction: Direction,
        /// What the link is like from now on.
        shape: Shape,
    },
    /// Asks for counters.
    Counters {
        /// The link; none for all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        link: Option<LinkName>,
    },
    /// Records the frames of a link, both ways, as the switch's end sees them. A link has one recording at a time, and
    /// so has a file.
    PcapStart {
        /// The link.
        link: LinkName,
        /// Absolute path of the file, which is replaced if it exists.
        file: PathBuf,
        /// Size at which the recording ends, bytes; none for [`crate::limits::PCAP_BYTES_DEFAULT`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes_max: Option<u64>,
    },
    /// Ends a recording, if there is one. The file has all of it when the reply comes.
    PcapStop {
        /// The link.
        link: LinkName,
    },
    /// Ends the switch after the reply.
    Shutdown,
}

/// Which way on a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From the switch to the station.
    ToStation,
    /// From the station to the switch.
    FromStation,
    /// Both ways.
    #[default]
    Both,
}

/// What one direction of a link is like. The default is as fast as the host allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Shape {
    /// How long a frame is under way, ns, beyond the time to send it.
    pub latency_ns: u64,
    /// Bits per second; none for no limit.
    pub bandwidth_bits_per_s: Option<u64>,
    /// Frames lost, of a million.
    pub loss_ppm: u32,
    /// Nothing passes.
    pub cut: bool,
}

/// One line from the switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Message {
    /// Answer to a request.
    Reply(Reply),
    /// Something happened by itself.
    Event(Event),
}

/// Answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// The request's id; none if the line could not be read.
    pub id: Option<u64>,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Done.
    Done,
    /// Answer to [`Command::Counters`].
    Counters {
        /// When they were read, ns of the host's monotonic clock.
        at_ns: u64,
        /// In order of names.
        links: Vec<LinkCounters>,
    },
    /// Not done; nothing has changed.
    Failed {
        /// Why, in one line.
        reason: String,
    },
}

/// Something that happened by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// The switch takes commands. Always the first line.
    Ready,
    /// The station of a link can be reached.
    StationUp {
        /// The link.
        link: LinkName,
    },
    /// The station of a link is gone: its socket has no process any more. Noticed at the next frame to it.
    StationDown {
        /// The link.
        link: LinkName,
    },
    /// A recording ended by itself; what the file holds by then is whole.
    PcapEnded {
        /// The link.
        link: LinkName,
        /// Why.
        reason: String,
    },
    /// Events were dropped because nobody read the output.
    EventsLost {
        /// How many.
        count: u64,
    },
}

/// What happened on a link so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkCounters {
    /// The link.
    pub link: LinkName,
    /// From the station; dropped frames are not among `frames`.
    pub from_station: DirectionCounters,
    /// To the station; dropped frames are not among `frames`.
    pub to_station: DirectionCounters,
    /// Frames that wait for the station to read.
    pub queued_frames: u64,
    /// Whether the station could be reached when last tried.
    pub up: bool,
    /// The recording that is being made.
    pub recording: Option<RecordingCounters>,
}

/// A recording under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordingCounters {
    /// Frames recorded so far.
    pub frames: u64,
    /// Length of the file with them, bytes.
    pub bytes: u64,
    /// Frames that are missing because the disk was too slow for them.
    pub missed: u64,
}

/// What happened on one direction of a link so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectionCounters {
    /// Frames that passed.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Frames that did not, by cause.
    pub dropped: Dropped,
}

/// Frames dropped, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dropped {
    /// The link was cut.
    pub cut: u64,
    /// The link's loss struck.
    pub loss: u64,
    /// A queue was at its limit.
    pub queue_full: u64,
    /// No station was there to take it.
    pub absent: u64,
    /// Longer than [`crate::limits::FRAME_BYTES_MAX`].
    pub oversize: u64,
    /// Too short, or its source is a group address.
    pub malformed: u64,
    /// Its source address belongs to another link.
    pub spoofed: u64,
    /// The system refused it for another reason.
    pub refused: u64,
}

impl Dropped {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        let Self { cut, loss, queue_full, absent, oversize, malformed, spoofed, refused } = *self;
        cut + loss + queue_full + absent + oversize + malformed + spoofed + refused
    }
}
