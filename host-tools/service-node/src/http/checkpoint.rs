//! Users who have a checkpoint made.

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use coppice_api::checkpoint::{CheckpointReport, MakeOrder};
use coppice_protocol::ids::JobId;

use super::{Answered, Api, Number, answer};
use crate::checkpoints::{going_down, make};
use crate::controller::Refused;

/// Makes a checkpoint of a job.
pub(super) async fn checkpoint(
    State(api): State<Api>,
    Number(job): Number<u64>,
    order: Result<Json<MakeOrder>, JsonRejection>,
) -> Answered<CheckpointReport> {
    let Json(order) = order.map_err(|error| Refused::bad(error.body_text()))?;
    let job = JobId(job);
    let making = api.checkpoints.make(job)?;
    // Whoever asked for it may go: nodes are not to wait for the next step then.
    let leading = tokio::spawn(async move {
        let made = make(&api, job, order).await;
        drop(making);
        made
    });
    answer(leading.await.map_err(|_| going_down())?)
}
