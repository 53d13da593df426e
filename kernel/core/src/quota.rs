//! How much of the kernel's memory programs may make the kernel keep.
//!
//! Whatever a program makes the kernel allocate for longer than a moment is charged here first: threads, what is behind
//! descriptors, who waits for it, what a waiting call holds, areas, signals that are queued. Charged is what the
//! allocator takes for it ([`heap::block_bytes`]). There is one sum of all that ([`Store`]), to which the sockets'
//! buffers count, too, and it is memory at once: the heap has grown before a charge is granted, so what was charged can
//! be allocated whatever programs do to the frames that are left. So **nothing that is charged first can fail later**,
//! and what is charged may be allocated as if it could not fail.
//!
//! The ranks of a node share: half of what objects may take is divided evenly among them, so that none can take it from
//! another, and the other half is for whoever wants more. Of a rank's own part, areas may take half: one that has
//! mapped all it may still gets threads and descriptors.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};

use coppice_endpoint::Lender;
use coppice_hal::addr::PAGE_BYTES;
use coppice_hal::frames::FramePool;
use coppice_hal::heap::{self, Refused, block_bytes};

use crate::errno::Errno;
use crate::limits::{QUOTA_BYTES_DEFAULT, QUOTA_SIXTEENTHS, QUOTA_STEP_BYTES};
use crate::sync::{LockLevel, Mutex};

/// Who has memory that is there for whoever wants it more.
pub trait GivesBack: Send + Sync {
    /// Gives some of it back. Whether there was any.
    fn give_back(&self) -> bool;
}

/// The node's memory for all that is charged.
#[derive(Clone)]
pub struct Store {
    frames: &'static FramePool,
    retained: Arc<dyn GivesBack>,
}

impl Store {
    /// The kernel's heap, which takes its memory from `frames` as everybody does: what is `retained` there goes first.
    #[must_use]
    pub fn new(frames: &'static FramePool, retained: Arc<dyn GivesBack>) -> Self {
        Self { frames, retained }
    }

    /// Takes so many bytes, which can be allocated from then on.
    ///
    /// # Errors
    /// `ENOMEM`.
    fn take(&self, bytes: usize) -> Result<(), Errno> {
        loop {
            match self.try_take(bytes) {
                Ok(()) => return Ok(()),
                Err(Refused::Frames) if self.retained.give_back() => {}
                Err(Refused::Frames | Refused::Limit) => return Err(Errno::ENOMEM),
            }
        }
    }

    fn try_take(&self, bytes: usize) -> Result<(), Refused> {
        // The host's heap knows nothing of frames.
        if cfg!(not(target_os = "none")) && bytes.div_ceil(PAGE_BYTES) > self.frames.available_frames() as usize {
            return Err(Refused::Frames);
        }
        heap::promise(bytes)
    }
}

/// Sockets' buffers have a limit of their own.
impl Lender for Store {
    fn lend(&self, bytes: usize) -> bool {
        self.take(bytes).is_ok()
    }

    fn take_back(&self, bytes: usize) {
        heap::release(bytes);
    }
}

/// What an `Arc` of this type takes of the heap, bytes.
pub(crate) const fn shared_bytes<T>() -> usize {
    block_bytes(size_of::<T>() + 2 * size_of::<usize>())
}

/// Memory for what programs make the kernel keep: a node's, or what a process may have of it.
pub struct Quota {
    store: Store,
    taken: Mutex<Taken>,
    /// What may be charged here whatever the others do, bytes.
    reserved: usize,
    /// What was charged beyond that, here and by the others, bytes.
    common: Arc<AtomicUsize>,
    /// What that may be at most, bytes.
    common_max: usize,
}

/// What memory is charged for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Areas of a process's memory.
    Area,
    /// Whatever else.
    Object,
}

