//! A process that is made data and made again where it was, while it runs.
//!
//! A node can be told to do that to its processes again and again ([`freeze_every`]): whatever a process is in the
//! middle of then, it must not notice. This is how what takes processes elsewhere is tested; nothing else uses it.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::pending;
use core::sync::atomic::{AtomicU64, Ordering};

use coppice_hal as hal;

use super::kill::KillSwitch;
use crate::executor;
use crate::limits::HOLD_NS_MAX;
use crate::process::cut::Member;
use crate::process::hold::Held;
use crate::process::record::{self, NotFrozen, Surroundings};
use crate::process::threads::record::MadeThread;
use crate::process::{End, JobOnNode, Process, ThreadState};
use crate::quota::Charge;
use crate::random;
use crate::thread;

/// How often processes are frozen, ns; 0: never.
static EVERY_NS: AtomicU64 = AtomicU64::new(0);

/// Has all processes frozen and made again so often on average, ns; 0: never.
pub fn freeze_every(every_ns: u64) {
    EVERY_NS.store(every_ns, Ordering::Relaxed);
}

/// A process whose threads were held and are no more.
pub(super) struct TakenDown {
    threads: Vec<Arc<ThreadState>>,
    /// For the record.
    charge: Charge,
    /// It is with all of its job.
    pub(super) in_cut: Option<Member>,
}

/// Waits until it is time to freeze the process, and until its threads are no more. Not done if that is never so.
pub(super) async fn taken_down(process: &Arc<Process>) -> TakenDown {
    let every_ns = EVERY_NS.load(Ordering::Relaxed);
    if every_ns == 0 {
        return pending().await;
    }
    loop {
        executor::sleep(u64::from_le_bytes(random::bytes()) % (2 * every_ns)).await;
        // Somebody looks at it as it is.
        if process.is_leased() {
            continue;
        }
        let held = process.hold();
        if held.settled(executor::now_ns().saturating_add(HOLD_NS_MAX)).await.is_err() {
            continue;
        }
        process.after_change().await;
        if process.job.cut.is_under_way() {
            continue;
        }
        let Ok(charge) = process.node.quota.charge(record::room(process)) else { continue };
        return take_down(process, held, charge, None).await;
    }
}

/// Takes the threads of a process down that is held. Not done if it comes to its end, which others wait for.
async fn take_down(process: &Arc<Process>, held: Held, charge: Charge, in_cut: Option<Member>) -> TakenDown {
    // Nobody else is to get meanwhile what it is charged with.
    process.node.quota.keep();
    let threads = held.threads();
    process.threads.dissolve();
    process.threads.gone().await;
    if !process.threads.is_dissolved() {
        process.node.quota.let_go();
        return pending().await;
    }
    TakenDown { threads, charge, in_cut }
}

/// Waits until the process is to be taken down with all of its job, and until its threads are no more. Not done if
/// that is never so.
pub(super) async fn cut(process: &Arc<Process>) -> TakenDown {
    let cut = &process.job.cut;
    loop {
        let (held, member) = cut.wanted(process).await;
        process.after_change().await;
        match process.node.quota.charge(record::room(process) + record::transports_room(process)) {
            Ok(charge) => return take_down(process, held, charge, Some(member)).await,
            Err(_) => member.arrive(Err("there is no memory for its record".into())),
        }
    }
}

/// Waits until nobody else has a process whose threads are no more, and nobody finds it any more: others look at the
/// processes of a job, from other cores too, for a moment.
///
/// # Errors
/// [`NotFrozen::Used`]: that takes too long.
async fn alone(mut process: Arc<Process>) -> Result<Process, NotFrozen> {
    record::withdraw(&process);
    let until_ns = executor::now_ns().saturating_add(HOLD_NS_MAX);
    loop {
        process = match Arc::try_unwrap(process) {
            Ok(process) => return Ok(process),
            Err(process) => process,
        };
        if executor::now_ns() >= until_ns {
            return Err(NotFrozen::Used);
        }
        executor::yield_now().await;
    }
}

/// Makes a process again that was taken down. Gives also how long its record was, bytes.
///
/// # Errors
/// [`NotFrozen`]: then it is gone.
pub(super) async fn again(
    process: Arc<Process>,
    down: TakenDown,
    switch: &KillSwitch,
) -> Result<(Arc<Process>, usize), NotFrozen> {
    let apart = apart(process, down).await?;
    let bytes = apart.bytes.len();
    Ok((apart.make()?.start(switch)?, bytes))
}

/// A process that is data, and what stays on the node of it.
pub(super) struct Apart {
    bytes: Vec<u8>,
    pub(super) around: Surroundings,
    job: Arc<JobOnNode>,
    charge: Charge,
}

/// Makes a process data that was taken down.
///
/// # Errors
/// [`NotFrozen`]: then it is gone.
pub(super) async fn apart(process: Arc<Process>, down: TakenDown) -> Result<Apart, NotFrozen> {
    let process = alone(process).await?;
    let job = Arc::clone(&process.job);
    let TakenDown { threads, charge, .. } = down;
    let (bytes, around) = record::freeze(process, &threads)?;
    Ok(Apart { bytes, around, job, charge })
}

impl Apart {
    /// Its record, and what stays.
    pub(super) fn parts(&mut self) -> (&[u8], &mut Surroundings) {
        (&self.bytes, &mut self.around)
    }

    /// How long its record is, bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Makes it a process again, whose threads do not run yet.
    ///
    /// # Errors
    /// [`NotFrozen`]: then it is gone.
    pub(super) fn make(self) -> Result<Made, NotFrozen> {
        let Self { mut bytes, around, job, charge } = self;
        let thawed = record::thaw(&bytes, around, |identity| identity.threads(&job.world, thread::LIFE_BYTES));
        // They are the program's.
        hal::scrub::bytes(&mut bytes);
        let (process, threads) = thawed?;
        let stood_ns = process.clock.now_ns();
        Ok(Made { process, threads, charge, stood_ns })
    }
}

/// A process that was made again.
pub(super) struct Made {
    pub(super) process: Arc<Process>,
    pub(super) threads: Vec<MadeThread>,
    /// For its record.
    pub(super) charge: Charge,
    /// What its clock showed when it was made, ns: it stands until it goes on.
    pub(super) stood_ns: u64,
}

impl Made {
    /// Has its threads go on, or end where they are if it was killed meanwhile.
    ///
    /// # Errors
    /// [`NotFrozen`]: then it is gone.
    pub(super) fn start(self, switch: &KillSwitch) -> Result<Arc<Process>, NotFrozen> {
        let Self { process, threads, charge, stood_ns } = self;
        process.has_stood_since(stood_ns)?;
        if let Some(signal) = switch.signal() {
            process.end(End::signal(signal));
        }
        for thread in threads {
            thread::start_at(Arc::clone(&process), thread.state, thread.user, thread.position)?;
        }
        drop(charge);
        process.node.quota.let_go();
        Ok(process)
    }
}
