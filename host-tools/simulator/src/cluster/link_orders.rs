//! The fabric's links, as far as this world has them: what they are to be like is kept and answered for, and somebody
//! changes it now and then. What passes is streams and not frames, so none are counted, lost or recorded.

use std::collections::BTreeMap;

use coppice_api::link::{Direction, LinkChange, LinkOrder, LinkShapes, LinksView, RecordingCounters, Station};
use coppice_service_node::controller::{Event as HostEvent, Refused, Request};
use coppice_service_node::limits::{HEARING_TIME, HEARINGS_MAX, LINK_TIME_MAX};
use coppice_service_node::plant::{FabricOrder, FabricOutcome, FromFabric, LinkCount, LinkCounts};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use super::queue::SECOND_NS;
use super::world::{LOOK_NS, World};

/// Looks at the cluster between two orders about a link.
const LOOKS_BETWEEN: u64 = 5;
/// Looks at a service node that runs until it must have answered one: it may be late, and hears first what there is.
const LOOKS_MAX: u64 =
    (LINK_TIME_MAX.as_secs() + HEARING_TIME.as_secs() * HEARINGS_MAX as u64 + 1) * SECOND_NS / LOOK_NS + 1;

/// See this module.
#[derive(Debug, Default)]
pub(super) struct LinkOrders {
    links: BTreeMap<Station, Link>,
    /// Looks so far.
    looks: u64,
    asked: Option<Asked>,
    /// Latencies that the service node has said links have, ns.
    said: BTreeMap<Station, u64>,
}

/// An order that waits for its answer.
#[derive(Debug)]
struct Asked {
    answer: oneshot::Receiver<Result<LinksView, Refused>>,
    link: Station,
    latency_ns: u64,
    looks: u64,
}

#[derive(Debug, Default)]
struct Link {
    shapes: LinkShapes,
    is_recorded: bool,
}

impl LinkOrders {
    /// A fabric is started with these. Gives a link that is not as the service node said it would be.
    pub(super) fn begin(&mut self, links: BTreeMap<Station, LinkShapes>) -> Option<Station> {
        let is_other = |(station, latency_ns): &(&Station, &u64)| {
            links
                .get(station)
                .is_none_or(|shapes| [shapes.to, shapes.from].iter().any(|to| to.latency_ns != **latency_ns))
        };
        let other = self.said.iter().find(is_other).map(|(station, _)| *station);
        let link = |(station, shapes)| (station, Link { shapes, is_recorded: false });
        self.links = links.into_iter().map(link).collect();
        other
    }

    /// The service node has died: the next one begins anew.
    pub(super) fn host_died(&mut self) {
        self.said.clear();
        self.asked = None;
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

impl World {
    /// Somebody changes a link now and then. It is answered in time, and with the link as it is to be.
    pub(super) fn look_at_links(&mut self) {
        self.link_orders.looks += 1;
        if let Some(mut asked) = self.link_orders.asked.take() {
            match asked.answer.try_recv() {
                Err(TryRecvError::Empty) if asked.looks < LOOKS_MAX => {
                    asked.looks += 1;
                    self.link_orders.asked = Some(asked);
                }
                Err(TryRecvError::Empty) => self.violate(format!("nobody says whether link {} is changed", asked.link)),
                Ok(Ok(view)) => self.link_changed(&asked, &view),
                // Whether it was changed is not said.
                Ok(Err(_)) | Err(TryRecvError::Closed) => {}
            }
        } else if self.is_faulty() && self.link_orders.looks.is_multiple_of(LOOKS_BETWEEN) {
            self.change_link();
        }
    }

    fn change_link(&mut self) {
        let latency_ns = self.link_orders.looks;
        let number = u32::try_from(latency_ns % u64::from(self.options.nodes)).unwrap_or(0);
        let link = if latency_ns.is_multiple_of(2) { Station::Node(number) } else { Station::IoNode(0) };
        let change = LinkChange { latency_ns: Some(latency_ns), ..LinkChange::default() };
        let (answer, answered) = oneshot::channel();
        self.link_orders.said.remove(&link);
        self.link_orders.asked = Some(Asked { answer: answered, link, latency_ns, looks: 0 });
        let order = LinkOrder { links: link.into(), change, recording: None };
        self.host.handle(HostEvent::Request(Request::ChangeLinks(order, answer)), self.now_ns);
        self.settle_host();
    }

    fn link_changed(&mut self, asked: &Asked, view: &LinksView) {
        self.note("link changed", format_args!("{} takes {} ns", asked.link, asked.latency_ns));
        let is_so = matches!(&view.links[..], [link] if link.link == asked.link
            && [link.to.shape, link.from.shape].iter().all(|shape| shape.latency_ns == asked.latency_ns));
        if !is_so {
            self.violate(format!("link {} was to take {} ns: {view:?}", asked.link, asked.latency_ns));
        }
        self.link_orders.said.insert(asked.link, asked.latency_ns);
    }
}