/// What a quota has taken.
struct Taken {
    /// What was charged, bytes.
    charged: usize,
    /// What of that was charged for areas, bytes.
    areas: usize,
    /// What was taken from the store for that, bytes: whole steps, so that it is seldom asked.
    stored: usize,
    /// What nobody else gets although it is not charged now, with the part of it for areas, bytes ([`Quota::keep`]).
    kept: (usize, usize),
}

impl Taken {
    /// What others cannot have, and the part of it for areas, bytes.
    fn held(&self) -> (usize, usize) {
        (self.charged.max(self.kept.0), self.areas.max(self.kept.1))
    }
}

/// Memory that was charged. Given back when this is dropped.
pub(crate) struct Charge {
    quota: Arc<Quota>,
    kind: Kind,
    bytes: usize,
}

impl Quota {
    /// A share of what `store` has.
    #[must_use]
    pub fn new(store: Store) -> Self {
        let limit = match heap::usage().limit_bytes {
            0 => QUOTA_BYTES_DEFAULT,
            bytes => bytes / 16 * QUOTA_SIXTEENTHS,
        };
        Self::with(store, 0, Arc::default(), limit)
    }

    /// What one of so many processes may have of a node's. There are to be no more of them at a time.
    #[must_use]
    pub fn share(&self, processes: u32) -> Self {
        let half = self.common_max / 2;
        let reserved = half / processes.max(1) as usize;
        Self::with(self.store.clone(), reserved, Arc::clone(&self.common), half)
    }

    fn with(store: Store, reserved: usize, common: Arc<AtomicUsize>, common_max: usize) -> Self {
        let taken = Mutex::new(LockLevel::Quota, Taken { charged: 0, areas: 0, stored: 0, kept: (0, 0) });
        Self { store, taken, reserved, common, common_max }
    }

    /// Charges memory that may be allocated from then on.
    ///
    /// # Errors
    /// `ENOMEM`: there is no more to be had.
    pub(crate) fn charge(self: &Arc<Self>, bytes: usize) -> Result<Charge, Errno> {
        let mut charge = Charge { quota: Arc::clone(self), kind: Kind::Object, bytes: 0 };
        charge.grow(bytes)?;
        Ok(charge)
    }

    /// As [`Self::charge`]; [`Self::give_back`] is to be called for it.
    pub(crate) fn take(&self, kind: Kind, bytes: usize) -> Result<(), Errno> {
        let short = {
            let mut taken = self.taken.lock();
            let sum = taken.charged.checked_add(bytes).ok_or(Errno::ENOMEM)?;
            let areas = taken.areas + if kind == Kind::Area { bytes } else { 0 };
            let (held, held_areas) = taken.held();
            let beyond = self.beyond(sum.max(held), areas.max(held_areas)) - self.beyond(held, held_areas);
            if beyond > 0 {
                let more = |common: usize| common.checked_add(beyond).filter(|sum| *sum <= self.common_max);
                let common = self.common.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
                common.map_err(|_| Errno::ENOMEM)?;
            }
            (taken.charged, taken.areas) = (sum, areas);
            sum.saturating_sub(taken.stored)
        };
        // Not under the lock: what is retained may have to go first.
        if short > 0 { self.stock(short).inspect_err(|_| self.give_back(kind, bytes)) } else { Ok(()) }
    }

    /// Takes at least so many bytes from the store.
    #[cold]
    fn stock(&self, short: usize) -> Result<(), Errno> {
        let step = short.next_multiple_of(QUOTA_STEP_BYTES);
        let got = self.store.take(step).map(|()| step).or_else(|_| self.store.take(short).map(|()| short))?;
        self.taken.lock().stored += got;
        Ok(())
    }

    /// Gives back what was taken.
    pub(crate) fn give_back(&self, kind: Kind, bytes: usize) {
        let mut taken = self.taken.lock();
        let areas = if kind == Kind::Area { bytes } else { 0 };
        self.change(&mut taken, |taken| {
            taken.charged -= bytes;
            taken.areas -= areas;
        });
    }

