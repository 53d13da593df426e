//! Orders and answers about links in the words of the fabric, and back.

use coppice_api::link::{Direction, DroppedView, LinkCounters, LinkShape, RecordingCounters, Station};
use coppice_fabric::command::{self, Command, DirectionCounters, Dropped, Outcome, Shape};
use coppice_fabric::names::LinkName;

use crate::plant::{FabricOrder, FabricOutcome, LinkCount, LinkCounts};

/// What a station's link is called there: `n2`, `p0`.
pub(super) fn name_of(station: Station) -> String {
    match station {
        Station::Node(node) => format!("n{node}"),
        Station::IoNode(pset) => format!("p{pset}"),
    }
}

/// The same as a name that the fabric takes; it takes all of these.
pub(super) fn link_of(station: Station) -> Option<LinkName> {
    LinkName::new(name_of(station)).ok()
}

/// Whose link that is.
pub(super) fn station_of(link: &LinkName) -> Option<Station> {
    let (kind, number) = link.as_str().split_at_checked(1)?;
    let number = number.parse().ok()?;
    match kind {
        "n" => Some(Station::Node(number)),
        "p" => Some(Station::IoNode(number)),
        _ => None,
    }
}

/// The command of an order.
pub(super) fn command_of(order: &FabricOrder) -> Option<Command> {
    Some(match order {
        FabricOrder::Shape(station, direction, shape) => Command::Shape {
            link: Some(link_of(*station)?),
            direction: match direction {
                Direction::To => command::Direction::ToStation,
                Direction::From => command::Direction::FromStation,
                Direction::Both => command::Direction::Both,
            },
            shape: shape_of(*shape),
        },
        FabricOrder::Record(station, file) => {
            Command::PcapStart { link: link_of(*station)?, file: file.clone(), bytes_max: None }
        }
        FabricOrder::EndRecording(station) => Command::PcapStop { link: link_of(*station)? },
        FabricOrder::Count => Command::Counters { link: None },
    })
}

fn shape_of(shape: LinkShape) -> Shape {
    let LinkShape { bandwidth_bits_per_s, latency_ns, loss_ppm, cut } = shape;
    Shape { latency_ns, bandwidth_bits_per_s, loss_ppm, cut }
}

/// What came of an order.
pub(super) fn outcome_of(outcome: Outcome) -> Result<FabricOutcome, String> {
    match outcome {
        Outcome::Done => Ok(FabricOutcome::Done),
        Outcome::Failed { reason } => Err(reason),
        Outcome::Counters { at_ns, links } => {
            let links = links.into_iter().filter_map(|link| Some((station_of(&link.link)?, count_of(&link)))).collect();
            Ok(FabricOutcome::Counted(LinkCounts { at_ns, links }))
        }
    }
}

fn count_of(counters: &command::LinkCounters) -> LinkCount {
    let recording = |command::RecordingCounters { frames, bytes, missed }| RecordingCounters { frames, bytes, missed };
    LinkCount {
        up: counters.up,
        to: counters_of(counters.to_station),
        from: counters_of(counters.from_station),
        queued_frames: counters.queued_frames,
        recording: counters.recording.map(recording),
    }
}

fn counters_of(counters: DirectionCounters) -> LinkCounters {
    let DirectionCounters { frames, bytes, dropped } = counters;
    let Dropped { cut, loss, queue_full, absent, oversize, malformed, spoofed, refused } = dropped;
    let malformed = malformed.saturating_add(oversize);
    LinkCounters { frames, bytes, dropped: DroppedView { cut, loss, queue_full, absent, malformed, spoofed, refused } }
}

#[cfg(test)]
mod tests {
    use super::{Station, link_of, station_of};

    #[test]
    fn links_are_known_by_their_names() {
        for station in [Station::Node(0), Station::Node(511), Station::IoNode(0), Station::IoNode(511)] {
            assert_eq!(link_of(station).as_ref().and_then(station_of), Some(station));
        }
        for other in ["n", "x1", "n1x", "3"] {
            assert_eq!(station_of(&other.parse().expect("a name")), None, "{other}");
        }
    }
}
