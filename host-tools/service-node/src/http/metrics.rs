//! What there is at a moment, as text for monitoring.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};

use super::{Api, Usual};
use crate::connections::Connections;
use crate::controller::{Refused, Request};
use crate::metrics::{Format, Snapshot, host, text};
use crate::output::keeper::KeptNow;

/// What is known here and not by the controller.
#[derive(Clone, Debug, Default)]
pub struct Around {
    /// Logs of jobs' output.
    pub kept: KeptNow,
    /// Connections of those who scrape over TCP, if anybody can.
    pub scrapers: Option<Connections>,
}

impl Api {
    /// The text, for which the controller is asked once.
    ///
    /// # Errors
    /// The cluster is gone.
    pub async fn metrics(&self, format: Format) -> Result<String, Refused> {
        let seen = *self.ask(Request::Metrics).await?;
        let Around { kept, scrapers } = &self.around;
        let (kept, api) = (kept.get(), self.connections.slots());
        let scrapers = scrapers.as_ref().map(Connections::slots).unwrap_or_default();
        // Thousands of lines, and a file of the system for each process: not for the thread that serves everybody.
        let made = tokio::task::spawn_blocking(move || {
            let processes = host::processes(&seen.helpers);
            text(Snapshot { seen, processes, kept, api, scrapers }, format)
        });
        let failed = |error: &dyn std::error::Error| Refused { status: 500, message: format!("no metrics: {error}") };
        made.await.map_err(|error| failed(&error))?.map_err(|error| failed(&error))
    }
}

/// The format that a request wants.
pub(crate) fn wanted(headers: &HeaderMap) -> Format {
    Format::accepted(headers.get_all(ACCEPT).iter().filter_map(|list| list.to_str().ok()))
}

/// What there is at the moment, for monitoring: nodes, jobs, processes, events.
///
/// The older format is sent to those who do not accept the newer one.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "metrics",
    operation_id = "metrics",
    responses(
        (status = 200, description = "Metrics.", content(
            (String = "application/openmetrics-text; version=1.0.0; charset=utf-8"),
            (String = "text/plain; version=0.0.4; charset=utf-8")
        )),
        Usual
    )
)]
pub(super) async fn metrics(State(api): State<Api>, headers: HeaderMap) -> Result<Response, Refused> {
    let format = wanted(&headers);
    let text = api.metrics(format).await?;
    Ok(([(CONTENT_TYPE, format.content_type())], text).into_response())
}
