//! Looking into ranks that run.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Query as Parameters, State};
use coppice_api::inspect::{ObjectsQuery, ObjectsView};
use coppice_protocol::ids::{JobId, Rank};
use coppice_protocol::inspect::{Answer, Query, Question};

use super::{Answered, Api, Number, answer};
use crate::controller::{Refused, Request};

/// What a rank has open.
pub(super) async fn objects(
    State(api): State<Api>,
    Number((job, rank)): Number<(u64, u32)>,
    Parameters(parameters): Parameters<ObjectsQuery>,
) -> Answered<ObjectsView> {
    // It needs no hold.
    let query = Query { by: 0, question: Question::Objects { from: parameters.from } };
    let answered = api.ask(|answer| Request::Inspect(JobId(job), Rank(rank), query, answer)).await?;
    answer(match answered {
        Answer::Objects { objects, next } => {
            Ok(ObjectsView { objects: objects.into_iter().map(Into::into).collect(), next })
        }
        _ => Err(Refused::conflict("the node said something else than was asked")),
    })
}

/// What the node of a rank answers to a question.
pub(super) async fn question(
    State(api): State<Api>,
    Number((job, rank)): Number<(u64, u32)>,
    query: Result<Json<Query>, JsonRejection>,
) -> Answered<Answer> {
    let Json(query) = query.map_err(|error| Refused::bad(error.body_text()))?;
    answer(api.ask(|answer| Request::Inspect(JobId(job), Rank(rank), query, answer)).await)
}
