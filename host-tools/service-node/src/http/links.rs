//! Links: shown and changed.

use axum::extract::State;
use coppice_api::link::{LinkOrder, LinksQuery, LinksView};

use super::{Answered, Api, Bad, Missing, Order, Parameters, Usual, answer};
use crate::controller::Request;

/// Links of the cluster's network: what they are like, and what passed on them so far.
#[utoipa::path(
    get,
    path = "/v1/links",
    tag = "links",
    operation_id = "links",
    params(LinksQuery),
    responses((status = 200, description = "The links.", body = LinksView), Bad, Missing, Usual)
)]
pub(super) async fn show(State(api): State<Api>, Parameters(query): Parameters<LinksQuery>) -> Answered<LinksView> {
    answer(api.ask(|answer| Request::Links(query, answer)).await)
}

/// Changes links, and shows them as they are then.
///
/// If it is refused nothing has changed, unless the reason says otherwise.
#[utoipa::path(
    post,
    path = "/v1/links",
    tag = "links",
    operation_id = "change_links",
    request_body = LinkOrder,
    responses((status = 200, description = "The links, changed.", body = LinksView), Bad, Missing, Usual)
)]
pub(super) async fn change(State(api): State<Api>, Order(order): Order<LinkOrder>) -> Answered<LinksView> {
    answer(api.ask(|answer| Request::ChangeLinks(order, answer)).await)
}
