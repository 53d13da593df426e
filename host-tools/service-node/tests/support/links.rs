//! What a fabric makes of orders about its links.

use std::collections::BTreeMap;
use std::path::PathBuf;

use coppice_api::link::{Direction, LinkCounters, LinkShapes, RecordingCounters, Station};
use coppice_service_node::plant::{FabricOrder, FabricOutcome, FromFabric, LinkCount, LinkCounts};

/// A fabric on whose links a frame passes, each way, between two looks.
#[derive(Debug)]
pub(crate) struct Fabric {
    /// What its links are like.
    pub(crate) links: BTreeMap<Station, LinkShapes>,
    /// What is being recorded.
    pub(crate) recordings: BTreeMap<Station, PathBuf>,
    /// Whether files can be recorded in, or why not; none: their disk does not answer.
    pub(crate) disk: Option<Result<(), String>>,
    looks: u64,
}

impl Default for Fabric {
    fn default() -> Self {
        Self { links: BTreeMap::new(), recordings: BTreeMap::new(), disk: Some(Ok(())), looks: 0 }
    }
}

impl Fabric {
    /// A new one takes its place.
    pub(crate) fn begin(&mut self, links: BTreeMap<Station, LinkShapes>) {
        *self = Self { links, ..Self::default() };
    }

    /// Does what it is told, and answers.
    pub(crate) fn told(&mut self, request: u64, orders: &[FabricOrder]) -> Vec<FromFabric> {
        let outcomes: Vec<_> = orders.iter().filter_map(|order| self.do_one(order)).collect();
        outcomes.into_iter().map(|outcome| FromFabric::Answer { request, outcome }).collect()
    }

    fn do_one(&mut self, order: &FabricOrder) -> Option<Result<FabricOutcome, String>> {
        match order {
            FabricOrder::Shape(station, direction, shape) => {
                let shapes = self.links.get_mut(station).expect("a link of the cluster");
                if *direction != Direction::From {
                    shapes.to = *shape;
                }
                if *direction != Direction::To {
                    shapes.from = *shape;
                }
                Some(Ok(FabricOutcome::Done))
            }
            FabricOrder::Record(station, file) => {
                let outcome = self.disk.clone()?;
                if outcome.is_ok() {
                    self.recordings.insert(*station, file.clone());
                }
                Some(outcome.map(|()| FabricOutcome::Done))
            }
            FabricOrder::EndRecording(station) => {
                self.recordings.remove(station);
                self.disk.clone().map(|outcome| outcome.map(|()| FabricOutcome::Done))
            }
            FabricOrder::Count => {
                self.looks += 1;
                let counters = LinkCounters { frames: self.looks, bytes: 100 * self.looks, ..LinkCounters::default() };
                let count = |station: &Station| LinkCount {
                    up: true,
                    to: counters,
                    from: counters,
                    queued_frames: 0,
                    recording: self.recordings.get(station).map(|_| RecordingCounters::default()),
                };
                let links = self.links.keys().map(|station| (*station, count(station))).collect();
                Some(Ok(FabricOutcome::Counted(LinkCounts { at_ns: 1000 * self.looks, links })))
            }
        }
    }
}
