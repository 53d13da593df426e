//! Looking into ranks that run.

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
        Answer::NotHere => Err(Refused::conflict("the node said something else than was asked")),
    })
}
