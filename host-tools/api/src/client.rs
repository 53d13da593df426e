//! Typed client of the API. One connection per request: they are local, cheap, and end with whoever made them.

mod checkpoints;
mod description;
mod metrics;
mod streams;

use std::io;
use std::time::Duration;

use coppice_protocol::inspect::{Answer, Query};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tokio_util::codec::{FramedRead, LinesCodec};

pub use self::metrics::METRICS_PATH;
pub use self::streams::{JobStream, Watch};
use self::streams::{next_line, reader};
use crate::body::JSON_TYPE;
use crate::cluster::ClusterView;
use crate::cut::{CutOrder, CutView};
use crate::error::{ApiError, Refusal};
use crate::holder;
use crate::inspect::ObjectsView;
use crate::job::{JobDetail, JobView, JobsQuery, KillOrder, Submission, Submitted};
use crate::keep::{KeepNews, KeepOrder, KeepReport};
use crate::limits::{ANSWER_BYTES_MAX, ANSWER_TIME_MAX, FORGET_ANSWER_TIME_MAX, STATE_BYTES_MAX};
use crate::link::{LinkOrder, LinksQuery, LinksView};
use crate::node::NodeView;
use crate::overlay::{OverlayOrder, OverlayView, ProfileQuery, ProfileView, RankProfileView};
use crate::paths::ClusterPaths;
use crate::presence;
use crate::program::ProgramView;
use crate::ras::{RasQuery, RasView};
use crate::retain::{ForgetOrder, Forgotten};
use crate::stacks::StacksView;
use crate::stream::StagingProgress;
use crate::version;

/// Asks one cluster's service node.
///
/// It costs nothing, and one of it may ask for several things at the same time. What needs nothing but the service
/// node is waited for 10 s ([`ANSWER_TIME_MAX`]); what takes as long as disks, nodes or jobs do has no limit: drop the
/// future to give it up. Errors are one line for people, [`ApiError::Refused`] with the status that says what kind it
/// is.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use coppice_api::{Client, ClusterPaths};
///
/// let paths = ClusterPaths::find("default".parse()?)?;
/// paths.check_runtime()?;
/// let cluster = Client::new(paths).cluster().await?;
/// println!("{} of {} nodes are ready", cluster.nodes_ready, cluster.nodes);
/// # Ok(())
/// # }
/// ```
///
/// `examples/jobs.rs` has a whole program.
#[derive(Clone, Debug)]
pub struct Client {
    paths: ClusterPaths,
}

impl Client {
    /// A client of the cluster with these paths; connects to nothing yet.
    #[must_use]
    pub fn new(paths: ClusterPaths) -> Self {
        Self { paths }
    }

    /// The cluster's paths.
    #[must_use]
    pub fn paths(&self) -> &ClusterPaths {
        &self.paths
    }

    /// The cluster as a whole.
    ///
    /// # Errors
    /// [`ApiError`], as for every request.
    pub async fn cluster(&self) -> Result<ClusterView, ApiError> {
        self.get("/v1/cluster").await
    }

    /// The cluster as it is now, and again whenever it changes, until it is down.
    ///
    /// # Errors
    /// [`ApiError`].
    pub async fn watch(&self) -> Result<Watch, ApiError> {
        let sent = self.send(Method::GET, "/v1/cluster/watch", Full::default());
        let response = self.within(ANSWER_TIME_MAX, sent).await?;
        Ok(Watch(FramedRead::new(reader(response), LinesCodec::new_with_max_length(STATE_BYTES_MAX))))
    }

    /// Ends the cluster. Answered at once; [`Watch`] ends when all is gone.
    ///
    /// # Errors
    /// [`ApiError`].
    pub async fn down(&self) -> Result<(), ApiError> {
        let told = async {
            // Whatever version it is of: this is the way out.
            let body = Full::<Bytes>::from("null");
            let response = self.exchange(Method::POST, "/v1/cluster/down", JSON_TYPE, body).await?;
            if response.status().is_success() { Ok(()) } else { Err(read_refusal(response).await) }
        };
        self.within(ANSWER_TIME_MAX, told).await
    }

    /// The nodes in order.
    ///
    /// # Errors
    /// [`ApiError`].
    pub async fn nodes(&self) -> Result<Vec<NodeView>, ApiError> {
        self.get("/v1/nodes").await
    }

