//! What a job has staged on the node: made by the first of its ranks here, for all of them.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

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
    /// The transfers, in which the node stays, each with the number of its file.
    memberships: Mutex<Vec<(usize, Membership)>>,
    /// The bytes of the job's program.
    program: Mutex<Option<Arc<SharedMemory>>>,
    /// Somebody has been told what the node counted.
    counted: AtomicBool,
}

impl Default for OfJob {
    fn default() -> Self {
        Self {
            begun: AtomicBool::new(false),
            done: Mutex::new(LockLevel::Fact, None),
            waiters: WaitQueue::new(),
            memberships: Mutex::new(LockLevel::Jobs, Vec::new()),
            program: Mutex::new(LockLevel::Fact, None),
            counted: AtomicBool::new(false),
        }
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
                Ok(membership) => self.memberships.lock().push((number, membership)),
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

    /// The node as a member of a file's transfer.
    fn member(&self, file: usize) -> Option<Arc<Member>> {
        let memberships = self.memberships.lock();
        let found = memberships.iter().find(|(number, _)| *number == file);
        found.map(|(_, membership)| Arc::clone(&membership.member))
    }

    /// Waits until no other node may want anything of this one: its job ends here, and with it the node leaves the
    /// transfers. As the job goes on until its last node has its files, that is no longer than the job lasts anyway.
    pub(crate) async fn settle(&self) {
        let members: Vec<Arc<Member>> =
            self.memberships.lock().iter().map(|(_, membership)| membership.withdraw()).collect();
        let Some(service) = self.memberships.lock().first().map(|(_, membership)| membership.service.clone()) else {
            return;
        };
        let settled = service.until(|| (!members.iter().any(|member| member.is_needed())).then_some(()));
        let _ = executor::timeout(STAGING_SETTLE_NS_MAX, settled).await;
    }

    /// What the node has counted in the job's transfers, once: for the first rank here that asks for it.
    pub(crate) fn counts(&self) -> Vec<MemberCounts> {
        if self.counted.swap(true, Ordering::AcqRel) {
            return Vec::new();
        }
        let count = |(file, membership): &(usize, Membership)| {
            // There are only a few.
            let file = u8::try_from(*file).unwrap_or(u8::MAX);
            MemberCounts::new(file, membership.member.tally())
        };
        self.memberships.lock().iter().map(count).collect()
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
