//! What a page can have done: what a command would do, by the same request.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use coppice_api::job::KillOrder;
use coppice_api::signal::SIGTERM;

use super::Shared;
use super::pages::refused;

/// Ends a job as `coppice kill` does.
pub(super) async fn kill(State(shared): State<Shared>, Path(job): Path<u64>) -> Response {
    match shared.client.kill(job, KillOrder { signal: SIGTERM }).await {
        Ok(()) => Redirect::to(&format!("/jobs/{job}")).into_response(),
        Err(error) => refused(StatusCode::CONFLICT, &error),
    }
}