    /// Nobody else gets what is charged here now, even when it is given back, until [`Self::let_go`]: so it can be
    /// charged again.
    pub(crate) fn keep(&self) {
        let mut taken = self.taken.lock();
        taken.kept = (taken.charged, taken.areas);
    }

    /// See [`Self::keep`].
    pub(crate) fn let_go(&self) {
        self.change(&mut self.taken.lock(), |taken| taken.kept = (0, 0));
    }

    /// Changes what is held here to less.
    fn change(&self, taken: &mut Taken, change: impl FnOnce(&mut Taken)) {
        let (before, before_areas) = taken.held();
        change(taken);
        let (less, areas) = taken.held();
        if let beyond @ 1.. = self.beyond(before, before_areas) - self.beyond(less, areas) {
            self.common.fetch_sub(beyond, Ordering::Relaxed);
        }
        // Less than nothing while another thread takes.
        let surplus = taken.stored.saturating_sub(less);
        if surplus > 2 * QUOTA_STEP_BYTES || less == 0 && surplus > 0 {
            let more = if less == 0 { surplus } else { surplus - QUOTA_STEP_BYTES };
            taken.stored -= more;
            heap::release(more);
        }
    }

    /// How much of what is charged, so much of it for areas, is not reserved.
    fn beyond(&self, charged: usize, areas: usize) -> usize {
        let beyond = areas.saturating_sub(self.reserved / 2);
        beyond + (charged - beyond).saturating_sub(self.reserved)
    }

    /// Bytes that are charged here.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.taken.lock().charged
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        self.let_go();
        heap::release(self.taken.get_mut().stored);
    }
}

impl Charge {
    /// Charges more.
    ///
    /// # Errors
    /// `ENOMEM`: no more is charged.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Errno> {
        self.quota.take(self.kind, bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Gives some of it back.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.quota.give_back(self.kind, bytes);
    }

    /// Where it was charged.
    pub(crate) fn quota(&self) -> &Arc<Quota> {
        &self.quota
    }

    /// How much it is.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl core::fmt::Debug for Charge {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Charge({} bytes)", self.bytes)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.quota.give_back(self.kind, self.bytes);
    }
}

/// What things of one size are charged with of which a process has now more and now fewer. The first ones are among
/// what each process is charged with; beyond, they are charged some at a time.
#[derive(Debug)]
pub(crate) struct Counted {
    /// `None`: nowhere, for want of a process.
    charge: Option<Charge>,
    /// What each takes, bytes.
    unit: usize,
    /// How many are not charged here.
    free: usize,
}

impl Counted {
    /// How many are charged at a time.
    const STEP: usize = 16;

    /// Things of so many bytes, the first `free` of which are charged elsewhere.
    pub(crate) const fn new(unit: usize, free: usize) -> Self {
        Self { charge: None, unit, free }
    }

    /// From now on they are charged to `quota`.
    pub(crate) fn charge_to(&mut self, quota: &Arc<Quota>, kind: Kind) {
        self.charge = Some(Charge { quota: Arc::clone(quota), kind, bytes: 0 });
    }

    /// Sees to it that so many are charged.
    ///
    /// # Errors
    /// `ENOMEM`.
    #[inline]
    pub(crate) fn cover(&mut self, count: usize) -> Result<(), Errno> {
        if count <= self.free {
            return Ok(());
        }
        let Some(charge) = &mut self.charge else { return Ok(()) };
        let wanted = (count - self.free).next_multiple_of(Self::STEP) * self.unit;
        if wanted > charge.bytes { charge.grow(wanted - charge.bytes) } else { Ok(()) }
    }

