//! Decides everything, one event at a time.
//!
//! The controller is a state machine: [`Controller::handle`] takes an event and the time, changes the tables in memory,
//! records in the database what must survive, and gives orders to the [`Plant`]. [`Controller::deadline`] says when
//! [`Controller::advance`] wants to be called although nothing happened. Nothing in here waits.
//!
//! Chains of consequences are kept short by rule: whatever makes a node free, lost or ready only changes tables;
//! [`Controller::settle`] runs after every event that may have such a consequence, and starts what has become possible
//! (I/O nodes, boots, jobs).

mod ahead;
mod asked;
mod checkpoints;
mod families;
mod forget;
mod hearing;
mod helpers;
mod holdings;
mod inspect;
mod interval;
mod job;
mod jobs;
mod keeps;
mod links;
mod metrics;
mod node;
mod nodes;
mod output;
mod overlays;
mod programs;
mod ranks;
mod regions;
mod reports;
mod requests;
mod restart;
mod retention;
mod shutdown;
mod staging;
mod start;
mod submit;
#[cfg(test)]
mod tests;
mod tracing_jobs;
mod transfers;
mod unclaimed;
mod view;
mod walks;

use std::collections::BTreeMap;
use std::time::Instant;

use coppice_api::cluster::{ClusterState, ClusterView};
use coppice_api::job::EXIT_COPPICE;
use coppice_api::link::LinkShape;
use coppice_api::paths::ClusterPaths;
use coppice_protocol::ids::{JobId, NodeId, PsetId};
use coppice_protocol::psets::PsetTable;
use coppice_protocol::ras::{RasEvent, RasKind, Severity};
use coppice_protocol::retain::RetentionPolicy;
use coppice_qemu::machine::Accelerator;
use tokio::sync::watch;

pub use self::checkpoints::Newest;
use self::families::Families;
pub use self::families::SpawnRequest;
use self::forget::Forgets;
use self::hearing::Hearing;
use self::helpers::{Helper, Pset};
use self::inspect::Inspections;
pub use self::inspect::Place;
use self::job::Job;
use self::keeps::Keeps;
use self::links::Links;
use self::node::{Node, Nodes};
pub use self::output::KeptLog;
use self::output::Logs;
use self::overlays::Overlays;
pub(crate) use self::overlays::check as check_overlay;
pub(crate) use self::overlays::units;
pub use self::overlays::{Recorded, Sampled};
pub use self::regions::Objects;
use self::regions::Regions;
pub use self::requests::{Answer, Refused, Request};
pub use self::restart::{Restart, Restoring, Submitted};
use self::unclaimed::Unclaimed;
use crate::database::{DatabaseError, JobRow};
use crate::limits::STARTING_RECORDS_TIME_MAX;
use crate::metrics::seen::{Counts, JobEnd, StoredSeen};
use crate::plant::{HelperEvent, Plant, PlantEvent};
use crate::records::{Record, Records, Recovered, Storage, What};
use crate::scheduler::Scheduler;
use crate::store::ProgramStore;

/// What a cluster consists of.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its files and directories.
    pub paths: ClusterPaths,
    /// Compute nodes.
    pub nodes: u32,
    /// Cores of each.
    pub cores: u32,
    /// Memory of each, bytes.
    pub memory_bytes: u64,
    /// Length of each one's region, bytes; 0: they have none.
    pub region_bytes: u64,
    /// Compute nodes per I/O node.
    pub pset_size: u32,
    /// What nodes keep of programs.
    pub retention: RetentionPolicy,
    /// How often nodes take processes apart and make them again, ns; 0: never.
    pub freeze_every_ns: u64,
    /// Cores of the host that its nodes are emulated on, at least one.
    pub host_cores: usize,
    /// Nodes that are booted at a time.
    pub boots_max: usize,
    /// What its links are like at first, each way.
    pub link: LinkShape,
}

/// The time as the controller is told it.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// For deadlines.
    pub instant: Instant,
    /// For records, ns since 1970.
    pub realtime_ns: u64,
}

/// Anything the controller is told.
#[derive(Debug)]
pub enum Event {
    /// By a process of the cluster.
    Plant(PlantEvent),
    /// By somebody who uses the cluster.
    Request(Request),
}

/// Decides for one cluster.
#[derive(Debug)]
pub struct Controller<P> {
    config: Config,
    records: Records,
    store: ProgramStore,
    plant: P,
    accelerator: Option<Accelerator>,
    fabric: Helper,
    links: Links,
    psets: Vec<Pset>,
    nodes: Nodes,
    jobs: BTreeMap<JobId, Job>,
    unclaimed: Unclaimed,
    unclaimed_traces: Unclaimed,
    logs: Logs,
    families: Families,
    forgets: Forgets,
    inspections: Inspections,
    regions: Regions,
    overlays: Overlays,
    keeps: Keeps,
    hearing: Hearing,
    scheduler: Scheduler,
    /// What has happened so far, for metrics.
    counts: Counts,
    /// Programs in the store, as they were when they last changed.
    stored: StoredSeen,
    state: ClusterState,
    failure: Option<String>,
    started_at_ns: u64,
    shutdown_deadline: Option<Instant>,
    view: watch::Sender<ClusterView>,
    /// Something that [`ClusterView`] shows has changed.
    changed: bool,
}

