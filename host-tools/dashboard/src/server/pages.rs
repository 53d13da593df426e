//! Which page is where. What is on one is its [content](self::content), which is also what is sent when it is live;
//! around it all have the same.
//!
//! All that a page shows is in its address, so that it is the same when it is loaded again.

mod content;
mod wants;

use std::time::Duration;

use askama::Template;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{Html, IntoResponse, Response};
use coppice_api::error::ApiError;
use coppice_api::show::harmless;

pub(super) use self::content::Content;
use self::wants::Wants;
use super::Shared;
use crate::charts::ChartError;

/// How often a page is made again: one of a job costs more to make, and changes as often as its overlay has an epoch.
const EVERY: Duration = Duration::from_secs(1);
const EVERY_JOB: Duration = Duration::from_secs(3);

/// Which page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Page {
    kind: Kind,
    wants: Wants,
    /// Its path and what is asked of it.
    address: String,
}

/// A kind of page, and what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Overview,
    Jobs,
    Job(u64),
    Rank { job: u64, rank: u32 },
    Nodes,
    Node(u32),
    Programs,
    Checkpoints,
    Links,
    Events,
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
    #[error("there is no {0}")]
    Nothing(String),
}

#[derive(Template)]
#[template(path = "page.html")]
struct Whole<'a> {
    title: &'a str,
    sections: &'a [(&'static str, &'static str)],
    /// The one that it is in.
    section: &'a str,
    /// What does not change.
    controls: &'a str,
    content: &'a str,
    /// Where it says how it changes, if it does.
    live: Option<&'a str>,
}

#[derive(Template)]
#[template(path = "problem.html")]
struct Problem<'a> {
    text: &'a str,
    /// The cluster may be brought up.
    is_down: bool,
}

/// Parts of the dashboard: the address of each and its name.
const SECTIONS: [(&str, &str); 7] = [
    ("/", "Cluster"),
    ("/jobs", "Jobs"),
    ("/nodes", "Nodes"),
    ("/programs", "Programs"),
    ("/checkpoints", "Checkpoints"),
    ("/links", "Links"),
    ("/events", "Events"),
];

impl Page {
    /// The page at an address.
    pub(super) fn at(uri: &Uri) -> Option<Self> {
        Self::of(uri.path(), uri.query())
    }

    /// The page that is live at an address.
    pub(super) fn live_at(uri: &Uri) -> Option<Self> {
        Self::of(uri.path().strip_prefix("/live")?, uri.query())
    }

    fn of(path: &str, query: Option<&str>) -> Option<Self> {
        let parts: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
        let kind = match parts.as_slice() {
            [""] => Kind::Overview,
            ["jobs"] => Kind::Jobs,
            ["jobs", job] => Kind::Job(job.parse().ok()?),
            ["jobs", job, "ranks", rank] => Kind::Rank { job: job.parse().ok()?, rank: rank.parse().ok()? },
            ["nodes"] => Kind::Nodes,
            ["nodes", node] => Kind::Node(node.parse().ok()?),
            ["programs"] => Kind::Programs,
            ["checkpoints"] => Kind::Checkpoints,
            ["links"] => Kind::Links,
            ["events"] => Kind::Events,
            _ => return None,
        };
        let wants = Wants::of(query)?;
        let address = query.map_or_else(|| path.to_owned(), |query| format!("{path}?{query}"));
        Some(Self { kind, wants, address })
    }

    fn title(&self) -> String {
        match self.kind {
            Kind::Job(job) => format!("Job {job}"),
            Kind::Rank { job, rank } => format!("Rank {rank} of job {job}"),
            Kind::Node(node) => format!("Node {node}"),
            _ => {
                let section = SECTIONS.iter().find(|(address, _)| *address == self.section());
                section.map_or("Coppice", |(_, name)| name).to_owned()
            }
        }
    }

    /// The part of the dashboard that it is in.
    const fn section(&self) -> &'static str {
        match self.kind {
            Kind::Overview => "/",
            Kind::Jobs | Kind::Job(_) | Kind::Rank { .. } => "/jobs",
            Kind::Nodes | Kind::Node(_) => "/nodes",
            Kind::Programs => "/programs",
            Kind::Checkpoints => "/checkpoints",
            Kind::Links => "/links",
            Kind::Events => "/events",
        }
    }

    /// How often it is made again while it is live.
    pub(super) const fn every(&self) -> Duration {
        if matches!(self.kind, Kind::Job(_) | Kind::Rank { .. }) { EVERY_JOB } else { EVERY }
    }
}

