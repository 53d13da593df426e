//! Programs, and what nodes hold of them.

use axum::extract::State;
use coppice_api::program::ProgramView;
use coppice_api::retain::{ForgetOrder, Forgotten};

use super::{Answered, Api, Bad, Missing, Order, Usual, answer};
use crate::controller::Request;

/// The programs that were run, and files that nodes keep.
#[utoipa::path(
    get,
    path = "/v1/programs",
    tag = "programs",
    operation_id = "programs",
    responses((status = 200, description = "The programs.", body = Vec<ProgramView>), Usual)
)]
pub(super) async fn list(State(api): State<Api>) -> Answered<Vec<ProgramView>> {
    answer(api.ask(Request::Programs).await)
}

/// Has nodes give back what they hold of programs and files, and waits for them.
#[utoipa::path(
    post,
    path = "/v1/programs/forget",
    tag = "programs",
    operation_id = "forget",
    request_body = ForgetOrder,
    responses((status = 200, description = "What was given back.", body = Forgotten), Bad, Missing, Usual)
)]
pub(super) async fn forget(State(api): State<Api>, Order(order): Order<ForgetOrder>) -> Answered<Forgotten> {
    answer(api.ask(|answer| Request::Forget(order, answer)).await)
}
