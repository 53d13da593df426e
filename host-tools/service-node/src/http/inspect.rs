//! Looking into ranks that run.

use axum::extract::State;
use coppice_api::inspect::{ObjectsQuery, ObjectsView};
use coppice_api::schema;
use coppice_protocol::ids::{JobId, Rank};
use coppice_protocol::inspect::{Answer, Query, Question};

use super::{Answered, Api, Bad, Missing, Number, OfRank, Order, Parameters, Usual, answer};
use crate::controller::{Refused, Request};

/// What a rank that runs has open: files, pipes, sockets, timers, and what is in them.
#[utoipa::path(
    get,
    path = "/v1/jobs/{job}/ranks/{rank}/objects",
    tag = "inspection",
    operation_id = "objects",
    params(OfRank, ObjectsQuery),
    responses(
        (status = 200, description = "Some of it; it says where to go on.", body = ObjectsView),
        Bad, Missing, Usual
    )
)]
pub(super) async fn objects(
    State(api): State<Api>,
    Number(OfRank { job, rank }): Number<OfRank>,
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

/// What the node of a rank answers to a question about it.
///
/// This is how core files are written and programs debugged (`coppice core`, `coppice gdb`): a rank is held, told of
/// piece by piece, changed, and let go.
#[utoipa::path(
    post,
    path = "/v1/jobs/{job}/ranks/{rank}/questions",
    tag = "inspection",
    operation_id = "question",
    params(OfRank),
    request_body = schema::Query,
    responses((status = 200, description = "What the node answers.", body = schema::Answer), Bad, Missing, Usual)
)]
pub(super) async fn question(
    State(api): State<Api>,
    Number(OfRank { job, rank }): Number<OfRank>,
    Order(query): Order<Query>,
) -> Answered<Answer> {
    answer(api.ask(|answer| Request::Inspect(JobId(job), Rank(rank), query, answer)).await)
}