    /// Boots a node anew; a job that has it ends.
    ///
    /// # Errors
    /// [`ApiError::Refused`] if there is no such node.
    pub async fn reboot(&self, node: u32) -> Result<(), ApiError> {
        self.post(&format!("/v1/nodes/{node}/reboot"), &()).await
    }

    /// Links: what they are like, and what passed on them so far.
    ///
    /// # Errors
    /// [`ApiError::Refused`] if there is no such link, or the fabric does not say.
    pub async fn links(&self, query: &LinksQuery) -> Result<LinksView, ApiError> {
        let links = query.links.as_ref().map(|links| format!("?links={links}")).unwrap_or_default();
        self.get(&format!("/v1/links{links}")).await
    }

    /// Changes links, and shows them as they are then.
    ///
    /// # Errors
    /// [`ApiError::Refused`] with the reason; nothing has changed then, unless that says otherwise.
    pub async fn change_links(&self, order: &LinkOrder) -> Result<LinksView, ApiError> {
        self.post("/v1/links", order).await
    }

    /// The newest jobs, the newest last.
    ///
    /// # Errors
    /// [`ApiError`].
    pub async fn jobs(&self, query: &JobsQuery) -> Result<Vec<JobView>, ApiError> {
        let mut parameters = Vec::new();
        parameters.extend(query.limit.map(|limit| format!("limit={limit}")));
        parameters.extend(query.before.map(|before| format!("before={before}")));
        self.get(&format!("/v1/jobs?{}", parameters.join("&"))).await
    }

    /// One job with its ranks.
    ///
    /// # Errors
    /// [`ApiError::Refused`] if there is no such job.
    pub async fn job(&self, job: u64) -> Result<JobDetail, ApiError> {
        self.get(&format!("/v1/jobs/{job}")).await
    }

    /// Some of what a rank has open, from this descriptor on.
    ///
    /// # Errors
    /// [`ApiError::Refused`] if there is no such job or rank, it does not run, or its node does not answer.
    pub async fn objects(&self, job: u64, rank: u32, from: u32) -> Result<ObjectsView, ApiError> {
        self.get(&format!("/v1/jobs/{job}/ranks/{rank}/objects?from={from}")).await
    }

    /// What the node of a rank answers to a question about it.
    ///
    /// # Errors
    /// As for [`Client::objects`].
    pub async fn question(&self, job: u64, rank: u32, query: &Query) -> Result<Answer, ApiError> {
        self.post(&format!("/v1/jobs/{job}/ranks/{rank}/questions"), query).await
    }

    /// Submits a job. Unless it is detached, its stream must be opened soon, or it is killed.
    ///
    /// # Errors
    /// [`ApiError::Refused`] with the reason: not a program, too many ranks, queue full, …
    pub async fn submit(&self, submission: &Submission) -> Result<Submitted, ApiError> {
        // It reads the program first, from whatever disk it lies on.
        self.post_and_wait("/v1/jobs", submission, Duration::MAX).await
    }

    /// Waits until a job has ended, however long that takes.
    ///
    /// # Errors
    /// [`ApiError::Refused`] if there is no such job; [`ApiError::Connection`] if the cluster ends before it does.
    pub async fn wait(&self, job: u64) -> Result<JobView, ApiError> {
        read_json(self.send(Method::GET, &format!("/v1/jobs/{job}/wait"), Full::default()).await?).await
    }

    /// Sends a job a signal.
    ///
    /// # Errors
    /// [`ApiError::Refused`] if there is no such job, it has ended, or it waits for nodes and the signal is none that
    /// ends it there.
    pub async fn kill(&self, job: u64, order: KillOrder) -> Result<(), ApiError> {
        self.post(&format!("/v1/jobs/{job}/kill"), &order).await
    }

    /// Has all ranks of a job become data and be made again, on all of its nodes at once.
    ///
    /// # Errors
    /// [`ApiError`].
    pub async fn cut(&self, job: u64, order: CutOrder) -> Result<CutView, ApiError> {
        self.post(&format!("/v1/jobs/{job}/cut"), &order).await
    }

