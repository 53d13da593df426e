//! The task that moves the stack on when there is a reason to: a frame came, the card has room again, a timer rang, or
//! a task queued something to send.
//!
//! Who sends to the node decides how much there is to do. So when one poll has done all that it may and there is more,
//! programs come first for a while: as long as the network had, so that a flood costs them half of the core at most.
//! What comes meanwhile waits in the card, which interrupts nobody before the stack has found it empty again; beyond
//! its ring it is lost, as frames may be.

use core::future::poll_fn;
use core::pin::pin;
use core::task::Poll;

use coppice_endpoint::Stack;
use smoltcp::phy::Device;

use crate::executor::{self, race};
use crate::limits::PROGRAMS_BETWEEN_FRAMES_NS;

/// Drives `stack` for ever. `interrupt` makes a future that is done when its device wants attention.
pub async fn drive<D: Device, F: Future<Output = ()>>(stack: Stack<D>, interrupt: impl Fn() -> F) {
    loop {
        let now_ns = executor::now_ns();
        let next_ns = stack.poll(now_ns).unwrap_or(u64::MAX);
        if next_ns <= now_ns {
            let used_ns = executor::now_ns().saturating_sub(now_ns);
            executor::programs_first(used_ns.max(PROGRAMS_BETWEEN_FRAMES_NS)).await;
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

#[cfg(test)]
mod tests {
    use alloc::sync::Arc;
    use alloc::vec;
    use alloc::vec::Vec;
    use core::future::pending;
    use core::sync::atomic::{AtomicU64, Ordering};

    use coppice_endpoint::{Config, Stack};
    use coppice_protocol::ids::{MacAddress, NodeId};
    use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
    use smoltcp::time::Instant;

    use super::drive;
    use crate::executor::{self, compute};

    /// What it takes to look at a frame, ns.
    const FRAME_NS: u64 = 10_000;
    const SECOND_NS: u64 = 1_000_000_000;

    /// A card that always has one more frame.
    struct Flooded {
        frame: Vec<u8>,
        frames: Arc<AtomicU64>,
    }

    struct Frame(Vec<u8>);
    struct Room;

    impl Device for Flooded {
        type RxToken<'a> = Frame;
        type TxToken<'a> = Room;

        fn capabilities(&self) -> DeviceCapabilities {
            let mut capabilities = DeviceCapabilities::default();
            capabilities.medium = Medium::Ethernet;
            capabilities.max_transmission_unit = 9014;
            capabilities
        }

        fn receive(&mut self, _now: Instant) -> Option<(Frame, Room)> {
            compute(FRAME_NS);
            self.frames.fetch_add(1, Ordering::Relaxed);
            Some((Frame(self.frame.clone()), Room))
        }

        fn transmit(&mut self, _now: Instant) -> Option<Room> {
            Some(Room)
        }
    }

    impl RxToken for Frame {
        fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
            f(&self.0)
        }
    }

    impl TxToken for Room {
        fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, f: F) -> R {
            f(&mut vec![0; length])
        }
    }

    #[test]
    fn a_flood_leaves_programs_half_of_the_core_and_the_kernels_other_tasks_all_of_it() {
        let address = NodeId(3).address();
        let mac = MacAddress::of(address);
        // For this station, and of no sense.
        let frame = [&mac.0[..], &mac.0, &[8, 0], &[0; 60]].concat();
        let frames = Arc::<AtomicU64>::default();
        let card = Flooded { frame, frames: Arc::clone(&frames) };
        let stack = Stack::new(card, Config { mac, address, prefix: 8, seed: 1 }, executor::now_ns());
        assert!(executor::spawn(drive(stack, pending::<()>)).is_ok());
        let computed_ns = Arc::<AtomicU64>::default();
        let counted = Arc::clone(&computed_ns);
        let program = executor::spawn_program(async move {
            loop {
                compute(FRAME_NS);
                counted.fetch_add(FRAME_NS, Ordering::Relaxed);
                executor::yield_now().await;
            }
        });
        assert!(program.is_ok());
        let latest_ns = executor::run_to_end(async {
            let (mut latest_ns, end_ns) = (0, executor::now_ns() + SECOND_NS);
            while executor::now_ns() < end_ns {
                let due_ns = executor::now_ns() + 5_000_000;
                executor::sleep_until(due_ns).await;
                latest_ns = latest_ns.max(executor::now_ns() - due_ns);
            }
            latest_ns
        });
        let latest_ns = latest_ns.expect("a second passes");
        let (computed_ns, frames) = (computed_ns.load(Ordering::Relaxed), frames.load(Ordering::Relaxed));
        assert!(computed_ns > SECOND_NS * 45 / 100, "programs had {computed_ns} ns of a second");
        assert!(frames * FRAME_NS > SECOND_NS * 45 / 100, "{frames} frames in a second");
        // At most the network's share or a program's piece.
        assert!(latest_ns < 1_000_000, "another task was {latest_ns} ns late");
    }
}
