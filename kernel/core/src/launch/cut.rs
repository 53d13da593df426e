//! The steps of a cut through a job ([`crate::process::cut`]) on this node, as they are ordered, and what its ranks do
//! meanwhile.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;

use coppice_protocol::inspect::cut::{STEP_NS_MAX, Step};
use coppice_protocol::inspect::held::NotTold;

use super::frozen::{self, TakenDown};
use super::kill::KillSwitch;
use crate::checkpoint::{self, RankPart};
use crate::executor::{self, Either};
use crate::files::record::transports;
use crate::limits::{CUT_MOMENT_NS, SETTLE_NS_MAX};
use crate::net::Network;
use crate::pmi::Seat;
use crate::process::cut::{Cut, Member, Phase, Way};
use crate::process::record::NotFrozen;
use crate::process::{JobOnNode, Process};

/// How often it is looked whether the network is as it is to be, ns.
const LOOK_NS: u64 = 500_000;

/// Why a step is not done in which connections are made.
const NOT_MADE: &str = "connections were not made in time";

/// A rank that was taken down with all of its job: becomes data, and is made again from that. One that is killed
/// meanwhile is made again at once, to come to its end as others do.
///
/// # Errors
/// [`NotFrozen`]: then it is gone.
pub(super) async fn again(
    process: Arc<Process>,
    down: TakenDown,
    member: Member,
    (switch, seat): (&KillSwitch, &Seat),
) -> Result<(Arc<Process>, usize), NotFrozen> {
    let (cut, network) = (Arc::clone(&process.job.cut), Arc::clone(&process.node.network));
    let again = member_again(process, down, member, &*network, (switch, seat)).await;
    if again.is_err() || switch.signal().is_some() {
        end_deserted(&cut, &*network);
    }
    again
}

async fn member_again(
    process: Arc<Process>,
    down: TakenDown,
    member: Member,
    network: &dyn Network,
    (switch, seat): (&KillSwitch, &Seat),
) -> Result<(Arc<Process>, usize), NotFrozen> {
    let who = (process.identity.rank, process.identity.program);
    let job = Arc::clone(&process.job);
    let mut apart = frozen::apart(process, down).await?;
    // What is read again is what could come from a disk.
    let written = transports::record(&apart.around.outside)
        .map_err(|error| error.to_string())
        .and_then(|records| postcard::to_allocvec(&records).map_err(|error| error.to_string()));
    member.arrive(written.as_ref().map(drop).map_err(Clone::clone));
    let bytes = apart.bytes() + written.as_ref().map_or(0, Vec::len);
    let mut way = next(&member, Phase::Save, switch).await;
    if way == Way::On && member.is_at(Phase::Save) {
        let written = written.as_deref().unwrap_or_default();
        let (process, around) = apart.parts();
        let pmi = seat.record_job().map_err(|errno| format!("rank {}: PMI: {errno}", who.0));
        let taken = match pmi {
            // The I/O node is asked for lengths of files, and may not answer.
            Ok(pmi) => {
                let part = async {
                    // Files are to have what it has written when it goes on from there.
                    let settled = executor::timeout(SETTLE_NS_MAX, job.cache.settled()).await;
                    settled.map_err(|_| format!("rank {}: what it wrote is not in its files yet", who.0))?;
                    RankPart::of(who, (process, written), around.outer(), pmi).await
                };
                match executor::race(switch.killed(), part).await {
                    Either::First(_) => Err(format!("rank {} is being ended", who.0)),
                    Either::Second(part) => part,
                }
            }
            Err(why) => Err(why),
        };
        member.arrive(taken.map(|part| job.saving.add(part)));
    }
    if way == Way::On {
        way = next(&member, Phase::Forget, switch).await;
    }
    if way == Way::On {
        let records = written.ok().and_then(|written| postcard::from_bytes::<Vec<_>>(&written).ok());
        let records = records.ok_or(NotFrozen::Damaged)?;
        transports::forget(&mut apart.around.outside);
        member.arrive(Ok(()));
        next(&member, Phase::Make, switch).await;
        transports::make(&mut apart.around.outside, &records, network).map_err(|_| NotFrozen::Damaged)?;
    }
    let made = apart.make()?;
    if way == Way::On {
        member.arrive(Ok(()));
        next(&member, Phase::Go, switch).await;
    }
    let process = made.start(switch)?;
    seat.runs_again();
    if switch.signal().is_none() {
        member.done();
    }
    Ok((process, bytes))
}

/// A rank that runs. If it is dropped, as all of a simulated node is that dies, no cut has it any more: the rank's job
/// has that.
pub(super) struct Runs<'a>(pub(super) &'a Arc<Process>);

