//! Small futures made of others.

use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::timer::{Sleep, sleep, sleep_until};

/// Lets the other ready tasks run once.
pub async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Which of two futures was done first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Either<A, B> {
    /// The first one.
    First(A),
    /// The second one.
    Second(B),
}

pin_project! {
    /// See [`race`]. A type of its own, for an `async fn` has room for each of its arguments twice.
    #[must_use = "futures do nothing unless awaited"]
    pub struct Race<A, B> {
        #[pin]
        first: A,
        #[pin]
        second: B,
    }
}

/// Waits for whichever is done first (`first`, if both are) and drops the other.
pub fn race<A: Future, B: Future>(first: A, second: B) -> Race<A, B> {
    Race { first, second }
}

impl<A: Future, B: Future> Future for Race<A, B> {
    type Output = Either<A::Output, B::Output>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(output) = this.first.poll(context) {
            return Poll::Ready(Either::First(output));
        }
        this.second.poll(context).map(Either::Second)
    }
}

/// The time was up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("timed out")]
pub struct Elapsed;

pin_project! {
    /// See [`timeout`]. A type of its own, as [`Race`] is.
    #[must_use = "futures do nothing unless awaited"]
    pub struct Timeout<F> {
        #[pin]
        future: F,
        sleep: Sleep,
    }
}

/// Waits for `future`, but at most `duration_ns`; then it is dropped.
///
/// # Errors
/// [`Elapsed`] if it was not done in time.
pub fn timeout<F: Future>(duration_ns: u64, future: F) -> Timeout<F> {
    Timeout { future, sleep: sleep(duration_ns) }
}

/// Waits for `future` until the monotonic clock shows `deadline_ns`; then it is dropped.
///
/// # Errors
/// [`Elapsed`] if it was not done in time.
pub fn timeout_at<F: Future>(deadline_ns: u64, future: F) -> Timeout<F> {
    Timeout { future, sleep: sleep_until(deadline_ns) }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(output) = this.future.poll(context) {
            return Poll::Ready(Ok(output));
        }
        Pin::new(this.sleep).poll(context).map(|()| Err(Elapsed))
    }
}