    /// How a job's overlay is.
    ///
    /// # Errors
    /// [`ApiError::Refused`] if there is no such job, or it has ended.
    pub async fn overlay(&self, job: u64) -> Result<OverlayView, ApiError> {
        self.get(&format!("/v1/jobs/{job}/overlay")).await
    }

    /// Begins a job's overlay, or ends it, and says how it is then.
    ///
    /// # Errors
    /// As [`Self::overlay`], and if it cannot be as it is wanted.
    pub async fn order_overlay(&self, job: u64, order: &OverlayOrder) -> Result<OverlayView, ApiError> {
        self.post(&format!("/v1/jobs/{job}/overlay"), order).await
    }

    /// What was recorded of a job's overlays.
    ///
    /// # Errors
    /// [`ApiError::Refused`] if there is no such job.
    pub async fn profile(&self, job: u64, query: ProfileQuery) -> Result<ProfileView, ApiError> {
        let limit = query.limit.map(|limit| format!("?limit={limit}")).unwrap_or_default();
        self.get(&format!("/v1/jobs/{job}/profile{limit}")).await
    }

    /// What was recorded of one rank of a job.
    ///
    /// # Errors
    /// [`ApiError::Refused`] if there is no such job, or it has no such rank.
    pub async fn rank_profile(&self, job: u64, rank: u32, query: ProfileQuery) -> Result<RankProfileView, ApiError> {
        let limit = query.limit.map(|limit| format!("?limit={limit}")).unwrap_or_default();
        self.get(&format!("/v1/jobs/{job}/profile/ranks/{rank}{limit}")).await
    }

    /// What the ranks of a job were at, as they were sampled.
    ///
    /// # Errors
    /// [`ApiError::Refused`] if there is no such job.
    pub async fn stacks(&self, job: u64) -> Result<StacksView, ApiError> {
        self.get(&format!("/v1/jobs/{job}/stacks")).await
    }

    /// The newest RAS events, the newest last.
    ///
    /// # Errors
    /// [`ApiError`].
    pub async fn ras(&self, query: &RasQuery) -> Result<Vec<RasView>, ApiError> {
        let mut parameters = Vec::new();
        parameters.extend(query.limit.map(|limit| format!("limit={limit}")));
        parameters.extend(query.node.map(|node| format!("node={node}")));
        parameters.extend(query.job.map(|job| format!("job={job}")));
        self.get(&format!("/v1/ras?{}", parameters.join("&"))).await
    }

    /// The programs that were run.
    ///
    /// # Errors
    /// [`ApiError`].
    pub async fn programs(&self) -> Result<Vec<ProgramView>, ApiError> {
        self.get("/v1/programs").await
    }

    /// Has nodes give retained pages back, and waits for them.
    ///
    /// # Errors
    /// [`ApiError::Refused`] if no such program is known, or several are meant.
    pub async fn forget(&self, order: &ForgetOrder) -> Result<Forgotten, ApiError> {
        self.post_and_wait("/v1/programs/forget", order, FORGET_ANSWER_TIME_MAX).await
    }

    /// Has nodes keep a file, tells `show` now and then how far that is, and waits until they have it. Dropping this
    /// before gives it up.
    ///
    /// # Errors
    /// [`ApiError::Refused`] with the reason: no such file, no such node, too long, …
    pub async fn keep(&self, order: &KeepOrder, mut show: impl FnMut(StagingProgress)) -> Result<KeepReport, ApiError> {
        let json = serde_json::to_vec(order).map_err(|error| ApiError::Damaged(error.to_string()))?;
        // It takes as long as the links are slow.
        let response = self.send(Method::POST, "/v1/files/keep", Full::new(Bytes::from(json))).await?;
        let mut lines = FramedRead::new(reader(response), LinesCodec::new_with_max_length(ANSWER_BYTES_MAX));
        loop {
            match next_line(&mut lines).await? {
                Some(KeepNews::Staging(progress)) => show(progress),
                Some(KeepNews::Kept(report)) => return Ok(report),
                Some(KeepNews::Refused { status, error }) => return Err(ApiError::Refused { status, message: error }),
                None => return Err(ApiError::Connection("it ended before the answer did".to_owned())),
            }
        }
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ApiError> {
        let answered = async { read_json(self.get_response(path).await?).await };
        self.within(ANSWER_TIME_MAX, answered).await
    }

    async fn get_response(&self, path: &str) -> Result<Response<Incoming>, ApiError> {
        self.send(Method::GET, path, Full::default()).await
    }

    async fn post<B: Serialize, T: DeserializeOwned>(&self, path: &str, body: &B) -> Result<T, ApiError> {
        self.post_and_wait(path, body, ANSWER_TIME_MAX).await
    }

    async fn post_and_wait<B: Serialize, T: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
        patience: Duration,
    ) -> Result<T, ApiError> {
        let json = serde_json::to_vec(body).map_err(|error| ApiError::Damaged(error.to_string()))?;
        let answered = async { read_json(self.send(Method::POST, path, Full::new(Bytes::from(json))).await?).await };
        self.within(patience, answered).await
    }