    /// There are no more than so many.
    #[inline]
    pub(crate) fn settle(&mut self, count: usize) {
        let Some(charge) = &mut self.charge else { return };
        let wanted = count.saturating_sub(self.free).next_multiple_of(Self::STEP) * self.unit;
        // With a step between, so that one that comes and goes is not charged each time.
        if charge.bytes > wanted + Self::STEP * self.unit || count <= self.free && charge.bytes > 0 {
            charge.shrink(charge.bytes - wanted);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use alloc::sync::Arc;
    use alloc::vec::Vec;

    use coppice_hal::frames::{FrameKind, FramePool};

    use super::{Counted, Kind, Lender, Quota, Store};
    use crate::errno::Errno;
    use crate::limits::QUOTA_BYTES_DEFAULT;
    use crate::memory::Retention;
    use crate::process::testing::pool;

    fn of(frames: &'static FramePool) -> Arc<Quota> {
        Arc::new(Quota::new(Store::new(frames, Arc::new(Retention::default()))))
    }

    /// One on the memory of all benches.
    pub(crate) fn quota() -> Arc<Quota> {
        of(pool())
    }

    #[test]
    fn what_is_charged_is_limited_and_given_back() {
        let quota = of(FramePool::for_host(2 * QUOTA_BYTES_DEFAULT));
        let mut half = quota.charge(QUOTA_BYTES_DEFAULT / 2).expect("room");
        assert_eq!(half.grow(QUOTA_BYTES_DEFAULT / 2 + 1), Err(Errno::ENOMEM));
        assert_eq!(half.grow(QUOTA_BYTES_DEFAULT / 2), Ok(()));
        assert_eq!(quota.charge(1).err(), Some(Errno::ENOMEM));
        assert_eq!(quota.charge(usize::MAX).err(), Some(Errno::ENOMEM));
        half.shrink(7);
        assert_eq!((half.bytes(), quota.taken()), (QUOTA_BYTES_DEFAULT - 7, QUOTA_BYTES_DEFAULT - 7));
        assert_eq!(quota.charge(8).err(), Some(Errno::ENOMEM));
        drop(half);
        assert_eq!(quota.taken(), 0);
        assert!(quota.charge(1).is_ok());
    }

    #[test]
    fn each_of_several_processes_has_its_part_whatever_the_others_take() {
        let frames = FramePool::for_host(2 * QUOTA_BYTES_DEFAULT);
        let node = Quota::new(Store::new(frames, Arc::new(Retention::default())));
        let ranks: Vec<Arc<Quota>> = (0..4).map(|_| Arc::new(node.share(4))).collect();
        let part = QUOTA_BYTES_DEFAULT / 8;
        // One takes its part and all that is not another's.
        let greedy = ranks[0].charge(part + QUOTA_BYTES_DEFAULT / 2).expect("nobody else wants it");
        assert_eq!(ranks[0].charge(1).err(), Some(Errno::ENOMEM));
        let others: Vec<_> = ranks[1..].iter().map(|rank| rank.charge(part).expect("its part")).collect();
        assert!(ranks.iter().all(|rank| rank.charge(1).is_err()));
        drop(greedy);
        // It has its part still, and the others may have more than theirs now.
        let more = ranks[3].charge(QUOTA_BYTES_DEFAULT / 2).expect("room again");
        let own = ranks[0].charge(part).expect("its part");
        assert!(ranks.iter().all(|rank| rank.charge(1).is_err()));
        drop((others, more, own));
        assert!(ranks.iter().all(|rank| rank.taken() == 0));
        assert!(ranks[2].charge(part + QUOTA_BYTES_DEFAULT / 2).is_ok());
        // One alone has all of it.
        assert!(Arc::new(node.share(1)).charge(QUOTA_BYTES_DEFAULT).is_ok());
    }

    #[test]
    fn what_is_kept_nobody_else_gets_although_it_was_given_back() {
        let node = Quota::new(Store::new(FramePool::for_host(2 * QUOTA_BYTES_DEFAULT), Arc::new(Retention::default())));
        let ranks: Vec<Arc<Quota>> = (0..2).map(|_| Arc::new(node.share(2))).collect();
        let part = QUOTA_BYTES_DEFAULT / 4;
        let all = ranks[0].charge(part + QUOTA_BYTES_DEFAULT / 2).expect("nobody else wants it");
        ranks[0].keep();
        drop(all);
        assert_eq!(ranks[0].taken(), 0);
        let others = ranks[1].charge(part).expect("its part");
        assert_eq!(ranks[1].charge(1).err(), Some(Errno::ENOMEM));
        let again = ranks[0].charge(part + QUOTA_BYTES_DEFAULT / 2).expect("it was kept");
        assert_eq!(ranks[0].charge(1).err(), Some(Errno::ENOMEM));
        drop(again);
        ranks[0].let_go();
        assert!(ranks[1].charge(QUOTA_BYTES_DEFAULT / 2).is_ok());
        drop(others);
        assert!(ranks.iter().all(|rank| rank.taken() == 0));
    }

    #[test]
    fn areas_leave_half_of_a_part_to_what_else_there_is() {
        let node = Quota::new(Store::new(FramePool::for_host(2 * QUOTA_BYTES_DEFAULT), Arc::new(Retention::default())));
        let ranks: Vec<Arc<Quota>> = (0..2).map(|_| Arc::new(node.share(2))).collect();
        let part = QUOTA_BYTES_DEFAULT / 4;
        let unit = 1024;
        let mut areas = Counted::new(unit, 0);
        areas.charge_to(&ranks[0], Kind::Area);
        let all = (part / 2 + QUOTA_BYTES_DEFAULT / 2) / unit;
        assert_eq!(areas.cover(all), Ok(()));
        assert_eq!(areas.cover(all + 1), Err(Errno::ENOMEM));
        // The rest of its part is there for anything else, and the other's part is whole.
        let objects = ranks[0].charge(part / 2).expect("its part");
        assert!(ranks[0].charge(1).is_err());
        assert!(ranks[1].charge(part).is_ok());
        drop(objects);
        // The other way round, what else there is may take all of it.
        areas.settle(0);
        assert_eq!((ranks[0].taken(), node.common.load(super::Ordering::Relaxed)), (0, 0));
        let objects = ranks[0].charge(part + QUOTA_BYTES_DEFAULT / 2).expect("nobody else wants it");
        assert_eq!(areas.cover(1), Err(Errno::ENOMEM));
        drop(objects);
        assert_eq!(node.common.load(super::Ordering::Relaxed), 0);
    }

    #[test]
    fn things_are_charged_some_at_a_time_and_given_back() {
        let quota = of(FramePool::for_host(2 * QUOTA_BYTES_DEFAULT));
        let mut things = Counted::new(100, 10);
        assert_eq!(things.cover(1 << 40), Ok(()), "nobody is charged");
        things.charge_to(&quota, Kind::Object);
        for (count, charged) in [(10, 0), (11, 1600), (26, 1600), (27, 3200), (5, 3200)] {
            assert_eq!((things.cover(count), quota.taken()), (Ok(()), charged), "{count}");
        }
        for (count, charged) in [(27, 3200), (26, 3200), (11, 3200), (10, 0)] {
            things.settle(count);
            assert_eq!(quota.taken(), charged, "{count}");
        }
        assert_eq!(things.cover(1 << 40), Err(Errno::ENOMEM));
        assert_eq!(quota.taken(), 0);
    }

    #[test]
    fn nothing_is_charged_to_the_kernels_reserve() {
        let frames: &'static FramePool = FramePool::for_host(1024 * 1024);
        let quota = of(frames);
        let eaten: Vec<_> = core::iter::from_fn(|| frames.alloc(FrameKind::User)).collect();
        assert!(frames.free_frames() > 0);
        assert_eq!(quota.charge(1).err(), Some(Errno::ENOMEM));
        assert!(!Store::new(frames, Arc::new(Retention::default())).lend(1));
        drop(eaten);
        assert!(quota.charge(1).is_ok() && Store::new(frames, Arc::new(Retention::default())).lend(1));
    }
}
