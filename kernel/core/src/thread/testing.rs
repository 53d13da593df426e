//! A thread without a program: tests make its calls.

use alloc::vec::Vec;
use core::future::poll_fn;
use core::task::Poll;

use coppice_hal as hal;
use coppice_hal::user::Registers;
use coppice_protocol::syscalls as nr;
use spin::Mutex;

use super::{Over, Thread, Wait};
use crate::abi::INSTRUCTION_BYTES;
use crate::process::hold::Position;

impl Thread {
    /// `rax` and `rip`.
    pub(crate) fn position(&self) -> (u64, u64) {
        (self.user.regs.rax, self.user.regs.rip)
    }

    /// Makes one call as the program would, to its end. Handlers that run meanwhile do nothing but return; `handled`
    /// gets what each found in its registers.
    pub(crate) async fn make(
        &mut self,
        number: u64,
        arguments: [u64; 6],
        handled: &Mutex<Vec<Registers>>,
    ) -> Result<u64, Over> {
        self.has_task().await;
        let [rdi, rsi, rdx, r10, r8, r9] = arguments;
        let regs = &mut self.user.regs;
        // As the processor leaves them: behind the instruction.
        let after = regs.rip + INSTRUCTION_BYTES;
        (regs.rax, regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9, regs.rip) =
            (number, rdi, rsi, rdx, r10, r8, r9, after);
        self.come_to_the_end(number, after, handled, true).await
    }

    /// Goes on with a call that was held.
    pub(crate) async fn go_on(&mut self, position: Position, handled: &Mutex<Vec<Registers>>) -> Result<u64, Over> {
        self.has_task().await;
        self.held_at = Some(self.on_node_clock(position));
        let (number, after) = (self.user.regs.rax, self.user.regs.rip);
        self.come_to_the_end(number, after, handled, false).await
    }

    async fn has_task(&self) {
        poll_fn(|context| {
            self.state.runs_as(context.waker(), hal::cpu::index());
            Poll::Ready(())
        })
        .await;
    }

    async fn come_to_the_end(
        &mut self,
        number: u64,
        after: u64,
        handled: &Mutex<Vec<Registers>>,
        mut is_to_be_made: bool,
    ) -> Result<u64, Over> {
        loop {
            if core::mem::replace(&mut is_to_be_made, true)
                && !self.fact()
                && let Some(wait) = self.system_call()
                && let Some(over) = self.wait(wait).await
            {
                return Err(over);
            }
            while self.held_at.is_some() || self.state.has_attention() {
                let wait = if self.held_at.is_some() { Some(Wait::Held) } else { self.attend() };
                if let Some(wait) = wait
                    && let Some(over) = self.wait(wait).await
                {
                    return Err(over);
                }
            }
            if self.user.regs.rip == after {
                return Ok(self.user.regs.rax);
            }
            if self.user.regs.rip.abs_diff(after) > INSTRUCTION_BYTES {
                handled.lock().push(self.user.regs);
                // Its `ret` takes the restorer's address.
                self.user.regs.rsp += 8;
                self.user.regs.rax = nr::RT_SIGRETURN.into();
                continue;
            }
            // It was rewound, so the program makes it again.
            assert_eq!((self.user.regs.rip, self.user.regs.rax), (after - INSTRUCTION_BYTES, number));
            self.user.regs.rip = after;
        }
    }
}
