//! The links of a cluster's network: what each is like, what passed on it, and orders to change that.

mod shape;
mod station;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::schema::Text;

pub use self::shape::{Bandwidth, Direction, LinkChange, LinkShape, LinkShapes};
pub use self::station::{Station, StationError, Stations};

/// Which links to show.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct LinksQuery {
    /// These; without it all of them.
    pub links: Option<Stations>,
}

/// An order to change links. All of it is done, or nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LinkOrder {
    /// Which links.
    pub links: Stations,
    /// What is to be different about them.
    #[serde(default)]
    pub change: LinkChange,
    /// What is to be done about a recording of their frames.
    pub recording: Option<RecordingOrder>,
}

/// What is to be done about a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RecordingOrder {
    /// It begins. Only one link at a time can be told this.
    Start {
        /// The file that the fabric writes, absolute. One that exists is replaced.
        #[serde(with = "crate::path")]
        #[schema(value_type = Text)]
        file: PathBuf,
    },
    /// It ends, and the file has all of it.
    Stop,
}

/// Links, as they were counted at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LinksView {
    /// Which start of the fabric it was: each counts from nothing.
    pub fabric: u32,
    /// When that was, ns of a clock that only ever goes on.
    pub counted_at_ns: u64,
    /// In the order they were named; of all, nodes first.
    pub links: Vec<LinkView>,
}

/// One link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LinkView {
    /// Whose it is.
    pub link: Station,
    /// Whether the station could be reached when a frame was last sent to it.
    pub up: bool,
    /// To the station.
    pub to: DirectionView,
    /// From the station.
    pub from: DirectionView,
    /// Frames that wait for the station to take them.
    pub queued_frames: u64,
    /// The recording that is being made.
    pub recording: Option<RecordingView>,
}

/// One direction of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DirectionView {
    /// What it is like.
    pub shape: LinkShape,
    /// What was counted.
    #[serde(flatten)]
    pub counters: LinkCounters,
}

/// What was counted of one direction of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LinkCounters {
    /// Frames that passed.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Frames that did not, by cause.
    pub dropped: DroppedView,
}

/// Frames that did not pass, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DroppedView {
    /// The link was cut.
    pub cut: u64,
    /// The link lost them.
    pub loss: u64,
    /// Too many waited for the link or its station.
    pub queue_full: u64,
    /// No station was there.
    pub absent: u64,
    /// They were no frames that can be forwarded: too long, too short, or from nowhere.
    pub malformed: u64,
    /// They bore the address of another station.
    pub spoofed: u64,
    /// The host refused them for another reason.
    pub refused: u64,
}

impl DroppedView {
    /// The causes that struck, with the number of frames.
    pub fn causes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let Self { cut, loss, queue_full, absent, malformed, spoofed, refused } = *self;
        let all = [
            ("cut", cut),
            ("loss", loss),
            ("queue full", queue_full),
            ("absent", absent),
            ("malformed", malformed),
            ("spoofed", spoofed),
            ("refused", refused),
        ];
        all.into_iter().filter(|(_, frames)| *frames > 0)
    }
}

/// A recording under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RecordingView {
    /// The file.
    #[serde(with = "crate::path")]
    #[schema(value_type = Text)]
    pub file: PathBuf,
    /// What was counted.
    #[serde(flatten)]
    pub counters: RecordingCounters,
}

/// What was counted of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RecordingCounters {
    /// Frames recorded so far, both ways.
    pub frames: u64,
    /// Length of the file with them, bytes.
    pub bytes: u64,
    /// Frames that are missing because the disk was too slow for them.
    pub missed: u64,
}
