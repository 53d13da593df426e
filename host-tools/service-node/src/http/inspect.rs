//! Looking into ranks that run.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Query, State};
use coppice_api::inspect::{ObjectsQuery, ObjectsView};
use coppice_protocol::ids::{JobId, Rank};
use coppice_protocol::inspect::{Answer, Question};

use super::{Answered, Api, Number, answer};
use crate::controller::{Refused, Request};

/// What a rank has open.
pub(super) async fn objects(
    State(api): State<Api>,
    Number((job, rank)): Number<(u64, u32)>,
    Query(query): Query<ObjectsQuery>,
) -> Answered<ObjectsView> {
    let question = Question::Objects { from: query.from };
    let answered = api.ask(|answer| Request::Inspect(JobId(job), Rank(rank), question, answer)).await?;
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
    question: Result<Json<Question>, JsonRejection>,
) -> Answered<Answer> {
    let Json(question) = question.map_err(|error| Refused::bad(error.body_text()))?;
    answer(api.ask(|answer| Request::Inspect(JobId(job), Rank(rank), question, answer)).await)
}
