//! Several shipped calls under way at once, whose answers are taken in the order of the calls.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::future::poll_fn;
use core::pin::Pin;
use core::task::Poll;

use coppice_protocol::ship::Reply;

use crate::errno::Errno;

/// What a call answers.
type Answer = Result<(Reply, Vec<u8>), Errno>;

/// Calls under way. Dropping it forgets the answers, not the calls.
pub(crate) struct Pipeline<'a> {
    slots: VecDeque<Slot<'a>>,
}

enum Slot<'a> {
    Waiting(Pin<Box<dyn Future<Output = Answer> + Send + 'a>>),
    Answered(Answer),
}

impl<'a> Pipeline<'a> {
    /// Nothing under way.
    pub(crate) const fn new() -> Self {
        Self { slots: VecDeque::new() }
    }

    /// Adds a call behind the others. It starts when [`Self::next`] is awaited.
    pub(crate) fn push(&mut self, call: impl Future<Output = Answer> + Send + 'a) {
        // Not more: a call of one part is what every thread is charged with.
        self.slots.reserve_exact(1);
        self.slots.push_back(Slot::Waiting(Box::pin(call)));
    }

    /// How many answers are still to be taken.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The answer to the first call; all others go on meanwhile. `EIO` if there is none, which no caller does.
    pub(crate) async fn next(&mut self) -> Answer {
        poll_fn(|context| {
            for slot in &mut self.slots {
                if let Slot::Waiting(call) = slot
                    && let Poll::Ready(answer) = call.as_mut().poll(context)
                {
                    *slot = Slot::Answered(answer);
                }
            }
            if let Some(Slot::Waiting(_)) = self.slots.front() {
                return Poll::Pending;
            }
            match self.slots.pop_front() {
                Some(Slot::Answered(answer)) => Poll::Ready(answer),
                _ => Poll::Ready(Err(Errno::EIO)),
            }
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use coppice_protocol::ship::Reply;

    use super::Pipeline;
    use crate::executor;

    #[test]
    fn answers_come_in_order_and_calls_run_side_by_side() {
        let (times, elapsed) = executor::run_to_end(async {
            let start_ns = executor::now_ns();
            let mut pipeline = Pipeline::new();
            for (wait_ns, number) in [(300, 1), (100, 2), (200, 3)] {
                pipeline.push(async move {
                    executor::sleep(wait_ns).await;
                    Ok((Reply::Count(number), Vec::new()))
                });
            }
            let mut answers = Vec::new();
            while pipeline.len() > 0 {
                answers.push(pipeline.next().await.map(|(reply, _)| reply));
            }
            (answers, executor::now_ns() - start_ns)
        })
        .expect("nothing to wait for but time");
        assert_eq!(times, vec![Ok(Reply::Count(1)), Ok(Reply::Count(2)), Ok(Reply::Count(3))]);
        assert_eq!(elapsed, 300);
    }
}
