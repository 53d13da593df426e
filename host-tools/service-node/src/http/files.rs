//! Files that nodes keep without a job.

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use coppice_api::keep::{KeepOrder, KeepReport};
use coppice_api::shown;

use super::jobs::find;
use super::{Answered, Api, answer};
use crate::controller::{Refused, Request};
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

pub(super) async fn keep(
    State(api): State<Api>,
    order: Result<Json<KeepOrder>, JsonRejection>,
) -> Answered<KeepReport> {
    let Json(order) = order.map_err(|error| Refused::bad(error.body_text()))?;
    if !order.file.is_absolute() {
        let file = shown(&order.file);
        return Err(Refused::bad(format!("'{file}' is not an absolute path of a file; give one")));
    }
    let (file, _) = find(&api, Kind::Data, &order.file).await?;
    let given = Given { request: api.next_request(), api };
    let report = given.api.ask(|answer| Request::Keep(given.request, order, file, answer)).await;
    answer(report)
}