    /// Waits so long for an answer.
    async fn within<T>(
        &self,
        patience: Duration,
        answered: impl Future<Output = Result<T, ApiError>>,
    ) -> Result<T, ApiError> {
        tokio::time::timeout(patience, answered).await.unwrap_or_else(|_| Err(self.silent(patience)))
    }

    /// Sends a request of JSON, or of nothing.
    async fn send(&self, method: Method, path: &str, body: Full<Bytes>) -> Result<Response<Incoming>, ApiError> {
        self.deliver(method, path, JSON_TYPE, body).await
    }

    /// Sends a request; an answer other than success becomes an error, and so does one of a service node that is not
    /// understood.
    async fn deliver<B>(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: B,
    ) -> Result<Response<Incoming>, ApiError>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let response = self.exchange(method, path, content_type, body).await?;
        version::check(response.headers())?;
        if response.status().is_success() { Ok(response) } else { Err(read_refusal(response).await) }
    }

    /// Sends a request on a connection of its own.
    async fn exchange<B>(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: B,
    ) -> Result<Response<Incoming>, ApiError>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let stream = UnixStream::connect(self.paths.api_socket()).await.map_err(|error| self.connect_error(error))?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "coppice")
            .header("content-type", content_type)
            .body(body)
            .map_err(|error| ApiError::Damaged(error.to_string()))?;
        Ok(sender.send_request(request).await?)
    }

    fn connect_error(&self, error: io::Error) -> ApiError {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => match presence::find(&self.paths) {
                Some(present) => ApiError::Unreachable {
                    cluster: self.paths.name().to_string(),
                    process: present.process().as_raw_pid(),
                    socket: self.paths.api_socket(),
                },
                None => match holder::check(&self.paths) {
                    Err(elsewhere) => ApiError::Elsewhere(elsewhere),
                    Ok(()) => ApiError::NotUp(self.paths.name().to_string()),
                },
            },
            // More wait to be heard than the system lets wait.
            io::ErrorKind::WouldBlock => self.silent(Duration::ZERO),
            _ => ApiError::Connect(error),
        }
    }

    fn silent(&self, waited: Duration) -> ApiError {
        let process = presence::find(&self.paths).map(|present| present.process().as_raw_pid());
        ApiError::Silent { process, waited }
    }
}

async fn read_body(response: Response<Incoming>) -> Result<Bytes, ApiError> {
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
    let failed = |error: Box<dyn std::error::Error + Send + Sync>| match error.downcast_ref::<LengthLimitError>() {
        Some(_) => ApiError::Damaged(format!("an answer of more than {ANSWER_BYTES_MAX} bytes")),
        None => ApiError::Connection(error.to_string()),
    };
    Ok(body.map_err(failed)?.to_bytes())
}

async fn read_json<T: DeserializeOwned>(response: Response<Incoming>) -> Result<T, ApiError> {
    let body = read_body(response).await?;
    serde_json::from_slice(&body).map_err(|error| ApiError::Damaged(error.to_string()))
}

async fn read_refusal(response: Response<Incoming>) -> ApiError {
    let status = response.status();
    match read_body(response).await {
        Ok(body) => match serde_json::from_slice::<Refusal>(&body) {
            Ok(refusal) => ApiError::Refused { status: status.as_u16(), message: refusal.error },
            Err(_) if status == StatusCode::NOT_FOUND => ApiError::Damaged("no such request".into()),
            Err(_) => ApiError::Damaged(format!("status {status}")),
        },
        Err(error) => error,
    }
}
