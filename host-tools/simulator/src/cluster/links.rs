//! The fabric's links, as far as this world has them: what they are to be like is kept and answered for. What passes is
//! streams and not frames, so none are counted, lost or recorded.

use std::collections::BTreeMap;

use coppice_api::link::{Direction, LinkShapes, RecordingCounters, Station};
use coppice_service_node::plant::{FabricOrder, FabricOutcome, FromFabric, LinkCount, LinkCounts};

/// See this module.
#[derive(Debug, Default)]
pub(super) struct Links {
    links: BTreeMap<Station, Link>,
}

#[derive(Debug, Default)]
struct Link {
    shapes: LinkShapes,
    is_recorded: bool,
}

impl Links {
    /// A fabric is started with these.
    pub(super) fn begin(&mut self, links: BTreeMap<Station, LinkShapes>) {
        let link = |(station, shapes)| (station, Link { shapes, is_recorded: false });
        self.links = links.into_iter().map(link).collect();
    }

    /// Carries orders out, and gives the answers.
    pub(super) fn told(&mut self, request: u64, orders: &[FabricOrder], now_ns: u64) -> Vec<FromFabric> {
        let outcomes = orders.iter().map(|order| self.do_one(order, now_ns));
        outcomes.map(|outcome| FromFabric::Answer { request, outcome }).collect()
    }

    fn do_one(&mut self, order: &FabricOrder, now_ns: u64) -> Result<FabricOutcome, String> {
        let (station, change): (_, &dyn Fn(&mut Link)) = match order {
            FabricOrder::Count => {
                let count = |link: &Link| LinkCount {
                    recording: link.is_recorded.then(RecordingCounters::default),
                    ..LinkCount::default()
                };
                let links = self.links.iter().map(|(station, link)| (*station, count(link))).collect();
                return Ok(FabricOutcome::Counted(LinkCounts { at_ns: now_ns, links }));
            }
            FabricOrder::Shape(station, direction, shape) => (station, &|link| {
                if *direction != Direction::From {
                    link.shapes.to = *shape;
                }
                if *direction != Direction::To {
                    link.shapes.from = *shape;
                }
            }),
            FabricOrder::Record(station, _) => (station, &|link| link.is_recorded = true),
            FabricOrder::EndRecording(station) => (station, &|link| link.is_recorded = false),
        };
        let link = self.links.get_mut(station).ok_or_else(|| format!("there is no link {station}"))?;
        change(link);
        Ok(FabricOutcome::Done)
    }
}
