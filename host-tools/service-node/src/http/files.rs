//! Files that nodes keep without a job.

use axum::extract::State;
use axum::response::Response;
use coppice_api::body::ChannelBody;
use coppice_api::body::LINES_TYPE;
use coppice_api::keep::{KeepNews, KeepOrder, KeepReport};
use coppice_api::shown;
use coppice_api::stream::StagingProgress;
use hyper::body::Bytes;
use tokio::sync::{mpsc, oneshot, watch};

use super::jobs::find;
use super::{Api, Bad, Order, Usual, document, going_down};
use crate::controller::{Refused, Request};
use crate::limits::STREAM_PIECES_MAX;
use crate::store::Kind;

/// Gives an order up when whoever gave it is gone; that it was carried out ends it, too.
struct Given {
    api: Api,
    request: u64,
}

impl Drop for Given {
    fn drop(&mut self) {
        let (api, request) = (self.api.clone(), self.request);
        // A cluster that is going down ends it by itself.
        tokio::spawn(async move { drop(api.tell(Request::EndKeep(request)).await) });
    }
}

/// An order that is being carried out.
struct Keeping {
    _given: Given,
    progress: watch::Receiver<StagingProgress>,
    report: oneshot::Receiver<Result<KeepReport, Refused>>,
}

/// Has nodes keep a file in their memory.
///
/// One JSON line for how far the file is, now and then, and one for what came of it. What changes faster than it is
/// read is skipped. Closing the connection before gives it up.
#[utoipa::path(
    post,
    path = "/v1/files/keep",
    tag = "programs",
    operation_id = "keep_file",
    request_body = KeepOrder,
    responses(
        (
            status = 200,
            description = "Lines, the last of which is `kept` or `refused`.",
            body = KeepNews, content_type = LINES_TYPE
        ),
        Bad, Usual
    )
)]
pub(super) async fn keep(State(api): State<Api>, Order(order): Order<KeepOrder>) -> Result<Response, Refused> {
    if !order.file.is_absolute() {
        let file = shown(&order.file);
        return Err(Refused::bad(format!("'{file}' is not an absolute path of a file; give one")));
    }
    let (file, _) = find(&api, Kind::Data, &order.file).await?;
    let given = Given { request: api.next_request(), api };
    let ((said, progress), (answer, report)) = (watch::channel(StagingProgress::default()), oneshot::channel());
    given.api.tell(Request::Keep(given.request, order, file, said, answer)).await?;
    let mut keeping = Keeping { _given: given, progress, report };
    // What is refused is so at once.
    match keeping.next().await {
        KeepNews::Refused { status, error } => Err(Refused { status, message: error }),
        news => {
            let (pieces, body) = ChannelBody::new(STREAM_PIECES_MAX);
            tokio::spawn(keeping.say(news, pieces));
            Ok(document::of_type(LINES_TYPE, body))
        }
    }
}

impl Keeping {
    /// What there is to be said next.
    async fn next(&mut self) -> KeepNews {
        tokio::select! {
            biased;
            report = &mut self.report => match report.unwrap_or_else(|_| Err(going_down())) {
                Ok(report) => KeepNews::Kept(report),
                Err(Refused { status, message: error }) => KeepNews::Refused { status, error },
            },
            Ok(()) = self.progress.changed() => KeepNews::Staging(*self.progress.borrow_and_update()),
        }
    }

    /// Says all of it, as long as somebody listens.
    async fn say(mut self, first: KeepNews, pieces: mpsc::Sender<Bytes>) {
        let mut news = first;
        loop {
            let mut line = serde_json::to_vec(&news).unwrap_or_default();
            line.push(b'\n');
            let is_last = !matches!(news, KeepNews::Staging(_));
            if pieces.send(line.into()).await.is_err() || is_last {
                return;
            }
            news = tokio::select! {
                news = self.next() => news,
                () = pieces.closed() => return,
            };
        }
    }
}