impl Drop for Runs<'_> {
    fn drop(&mut self) {
        self.0.job.cut.ended(self.0);
    }
}

/// A rank has come to its end, which may have been a member without knowing.
pub(super) fn ended(process: &Arc<Process>) {
    process.job.cut.ended(process);
    end_deserted(&process.job.cut, &*process.node.network);
}

/// Ends a cut when all of its ranks are gone: whoever leads does not find the job any more.
fn end_deserted(cut: &Cut, network: &dyn Network) {
    if let Some(is_being_made) = cut.is_deserted() {
        if is_being_made {
            // Reset, as they have no ends any more.
            let _ = network.again().end(executor::now_ns());
        }
        cut.end();
    }
}

/// Waits for the next phase, or until the rank is killed.
async fn next(member: &Member, phase: Phase, switch: &KillSwitch) -> Way {
    match executor::race(switch.killed(), member.next(phase)).await {
        Either::First(_) => Way::Back,
        Either::Second(way) => way,
    }
}

/// Does a step.
pub(super) async fn step(job: &Arc<JobOnNode>, by: u64, step: Step) -> Result<(), NotTold> {
    let deadline_ns = executor::now_ns().saturating_add(STEP_NS_MAX);
    if step == Step::Stop {
        return stop(job, by, deadline_ns).await;
    }
    let phase = job.cut.phase_of(by);
    if step == Step::GiveUp && not_to_be_kept(job, by) && phase == Phase::None {
        return Ok(());
    }
    if phase == Phase::None {
        return Err(NotTold::NotHeld);
    }
    job.cut.renew(lease_until());
    do_step(job, (step, by), phase, deadline_ns).await.map_err(NotTold::Late)
}

/// Whoever leads is there still, and asks how far it is.
pub(super) fn asked(job: &JobOnNode, by: u64) {
    if job.cut.phase_of(by) != Phase::None {
        job.cut.renew(lease_until());
    }
}

/// What was kept for somebody is not to be after all. Returns whether it was.
fn not_to_be_kept(job: &JobOnNode, by: u64) -> bool {
    let is_whose = job.saving.told(by).is_some();
    if is_whose {
        job.saving.give_up("a node could not do its part of it");
    }
    is_whose
}

/// Until when the next step must have come, ns.
fn lease_until() -> u64 {
    executor::now_ns().saturating_add(coppice_protocol::inspect::held::LEASE_NS)
}

/// Holds all ranks.
async fn stop(job: &Arc<JobOnNode>, by: u64, deadline_ns: u64) -> Result<(), NotTold> {
    let processes = job.processes();
    let Some(network) = processes.first().map(|process| Arc::clone(&process.node.network)) else {
        return Err(NotTold::Ending);
    };
    if processes.iter().any(|process| process.is_leased() || process.threads.is_dissolved()) {
        return Err(NotTold::Taken);
    }
    let held: Vec<_> = processes.iter().map(Process::hold).collect();
    if job.cut.begin(by, held, network, lease_until()).is_err() {
        return Err(NotTold::Taken);
    }
    if executor::spawn(run_out(Arc::downgrade(job), Arc::clone(&job.cut), by)).is_err() {
        job.cut.end();
        return Err(NotTold::Busy);
    }
    for process in &processes {
        if let Err(error) = process.settled(deadline_ns).await {
            job.cut.end();
            return Err(NotTold::Late(format!("rank {}: {error}", process.identity.rank)));
        }
    }
    Ok(())
}

async fn do_step(job: &Arc<JobOnNode>, (step, by): (Step, u64), phase: Phase, deadline_ns: u64) -> Result<(), String> {
    let network = job.cut.network().ok_or("its network is gone")?;
    match (step, phase) {
        (Step::Quiet, Phase::Stopped) => quieten(&*network, deadline_ns).await,
        (Step::Record, Phase::Stopped) => {
            job.cut.enter(Phase::Stopped, Phase::Record)?;
            arrived(job, deadline_ns).await?;
            job.cut.keep_orphans(network.again().record_orphans().map_err(|error| error.to_string())?);
            Ok(())
        }
        (Step::Save(keeping), Phase::Record) => {
            if !job.saving.begin(by, keeping) {
                return Err("what was cut before is still being kept".into());
            }
            job.cut.enter(Phase::Record, Phase::Save)?;
            arrived(job, deadline_ns).await?;
            let shared = (&job.shared, job.asks.counts());
            checkpoint::begin(&job.saving, (job.id, job.node), shared, job.cut.take_orphans())
        }
        (Step::Resume, Phase::Record | Phase::Save) => {
            job.cut.give_up();
            done(job, deadline_ns).await
        }
        (Step::Make, Phase::Record) => {
            job.cut.enter(Phase::Record, Phase::Forget)?;
            arrived(job, deadline_ns).await?;
            network.again().forget_orphans();
            network.again().make_orphans(&job.cut.take_orphans()).map_err(|error| error.to_string())?;
            job.cut.enter(Phase::Forget, Phase::Make)?;
            arrived(job, deadline_ns).await
        }
        (Step::Connect, Phase::Make) => {
            job.restoring.cut_back().await;
            network.again().call();
            until(deadline_ns, || !network.again().is_calling()).await.map_err(|()| NOT_MADE.into())
        }
        (Step::Settle, Phase::Make) => {
            network.again().settle(executor::now_ns());
            until(deadline_ns, || network.again().is_settled()).await.map_err(|()| NOT_MADE.into())
        }
        (Step::Go, Phase::Make) => go(job, &*network, deadline_ns).await,
        (Step::GiveUp, _) => {
            give_up(job, deadline_ns).await;
            Ok(())
        }
        (step, phase) => Err(format!("no time for {step:?}: it is at {phase:?}")),
    }
}

