//! Cuts through jobs: their nodes are led through all steps, or as far as somebody wants to see.

use axum::extract::State;
use coppice_api::cut::{CutOrder, CutView};
use coppice_protocol::ids::JobId;
use coppice_protocol::inspect::cut::Step;

use super::{Answered, Api, Bad, Missing, Number, OfJob, Order, Usual, answer};
use crate::checkpoints::{Around, Leader, going_down};
use crate::controller::Request;

/// Has all ranks of a job become data and be made again, on all of its nodes at once.
///
/// It is for those who change Coppice; a checkpoint begins with one.
#[utoipa::path(
    post,
    path = "/v1/jobs/{job}/cut",
    tag = "inspection",
    operation_id = "cut",
    params(OfJob),
    request_body = CutOrder,
    responses((status = 200, description = "It was done.", body = CutView), Bad, Missing, Usual)
)]
pub(super) async fn cut(
    State(api): State<Api>,
    Number(OfJob { job }): Number<OfJob>,
    Order(order): Order<CutOrder>,
) -> Answered<CutView> {
    let job = JobId(job);
    let places = api.ask(|answer| Request::NodesOf(job, answer)).await?;
    let by = api.new_leader(job);
    let leader = Leader { around: api, job, by, places };
    // Whoever asked for it may go: nodes are not to wait for the next step then.
    let leading = tokio::spawn(async move {
        let end =
            Step::IN_ORDER.iter().position(|step| order.last == Some(*step)).map_or(Step::IN_ORDER.len(), |at| at + 1);
        let steps = leader.lead(&Step::IN_ORDER[..end]).await?;
        Ok(CutView { nodes: leader.places.len() as u32, steps })
    });
    answer(leading.await.map_err(|_| going_down())?)
}
