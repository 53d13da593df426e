//! The pages. What is on one is its content, which is also what is sent when it is live; around it all have the same.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use askama::Template;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use coppice_api::Client;
use coppice_api::error::ApiError;
use coppice_api::job::{JobState, JobsQuery};
use coppice_api::link::LinksQuery;
use coppice_api::ras::RasQuery;
use coppice_api::show::harmless;

use super::Shared;
use crate::charts::ChartError;
use crate::cluster::{Cluster, EventRow, JobRow, LinkRow, NodeRow, ProgramRow};
use crate::job::Job;
use crate::map::NodeMap;
use crate::matter::Matter;

/// Rows of a list that are shown: of jobs and events the newest.
const ROWS_MAX: u32 = 200;

/// How often a page is made again: one of a job costs more to make, and changes as often as its overlay has an epoch.
const EVERY: Duration = Duration::from_secs(1);
const EVERY_JOB: Duration = Duration::from_secs(3);

/// Which page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    Overview,
    Nodes,
    Job(u64),
    Programs,
    Events,
    Links,
}

/// What is on a page.
pub(super) struct Content {
    pub(super) html: String,
    /// It will never be another.
    pub(super) is_final: bool,
}

/// Why there is no content.
#[derive(Debug, thiserror::Error)]
pub(super) enum PageError {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(transparent)]
    Chart(#[from] ChartError),
    #[error("cannot make the page: {0}")]
    Template(#[from] askama::Error),
}

#[derive(Template)]
#[template(path = "page.html")]
struct Whole<'a> {
    title: &'a str,
    path: &'a str,
    content: &'a str,
    /// Where it says how it changes, if it does.
    live: Option<&'a str>,
}

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    cluster: Cluster,
    map: NodeMap,
    jobs: Vec<JobRow>,
}

#[derive(Template)]
#[template(path = "nodes.html")]
struct Nodes {
    map: NodeMap,
    nodes: Vec<NodeRow>,
    more: usize,
}

#[derive(Template)]
#[template(path = "one-job.html")]
struct OneJob {
    job: Job,
    has_ended: bool,
}

#[derive(Template)]
#[template(path = "programs.html")]
struct Programs {
    programs: Vec<ProgramRow>,
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
    more: usize,
}

#[derive(Template)]
#[template(path = "problem.html")]
struct Problem<'a> {
    text: &'a str,
}

impl Page {
    /// The page at a path, without the stroke in front.
    pub(super) fn at(path: &str) -> Option<Self> {
        Some(match path {
            "overview" => Self::Overview,
            "nodes" => Self::Nodes,
            "programs" => Self::Programs,
            "events" => Self::Events,
            "links" => Self::Links,
            other => Self::Job(other.strip_prefix("jobs/")?.parse().ok()?),
        })
    }

    fn path(self) -> String {
        match self {
            Self::Overview => "overview".to_owned(),
            Self::Nodes => "nodes".to_owned(),
            Self::Job(job) => format!("jobs/{job}"),
            Self::Programs => "programs".to_owned(),
            Self::Events => "events".to_owned(),
            Self::Links => "links".to_owned(),
        }
    }

    fn title(self) -> String {
        match self {
            Self::Overview => "Cluster".to_owned(),
            Self::Nodes => "Nodes".to_owned(),
            Self::Job(job) => format!("Job {job}"),
            Self::Programs => "Programs".to_owned(),
            Self::Events => "Events".to_owned(),
            Self::Links => "Links".to_owned(),
        }
    }

    /// How often it is made again while it is live.
    pub(super) const fn every(self) -> Duration {
        if matches!(self, Self::Job(_)) { EVERY_JOB } else { EVERY }
    }