impl<P: Plant> Controller<P> {
    /// A cluster none of whose processes runs yet, as its database left it.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn new(
        config: Config,
        records: Records,
        store: ProgramStore,
        plant: P,
        now: Now,
    ) -> Result<Self, DatabaseError> {
        let storage = records.storage();
        let table = PsetTable::new(config.nodes, config.pset_size);
        let psets: Vec<Pset> = table.psets().map(|pset| Pset::new(pset, table.nodes_of(pset).collect())).collect();
        let members = psets.iter().flat_map(|pset| pset.nodes.iter().map(|node| (*node, pset.id)));
        let nodes = members
            .map(|(node, pset)| Ok(Node::new(node, pset, storage.node(node)?)))
            .collect::<Result<Vec<_>, DatabaseError>>()?;
        let (view, _) = watch::channel(view::empty(&config, now));
        let links = Links::new(&table, config.link);
        let mut controller = Self {
            config,
            records,
            store,
            plant,
            accelerator: None,
            fabric: Helper::default(),
            links,
            psets,
            nodes: Nodes::new(nodes),
            jobs: BTreeMap::new(),
            unclaimed: Unclaimed::default(),
            unclaimed_traces: Unclaimed::default(),
            logs: Logs::default(),
            families: Families::default(),
            forgets: Forgets::default(),
            inspections: Inspections::default(),
            regions: Regions::default(),
            overlays: Overlays::default(),
            keeps: Keeps::default(),
            hearing: Hearing::default(),
            scheduler: Scheduler::default(),
            counts: Counts::default(),
            stored: StoredSeen::default(),
            state: ClusterState::Starting,
            failure: None,
            started_at_ns: now.realtime_ns,
            shutdown_deadline: None,
            view,
            changed: true,
        };
        controller.recover(now)?;
        Ok(controller)
    }

    /// Ends the jobs that an earlier service node left behind: nothing of them runs any more. Nor do programs it stored
    /// and did not record.
    fn recover(&mut self, now: Now) -> Result<(), DatabaseError> {
        let stored = self.records.storage().stored_programs()?;
        self.stored = StoredSeen::of(&stored);
        if let Err(error) = self.store.sweep(&stored) {
            tracing::warn!(%error, "cannot remove what is left in the store");
        }
        let at_ns = now.realtime_ns;
        let storage = self.records.storage_mut();
        for job in storage.unfinished_jobs()? {
            let reason = "the service node ended while the job was under way".to_owned();
            let event = ras(Severity::Error, RasKind::Recovery, Some(job), format!("job {job} is ended: {reason}"));
            let end = JobRow {
                exit_status: EXIT_COPPICE,
                reason: Some(reason),
                retention: None,
                pages_touched: None,
                continued_as: None,
            };
            *self.counts.jobs.entry(JobEnd::of(&end)).or_default() += 1;
            self.counts.ras_event(&event);
            storage.write(&Record { at_ns, what: What::Ended(job, end) })?;
            storage.write(&Record { at_ns, what: What::Ras(None, event) })?;
        }
        for (job, output) in self.records.storage().jobs_with_open_logs()? {
            self.look_at_log(job, output);
        }
        Ok(())
    }

    /// Starts the cluster's processes.
    pub fn start(&mut self, now: Now) {
        self.plant.find_accelerator();
        self.start_fabric(now);
        self.publish();
    }

    /// Takes in what happened.
    pub fn handle(&mut self, event: Event, now: Now) {
        // What ranks and nodes say makes nothing possible unless it changes what is shown: it is said too often to look
        // each time at all that waits. So is what is kept of that.
        let is_said = matches!(
            event,
            Event::Plant(PlantEvent::Pset { event: HelperEvent::Said(_), .. } | PlantEvent::Output { .. })
        );
        match event {
            Event::Plant(PlantEvent::Accelerator(found)) => self.accelerator_found(found),
            Event::Plant(PlantEvent::Fabric { incarnation, event }) => self.fabric_event(incarnation, event, now),
            Event::Plant(PlantEvent::Pset { pset, incarnation, event }) => {
                self.pset_event(pset, incarnation, event, now);
            }
            Event::Plant(PlantEvent::Machine { node, generation, event }) => {
                self.machine_event(node, generation, event, now);
            }
            Event::Plant(PlantEvent::Output { job, event }) => self.output_event(job, event, now),
            Event::Plant(PlantEvent::Checkpoint { job, event }) => self.checkpoint_event(job, event, now),
            Event::Plant(PlantEvent::Program { job, found }) => self.program_checked(job, found, now),
            Event::Request(request) => self.request(request, now),
        }
        if self.changed || !is_said {
            self.settle(now);
        }
    }

    /// When to call [`Controller::advance`] at the latest.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.hearing.deadline(self.due())
    }

    /// When the first thing is due.
    fn due(&self) -> Option<Instant> {
        let jobs = self.jobs.values().filter_map(Job::deadline);
        let helpers = self.psets.iter().map(|pset| &pset.helper).chain([&self.fabric]).filter_map(Helper::deadline);
        let ours = [
            self.nodes.deadline(),
            self.unclaimed.deadline(),
            self.unclaimed_traces.deadline(),
            self.families.deadline(),
            self.forgets.deadline(),
            self.inspections.deadline(),
            self.regions.deadline(),
            self.overlays.deadline(),
            self.logs.deadline(),
            self.links.orders.deadline(),
            self.shutdown_deadline,
            self.records.deadline(),
        ];
        jobs.chain(helpers).chain(ours.into_iter().flatten()).min()
    }

    /// Does what is due; if this comes late, only after what there is to be heard was heard.
    pub fn advance(&mut self, now: Now) {
        if self.hearing.is_first(self.due(), now.instant) {
            return;
        }
        self.advance_records(now);
        self.advance_helpers(now);
        self.advance_nodes(now);
        self.advance_jobs(now);
        self.unclaimed.expire(now.instant);
        self.unclaimed_traces.expire(now.instant);
        self.give_up_joining(now);
        self.advance_forgets(now);
        self.inspections.give_up(now);
        self.regions.give_up(now);
        self.advance_overlays(now);
        self.give_up_logs(now);
        self.advance_links(now);
        self.advance_shutdown(now);
        self.settle(now);
    }

    /// Starts whatever has become possible.
    fn settle(&mut self, now: Now) {
        self.advance_families(now);
        if self.state != ClusterState::Stopping {
            self.start_io_nodes(now);
            self.boot_nodes(now);
            self.start_jobs(now);
            if self.state == ClusterState::Starting && self.nodes.up() == self.nodes.len() {
                self.state = ClusterState::Up;
                self.changed = true;
            }
        }
        self.stop_fabric_when_unused();
        if self.changed {
            self.publish();
        }
    }

    fn accelerator_found(&mut self, found: Result<Accelerator, String>) {
        match found {
            Ok(accelerator) => self.accelerator = Some(accelerator),
            Err(reason) => self.fail(reason),
        }
        self.changed = true;
    }

    /// Something that the cluster needs was given up: it cannot come up, or it does not go on as it should.
    fn fail(&mut self, reason: String) {
        tracing::error!(state = ?self.state, reason, "given up");
        if self.state == ClusterState::Starting {
            self.state = ClusterState::Failed;
        }
        self.failure.get_or_insert(reason);
        self.changed = true;
    }

    /// Whether there is no job whose time is counted.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Whether everything is gone, and what jobs wrote is kept; for that it is not waited for ever.
    #[must_use]
    pub fn is_down(&self) -> bool {
        self.state == ClusterState::Stopping
            && !self.nodes.have_machines()
            && self.psets.iter().all(|pset| !pset.helper.is_alive())
            && !self.fabric.is_alive()
            && (self.logs.are_closed() || self.shutdown_deadline.is_none())
    }

    /// Gives back what its records are kept in, to be finished last.
    #[must_use]
    pub fn into_storage(self, now: Now) -> Box<dyn Storage> {
        self.records.into_storage(now)
    }

    fn pset_mut(&mut self, pset: PsetId) -> Option<&mut Pset> {
        self.psets.get_mut(pset.0 as usize)
    }

    fn record_ras(&mut self, node: Option<NodeId>, event: &RasEvent, now: Now) {
        tracing::info!(node = node.map(|node| node.0), kind = ?event.kind, text = event.text, "RAS event");
        self.counts.ras_event(event);
        self.records.add(What::Ras(node, event.clone()), now);
    }

    /// Writes what waits to be recorded, and says so when that is possible again.
    fn advance_records(&mut self, now: Now) {
        if let Some(Recovered { lasted, why, written, lost }) = self.records.advance(now) {
            let seconds = lasted.as_secs_f64();
            let text =
                format!("records could not be written for {seconds:.1} s: {why}; {written} waited and are written");
            self.record_ras(None, &ras(Severity::Warn, RasKind::Recovery, None, text), now);
            if lost > 0 {
                let text = format!("{lost} events and states of nodes are lost: too many waited to be recorded");
                self.record_ras(None, &ras(Severity::Error, RasKind::EventsLost, None, text), now);
            }
        }
        // Whoever waits for a cluster that comes up is to hear why no node is booted.
        let is_late = self.records.trouble(now) >= STARTING_RECORDS_TIME_MAX;
        if let (ClusterState::Starting, true, Err(reason)) = (self.state, is_late, self.records.check()) {
            self.fail(reason);
        }
    }
}

fn ras(severity: Severity, kind: RasKind, job: Option<JobId>, text: String) -> RasEvent {
    RasEvent { severity, kind, job, rank: None, address: None, instruction: None, text }
}
