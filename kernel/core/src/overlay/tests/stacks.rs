//! A node of a job with an overlay, and its front end.

use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_hal::user::simulated::play_with;
use coppice_hal::user::{UserExit, UserThread};
use coppice_protocol::control::OverlayOrder;
use coppice_protocol::ids::{NodeId, Rank};
use coppice_protocol::overlay::{Event, FrontEnd, Layout, Metric, Stacks, Subject, Up};
use coppice_protocol::ranks::Ranks;
use spin::Mutex;

use crate::executor;
use crate::limits::{OVERLAY_NODE_BYTES, OVERLAY_STACKS_BYTES};
use crate::net::testing::Nowhere;
use crate::overlay::{Auxiliary, Overlays, Say};
use crate::process::testing::{Bench, MEMORY, MEMORY_BYTES};
use crate::quota::Quota;
use crate::thread;

const MS: u64 = 1_000_000;
const NODE: NodeId = NodeId(0);
/// Where the program is, always.
const PLACE: u64 = 0x12_3456;

struct Overlay {
    bench: Bench,
    overlays: Overlays,
    front_end: FrontEnd,
    said: Arc<Mutex<VecDeque<Up>>>,
    number: u32,
    events: Vec<Event>,
}

impl Overlay {
    /// One whose rank computes for a minute.
    fn new(sample_period_ns: u64, quota: impl FnOnce(&Bench) -> Arc<Quota>) -> Self {
        let bench = Bench::new(&[]);
        play_with(Rc::new(|regs, _| {
            regs.rip = PLACE;
            executor::compute_until_alarm(60_000 * MS);
            UserExit::Interrupt
        }));
        let user = UserThread::new(PLACE, MEMORY + MEMORY_BYTES);
        assert_eq!(thread::start(Arc::clone(&bench.process), Arc::clone(&bench.state), user), Ok(()));
        let subject = Subject {
            size: 3,
            nodes: [(NODE, Ranks::from(Rank(2)))].into(),
            layout: Layout::Average,
            period_ns: 100 * MS,
            sample_period_ns,
        };
        let auxiliary = Auxiliary::new(&bench.process.node, 0, Arc::default());
        let overlays = Overlays::new(NODE, Arc::new(Nowhere), quota(&bench), auxiliary);
        let front_end = FrontEnd::new(1, subject, executor::now_ns());
        Self { bench, overlays, front_end, said: Arc::default(), number: 0, events: Vec::new() }
    }

    /// Lets time pass, with whatever is said meanwhile.
    fn pass(&mut self, ns: u64) {
        let end_ns = executor::now_ns() + ns;
        while executor::now_ns() < end_ns {
            while let Some((_, order)) = self.front_end.poll_transmit() {
                self.number += 1;
                let order = OverlayOrder { job: self.bench.process.identity.job, number: self.number, order };
                let said = Arc::clone(&self.said);
                let say: Say = Arc::new(move |message| said.lock().push_back(message));
                self.overlays.obey(order, Some(&self.bench.process.job), say);
            }
            assert!(executor::run_to_end(executor::sleep(5 * MS)).is_ok());
            while let Some(message) = self.said.lock().pop_front() {
                self.front_end.handle(NODE, message, executor::now_ns());
            }
            self.front_end.handle_timeout(executor::now_ns());
            self.events.extend(core::iter::from_fn(|| self.front_end.poll_event()));
        }
    }

    fn stacks(&self) -> Stacks {
        let mut all = Stacks::default();
        for event in &self.events {
            if let Event::Stacks(stacks) = event {
                all.merge(stacks);
            }
        }
        all
    }

    /// How long the rank was in its program in the epochs that were told, ns.
    fn user_ns(&self) -> u64 {
        let of = |event: &Event| match event {
            Event::Epoch(part) => part.summary(Metric::User).sum() as u64,
            _ => 0,
        };
        self.events.iter().map(of).sum()
    }

