//! Leading the nodes of a job through steps ([`coppice_protocol::inspect::cut`]): one rank of each node is asked for a
//! step, and for the next when all nodes have done it. If one could not, all go on.

use std::time::Duration;

use coppice_api::cut::CutStep;
use coppice_protocol::ids::{JobId, Rank};
use coppice_protocol::inspect::cut::Step;
use coppice_protocol::inspect::{Answer, Query, Question};
use futures_util::future::join_all;

use super::Around;
use crate::controller::{Place, Refused, Request};

/// How often it is waited for the network.
const NETWORK_TRIES: u32 = 5;

/// Whoever leads a job's nodes.
pub(crate) struct Leader<A> {
    pub(crate) around: A,
    pub(crate) job: JobId,
    /// What nobody else is known to them by.
    pub(crate) by: u64,
    /// One of each node.
    pub(crate) places: Vec<Place>,
}

/// A time in whole µs.
pub(super) fn us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl<A: Around> Leader<A> {
    /// Leads through some steps.
    pub(crate) async fn lead(&self, order: &[Step]) -> Result<Vec<CutStep>, Refused> {
        let mut steps = Vec::new();
        for step in order {
            let begun = self.around.now();
            if let Err(refused) = self.step_in_time(*step).await {
                self.give_up().await;
                return Err(refused);
            }
            steps.push(CutStep { name: step.name().into(), us: us(self.around.now() - begun) });
        }
        Ok(steps)
    }

    /// Has all nodes go on with no further step.
    pub(super) async fn give_up(&self) {
        // What a node could not do is said already.
        let _ = self.step(Step::GiveUp).await;
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
        let answers = self.ask_all(self.places.iter().map(|place| place.rank), &Question::Cut(step)).await;
        for answered in answers {
            match answered? {
                Answer::Cut => {}
                Answer::NotTold(_) => {
                    return Err(Refused::conflict(&format!(
                        "somebody looks at a rank of job {}, or cuts it; try again",
                        self.job
                    )));
                }
                _ => return Err(something_else()),
            }
        }
        Ok(())
    }

    /// Asks the nodes of some ranks, all at once, and gives their answers in the same order.
    pub(super) async fn ask_all(
        &self,
        ranks: impl Iterator<Item = Rank> + Send,
        question: &Question,
    ) -> Vec<Result<Answer, Refused>> {
        let asked = ranks.map(|rank| {
            let query = Query { by: self.by, question: question.clone() };
            self.around.ask(move |answer| Request::Inspect(self.job, rank, query, answer))
        });
        join_all(asked).await
    }
}

/// What a node answered is no answer to what it was asked.
pub(super) fn something_else() -> Refused {
    Refused::conflict("a node said something else than was asked")
}