async fn go(job: &JobOnNode, network: &dyn Network, deadline_ns: u64) -> Result<(), String> {
    let late = network.again().end(executor::now_ns());
    if late > 0 {
        log::warn!("job {}: {late} connections could not be made again", job.id);
    }
    job.cut.enter(Phase::Make, Phase::Go)?;
    done(job, deadline_ns).await
}

/// Waits until all ranks go on, which is the end of the cut.
async fn done(job: &JobOnNode, deadline_ns: u64) -> Result<(), String> {
    let done = executor::timeout_at(deadline_ns, job.cut.done()).await;
    job.cut.end();
    done.unwrap_or_else(|executor::Elapsed| Err("a rank did not go on in time".into()))
}

async fn arrived(job: &JobOnNode, deadline_ns: u64) -> Result<(), String> {
    match executor::timeout_at(deadline_ns, job.cut.arrived()).await {
        Ok(result) => result,
        Err(executor::Elapsed) => Err("a rank did not come so far in time".into()),
    }
}

async fn quieten(network: &dyn Network, deadline_ns: u64) -> Result<(), String> {
    let mut trouble = None;
    let is_quiet = || match network.again().quieten() {
        Ok(is_quiet) => is_quiet,
        Err(error) => {
            trouble = Some(error.to_string());
            true
        }
    };
    let quiet = until(deadline_ns, is_quiet).await;
    if let Some(trouble) = trouble {
        return Err(trouble);
    }
    quiet.map_err(|()| "something is on its way still")?;
    // For what nobody acknowledges: datagrams, and word that a connection is broken off.
    executor::sleep(CUT_MOMENT_NS).await;
    Ok(())
}

/// Waits until something is so.
async fn until(deadline_ns: u64, mut is_so: impl FnMut() -> bool) -> Result<(), ()> {
    while !is_so() {
        if executor::now_ns() >= deadline_ns {
            return Err(());
        }
        executor::sleep(LOOK_NS).await;
    }
    Ok(())
}

/// Goes on without whoever led: as if nothing had been, or, when that is too late, with what could be made again.
async fn give_up(job: &Arc<JobOnNode>, deadline_ns: u64) {
    let network = job.cut.network();
    match job.cut.phase() {
        Phase::Stopped => job.cut.end(),
        Phase::None | Phase::Go => {}
        Phase::Record | Phase::Save => {
            job.cut.give_up();
            if let Err(error) = done(job, deadline_ns).await {
                log::warn!("job {}: {error}", job.id);
            }
        }
        Phase::Forget | Phase::Make => {
            let Some(network) = network else { return job.cut.end() };
            if job.cut.enter(Phase::Forget, Phase::Make).is_ok() {
                let _ = arrived(job, deadline_ns).await;
            }
            job.restoring.cut_back().await;
            network.again().call();
            // Other nodes give up about now, and call.
            let _ = until(deadline_ns, || network.again().is_made()).await;
            network.again().settle(executor::now_ns());
            if let Err(error) = go(job, &*network, deadline_ns).await {
                log::warn!("job {}: {error}", job.id);
            }
        }
    }
}

/// Goes on when whoever leads is not heard of for too long.
pub(super) async fn run_out(job: Weak<JobOnNode>, cut: Arc<Cut>, by: u64) {
    if cut.overdue(by).await
        && let Some(job) = job.upgrade()
    {
        log::warn!("job {}: the next step of its cut has not come in time", job.id);
        not_to_be_kept(&job, by);
        give_up(&job, executor::now_ns().saturating_add(STEP_NS_MAX)).await;
    }
}
