//! What users ask of links and the fabric answers.
//!
//! An order is carried out in two steps. What is to be recorded comes first, as it alone can fail: then nothing else is
//! done. After that links are different as of now, whatever becomes of the fabric; it is told, and counts. An order is
//! answered when the fabric has answered all it was told, has ended, or has been silent for [`LINK_TIME_MAX`].

use std::collections::BTreeMap;
use std::time::Instant;

use coppice_api::cluster::ClusterState;
use coppice_api::link::{
    DirectionView, LinkChange, LinkOrder, LinkView, LinksQuery, LinksView, RecordingOrder, RecordingView, Station,
    Stations,
};
use coppice_api::shown;

use super::super::requests::{Answer, Refused, reply};
use super::super::{Controller, Now};
use super::named;
use crate::limits::{LINK_ORDERS_MAX, LINK_TIME_MAX};
use crate::plant::{FabricOrder, FabricOutcome, LinkCounts, Plant};

/// How far an order is.
#[derive(Debug)]
enum Step {
    /// A recording is to begin or to end.
    Recording(RecordingOrder),
    /// Links are to be as they should be, and what passed on them counted.
    Shaping,
}

/// An order that waits for the fabric.
#[derive(Debug)]
struct Waiting {
    answer: Answer<LinksView>,
    stations: Vec<Station>,
    change: LinkChange,
    step: Step,
    /// Answers that have not come.
    owed: usize,
    failure: Option<String>,
    counts: LinkCounts,
    since: Instant,
}

/// Orders that wait for the fabric, at most [`LINK_ORDERS_MAX`], by the number their answers carry.
#[derive(Debug, Default)]
pub(in crate::controller) struct Orders {
    last: u64,
    waiting: BTreeMap<u64, Waiting>,
}

impl Orders {
    /// When one of them has waited long enough.
    pub(in crate::controller) fn deadline(&self) -> Option<Instant> {
        // Numbered as they came; a second step is soon enough with the first one's.
        self.waiting.first_key_value().map(|(_, waiting)| waiting.since + LINK_TIME_MAX)
    }
}

impl<P: Plant> Controller<P> {
    /// Shows links.
    pub(in crate::controller) fn show_links(&mut self, query: LinksQuery, answer: Answer<LinksView>, now: Now) {
        let change = LinkChange::default();
        match self.check_links(query.links.as_ref(), &change, None) {
            Ok(stations) => self.take_order(stations, change, None, answer, now),
            Err(refused) => reply(answer, Err(refused)),
        }
    }

    /// Changes links, and shows them.
    pub(in crate::controller) fn change_links(&mut self, order: LinkOrder, answer: Answer<LinksView>, now: Now) {
        match self.check_links(Some(&order.links), &order.change, order.recording.as_ref()) {
            Ok(stations) => self.take_order(stations, order.change, order.recording, answer, now),
            Err(refused) => reply(answer, Err(refused)),
        }
    }

    /// Whether an order can be taken, and the links it means; none: all.
    fn check_links(
        &self,
        links: Option<&Stations>,
        change: &LinkChange,
        recording: Option<&RecordingOrder>,
    ) -> Result<Vec<Station>, Refused> {
        if self.state == ClusterState::Stopping {
            return Err(Refused::conflict("the cluster is going down"));
        }
        change.check().map_err(Refused::bad)?;
        let stations = match links {
            None => self.links.links.keys().copied().collect(),
            Some(links) => links.as_slice().to_vec(),
        };
        if let Some(unknown) = stations.iter().find(|station| !self.links.links.contains_key(station)) {
            let (nodes, psets) = (self.nodes.len(), self.psets.len());
            return Err(Refused::missing(format!(
                "there is no link {unknown}; the cluster has {nodes} nodes, counted from 0, and io0 to io{}",
                psets.saturating_sub(1)
            )));
        }
        if let Some(RecordingOrder::Start { file }) = recording {
            let Some(station) = links.and_then(Stations::only) else {
                return Err(Refused::bad("a file has the frames of one link; name one link to record".to_owned()));
            };
            if !file.is_absolute() {
                return Err(Refused::bad(format!("'{}' is not an absolute path; give one", shown(file))));
            }
            let running = self.links.links.get(&station).and_then(|link| link.recording.as_ref());
            if let Some(running) = running {
                return Err(Refused::conflict(&format!(
                    "the link of {} is being recorded in '{}' already; `coppice link {station} --pcap-stop` ends that",
                    named(station),
                    shown(running)
                )));
            }
        }
        if self.links.orders.waiting.len() >= LINK_ORDERS_MAX {
            return Err(Refused::busy(&format!(
                "{LINK_ORDERS_MAX} orders about links wait for the fabric already; try again when they are done"
            )));
        }
        if !self.fabric.is_listening() {
            return Err(Refused::conflict("the fabric is being started; try again in a moment"));
        }
        Ok(stations)
    }

    fn take_order(
        &mut self,
        stations: Vec<Station>,
        change: LinkChange,
        recording: Option<RecordingOrder>,
        answer: Answer<LinksView>,
        now: Now,
    ) {
        self.links.orders.last += 1;
        let request = self.links.orders.last;
        let step = recording.map_or(Step::Shaping, Step::Recording);
        let (failure, counts) = (None, LinkCounts::default());
        let waiting = Waiting { answer, stations, change, step, owed: 0, failure, counts, since: now.instant };
        self.begin_step(request, waiting, now);
    }

