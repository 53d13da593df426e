//! Cuts through jobs ([`coppice_protocol::inspect::cut`]): one rank of each node is asked for a step, and for the next
//! when all nodes have done it. If one could not, all go on.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::Instant;

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use coppice_api::cut::{CutOrder, CutStep, CutView};
use coppice_protocol::ids::{JobId, Rank};
use coppice_protocol::inspect::cut::Step;
use coppice_protocol::inspect::{Answer, Query, Question};
use futures_util::future::join_all;

use super::{Answered, Api, Number, answer, going_down};
use crate::controller::{Refused, Request};

/// How often it is waited for the network.
const NETWORK_TRIES: u32 = 5;

/// Has all ranks of a job become data and be made again.
pub(super) async fn cut(
    State(api): State<Api>,
    Number(job): Number<u64>,
    order: Result<Json<CutOrder>, JsonRejection>,
) -> Answered<CutView> {
    let Json(order) = order.map_err(|error| Refused::bad(error.body_text()))?;
    let job = JobId(job);
    let ranks = api.ask(|answer| Request::NodesOf(job, answer)).await?;
    let by = RandomState::new().hash_one(job.0);
    // Whoever asked for it may go: nodes are not to wait for the next step then.
    let leading = tokio::spawn(async move { Cut { api, job, by, ranks }.lead(order.last).await });
    answer(leading.await.map_err(|_| going_down())?)
}

struct Cut {
    api: Api,
    job: JobId,
    by: u64,
    ranks: Vec<Rank>,
}

impl Cut {
    /// Leads through it, or as far as through the `last` step.
    async fn lead(&self, last: Option<Step>) -> Result<CutView, Refused> {
        let mut steps = Vec::new();
        for step in Step::IN_ORDER {
            let begun = Instant::now();
            if let Err(refused) = self.step_in_time(step).await {
                // What a node could not do is said already.
                let _ = self.step(Step::GiveUp).await;
                return Err(refused);
            }
            let us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
            steps.push(CutStep { name: step.name().into(), us });
            if last == Some(step) {
                break;
            }
        }
        Ok(CutView { nodes: self.ranks.len() as u32, steps })
    }

    /// Has all nodes do a step. What depends on the network takes as long as that loses packets: it is waited for more
    /// than once. Connections that are not made even so are reset when the job goes on.
    async fn step_in_time(&self, step: Step) -> Result<(), Refused> {
        let tries = if matches!(step, Step::Quiet | Step::Connect | Step::Settle) { NETWORK_TRIES } else { 1 };
        let mut result = Ok(());
        for _ in 0..tries {
            result = self.step(step).await;
            if result.is_ok() {
                break;
            }
        }
        if matches!(step, Step::Connect | Step::Settle) { Ok(()) } else { result }
    }

    /// Has all nodes do a step.
    async fn step(&self, step: Step) -> Result<(), Refused> {
        let asked = self.ranks.iter().map(|rank| {
            let query = Query { by: self.by, question: Question::Cut(step) };
            self.api.ask(|answer| Request::Inspect(self.job, *rank, query, answer))
        });
        for answered in join_all(asked).await {
            match answered? {
                Answer::Cut => {}
                Answer::NotTold(_) => {
                    return Err(Refused::conflict(&format!(
                        "somebody looks at a rank of job {}, or cuts it; try again",
                        self.job
                    )));
                }
                _ => return Err(Refused::conflict("a node said something else than was asked")),
            }
        }
        Ok(())
    }
}