    /// The rank ends, the last one of its job here, and that is heard.
    fn end_rank(&mut self) {
        let process = &self.bench.process;
        process.job.ended(process);
        let (overlays, job) = (self.overlays.clone(), process.identity.job);
        assert_eq!(executor::run_to_end(async move { overlays.left(job).await }), Ok(()));
    }
}

fn own_quota(bench: &Bench) -> Arc<Quota> {
    Arc::clone(&bench.process.node.quota)
}

#[test]
fn where_ranks_are_goes_up_with_each_epoch() {
    let mut overlay = Overlay::new(MS, own_quota);
    let quota = own_quota(&overlay.bench);
    let before = quota.taken();
    overlay.pass(3_000 * MS);
    let (stacks, user_ms) = (overlay.stacks(), overlay.user_ns() / MS);
    assert!((2_000..=3_000).contains(&user_ms), "{user_ms} ms");
    assert!(stacks.samples().abs_diff(user_ms) < user_ms / 20, "{} samples of {user_ms} ms", stacks.samples());
    assert!(stacks.iter().all(|(stack, _)| stack == [PLACE]));
    // For the back ends, and for a process that is here.
    assert!(quota.taken() - before > OVERLAY_NODE_BYTES + 2 * OVERLAY_STACKS_BYTES);
    overlay.front_end.end();
    overlay.pass(1_000 * MS);
    assert_eq!((overlay.bench.process.profile.period_ns(), quota.taken()), (0, before));
}

/// However long epochs are, and whenever it ends in one.
#[test]
fn what_a_rank_does_to_its_end_is_told_before_that_is_known() {
    for (passes_ms, epochs) in [(30, 0..=1), (470, 3..=5)] {
        let mut overlay = Overlay::new(MS, own_quota);
        overlay.pass(passes_ms * MS);
        overlay.end_rank();
        // It does nothing more, though here it goes on.
        let user_ns = overlay.bench.process.deeds().0[Metric::User as usize];
        let said: Vec<Up> = overlay.said.lock().drain(..).collect();
        assert!(matches!(said.as_slice(), [.., Up::Last { .. }]), "{said:?}");
        said.into_iter().for_each(|message| overlay.front_end.handle(NODE, message, executor::now_ns()));
        overlay.front_end.end();
        overlay.events.extend(core::iter::from_fn(|| overlay.front_end.poll_event()));
        assert!(user_ns > passes_ms / 3 * MS && overlay.user_ns() == user_ns, "{} of {user_ns} ns", overlay.user_ns());
        let (samples, user_ms) = (overlay.stacks().samples(), user_ns / MS);
        assert!(samples.abs_diff(user_ms) <= 3 + user_ms / 20, "{samples} samples of {user_ms} ms");
        let whole = overlay.events.iter().filter(|event| matches!(event, Event::Epoch(_))).count();
        assert!(epochs.contains(&whole.saturating_sub(1)), "{whole} epochs");
    }
}

fn is_not_sampled(mut overlay: Overlay) {
    overlay.pass(1_000 * MS);
    assert!(overlay.user_ns() > 500 * MS, "epochs are told all the same: {} ns", overlay.user_ns());
    assert_eq!((overlay.stacks().samples(), overlay.bench.process.profile.period_ns()), (0, 0));
}

#[test]
fn nobody_looks_if_nobody_wants_to_know() {
    is_not_sampled(Overlay::new(0, own_quota));
}

#[test]
fn without_room_for_stacks_epochs_are_told_without_them() {
    let mut rest = None;
    let overlay = Overlay::new(MS, |bench| {
        // Apart from what the rank itself may have.
        let quota = Arc::new(bench.process.node.quota.share(1));
        let mut all = quota.charge(0).expect("nothing");
        while all.grow(OVERLAY_STACKS_BYTES / 8).is_ok() {}
        all.shrink(OVERLAY_NODE_BYTES + OVERLAY_STACKS_BYTES / 2);
        rest = Some(all);
        quota
    });
    is_not_sampled(overlay);
    drop(rest);
}
