//! A process that is data while it waits.

use alloc::sync::Arc;

use super::{Bench, idle};
use crate::executor::{self, oneshot::Receiver};
use crate::net::Network;
use crate::process::{ThreadState, record};
use crate::thread::{LIFE_BYTES, Over, Thread};

impl Bench {
    /// Makes a call that waits, makes its process data and makes it again, and does something a moment later. Gives the
    /// bench with that process, and the call's result; `None` if it still waits then.
    pub(crate) fn frozen_while(
        self,
        number: u32,
        arguments: &[u64],
        meanwhile: impl FnOnce(&Self),
    ) -> (Self, Option<i64>) {
        let (bench, done) = self.frozen(number, arguments, |_| {}, |_| {});
        bench.goes_on(number, done, meanwhile)
    }

    fn goes_on(
        self,
        number: u32,
        mut done: Receiver<Result<u64, Over>>,
        meanwhile: impl FnOnce(&Self),
    ) -> (Self, Option<i64>) {
        if done.take().is_some_and(|made| made.is_ok()) {
            panic!("call {number} was to wait on");
        }
        meanwhile(&self);
        self.rest();
        let result = done.take().map(|made| made.expect("the process goes on").cast_signed());
        (self, result)
    }

    /// The same, with something that another thread does first, while the call waits.
    pub(crate) fn frozen_when_begun(
        self,
        number: u32,
        arguments: &[u64],
        begun: impl FnOnce(&Self),
        meanwhile: impl FnOnce(&Self),
    ) -> (Self, Option<i64>) {
        let other = self.process.threads.add([0; 16], 1, &self.process.node.quota).expect("room for a thread");
        let begun = |bench: &mut Self| {
            let own = core::mem::replace(&mut bench.state, Arc::clone(&other));
            begun(bench);
            bench.state = own;
            bench.process.threads.remove(&other, None);
        };
        let (bench, done) = self.frozen(number, arguments, begun, |_| {});
        bench.goes_on(number, done, meanwhile)
    }

    /// Makes a call that waits, makes its process data, does something in its network, and makes it again. Gives the
    /// bench with that process, and the call's result; `None` if it waits on.
    pub(crate) fn frozen_in_network(
        self,
        number: u32,
        arguments: &[u64],
        while_data: impl FnOnce(&dyn Network),
    ) -> (Self, Option<i64>) {
        let (bench, mut done) = self.frozen(number, arguments, |_| {}, while_data);
        let result = done.take().map(|made| made.expect("the process goes on").cast_signed());
        (bench, result)
    }

    fn frozen(
        mut self,
        number: u32,
        arguments: &[u64],
        begun: impl FnOnce(&mut Self),
        while_data: impl FnOnce(&dyn Network),
    ) -> (Self, Receiver<Result<u64, Over>>) {
        let (process, state) = (Arc::clone(&self.process), Arc::clone(&self.state));
        let handled = Arc::clone(&self.handled);
        let mut all = [0; 6];
        all[..arguments.len()].copy_from_slice(arguments);
        let making = executor::spawn(async move {
            let _ = idle(&process, &state).make(number.into(), all, &handled).await;
            panic!("call {number} was to wait");
        });
        let making = making.expect("room for a task");
        self.rest();
        begun(&mut self);
        let held = self.process.hold();
        let (process, state) = (Arc::clone(&self.process), Arc::clone(&self.state));
        let settled = executor::run_to_end(async move {
            let held = process.hold();
            held.settled(executor::now_ns() + 1_000_000_000).await
        });
        assert_eq!(settled, Ok(Ok(())), "it is held");
        self.process.threads.dissolve();
        making.abort();
        let alone = executor::run_to_end(executor::sleep(1));
        assert!(alone.is_ok());
        self.process.threads.remove(&state, None);
        drop(held);
        let network = Arc::clone(&self.process.node.network);
        let Self { process, world, ship, handled, _net, .. } = self;
        record::withdraw(&process);
        let process = Arc::into_inner(process).expect("nobody else has it");
        let (bytes, around) = record::freeze(process, &[state]).expect("it was held");
        while_data(&*network);
        let threads = |identity: &super::Identity| identity.threads(&super::order(identity.size).world, LIFE_BYTES);
        let (process, mut threads) = record::thaw(&bytes, around, threads).expect("what was written");
        let thread = threads.pop().expect("its thread");
        assert!(process.job.knows_only(&process));
        let bench = Self { process, state: Arc::clone(&thread.state), handled, world, ship, _net };
        let (process, handled) = (Arc::clone(&bench.process), Arc::clone(&bench.handled));
        let (sender, done) = executor::oneshot::channel();
        let spawned = executor::spawn(async move {
            let state: Arc<ThreadState> = thread.state;
            let mut going = Thread::new(0, process, state, thread.user);
            // Nobody may wait for it any more.
            let _ = sender.send(going.go_on(thread.position, &handled).await);
        });
        assert!(spawned.is_ok());
        bench.rest();
        (bench, done)
    }
}
