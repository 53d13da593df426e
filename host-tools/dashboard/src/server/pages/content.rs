//! What is on each page.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use askama::Template;
use coppice_api::Client;
use coppice_api::checkpoint::CheckpointsQuery;
use coppice_api::job::{JobState, JobsQuery};
use coppice_api::link::LinksQuery;
use coppice_api::overlay::ProfileQuery;
use coppice_api::ras::RasQuery;
use tokio::time::timeout;

use super::{Kind, Page, PageError};
use crate::charts::shares::CAUSES;
use crate::cluster::{CheckpointRow, Cluster, EventRow, JobRow, LinkRow, NodeRow, ProgramRow};
use crate::job::Job;
use crate::map::{Colouring, NodeMap, STATES};
use crate::matter::{Matter, drawn_ranks};
use crate::node::Node;
use crate::rank::Rank;

/// Rows of a list that are on a page.
const ROWS_MAX: u32 = 200;

/// Jobs that are on the page of the cluster: the newest.
const NEWEST_MAX: u32 = 25;

/// Events that are on the page of a node: the newest.
const NODE_EVENTS_MAX: u32 = 50;

/// How long a fabric is waited for to say what a node's link is like.
const LINK_TIME_MAX: Duration = Duration::from_secs(1);

/// What is on a page.
pub(in crate::server) struct Content {
    pub(in crate::server) html: String,
    /// It will never be another.
    pub(in crate::server) is_final: bool,
}

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    cluster: Cluster,
    map: NodeMap,
    jobs: Vec<JobRow>,
}

#[derive(Template)]
#[template(path = "jobs.html")]
struct Jobs {
    jobs: Vec<JobRow>,
    before: Option<u64>,
    /// Where older ones are.
    older: Option<u64>,
}

#[derive(Template)]
#[template(path = "nodes.html")]
struct Nodes {
    map: NodeMap,
    nodes: Vec<NodeRow>,
    all: usize,
    /// Where the list goes on.
    next: Option<u32>,
    state: &'static str,
    by: &'static str,
}

#[derive(Template)]
#[template(path = "nodes-controls.html")]
struct NodesControls {
    by: Colouring,
    state: &'static str,
    from: String,
}

#[derive(Template)]
#[template(path = "events-controls.html")]
struct EventsControls {
    job: String,
    node: String,
}

#[derive(Template)]
#[template(path = "one-job.html")]
struct OneJob {
    job: Job,
    has_ended: bool,
    waits: Option<String>,
    /// Ranks that there are pages of, while none has a row.
    ranks: Vec<u32>,
}

#[derive(Template)]
#[template(path = "rank.html")]
struct OneRank {
    rank: Rank,
}

#[derive(Template)]
#[template(path = "node.html")]
struct OneNode {
    node: Node,
    /// The newest first.
    events: Vec<EventRow>,
}

#[derive(Template)]
#[template(path = "programs.html")]
struct Programs {
    programs: Vec<ProgramRow>,
    more: usize,
}

#[derive(Template)]
#[template(path = "checkpoints.html")]
struct Checkpoints {
    checkpoints: Vec<CheckpointRow>,
    more: usize,
}

#[derive(Template)]
#[template(path = "events.html")]
struct Events {
    events: Vec<EventRow>,
}

#[derive(Template)]
#[template(path = "links.html")]
struct Links {
    links: Vec<LinkRow>,
    next: Option<u32>,
}

impl Page {
    /// What is above its content and does not change with it.
    pub(super) fn controls(&self) -> Result<String, PageError> {
        let shown = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
        let wants = &self.wants;
        Ok(match self.kind {
            Kind::Nodes => {
                let state = wants.state.map_or("", |state| state.as_str());
                NodesControls { by: wants.by, state, from: shown(wants.from.map(u64::from)) }.render()?
            }
            Kind::Events => {
                EventsControls { job: shown(wants.job), node: shown(wants.node.map(u64::from)) }.render()?
            }
            _ => String::new(),
        })
    }