    /// Tells the fabric what this step of an order needs of it.
    fn begin_step(&mut self, request: u64, mut waiting: Waiting, now: Now) {
        let mut orders = Vec::new();
        match &waiting.step {
            Step::Recording(RecordingOrder::Start { file }) => {
                orders.extend(waiting.stations.iter().map(|station| FabricOrder::Record(*station, file.clone())));
            }
            Step::Recording(RecordingOrder::Stop) => {
                orders.extend(waiting.stations.iter().copied().map(FabricOrder::EndRecording));
            }
            Step::Shaping => {
                for station in waiting.stations.iter().filter(|_| !waiting.change.is_nothing()) {
                    self.reshape(*station, &waiting.change, now);
                    let shapes = self.links.links.get(station).map(|link| link.shapes).unwrap_or_default();
                    let order = |(direction, shape)| FabricOrder::Shape(*station, direction, shape);
                    orders.extend(shapes.directions().map(order));
                }
                orders.push(FabricOrder::Count);
            }
        }
        waiting.owed = orders.len();
        self.links.orders.waiting.insert(request, waiting);
        self.plant.tell_fabric(request, &orders);
    }

    /// The fabric has answered one of the orders of a request.
    pub(in crate::controller) fn fabric_answered(
        &mut self,
        request: u64,
        outcome: Result<FabricOutcome, String>,
        now: Now,
    ) {
        let Some(waiting) = self.links.orders.waiting.get_mut(&request) else {
            return tracing::debug!(request, ?outcome, "answered too late");
        };
        match outcome {
            Ok(FabricOutcome::Done) => {}
            Ok(FabricOutcome::Counted(counts)) => waiting.counts = counts,
            Err(reason) => waiting.failure = Some(reason),
        }
        waiting.owed = waiting.owed.saturating_sub(1);
        if waiting.owed > 0 {
            return;
        }
        let Some(mut waiting) = self.links.orders.waiting.remove(&request) else { return };
        if let Step::Recording(order) = &waiting.step {
            let file = match order {
                RecordingOrder::Start { file } if waiting.failure.is_none() => Some(file),
                _ => None,
            };
            for station in &waiting.stations {
                if let Some(link) = self.links.links.get_mut(station) {
                    link.recording = file.cloned();
                }
            }
        }
        match (waiting.failure.take(), &waiting.step) {
            (Some(reason), _) => reply(waiting.answer, Err(Refused::conflict(&reason))),
            (None, Step::Shaping) => {
                let view = self.links_view(&waiting);
                reply(waiting.answer, Ok(view));
            }
            (None, Step::Recording(_)) => {
                waiting.step = Step::Shaping;
                self.begin_step(request, waiting, now);
            }
        }
    }

    fn links_view(&self, waiting: &Waiting) -> LinksView {
        let view = |station: &Station| {
            let (link, count) = (self.links.links.get(station)?, waiting.counts.links.get(station)?);
            let recording = link.recording.clone().zip(count.recording);
            Some(LinkView {
                link: *station,
                up: count.up,
                to: DirectionView { shape: link.shapes.to, counters: count.to },
                from: DirectionView { shape: link.shapes.from, counters: count.from },
                queued_frames: count.queued_frames,
                recording: recording.map(|(file, counters)| RecordingView { file, counters }),
            })
        };
        LinksView {
            fabric: self.fabric.incarnation().0,
            counted_at_ns: waiting.counts.at_ns,
            links: waiting.stations.iter().filter_map(view).collect(),
        }
    }

    /// Orders that the fabric has not answered in time wait no longer.
    pub(in crate::controller) fn advance_links(&mut self, now: Now) {
        let is_late = |(_, waiting): &(&u64, &Waiting)| waiting.since + LINK_TIME_MAX <= now.instant;
        let late: Vec<u64> =
            self.links.orders.waiting.iter().take_while(is_late).map(|(request, _)| *request).collect();
        for request in late {
            let Some(waiting) = self.links.orders.waiting.remove(&request) else { continue };
            let silent = format!("the fabric has not answered for {} s", LINK_TIME_MAX.as_secs());
            let line = match &waiting.step {
                Step::Recording(RecordingOrder::Start { file }) => {
                    // Should it begin after all, it is not to go on.
                    let end: Vec<_> = waiting.stations.iter().copied().map(FabricOrder::EndRecording).collect();
                    self.plant.tell_fabric(request, &end);
                    let file = shown(file);
                    format!("{silent} whether it can record in '{file}', and nothing was changed; is its disk well?")
                }
                Step::Recording(RecordingOrder::Stop) => {
                    // It takes no more frames, whatever becomes of those it has.
                    for station in &waiting.stations {
                        if let Some(link) = self.links.links.get_mut(station) {
                            link.recording = None;
                        }
                    }
                    format!(
                        "{silent} that all of the recording is written, and nothing else was changed; is its disk well?"
                    )
                }
                Step::Shaping if waiting.change.is_nothing() => format!("{silent}; try again"),
                Step::Shaping => format!("{silent}; the links are changed as soon as it goes on, or is replaced"),
            };
            reply(waiting.answer, Err(Refused::busy(&line)));
        }
    }

    /// The fabric is gone, and will answer nothing.
    pub(in crate::controller) fn fabric_owes_no_more(&mut self) {
        for (_, waiting) in std::mem::take(&mut self.links.orders.waiting) {
            let line = match &waiting.step {
                Step::Shaping if !waiting.change.is_nothing() => {
                    "the fabric ended meanwhile; the one that is started in its place has the links as they are to be"
                }
                _ => "the fabric ended meanwhile and is started anew; try again in a moment",
            };
            reply(waiting.answer, Err(Refused::conflict(line)));
        }
    }

    /// The cluster goes down: nobody waits for the fabric any more.
    pub(in crate::controller) fn end_link_orders(&mut self) {
        for (_, waiting) in std::mem::take(&mut self.links.orders.waiting) {
            reply(waiting.answer, Err(Refused::conflict("the cluster is going down")));
        }
    }
}
