//! The task that moves the stack on when there is a reason to: a frame came, the card has room again, a timer rang, or
//! a task queued something to send.

use core::future::poll_fn;
use core::pin::pin;
use core::task::Poll;

use coppice_endpoint::Stack;
use smoltcp::phy::Device;

use crate::executor::{self, race};

/// Drives `stack` for ever. `interrupt` makes a future that is done when its device wants attention.
pub async fn drive<D: Device, F: Future<Output = ()>>(stack: Stack<D>, interrupt: impl Fn() -> F) {
    loop {
        let now_ns = executor::now_ns();
        let next_ns = stack.poll(now_ns).unwrap_or(u64::MAX);
        if next_ns <= now_ns {
            // There is more to do at once, but others get their turn.
            executor::yield_now().await;
            continue;
        }
        let mut idle = pin!(race(interrupt(), executor::sleep_until(next_ns)));
        let mut asleep = false;
        poll_fn(|context| {
            if asleep {
                // Whatever woke the task, the stack is worth a look.
                return Poll::Ready(());
            }
            asleep = true;
            stack.on_work(context.waker());
            idle.as_mut().poll(context).map(|_| ())
        })
        .await;
    }
}
