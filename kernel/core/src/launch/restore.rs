//! A rank that does not begin, but goes on from a checkpoint ([`crate::checkpoint`]): made as a member of a cut
//! ([`crate::process::cut`]) whose last steps are led when all ranks of the job are made.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_protocol::checkpoint::Restore;
use coppice_protocol::control::Order;

use super::frozen::Made;
use super::kill::KillSwitch;
use super::load;
use super::{Facts, cut};
use crate::checkpoint::{self, Loaded, NotLoaded, Place};
use crate::executor;
use crate::files::Closer;
use crate::files::record::outside::Longer;
use crate::limits::RESTORE_NS_MAX;
use crate::pmi::Seat;
use crate::process::cut::{Member, Phase};
use crate::process::record::{self, Surroundings};
use crate::process::{Identity, JobOnNode, Process};
use crate::thread;

/// Makes the rank, says that it is there, and has it go on when all others are.
///
/// # Errors
/// One line on why it cannot be made.
pub(super) async fn restore(
    order: &Order,
    from: Restore,
    facts: Facts,
    seat: &Seat,
    switch: &KillSwitch,
    made_it: impl FnOnce(&Arc<Process>),
) -> Result<Arc<Process>, String> {
    let job = Arc::clone(&facts.job);
    let keep_files = from.keep_files;
    let by = from.by;
    let (made, longer) = make(order, from, facts, seat).await?;
    let member = join(&job, order, by, &made)?;
    if !keep_files {
        job.restoring.is_to_cut(&made.process.client, longer);
    }
    member.arrive(Ok(()));
    made_it(&made.process);
    member.next(Phase::Go).await;
    job.restoring.forget();
    if let Some(why) = job.restoring.not_cut() {
        return Err(why);
    }
    let process = made.start(switch).map_err(|error| error.to_string())?;
    member.done();
    Ok(process)
}

/// Makes it a member of the cut, which the first of the node begins here.
fn join(job: &Arc<JobOnNode>, order: &Order, by: u64, made: &Made) -> Result<Member, String> {
    let first = job.node.0.saturating_mul(order.world.ranks_per_node);
    let ranks = order.world.ranks_per_node.min(order.size.saturating_sub(first));
    let until_ns = executor::now_ns().saturating_add(RESTORE_NS_MAX);
    let network = Arc::clone(&made.process.node.network);
    let (member, is_first) = job.cut.join(by, ranks as usize, network, until_ns)?;
    if is_first {
        let run_out = cut::run_out(Arc::downgrade(job), Arc::clone(&job.cut), by);
        executor::spawn(run_out).map_err(|_| String::from("there are too many tasks on the node"))?;
    }
    Ok(member)
}

async fn make(order: &Order, from: Restore, facts: Facts, seat: &Seat) -> Result<(Made, Vec<Longer>), String> {
    let Facts { client, job, node, .. } = facts;
    let prepared = load::prepare(order, &client, &job, &node).await?;
    let space = load::space_for(order, &prepared.image, &job, &node).map_err(|error| error.to_string())?;
    let closer = Closer::new(client.clone(), Arc::clone(&job.cache));
    let said = |error: NotLoaded| error.to_string();
    let place = Place {
        client: &client,
        seat,
        of_node: &job.restoring,
        files: &job.shared,
        asks: &job.asks,
        frames: node.frames,
        retention: &node.retention,
        quota: &node.quota,
        network: &*node.network,
        region: node.region.as_deref(),
    };
    let shared = checkpoint::load_node(from.node, &place).await.map_err(said)?;
    let loaded = checkpoint::load(from.rank, order.program, &closer, &shared, &place).await.map_err(said)?;
    drop(shared);
    let region = node.region.clone();
    let Loaded { process, outside, memories, pages, longer } = loaded;
    let no_memory = |errno| format!("there is no memory for a process: {errno}");
    let charge = node.quota.charge(process.len() * 2).map_err(no_memory)?;
    let cores = Identity::of(order).cores(&order.world, executor::cores());
    let of_process = node.quota.charge(Process::bytes(cores) + Identity::bytes(order)).map_err(no_memory)?;
    let around = (job, node, client, closer);
    let around = Surroundings::elsewhere(around, space.into_pages(memories), outside, of_process);
    let made = record::thaw_elsewhere(&process, around, order, thread::LIFE_BYTES);
    let (process, threads) = made.map_err(|error| error.to_string())?;
    // What is paired with the charge of its record, as where it was made data here.
    process.node.quota.keep();
    let stood_ns = process.clock.now_ns();
    let made = Made { process, threads, charge, stood_ns };
    let source = (&made.process.client, region.as_deref());
    checkpoint::place_pages(&pages, source, &made.process.space).await.map_err(said)?;
    let locked = made.process.locks.lock_again(&made.process.client).await;
    locked.map_err(|errno| format!("a file that it had locked cannot be locked again: {errno}"))?;
    Ok((made, longer))
}
