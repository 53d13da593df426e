//! Taking part in a broadcast ([`coppice_protocol::broadcast`]): a file that ranks read comes into memory that nobody
//! wants, where what is known of files takes its pages from ([`Incoming`]). If that memory is wanted the node has no
//! part in the transfer any more, and the others get what they lack elsewhere.

use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use coppice_hal::addr::PAGE_BYTES;
use coppice_protocol::broadcast::{Broadcast, file_of_job};
use coppice_protocol::distribution::{Party, Plan};
use coppice_protocol::staging::Roster;
use spin::Once;

use super::job::OfJob;
use super::member::{Arrivals, Member, State};
use super::room::{Hold, Room, reserve};
use super::site::{Site, Tenant};
use crate::errno::Errno;
use crate::executor::{self, WaitQueue};
use crate::files::cache::{FileCache, Incoming};
use crate::limits::{BROADCAST_AHEAD_BYTES, BROADCAST_PATIENCE_NS, BROADCAST_SPARE_SHARE, BROADCASTS_AT_ONCE_MAX};
use crate::memory::FileIdentity;
use crate::quota::Charge;
use crate::random;
use crate::sync::{LockLevel, Mutex};

/// A file that the node is to get, if it takes part.
pub(crate) struct Expected {
    order: Broadcast,
    plan: Plan,
    party: Party,
    room: Weak<Room>,
    file: Arc<File>,
    charge: Charge,
}

/// What comes of it, as ranks see it.
struct File {
    /// Where it goes, unless it does not come after all.
    room: Mutex<Option<Arc<Room>>>,
    plan: Plan,
    arrivals: Arc<Arrivals>,
    /// Frames that it takes.
    frames: AtomicU64,
    /// Once the node takes part.
    member: Once<Weak<Member>>,
    /// It does not.
    has_failed: AtomicBool,
    /// As many pieces had come when others were waited for in vain; beyond all: never.
    late: AtomicU32,
}

impl Expected {
    /// A node of the job is told of a broadcast. Then see [`Self::join`].
    ///
    /// # Errors
    /// `EEXIST`: it was told of it before; `ENOMEM`, also if it takes part in too many; `EINVAL`: it makes no sense.
    pub(crate) fn new(
        order: Broadcast,
        job: (Tenant<'_>, &OfJob),
        cache: &FileCache,
        site: Site<'_>,
    ) -> Result<Self, Errno> {
        let (Tenant { world, node, .. }, of_job) = job;
        let (bytes, content) = order.content().map(|file| (file.bytes, file.content)).map_err(|_| Errno::EINVAL)?;
        if !of_job.is_new_broadcast(order.number) {
            return Err(Errno::EEXIST);
        }
        if of_job.leaves_broadcasts() >= BROADCASTS_AT_ONCE_MAX {
            return Err(Errno::ENOMEM);
        }
        // Its pages are copied from there.
        let frames = bytes.div_ceil(PAGE_BYTES as u64).saturating_mul(2);
        let spare = u64::from(site.frames.total_frames()) / BROADCAST_SPARE_SHARE;
        if frames.saturating_add(spare) > site.frames.available_frames().into() {
            return Err(Errno::ENOMEM);
        }
        let mut charge = site.quota.charge(Roster::memory_bytes(&order.staging, world))?;
        let roster = Roster::new(&order.staging, world).ok_or(Errno::ENOMEM)?;
        let plan = order.plan(&roster).map_err(|_| Errno::EINVAL)?;
        let me = world.id_of(node).and_then(|id| roster.member_of(id)).ok_or(Errno::EINVAL)?;
        charge.grow(Member::bytes(&plan))?;
        let room = Arc::new(Room::new(&plan, content, site).ok_or(Errno::ENOMEM)?);
        let (key, seed) = (order.key(&world.key), u64::from_le_bytes(random::bytes()));
        let party = Party::new(&plan, key, roster, me, seed, executor::now_ns()).ok_or(Errno::ENOMEM)?;
        let file = Arc::new(File {
            room: Mutex::new(LockLevel::Fact, Some(Arc::clone(&room))),
            plan: plan.clone(),
            frames: AtomicU64::new(bytes.div_ceil(PAGE_BYTES as u64)),
            arrivals: Arc::default(),
            member: Once::new(),
            has_failed: AtomicBool::new(false),
            late: AtomicU32::new(u32::MAX),
        });
        let identity = FileIdentity { device: order.file.device, inode: order.file.inode };
        cache.comes(identity, order.version, Arc::clone(&file) as Arc<dyn Incoming>);
        Ok(Self { order, plan, party, room: Arc::downgrade(&room), file, charge })
    }

    /// The node takes part from now on. Frames are made as bytes come, until [`Frames::make`] has made them.
    ///
    /// # Errors
    /// As [`super::Staging::join`].
    pub(crate) fn join(self, of_job: &OfJob, site: Site<'_>) -> Result<Frames, Errno> {
        let Self { order, plan, party, room, file, charge } = self;
        let hold = Hold::Loose(Weak::clone(&room));
        let member = Member::new(Some(order.job), party, hold, charge).telling(Arc::clone(&file.arrivals));
        let membership = site.staging.join(member).inspect_err(|_| file.fail())?;
        file.member.call_once(|| Arc::downgrade(&membership.member));
        of_job.joined(file_of_job(order.job, order.number).file, membership);
        Ok(Frames { plan, room: Hold::Loose(room), file: Arc::downgrade(&file) })
    }
}

/// Frames that a file is to have. While they are made, its job may come to its end.
pub(crate) struct Frames {
    plan: Plan,
    room: Hold,
    file: Weak<File>,
}

impl Frames {
    /// Makes them. If there are not as many the file does not come.
    pub(crate) async fn make(self) {
        if !reserve(&self.room, &self.plan).await
            && let Some(file) = self.file.upgrade()
        {
            file.fail();
        }
    }
}

impl File {
    fn fail(&self) {
        self.has_failed.store(true, Ordering::Release);
        self.frames.store(0, Ordering::Relaxed);
        let room = self.room.lock().take();
        drop(room);
        self.arrivals.changed.wake_all();
    }

