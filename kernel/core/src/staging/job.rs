//! What a job has staged on the node: made by the first of its ranks here, for all of them.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

use coppice_protocol::broadcast::limits::BROADCASTS_PER_JOB_MAX;
use coppice_protocol::control::Launch;
use coppice_protocol::distribution::Party;
use coppice_protocol::limits::STAGED_FILES_MAX;
use coppice_protocol::staging::{Roster, StagedFile, Staging};
use coppice_protocol::transfer::MemberCounts;

use super::member::{Member, Membership, State, WANTED};
use super::room::{Hold, Room, free_bytes, reserve};
use super::site::{Site, Tenant};
use crate::executor::{self, WaitQueue};
use crate::limits::STAGING_SETTLE_NS_MAX;
use crate::memory::SharedMemory;
use crate::random;
use crate::sync::{LockLevel, Mutex};

/// See this module.
pub(crate) struct OfJob {
    begun: AtomicBool,
    done: Mutex<Option<Result<(), String>>>,
    waiters: WaitQueue,
    /// The transfers, in which the node stays.
    memberships: Mutex<Vec<Joined>>,
    /// Broadcasts of which it was told, a bit for each number.
    broadcasts: Mutex<u128>,
    /// What the node counted in those that it has left, and nobody was told yet.
    left: Mutex<Vec<MemberCounts>>,
    /// The bytes of the job's program.
    program: Mutex<Option<Arc<SharedMemory>>>,
}

/// A transfer that the node takes part in.
struct Joined {
    /// The number of its file.
    file: u8,
    membership: Membership,
    /// Somebody has been told what the node counted.
    is_told: bool,
}

// A bit for each.
const _: () = assert!(BROADCASTS_PER_JOB_MAX as u32 <= u128::BITS);

impl Default for OfJob {
    fn default() -> Self {
        Self {
            begun: AtomicBool::new(false),
            done: Mutex::new(LockLevel::Fact, None),
            waiters: WaitQueue::new(),
            memberships: Mutex::new(LockLevel::Jobs, Vec::new()),
            broadcasts: Mutex::new(LockLevel::Fact, 0),
            left: Mutex::new(LockLevel::Fact, Vec::new()),
            program: Mutex::new(LockLevel::Fact, None),
        }
    }
}

impl Joined {
    fn is_broadcast(&self) -> bool {
        usize::from(self.file) >= STAGED_FILES_MAX
    }

    /// Whether it is a broadcast, and not all of it is here.
    fn is_coming_broadcast(&self) -> bool {
        self.is_broadcast() && self.membership.member.state() == State::Receives
    }

    /// Whether nothing comes any more, and nobody wants anything of this node.
    fn is_over(&self) -> bool {
        self.membership.member.state() != State::Receives && !self.membership.withdraw().is_needed()
    }

    /// What the node has counted.
    fn counts(&self) -> MemberCounts {
        MemberCounts::new(self.file, self.membership.member.tally())
    }
}

/// Tells the other ranks if the one that has the files staged is gone before they are.
struct Owed<'a>(&'a OfJob);

impl Owed<'_> {
    fn pay(&self, result: Result<(), String>) {
        self.0.done.lock().get_or_insert(result);
        self.0.waiters.wake_all();
    }
}

impl Drop for Owed<'_> {
    fn drop(&mut self) {
        self.pay(Err(String::from("the rank that waited for the job's staged files was ended")));
    }
}

impl OfJob {
    /// Waits until all that the job has staged is there, and has that begin if no rank has yet.
    ///
    /// # Errors
    /// One line that says what is not there, and why.
    pub(crate) async fn ready(&self, order: &Launch, job: Tenant<'_>, site: Site<'_>) -> Result<(), String> {
        let Some(staging) = &order.staging else { return Ok(()) };
        if !self.begun.swap(true, Ordering::AcqRel) {
            let owed = Owed(self);
            let result = self.stage(staging, order, job, site).await;
            owed.pay(result);
        }
        self.waiters.wait_until(|| self.done.lock().clone()).await
    }

    async fn stage(&self, staging: &Staging, order: &Launch, job: Tenant<'_>, site: Site<'_>) -> Result<(), String> {
        if staging.files.len() > STAGED_FILES_MAX {
            return Err(format!("{} staged files are more than {STAGED_FILES_MAX}", staging.files.len()));
        }
        for (number, file) in staging.files.iter().enumerate() {
            match join(staging, number, order, job, site).await {
                Ok(membership) => self.joined(Staging::file(order.job, number).file, membership),
                // Its pages can come one by one.
                Err(reason) if file.path.is_none() => log::warn!("{reason}"),
                Err(reason) => return Err(reason),
            }
            executor::yield_now().await;
            log::debug!("staging {} of {} bytes", name(file, order), file.bytes);
        }
        for (number, file) in staging.files.iter().enumerate() {
            let Some(member) = self.member(number) else { continue };
            let ended = site.staging.until(|| Some(member.state()).filter(|state| *state != State::Receives)).await;
            if let State::Failed(reason) = ended {
                if file.path.is_none() {
                    log::warn!("cannot stage {}: {reason}", name(file, order));
                    continue;
                }
                return Err(format!("cannot stage {}: {reason}", name(file, order)));
            }
            let room = member.room().ok_or_else(|| format!("cannot stage {}: {WANTED}", name(file, order)))?;
            let bytes = Arc::clone(&room.bytes);
            match &file.path {
                None => *self.program.lock() = Some(bytes),
                Some(path) => job
                    .shared
                    .add_staged(path, bytes, order, site.quota)
                    .map_err(|errno| format!("cannot stage {path}: {errno}"))?,
            }
        }
        Ok(())
    }

