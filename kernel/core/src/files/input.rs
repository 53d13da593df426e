//! Standard input: whether there is some is known to the I/O node alone, so it is asked.
//!
//! It answers at once, and if there is none, it has the rank's bell rung when there is. Who wants to be told asks again
//! then; who reads tries again, one thread at a time ([`Input::turn`]). The question is one boxed future that whoever
//! watches moves on. One that nobody watches any more is forgotten when input is read.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, Waker};

use coppice_protocol::ship::{Call, Reply};

use super::readiness::{Ready, Watchers};
use super::turns::{Turn, Turns};
use crate::errno::Errno;
use crate::quota::Quota;
use crate::ship::{Answer, Bell, Client};
use crate::sync::{LockLevel, Mutex};

/// A question under way.
type Question = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// What is known of a process's standard input.
pub(crate) struct Input {
    client: Client,
    /// There is input, or its end, or the question failed and reading will say why.
    known: AtomicBool,
    question: Mutex<Option<Question>>,
    watchers: Arc<Watchers>,
    /// Whose turn it is to read.
    turns: Turns,
}

/// Whether an answer says that reading would not wait.
fn says_yes(answer: &Answer) -> bool {
    !matches!(answer, Ok((Reply::Count(0), _)))
}

impl Input {
    /// That of the process for which `client` makes calls.
    pub(crate) fn new(client: Client, quota: &Arc<Quota>) -> Self {
        Self {
            client,
            known: AtomicBool::new(false),
            question: Mutex::new(LockLevel::OpenFile, None),
            watchers: Arc::new(Watchers::new(quota)),
            turns: Turns::new(),
        }
    }

    /// What is known.
    pub(crate) fn ready(&self) -> Ready {
        if self.known.load(Ordering::Acquire) { Ready::READ } else { Ready::empty() }
    }

    /// Has `waker` woken when more may be known, and sees to it that it will be.
    pub(crate) fn watch(&self, waker: &Waker) -> Result<(), Errno> {
        self.watchers.watch(waker)?;
        if self.known.load(Ordering::Acquire) {
            return Ok(());
        }
        let answered = Waker::from(Arc::clone(&self.watchers));
        let mut context = Context::from_waker(&answered);
        let mut question = self.question.lock();
        if let Some(earlier) = &mut *question {
            match earlier.as_mut().poll(&mut context) {
                Poll::Pending => return Ok(()),
                Poll::Ready(answer) if says_yes(&answer) => {
                    *question = None;
                    self.known.store(true, Ordering::Release);
                    return Ok(());
                }
                Poll::Ready(_) => {}
            }
        }
        let mut new = self.ask();
        match new.as_mut().poll(&mut context) {
            Poll::Pending => *question = Some(new),
            Poll::Ready(answer) => {
                *question = None;
                if says_yes(&answer) {
                    self.known.store(true, Ordering::Release);
                } else {
                    // An answer at once is unheard of; the next look asks again.
                    answered.wake_by_ref();
                }
            }
        }
        Ok(())
    }

    /// Asks whether there is input now, if it is not known.
    pub(crate) async fn look(&self) {
        if !self.known.load(Ordering::Acquire) && says_yes(&self.client.call(Call::InputReady, Vec::new()).await) {
            self.known.store(true, Ordering::Release);
        }
    }

    /// Somebody reads: whether there is more has to be asked again. Another thread that waits for the answer asks.
    pub(crate) fn forget(&self) {
        self.known.store(false, Ordering::Release);
        let earlier = self.question.lock().take();
        if earlier.is_some() {
            self.watchers.notify();
        }
    }

    /// Waits until no other thread waits for something to read.
    pub(crate) async fn turn(&self) -> Turn<'_> {
        self.turns.take().await
    }

    /// Rung when there may be something to read that was not there before.
    pub(crate) fn bell(&self) -> &Bell {
        &self.client.bells().input
    }

    /// Asks until there is input.
    fn ask(&self) -> Question {
        let client = self.client.clone();
        Box::pin(async move {
            loop {
                let bell = &client.bells().input;
                let count = bell.count();
                let answer = client.call(Call::InputReady, Vec::new()).await;
                if says_yes(&answer) {
                    return answer;
                }
                bell.rung_since(count).await;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use coppice_protocol::ids::{JobId, Rank};

    use super::Input;
    use crate::quota::tests::quota;
    use crate::ship::Ship;
    use crate::testing::WakeCounter;

    #[test]
    fn whoever_waits_asks_again_after_another_has_read() {
        let input = Input::new(Ship::new().client(JobId(1), Rank(0)), &quota());
        let (counter, waker) = WakeCounter::new();
        assert_eq!(input.watch(&waker), Ok(()));
        assert_eq!(counter.count(), 0);
        input.forget();
        assert_eq!(counter.count(), 1, "its question is forgotten");
        input.forget();
        assert_eq!(counter.count(), 1);
    }
}