    fn member(&self) -> Option<Arc<Member>> {
        self.member.get().and_then(Weak::upgrade)
    }

    fn piece_of(&self, page: u64) -> u32 {
        u32::try_from(page * PAGE_BYTES as u64 / u64::from(self.plan.piece_bytes)).unwrap_or(u32::MAX)
    }
}

impl Incoming for File {
    fn has(&self, page: u64) -> bool {
        self.member().is_some_and(|member| member.has(self.piece_of(page)))
    }

    fn read(&self, page: u64, into: &mut [u8]) -> bool {
        let room = self.room.lock().clone();
        room.is_some_and(|room| room.bytes.read(page * PAGE_BYTES as u64, into) == into.len())
    }

    fn is_coming(&self) -> bool {
        let receives = |member: Arc<Member>| member.state() == State::Receives;
        // One that has yet to join is about to.
        let may_come = self.member.get().is_none_or(|member| member.upgrade().is_some_and(receives));
        may_come && !self.has_failed.load(Ordering::Acquire)
    }

    fn is_next(&self, page: u64) -> bool {
        if !self.is_coming() || self.late.load(Ordering::Relaxed) == self.count() {
            return false;
        }
        let ahead = BROADCAST_AHEAD_BYTES / self.plan.piece_bytes.max(1);
        let first_missing = self.member().map_or(0, |member| member.first_missing());
        self.piece_of(page) < first_missing.saturating_add(ahead)
    }

    fn count(&self) -> u32 {
        self.arrivals.count.load(Ordering::Acquire)
    }

    fn is_late(&self, count: u32) {
        self.late.store(count, Ordering::Relaxed);
    }

    fn patience_ns(&self) -> u64 {
        BROADCAST_PATIENCE_NS.max(self.plan.piece_ns().saturating_mul(4))
    }

    fn pages(&self) -> u64 {
        self.frames.load(Ordering::Relaxed)
    }

    fn changed(&self) -> &WaitQueue {
        &self.arrivals.changed
    }
}
