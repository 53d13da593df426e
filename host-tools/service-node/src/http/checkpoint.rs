//! Users who have a checkpoint made.

use axum::extract::State;
use coppice_api::checkpoint::{CheckpointReport, MakeOrder};
use coppice_protocol::ids::JobId;

use super::{Answered, Api, Bad, Missing, Number, OfJob, Order, Usual, answer};
use crate::checkpoints::{going_down, make};

/// Makes a checkpoint of a job that runs.
///
/// It is answered when there is one, which takes as long as disks do. If it is refused there is none, and the job goes
/// on.
#[utoipa::path(
    post,
    path = "/v1/jobs/{job}/checkpoint",
    tag = "checkpoints",
    operation_id = "checkpoint",
    params(OfJob),
    request_body = MakeOrder,
    responses((status = 200, description = "It was made.", body = CheckpointReport), Bad, Missing, Usual)
)]
pub(super) async fn checkpoint(
    State(api): State<Api>,
    Number(OfJob { job }): Number<OfJob>,
    Order(order): Order<MakeOrder>,
) -> Answered<CheckpointReport> {
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
