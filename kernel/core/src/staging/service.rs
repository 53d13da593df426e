//! The task that moves the node's transfers on, and the port at which they are.
//!
//! The port is open while there are transfers. What it may have queued is charged before the first of them begins.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::poll_fn;
use core::net::Ipv4Addr;
use core::pin::pin;
use core::sync::atomic::{AtomicU64, Ordering};
use core::task::Poll;

use coppice_hal::scrub;
use coppice_protocol::distribution::{TransferId, packet};
use coppice_protocol::limits::DISTRIBUTION_PORT;

use super::kept::KeptFiles;
use super::member::{Member, Membership};
use crate::errno::Errno;
use crate::executor::{self, WaitQueue, race};
use crate::limits::{STAGING_CHARGE_BYTES, STAGING_DATAGRAMS_MAX, STAGING_QUEUE_BYTES};
use crate::memory::Retention;
use crate::net::{Datagrams, Neighbours};
use crate::quota::{Charge, Quota};
use crate::sync::{LockLevel, Mutex};

/// The transfers that the node takes part in. Clones are the same.
#[derive(Clone)]
pub struct Staging {
    shared: Arc<Shared>,
}

struct Shared {
    neighbours: Arc<dyn Neighbours>,
    quota: Arc<Quota>,
    kept: Arc<KeptFiles>,
    transfers: Mutex<Transfers>,
    /// Counts changes of which transfers there are, and of how far they have come.
    changes: AtomicU64,
    changed: WaitQueue,
}

#[derive(Default)]
struct Transfers {
    members: BTreeMap<TransferId, Arc<Member>>,
    open: Option<Open>,
}

/// The port while it is open.
struct Open {
    door: Arc<dyn Datagrams>,
    _charge: Charge,
}

impl Staging {
    /// None yet. [`Self::serve`] is to be run beside it. Files that are kept are given back when `retention` is to give
    /// something back.
    #[must_use]
    pub fn new(neighbours: Arc<dyn Neighbours>, quota: Arc<Quota>, retention: &Retention) -> Self {
        let kept = Arc::new(KeptFiles::default());
        let spare = Arc::downgrade(&kept);
        retention.add_spare(spare);
        let transfers = Mutex::new(LockLevel::Jobs, Transfers::default());
        let (changes, changed) = (AtomicU64::new(0), WaitQueue::new());
        Self { shared: Arc::new(Shared { neighbours, quota, kept, transfers, changes, changed }) }
    }

    /// The files that the node keeps without a job.
    pub(crate) fn kept(&self) -> &Arc<KeptFiles> {
        &self.shared.kept
    }

    /// The node takes part in a transfer from now on.
    ///
    /// # Errors
    /// `ENOMEM`; `EADDRINUSE` if the port cannot be opened; `EEXIST` if it takes part already.
    pub(super) fn join(&self, member: Member) -> Result<Membership, Errno> {
        let member = Arc::new(member);
        {
            let mut transfers = self.shared.transfers.lock();
            if transfers.members.contains_key(&member.transfer()) {
                return Err(Errno::EEXIST);
            }
            if transfers.open.is_none() {
                let charge = self.shared.quota.charge(STAGING_CHARGE_BYTES)?;
                let door = self.shared.neighbours.datagrams(DISTRIBUTION_PORT, STAGING_QUEUE_BYTES);
                let door = door.map_err(|_| Errno::EADDRINUSE)?;
                transfers.open = Some(Open { door, _charge: charge });
            }
            transfers.members.insert(member.transfer(), Arc::clone(&member));
        }
        self.change();
        Ok(Membership { member, service: self.clone() })
    }

    pub(super) fn leave(&self, transfer: TransferId) {
        // What goes with it goes when nothing is locked any more.
        let gone = {
            let mut transfers = self.shared.transfers.lock();
            let member = transfers.members.remove(&transfer);
            let open = if transfers.members.is_empty() { transfers.open.take() } else { None };
            (member, open)
        };
        drop(gone);
        self.change();
    }

    /// Has the task look at what there is to do.
    pub(super) fn change(&self) {
        self.shared.changes.fetch_add(1, Ordering::Release);
        self.shared.changed.wake_all();
    }

    /// Waits until `condition`, which is about members' states, says something.
    pub(super) async fn until<T>(&self, condition: impl FnMut() -> Option<T> + Unpin) -> T {
        self.shared.changed.wait_until(condition).await
    }

    fn members(&self) -> Vec<Arc<Member>> {
        self.shared.transfers.lock().members.values().cloned().collect()
    }

    /// Calls `f` with the port, if that is open. Nobody holds on to it: it is closed when the last transfer ends.
    fn with_door<R>(&self, f: impl FnOnce(&dyn Datagrams) -> R) -> Option<R> {
        self.shared.transfers.lock().open.as_ref().map(|open| f(&*open.door))
    }

    /// As [`Datagrams::has_room`].
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.with_door(|door| door.has_room(bytes)).unwrap_or(false)
    }

    /// As [`Datagrams::send`].
    pub(super) fn send(&self, to: Ipv4Addr, bytes: Vec<u8>) {
        self.with_door(|door| door.send(to, bytes));
    }

    /// Moves transfers on, for ever.
    pub async fn serve(self) {
        loop {
            let seen = self.shared.changes.load(Ordering::Acquire);
            if !self.turn().await {
                self.idle(seen).await;
            }
            // Where links are fast and the core is slow, something is always due. Others go first then: they bring what
            // is waited for.
            executor::yield_now().await;
        }
    }

    /// Takes what came and does what is to be done. Whether there is more at once.
    async fn turn(&self) -> bool {
        let mut taken = 0;
        while taken < STAGING_DATAGRAMS_MAX
            && let Some((source, mut datagram)) = self.with_door(|door| door.receive()).flatten()
        {
            taken += 1;
            let member = packet::address(&datagram)
                .and_then(|(transfer, _)| self.shared.transfers.lock().members.get(&transfer).cloned());
            if let Some(member) = member {
                member.receive(source, &datagram);
            }
            scrub::bytes(&mut datagram);
        }
        for member in self.members() {
            if member.go_on(self).await {
                self.change();
            }
        }
        taken == STAGING_DATAGRAMS_MAX
    }

    /// Waits until something came, something is due, or the transfers are not what they were.
    async fn idle(&self, seen: u64) {
        let changes = &self.shared.changes;
        let other = self.shared.changed.wait_until(|| (changes.load(Ordering::Acquire) != seen).then_some(()));
        let due_ns = self.members().iter().filter_map(|member| member.due_ns()).min().unwrap_or(u64::MAX);
        let mut is_asleep = false;
        let came = poll_fn(move |context| {
            let has_received = self.with_door(|door| {
                door.register(context.waker());
                door.has_received()
            });
            // Whatever woke the task, the transfers are worth a look.
            let is_woken = core::mem::replace(&mut is_asleep, true);
            if is_woken || has_received == Some(true) { Poll::Ready(()) } else { Poll::Pending }
        });
        race(pin!(other), race(executor::sleep_until(due_ns), came)).await;
    }
}
