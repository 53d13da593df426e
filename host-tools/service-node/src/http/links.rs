//! Links: shown and changed.

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Query, State};
use coppice_api::link::{LinkOrder, LinksQuery, LinksView};

use super::{Answered, Api, answer};
use crate::controller::{Refused, Request};

pub(super) async fn show(
    State(api): State<Api>,
    query: Result<Query<LinksQuery>, QueryRejection>,
) -> Answered<LinksView> {
    let Query(query) = query.map_err(|error| Refused::bad(error.body_text()))?;
    answer(api.ask(|answer| Request::Links(query, answer)).await)
}

pub(super) async fn change(
    State(api): State<Api>,
    order: Result<Json<LinkOrder>, JsonRejection>,
) -> Answered<LinksView> {
    let Json(order) = order.map_err(|error| Refused::bad(error.body_text()))?;
    answer(api.ask(|answer| Request::ChangeLinks(order, answer)).await)
}