    /// What is on it now.
    pub(in crate::server) async fn content(&self, client: &Client) -> Result<Content, PageError> {
        let mut is_final = false;
        let html = match self.kind {
            Kind::Overview => overview(client).await?,
            Kind::Jobs => self.jobs(client).await?,
            Kind::Job(number) => {
                let matter = Matter::gather(client, number).await?;
                let evidence = &matter.evidence;
                let has_ended = evidence.job.job.state == JobState::Ended;
                is_final = has_ended;
                let waits = coppice_explain::waits_for(&evidence.job.job, &evidence.jobs, evidence.now_ns);
                let ranks =
                    if evidence.job.rank_reports.is_empty() { drawn_ranks(evidence.job.job.ranks) } else { vec![] };
                OneJob { job: Job { has_pages: true, ..Job::of(&matter)? }, has_ended, waits, ranks }.render()?
            }
            Kind::Rank { job, rank } => {
                let detail = client.job(job).await?;
                if rank >= detail.job.ranks {
                    return Err(PageError::Nothing(format!(
                        "rank {rank} of job {job}, which has {}",
                        detail.job.ranks
                    )));
                }
                let profile = client.rank_profile(job, rank, ProfileQuery { limit: None }).await?;
                is_final = detail.job.state == JobState::Ended;
                OneRank { rank: Rank::of(&detail, &profile)? }.render()?
            }
            Kind::Nodes => self.nodes(client).await?,
            Kind::Node(number) => node(client, number).await?,
            Kind::Programs => {
                let programs = client.programs().await?;
                let rows = programs.iter().take(ROWS_MAX as usize).map(ProgramRow::of).collect();
                Programs { programs: rows, more: programs.len().saturating_sub(ROWS_MAX as usize) }.render()?
            }
            Kind::Checkpoints => {
                let all = client.checkpoints(&CheckpointsQuery { job: self.wants.job }).await?;
                let rows = all.iter().rev().take(ROWS_MAX as usize).map(CheckpointRow::of).collect();
                Checkpoints { checkpoints: rows, more: all.len().saturating_sub(ROWS_MAX as usize) }.render()?
            }
            Kind::Events => {
                let wanted = RasQuery { limit: Some(ROWS_MAX), node: self.wants.node, job: self.wants.job };
                let events = client.ras(&wanted).await?;
                Events { events: events.iter().rev().map(EventRow::of).collect() }.render()?
            }
            Kind::Links => {
                let view = client.links(&LinksQuery { links: None }).await?;
                let from = self.wants.from.unwrap_or_default();
                let rest = view.links.get(from as usize..).unwrap_or_default();
                let links = rest.iter().take(ROWS_MAX as usize).map(LinkRow::of).collect();
                Links { links, next: (rest.len() > ROWS_MAX as usize).then(|| from.saturating_add(ROWS_MAX)) }
                    .render()?
            }
        };
        Ok(Content { html, is_final })
    }

    async fn jobs(&self, client: &Client) -> Result<String, PageError> {
        let before = self.wants.before;
        let jobs = client.jobs(&JobsQuery { limit: Some(ROWS_MAX), before }).await?;
        let is_full = jobs.len() == ROWS_MAX as usize;
        let older = jobs.first().map(|job| job.job).filter(|_| is_full);
        let now_ns = now_ns();
        let jobs = jobs.iter().rev().map(|job| JobRow::of(job, &jobs, now_ns)).collect();
        Ok(Jobs { jobs, before, older }.render()?)
    }

    async fn nodes(&self, client: &Client) -> Result<String, PageError> {
        let nodes = client.nodes().await?;
        let (state, from) = (self.wants.state, self.wants.from.unwrap_or_default());
        let is_listed =
            |node: &&coppice_api::node::NodeView| node.node >= from && state.is_none_or(|state| node.state == state);
        let mut listed = nodes.iter().filter(is_listed);
        let rows = listed.by_ref().take(ROWS_MAX as usize).map(NodeRow::of).collect();
        let content = Nodes {
            map: NodeMap::of(&nodes, self.wants.by),
            nodes: rows,
            all: nodes.len(),
            next: listed.next().map(|node| node.node),
            state: state.map_or("", |state| state.as_str()),
            by: self.wants.by.name(),
        };
        Ok(content.render()?)
    }
}

async fn overview(client: &Client) -> Result<String, PageError> {
    // Those that run or wait may be older than the newest.
    let listed = JobsQuery { limit: Some(ROWS_MAX), before: None };
    let (cluster, nodes, jobs) = tokio::try_join!(client.cluster(), client.nodes(), client.jobs(&listed))?;
    let now_ns = now_ns();
    let newest = jobs.len().saturating_sub(NEWEST_MAX as usize);
    let shown = jobs.iter().enumerate().rev().filter(|(place, job)| *place >= newest || job.state != JobState::Ended);
    let rows = shown.map(|(_, job)| JobRow::of(job, &jobs, now_ns)).collect();
    let map = NodeMap::of(&nodes, Colouring::State);
    Ok(Overview { cluster: Cluster::of(&cluster), map, jobs: rows }.render()?)
}

async fn node(client: &Client, number: u32) -> Result<String, PageError> {
    let nodes = client.nodes().await?;
    let view = nodes.iter().find(|node| node.node == number);
    let view = view.ok_or_else(|| PageError::Nothing(format!("node {number}; there are {}", nodes.len())))?;
    let events = RasQuery { limit: Some(NODE_EVENTS_MAX), node: Some(number), job: None };
    let (programs, events) = tokio::try_join!(client.programs(), client.ras(&events))?;
    let link = match number.to_string().parse() {
        Ok(links) => {
            let wanted = LinksQuery { links: Some(links) };
            timeout(LINK_TIME_MAX, client.links(&wanted)).await.ok().and_then(Result::ok)
        }
        Err(_) => None,
    };
    // A fabric that does not answer just now leaves one line out.
    let link = link.as_ref().and_then(|view| view.links.first()).map(LinkRow::of);
    let events = events.iter().rev().map(EventRow::of).collect();
    Ok(OneNode { node: Node::of(view, &programs, link), events }.render()?)
}

fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    u64::try_from(since).unwrap_or(u64::MAX)
}