    /// The node as a member of a staged file's transfer.
    fn member(&self, file: usize) -> Option<Arc<Member>> {
        let memberships = self.memberships.lock();
        let found = memberships.iter().find(|joined| usize::from(joined.file) == file);
        found.map(|joined| Arc::clone(&joined.membership.member))
    }

    /// Whether a broadcast of that number was not heard of before.
    pub(super) fn is_new_broadcast(&self, number: u8) -> bool {
        let bit = 1_u128.checked_shl(number.into()).unwrap_or(0);
        let mut known = self.broadcasts.lock();
        let is_new = *known & bit == 0 && bit != 0;
        *known |= bit;
        is_new
    }

    /// Leaves broadcasts of which the node has all, and others want nothing of it. In how many it takes part then.
    pub(super) fn leaves_broadcasts(&self) -> usize {
        let mut memberships = self.memberships.lock();
        let over: Vec<Joined> =
            memberships.extract_if(.., |joined| joined.is_broadcast() && joined.is_over()).collect();
        let count = memberships.iter().filter(|joined| joined.is_broadcast()).count();
        drop(memberships);
        let untold: Vec<MemberCounts> = over.iter().filter(|joined| !joined.is_told).map(Joined::counts).collect();
        self.left.lock().extend(untold);
        count
    }

    /// The node takes part in the transfer of that file from now on, as long as the job lasts here.
    pub(super) fn joined(&self, file: u8, membership: Membership) {
        self.memberships.lock().push(Joined { file, membership, is_told: false });
    }

    /// Waits until no other node may want anything of this one: its job ends here, and with it the node leaves the
    /// transfers. As the job goes on until its last node has its files, that is no longer than the job lasts anyway.
    pub(crate) async fn settle(&self) {
        let (members, service) = {
            let memberships = self.memberships.lock();
            // What is still coming by a broadcast another rank here may want.
            let may_leave = memberships.iter().filter(|joined| !joined.is_coming_broadcast());
            let members: Vec<Arc<Member>> = may_leave.map(|joined| joined.membership.withdraw()).collect();
            (members, memberships.first().map(|joined| joined.membership.service.clone()))
        };
        let Some(service) = service else { return };
        let settled = service.until(|| (!members.iter().any(|member| member.is_needed())).then_some(()));
        let _ = executor::timeout(STAGING_SETTLE_NS_MAX, settled).await;
    }

    /// What the node has counted in the job's transfers, each once, for the first rank here that asks when it is over.
    pub(crate) fn counts(&self) -> Vec<MemberCounts> {
        let mut counts = core::mem::take(&mut *self.left.lock());
        let mut memberships = self.memberships.lock();
        let untold = memberships.iter_mut().filter(|joined| !joined.is_told && !joined.is_coming_broadcast());
        counts.extend(untold.map(|joined| {
            joined.is_told = true;
            joined.counts()
        }));
        counts
    }

    /// The bytes of the job's program, if that was staged.
    pub(crate) fn program(&self) -> Option<Arc<SharedMemory>> {
        self.program.lock().clone()
    }
}

fn name(file: &StagedFile, order: &Launch) -> String {
    file.path.as_ref().unwrap_or(&order.path).to_string()
}

/// Makes room for a file, unless the node keeps it, and joins its transfer.
async fn join(
    staging: &Staging,
    number: usize,
    order: &Launch,
    job: Tenant<'_>,
    site: Site<'_>,
) -> Result<Membership, String> {
    let Some(file) = staging.files.get(number) else { return Err(String::from("there is no such staged file")) };
    let name = || name(file, order);
    let no_memory = || format!("cannot stage {}: the node has no memory for its transfer", name());
    let mut charge = site.quota.charge(Roster::memory_bytes(staging, job.world)).map_err(|_| no_memory())?;
    let roster = Roster::new(staging, job.world).ok_or_else(no_memory)?;
    let plan = staging.plan(order.job, number, &roster).map_err(|error| format!("cannot stage {}: {error}", name()))?;
    let me = job.world.id_of(job.node).and_then(|id| roster.member_of(id));
    let me = me.ok_or_else(|| format!("cannot stage {}: the node is none of the job's", name()))?;
    // What the node keeps anyway is the job's memory as long as that lasts.
    let found = site.staging.kept().find(file.content, &plan, site.retention.next_use());
    let is_here = found.is_some();
    let room = match found {
        Some(room) => Hold::Firm(room),
        None => Hold::Firm(Arc::new(Room::new(&plan, file.content, site).ok_or_else(no_memory)?)),
    };
    if !is_here && !reserve(&room, &plan).await {
        let free = free_bytes(&room, site);
        return Err(format!(
            "cannot stage {}: it has {} MiB and the node has no memory left for it ({} MiB are free); use \
             `coppice up --memory` with more",
            name(),
            file.bytes.div_ceil(1 << 20),
            free >> 20
        ));
    }
    charge.grow(Member::bytes(&plan)).map_err(|_| no_memory())?;
    let key = Staging::key(&job.world.key, order.job, number);
    let seed = u64::from_le_bytes(random::bytes());
    let party = Party::new(&plan, key, roster, me, seed, executor::now_ns()).ok_or_else(no_memory)?;
    let member = Member::new(Some(order.job), party, room, charge);
    if is_here {
        member.has_all();
    }
    site.staging.join(member).map_err(|errno| format!("cannot stage {}: {errno}", name()))
}
