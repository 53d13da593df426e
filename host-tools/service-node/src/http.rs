//! The HTTP API on its Unix socket: reads requests, asks the controller, writes answers.

mod around;
mod checkpoint;
mod checkpoints;
mod clusters;
mod cut;
mod deleting;
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

use std::sync::{Arc, LazyLock};
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::{DefaultBodyLimit, FromRequestParts, Path, Query, State};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::map_response;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use coppice_api::client::METRICS_PATH;
use coppice_api::error::Refusal;
use coppice_api::limits::REQUEST_BYTES_MAX;
use coppice_api::ras::{RasQuery, RasView};
use coppice_api::version::{HEADER, VERSION};
use coppice_storage::Storage;
use serde::Serialize;
use tokio::sync::{Semaphore, mpsc, oneshot};

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
        Router::new()
            .route("/v1/cluster", get(clusters::cluster))
            .route("/v1/cluster/watch", get(clusters::watch))
            .route("/v1/cluster/down", post(clusters::down))
            .route("/v1/nodes", get(clusters::nodes))
            .route("/v1/nodes/{node}/reboot", post(clusters::reboot))
            .route("/v1/links", get(links::show).post(links::change))
            .route("/v1/jobs", get(jobs::list).post(jobs::submit))
            .route("/v1/jobs/{job}", get(jobs::show))
            .route("/v1/jobs/{job}/kill", post(jobs::kill))
            .route("/v1/jobs/{job}/stream", get(streams::output))
            .route("/v1/jobs/{job}/ranks/{rank}/objects", get(inspect::objects))
            .route("/v1/jobs/{job}/ranks/{rank}/questions", post(inspect::question))
            .route("/v1/jobs/{job}/cut", post(cut::cut))
            .route("/v1/jobs/{job}/checkpoint", post(checkpoint::checkpoint))
            .route("/v1/jobs/{job}/restart", post(restart::restart))
            .route("/v1/jobs/{job}/overlay", get(overlays::show).post(overlays::order))
            .route("/v1/jobs/{job}/profile", get(overlays::profile))
            .route("/v1/jobs/{job}/profile/ranks/{rank}", get(overlays::rank_profile))
            .route("/v1/jobs/{job}/stacks", get(overlays::stacks))
            .route("/v1/jobs/{job}/trace", get(streams::trace))
            .route("/v1/jobs/{job}/attach", get(streams::attach))
            .route("/v1/jobs/{job}/log", get(logs::log))
            .route("/v1/jobs/{job}/wait", get(logs::wait))
            .route("/v1/jobs/{job}/input", put(streams::input))
            .route("/v1/checkpoints", get(checkpoints::list))
            .route("/v1/checkpoints/delete", post(deleting::delete))
            .route("/v1/checkpoints/verify", post(verifying::verify))
            .route("/v1/files/keep", post(files::keep))
            .route("/v1/ras", get(ras))
            .route("/v1/programs", get(programs::list))
            .route("/v1/programs/forget", post(programs::forget))
            .route(METRICS_PATH, get(metrics::metrics))
            .fallback(async || Refused::missing("there is no such request".to_owned()))
            .layer(DefaultBodyLimit::max(REQUEST_BYTES_MAX))
            .layer(map_response(with_version))
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

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, Json(Refusal { error: self.message })).into_response()
    }
}

/// An answer that says which version of the API it belongs to.
async fn with_version(mut answer: Response) -> Response {
    static VALUE: LazyLock<Option<HeaderValue>> = LazyLock::new(|| VERSION.to_string().try_into().ok());
    answer.headers_mut().extend(VALUE.clone().map(|version| (HEADER, version)));
    answer
}

async fn ras(State(api): State<Api>, Query(query): Query<RasQuery>) -> Answered<Vec<RasView>> {
    answer(api.ask(|answer| Request::Ras(query, answer)).await)
}

fn answer<T: Serialize>(result: Result<T, Refused>) -> Answered<T> {
    result.map(Json)
}

/// A number in the path of a request.
struct Number<T>(T);

impl<S: Send + Sync, T: serde::de::DeserializeOwned + Send> FromRequestParts<S> for Number<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut axum::http::request::Parts, state: &S) -> Result<Self, Refused> {
        let number = Path::<T>::from_request_parts(parts, state).await;
        number.map(|Path(number)| Self(number)).map_err(|error| Refused::bad(error.body_text()))
    }
}
