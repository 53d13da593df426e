//! What is kept of a job's output, all of it: as text for the browser to show or keep, as it comes.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use coppice_api::client::JobStream;
use coppice_api::error::ApiError;
use coppice_api::output::LogQuery;
use coppice_api::stream::{JobEvent, StreamFrame};
use futures_util::stream::{self, Stream};

use super::Shared;
use super::pages::{still, unknown};

/// The output of a job.
pub(super) async fn output(State(shared): State<Shared>, Path(job): Path<String>) -> Response {
    let Ok(job) = job.parse::<u64>() else { return unknown() };
    match shared.client.log(job, &LogQuery { follow: false, rank: None, stream: None }).await {
        Ok(log) => {
            // Never as a page of its own, whatever is in it.
            let file = format!("attachment; filename=\"job-{job}.txt\"");
            let headers = [(CONTENT_TYPE, "text/plain; charset=utf-8".to_owned()), (CONTENT_DISPOSITION, file)];
            (headers, Body::from_stream(bytes(log))).into_response()
        }
        Err(error) => {
            let status = match &error {
                ApiError::Refused { status: 404, .. } => StatusCode::NOT_FOUND,
                ApiError::Refused { .. } => StatusCode::CONFLICT,
                _ => StatusCode::SERVICE_UNAVAILABLE,
            };
            still(status, "Output", super::pages::problem_text(&error.to_string()))
        }
    }
}

/// What ranks wrote, of both streams, in the order in which it was kept.
fn bytes(log: JobStream) -> impl Stream<Item = Result<Vec<u8>, ApiError>> {
    stream::try_unfold(log, |mut log| async move {
        while let Some(frame) = log.next_frame().await? {
            match frame {
                StreamFrame::Output { bytes, .. } | StreamFrame::Error { bytes, .. } => {
                    return Ok(Some((bytes.to_vec(), log)));
                }
                StreamFrame::Event(JobEvent::Kept(_) | JobEvent::Unreadable { .. }) => return Ok(None),
                StreamFrame::Event(_) | StreamFrame::Trace { .. } => {}
            }
        }
        Ok(None)
    })
}
