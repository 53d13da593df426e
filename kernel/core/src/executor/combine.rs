//! Small futures made of others.

use core::future::poll_fn;
use core::pin::{Pin, pin};
use core::task::Poll;

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

/// Waits for whichever is done first (`first`, if both are) and drops the other.
pub async fn race<A, B>(first: impl Future<Output = A>, second: impl Future<Output = B>) -> Either<A, B> {
    race_pinned(pin!(first), pin!(second)).await
}

/// The same of futures that others have, which stay where they are.
pub async fn race_pinned<A, B>(
    mut first: Pin<&mut impl Future<Output = A>>,
    mut second: Pin<&mut impl Future<Output = B>>,
) -> Either<A, B> {
    poll_fn(|context| {
        if let Poll::Ready(output) = first.as_mut().poll(context) {
            return Poll::Ready(Either::First(output));
        }
        second.as_mut().poll(context).map(Either::Second)
    })
    .await
}

/// The time was up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("timed out")]
pub struct Elapsed;

/// Waits for `future`, but at most `duration_ns`; then it is dropped.
///
/// # Errors
/// [`Elapsed`] if it was not done in time.
pub async fn timeout<T>(duration_ns: u64, future: impl Future<Output = T>) -> Result<T, Elapsed> {
    within(sleep(duration_ns), future).await
}

/// Waits for `future` until the monotonic clock shows `deadline_ns`; then it is dropped.
///
/// # Errors
/// [`Elapsed`] if it was not done in time.
pub async fn timeout_at<T>(deadline_ns: u64, future: impl Future<Output = T>) -> Result<T, Elapsed> {
    within(sleep_until(deadline_ns), future).await
}

async fn within<T>(sleep: Sleep, future: impl Future<Output = T>) -> Result<T, Elapsed> {
    match race_pinned(pin!(future), pin!(sleep)).await {
        Either::First(output) => Ok(output),
        Either::Second(()) => Err(Elapsed),
    }
}