    /// What is on it now.
    pub(super) async fn content(self, client: &Client) -> Result<Content, PageError> {
        let rows = ROWS_MAX as usize;
        let mut is_final = false;
        let html = match self {
            Self::Overview => {
                let listed = JobsQuery { limit: Some(ROWS_MAX) };
                let (cluster, nodes, jobs) = tokio::try_join!(client.cluster(), client.nodes(), client.jobs(&listed))?;
                let now_ns = now_ns();
                let jobs = jobs.iter().rev().take(rows).map(|job| JobRow::of(job, now_ns)).collect();
                Overview { cluster: Cluster::of(&cluster), map: NodeMap::of(&nodes), jobs }.render()?
            }
            Self::Nodes => {
                let nodes = client.nodes().await?;
                let listed = nodes.iter().take(rows).map(NodeRow::of).collect();
                Nodes { map: NodeMap::of(&nodes), nodes: listed, more: nodes.len().saturating_sub(rows) }.render()?
            }
            Self::Job(job) => {
                let matter = Matter::gather(client, job).await?;
                let has_ended = matter.evidence.job.job.state == JobState::Ended;
                is_final = has_ended;
                OneJob { job: Job::of(&matter)?, has_ended }.render()?
            }
            Self::Programs => {
                let programs = client.programs().await?;
                Programs { programs: programs.iter().take(rows).map(ProgramRow::of).collect() }.render()?
            }
            Self::Events => {
                let events = client.ras(&RasQuery { limit: Some(ROWS_MAX), node: None, job: None }).await?;
                Events { events: events.iter().rev().map(EventRow::of).collect() }.render()?
            }
            Self::Links => {
                let view = client.links(&LinksQuery { links: None }).await?;
                let links = view.links.iter().take(rows).map(LinkRow::of).collect();
                Links { links, more: view.links.len().saturating_sub(rows) }.render()?
            }
        };
        Ok(Content { html, is_final })
    }
}

impl PageError {
    /// What is on a page instead.
    pub(super) fn content(&self) -> String {
        let text = harmless(&self.to_string()).into_owned();
        Problem { text: &text }.render().unwrap_or(text)
    }

    const fn status(&self) -> StatusCode {
        match self {
            Self::Api(ApiError::Refused { status: 404, .. }) => StatusCode::NOT_FOUND,
            Self::Api(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Chart(_) | Self::Template(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    u64::try_from(since).unwrap_or(u64::MAX)
}

/// A page as it is now.
pub(super) async fn show(State(shared): State<Shared>, page: Page) -> Response {
    let (status, content, is_final) = match page.content(&shared.client).await {
        Ok(content) => (StatusCode::OK, content.html, content.is_final),
        // One that cannot be had now may be had in a moment, and one that there is not never.
        Err(error) => (error.status(), error.content(), error.status() == StatusCode::NOT_FOUND),
    };
    let live = (!is_final).then(|| format!("/live/{}", page.path()));
    whole(status, &page.title(), &page.path(), &content, live.as_deref())
}

/// The page of a job.
pub(super) async fn show_job(state: State<Shared>, Path(job): Path<String>) -> Response {
    match job.parse() {
        Ok(job) => show(state, Page::Job(job)).await,
        Err(_) => unknown(),
    }
}

/// There is no such page.
pub(super) async fn none() -> Response {
    unknown()
}

/// There is no such page.
pub(super) fn unknown() -> Response {
    problem(StatusCode::NOT_FOUND, "There is no such page.")
}

/// A page that does not change.
pub(super) fn still(status: StatusCode, title: &str, content: askama::Result<String>) -> Response {
    match content {
        Ok(content) => whole(status, title, "", &content, None),
        Err(error) => problem(StatusCode::INTERNAL_SERVER_ERROR, &PageError::from(error).to_string()),
    }
}

fn problem(status: StatusCode, text: &str) -> Response {
    let content = Problem { text }.render().unwrap_or_else(|_| text.to_owned());
    whole(status, "Coppice", "", &content, None)
}

fn whole(status: StatusCode, title: &str, path: &str, content: &str, live: Option<&str>) -> Response {
    match (Whole { title, path, content, live }).render() {
        Ok(page) => (status, Html(page)).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("cannot make the page: {error}\n")).into_response(),
    }
}
