//! Programs, and what nodes hold of them.

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use coppice_api::program::ProgramView;
use coppice_api::retain::{ForgetOrder, Forgotten};

use super::{Answered, Api, answer};
use crate::controller::{Refused, Request};

pub(super) async fn list(State(api): State<Api>) -> Answered<Vec<ProgramView>> {
    answer(api.ask(Request::Programs).await)
}

pub(super) async fn forget(
    State(api): State<Api>,
    order: Result<Json<ForgetOrder>, JsonRejection>,
) -> Answered<Forgotten> {
    let Json(order) = order.map_err(|error| Refused::bad(error.body_text()))?;
    answer(api.ask(|answer| Request::Forget(order, answer)).await)
}
