//! Things that happen while a call waits.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Bench, Disturbance, end_of, idle};
use crate::executor;
use crate::process::ThreadState;

impl Bench {
    /// Makes a call that waits, and others while it does. Gives its result.
    pub(crate) fn call_during(&self, number: u32, arguments: &[u64], meanwhile: &[(u32, &[u64], i64)]) -> i64 {
        let (process, state) = (Arc::clone(&self.process), Arc::clone(&self.state));
        let handled = Arc::clone(&self.handled);
        let all = |arguments: &[u64]| {
            let mut all = [0; 6];
            all[..arguments.len()].copy_from_slice(arguments);
            all
        };
        let waiting = all(arguments);
        let others: Vec<_> = meanwhile.iter().map(|(number, of, expected)| (*number, all(of), *expected)).collect();
        let made = executor::run_to_end(async move {
            let (other_process, other_state) = (Arc::clone(&process), Arc::clone(&state));
            let other_handled = Arc::clone(&handled);
            let (sender, done) = executor::oneshot::channel();
            let spawned = executor::spawn(async move {
                let mut thread = idle(&process, &state);
                let _ = sender.send(thread.make(number.into(), waiting, &handled).await.map_err(end_of));
            });
            assert!(spawned.is_ok());
            let mut done = core::pin::pin!(done);
            for (number, arguments, expected) in others {
                let disturbance = Disturbance::begin(&other_process);
                assert!(executor::timeout(100_000_000, &mut done).await.is_err(), "it was to wait");
                // The same state has one thread at a time.
                disturbance.over().await;
                let mut thread = idle(&other_process, &other_state);
                let result = thread.make(number.into(), arguments, &other_handled).await.map(u64::cast_signed);
                assert_eq!(result, Ok(expected));
            }
            done.await.expect("its end")
        });
        made.expect("waits for something that comes").expect("the process goes on").cast_signed()
    }

    /// Has another thread begin a call; whatever comes of it, nobody hears.
    pub(crate) fn begin(&self, state: &Arc<ThreadState>, number: u32, arguments: &[u64]) -> bool {
        let (process, state) = (Arc::clone(&self.process), Arc::clone(state));
        let handled = Arc::clone(&self.handled);
        let mut all = [0; 6];
        all[..arguments.len()].copy_from_slice(arguments);
        let begun = executor::spawn(async move {
            let _ = idle(&process, &state).make(number.into(), all, &handled).await;
            process.threads.remove(&state, None);
        });
        begun.is_ok()
    }

    /// Makes a call that waits, and does something a moment later. Gives its result; `None` if it still waits then.
    pub(crate) fn wait_while(&self, number: u32, arguments: &[u64], meanwhile: impl FnOnce(&Self)) -> Option<i64> {
        let (process, state) = (Arc::clone(&self.process), Arc::clone(&self.state));
        let handled = Arc::clone(&self.handled);
        let mut all = [0; 6];
        all[..arguments.len()].copy_from_slice(arguments);
        let (sender, mut done) = executor::oneshot::channel();
        let spawned = executor::spawn(async move {
            // Nobody may wait for it any more.
            let _ = sender.send(idle(&process, &state).make(number.into(), all, &handled).await);
        });
        assert!(spawned.is_ok());
        self.rest();
        assert!(done.take().is_none(), "it was to wait");
        meanwhile(self);
        self.rest();
        done.take().map(|made| made.expect("the process goes on").cast_signed())
    }

    /// Makes calls side by side, each by a thread of its own. Gives their results; `None` for those that still wait
    /// when nothing happens any more.
    pub(crate) fn side_by_side<const N: usize>(&self, calls: [(u32, &[u64]); N]) -> [Option<i64>; N] {
        let waiting = calls.map(|(number, arguments)| {
            let mut all = [0; 6];
            all[..arguments.len()].copy_from_slice(arguments);
            let state = self.process.threads.add([0; 16], 1, &self.process.node.quota).expect("room");
            let (process, handled) = (Arc::clone(&self.process), Arc::clone(&self.handled));
            let (sender, done) = executor::oneshot::channel();
            let spawned = executor::spawn(async move {
                let made = idle(&process, &state).make(number.into(), all, &handled).await;
                process.threads.remove(&state, None);
                // Nobody may wait for it any more.
                let _ = sender.send(made);
            });
            assert!(spawned.is_ok());
            done
        });
        self.rest();
        waiting.map(|mut done| done.take().map(|made| made.expect("the process goes on").cast_signed()))
    }
}
