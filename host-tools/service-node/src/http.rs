//! The HTTP API on its Unix socket: reads requests, asks the controller, writes answers.

mod around;
mod checkpoint;
mod checkpoints;
mod clusters;
mod cut;
mod deleting;
mod document;
mod extract;
mod files;
mod inspect;
mod jobs;
mod links;
mod logs;
mod metrics;
mod overlays;
mod programs;
mod restart;
mod spawn;
mod streams;
mod verifying;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::middleware::map_response;
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use coppice_api::error::Refusal;
use coppice_api::limits::REQUEST_BYTES_MAX;
use coppice_api::ras::{RasQuery, RasView};
use coppice_storage::Storage;
use serde::Serialize;
use tokio::sync::{Semaphore, mpsc, oneshot};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use self::document::{Bad, Missing, Usual};
use self::extract::{Number, OfJob, OfNode, OfRank, Order, Parameters};
use self::logs::LogFiles;
pub use self::metrics::Around;
pub(crate) use self::metrics::wanted;
use crate::checkpoints::{Checkpoints, going_down};
use crate::connections::Connections;
use crate::controller::{Event, Refused, Request};
use crate::host_files::HostFiles;
use crate::limits::IMPORTS_MAX;
use crate::store::ProgramStore;

/// What request handlers share.
#[derive(Clone, Debug)]
pub struct Api {
    events: mpsc::Sender<Event>,
    store: ProgramStore,
    imports: Arc<Semaphore>,
    files: HostFiles,
    logs: LogFiles,
    connections: Connections,
    checkpoints: Checkpoints,
    around: Around,
    /// Counts orders that are given up when whoever gave them is gone.
    requests: Arc<AtomicU64>,
}

/// An answer, or why there is none.
type Answered<T> = Result<Json<T>, Refused>;

impl Api {
    /// An API that asks whoever takes these events, over these connections, with checkpoints in that directory.
    #[must_use]
    pub fn new(
        events: mpsc::Sender<Event>,
        store: ProgramStore,
        connections: Connections,
        storage: Arc<Storage>,
    ) -> Self {
        let imports = Arc::new(Semaphore::new(IMPORTS_MAX));
        Self {
            events,
            store,
            imports,
            files: HostFiles::default(),
            logs: LogFiles::default(),
            connections,
            checkpoints: Checkpoints::new(storage),
            around: Around::default(),
            requests: Arc::default(),
        }
    }

    /// The same that knows more for metrics.
    #[must_use]
    pub fn around(self, around: Around) -> Self {
        Self { around, ..self }
    }

    /// All that can be asked.
    pub fn router(self) -> Router {
        Router::from(routes())
            .fallback(async || Refused::missing("there is no such request".to_owned()))
            .method_not_allowed_fallback(async || Refused { status: 405, message: "use another method".to_owned() })
            .layer(DefaultBodyLimit::max(REQUEST_BYTES_MAX))
            .layer(map_response(document::with_version))
            .with_state(self)
    }

    /// A number that no other order has.
    fn next_request(&self) -> u64 {
        self.requests.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Asks the controller and waits for its answer.
    async fn ask<T>(&self, request: impl FnOnce(oneshot::Sender<Result<T, Refused>>) -> Request) -> Result<T, Refused> {
        let (answer, answered) = oneshot::channel();
        self.tell(request(answer)).await?;
        answered.await.map_err(|_| going_down())?
    }

    /// Tells the controller something it does not answer.
    async fn tell(&self, request: Request) -> Result<(), Refused> {
        self.events.send(Event::Request(request)).await.map_err(|_| going_down())
    }
}

/// Every request that there is, with its description: there is no other way in.
fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::with_openapi(document::head())
        .routes(routes!(clusters::cluster))
        .routes(routes!(clusters::watch))
        .routes(routes!(clusters::down))
        .routes(routes!(clusters::nodes))
        .routes(routes!(clusters::reboot))
        .routes(routes!(links::show, links::change))
        .routes(routes!(jobs::list, jobs::submit))
        .routes(routes!(jobs::show))
        .routes(routes!(jobs::kill))
        .routes(routes!(streams::output))
        .routes(routes!(streams::attach))
        .routes(routes!(streams::trace))
        .routes(routes!(streams::input))
        .routes(routes!(logs::log))
        .routes(routes!(logs::wait))
        .routes(routes!(inspect::objects))
        .routes(routes!(inspect::question))
        .routes(routes!(cut::cut))
        .routes(routes!(checkpoint::checkpoint))
        .routes(routes!(restart::restart))
        .routes(routes!(checkpoints::list))
        .routes(routes!(deleting::delete))
        .routes(routes!(verifying::verify))
        .routes(routes!(overlays::show, overlays::order))
        .routes(routes!(overlays::profile))
        .routes(routes!(overlays::rank_profile))
        .routes(routes!(overlays::stacks))
        .routes(routes!(files::keep))
        .routes(routes!(programs::list))
        .routes(routes!(programs::forget))
        .routes(routes!(ras))
        .routes(routes!(metrics::metrics))
        .routes(routes!(document::openapi))
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, Json(Refusal { error: self.message })).into_response()
    }
}

/// The newest RAS events, the newest last.
#[utoipa::path(
    get,
    path = "/v1/ras",
    tag = "events",
    params(RasQuery),
    responses((status = 200, description = "Events.", body = Vec<RasView>), Bad, Usual)
)]
async fn ras(State(api): State<Api>, Parameters(query): Parameters<RasQuery>) -> Answered<Vec<RasView>> {
    answer(api.ask(|answer| Request::Ras(query, answer)).await)
}

fn answer<T: Serialize>(result: Result<T, Refused>) -> Answered<T> {
    result.map(Json)
}