impl PageError {
    /// What is on a page instead.
    pub(super) fn content(&self) -> String {
        let text = harmless(&self.to_string()).into_owned();
        let is_down = matches!(self, Self::Api(error) if !matches!(error, ApiError::Refused { .. }));
        Problem { text: &text, is_down }.render().unwrap_or(text)
    }

    const fn status(&self) -> StatusCode {
        match self {
            Self::Api(ApiError::Refused { status: 404, .. }) | Self::Nothing(_) => StatusCode::NOT_FOUND,
            Self::Api(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Chart(_) | Self::Template(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

/// The page of an address as it is now.
pub(super) async fn show(State(shared): State<Shared>, uri: Uri) -> Response {
    let Some(page) = Page::at(&uri) else { return unknown() };
    let (status, content, is_final) = match page.content(&shared.client).await {
        Ok(content) => (StatusCode::OK, content.html, content.is_final),
        // One that cannot be had now may be had in a moment, and one that there is not never.
        Err(error) => (error.status(), error.content(), error.status() == StatusCode::NOT_FOUND),
    };
    let live = (!is_final).then(|| format!("/live{}", page.address));
    match page.controls() {
        Ok(controls) => Whole {
            title: &page.title(),
            sections: &SECTIONS,
            section: page.section(),
            controls: &controls,
            content: &content,
            live: live.as_deref(),
        }
        .answer(status),
        Err(error) => problem(error.status(), &error.to_string()),
    }
}

/// There is no such page.
pub(super) fn unknown() -> Response {
    problem(StatusCode::NOT_FOUND, "There is no such page.")
}

/// A page that does not change.
pub(super) fn still(status: StatusCode, title: &str, content: askama::Result<String>) -> Response {
    match content {
        Ok(content) => Whole { title, sections: &SECTIONS, section: "", controls: "", content: &content, live: None }
            .answer(status),
        Err(error) => problem(StatusCode::INTERNAL_SERVER_ERROR, &PageError::from(error).to_string()),
    }
}

/// What is on a page instead of what there is not.
pub(super) fn problem_text(text: &str) -> askama::Result<String> {
    Problem { text: &harmless(text), is_down: false }.render()
}

fn problem(status: StatusCode, text: &str) -> Response {
    let content = problem_text(text).unwrap_or_else(|_| text.to_owned());
    Whole { title: "Coppice", sections: &SECTIONS, section: "", controls: "", content: &content, live: None }
        .answer(status)
}

impl Whole<'_> {
    fn answer(&self, status: StatusCode) -> Response {
        match self.render() {
            Ok(page) => (status, Html(page)).into_response(),
            Err(error) => {
                (StatusCode::INTERNAL_SERVER_ERROR, format!("cannot make the page: {error}\n")).into_response()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Page;

    #[test]
    fn addresses_lead_to_pages() {
        for (address, title, section) in [
            ("/", "Cluster", "/"),
            ("/jobs?before=700", "Jobs", "/jobs"),
            ("/jobs/7", "Job 7", "/jobs"),
            ("/jobs/7/ranks/3", "Rank 3 of job 7", "/jobs"),
            ("/nodes?state=failed&by=", "Nodes", "/nodes"),
            ("/nodes/3", "Node 3", "/nodes"),
            ("/checkpoints", "Checkpoints", "/checkpoints"),
        ] {
            let page = Page::at(&address.parse().expect("an address")).expect(address);
            assert_eq!((page.title().as_str(), page.section(), page.address.as_str()), (title, section, address));
            let live = Page::live_at(&format!("/live{address}").parse().expect("an address"));
            assert_eq!(live.as_ref(), Some(&page));
        }
        for address in
            ["/x", "/jobs/", "/jobs/x", "/jobs/7/ranks", "/nodes/-1", "/nodes?from=x", "/nodes?by=x", "/live"]
        {
            assert_eq!(Page::at(&address.parse().expect("an address")), None, "{address}");
        }
    }
}
