//! The homes of all transfers, and the task that drives them: datagrams in, what is due, pieces out, then wait for
//! whichever comes first of a datagram or room in the port, a time that a machine asked for, a piece that was read, and
//! a transfer more.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use coppice_endpoint::DatagramPort;
use coppice_protocol::distribution::{Party, Plan, TransferId, packet};
use coppice_protocol::ids::PsetId;
use coppice_protocol::keep::{KeepFile, KeptTransfer};
use coppice_protocol::pset::StartJob;
use coppice_protocol::staging::{Roster, Staging};
use coppice_protocol::transfer::FileOfJob;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::alarm::Alarm;
use super::home::{Cause, Home, Pause, Read, Source, Ways};
use super::received::{Received, Sent};
use super::report::{News, Says, news};
use super::staged::StagedFile;
use crate::clock::{Clock, random};
use crate::disk::JobPlace;
use crate::limits::{BROADCAST_MIB_MAX, BROADCASTS_MAX, DATAGRAMS_PER_WAKE_MAX, RECEIVED_MIB_MAX, TRANSFERS_MAX};
use crate::link::Device;

/// See this module. No borrow of it lives across an await.
#[derive(Debug)]
pub(crate) struct Homes {
    pset: PsetId,
    clock: Clock,
    pub(super) table: RefCell<BTreeMap<TransferId, Home>>,
    /// There is one more.
    changed: Notify,
    /// How many there may still be.
    free: Arc<Semaphore>,
    /// How much may still be in memory of files that are not on this host, MiB.
    pub(super) room: Arc<Semaphore>,
    /// The same of those that are broadcast.
    free_broadcasts: Arc<Semaphore>,
    broadcast_room: Arc<Semaphore>,
    reads: UnboundedSender<Read>,
    says: Says,
}

/// That files may be sent from here, which it is for them to have before they are opened.
#[derive(Clone, Debug)]
pub(crate) struct Permit {
    pset: PsetId,
    _homes: Arc<OwnedSemaphorePermit>,
}

impl Permit {
    /// The pset whose I/O node this is.
    pub(crate) const fn pset(&self) -> PsetId {
        self.pset
    }
}

/// The homes of a job's files, or of one that nodes are to keep. They go with it.
#[derive(Debug)]
pub(crate) struct Held {
    homes: Rc<Homes>,
    transfers: Vec<TransferId>,
    _permit: Permit,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut table = self.homes.table.borrow_mut();
        self.transfers.iter().for_each(|transfer| drop(table.remove(transfer)));
    }
}

impl Homes {
    /// None yet, on that pset. Its task is to be started. Also gives what is to be told of transfers.
    pub(crate) fn start(
        pset: PsetId,
        clock: Clock,
        port: DatagramPort<Device>,
        alarm: Alarm,
    ) -> (Rc<Self>, Task, News) {
        // There are at most as many in it as homes may have reads under way.
        let (reads, results) = unbounded_channel();
        let (says, news) = news();
        let (table, changed) = (RefCell::default(), Notify::new());
        let free = Arc::new(Semaphore::new(TRANSFERS_MAX));
        let room = Arc::new(Semaphore::new(RECEIVED_MIB_MAX));
        let free_broadcasts = Arc::new(Semaphore::new(BROADCASTS_MAX));
        let broadcast_room = Arc::new(Semaphore::new(BROADCAST_MIB_MAX));
        let homes =
            Rc::new(Self { pset, clock, table, changed, free, room, free_broadcasts, broadcast_room, reads, says });
        (Rc::clone(&homes), Task { homes, port, alarm, results, turn: 0 }, news)
    }

    /// Whether the I/O node takes part where nodes of its pset do: as home, or to pass on what they get.
    fn takes_part(&self, staging: &Staging) -> bool {
        staging.home == self.pset || staging.scheme.knows_psets()
    }

    /// How many files of a job are sent from here.
    pub(crate) fn files(&self, spec: &StartJob) -> usize {
        let staging = spec.staging.as_ref().filter(|staging| self.takes_part(staging));
        staging.map_or(0, |staging| staging.files.len())
    }

    /// Whether a job's files may be sent from here; `None` if they are not.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn permit(&self, spec: &StartJob) -> Result<Option<Permit>, String> {
        self.permit_for(self.files(spec))
    }

    /// The same for a file that nodes are to keep.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn permit_kept(&self, order: &KeepFile) -> Result<Option<Permit>, String> {
        self.permit_for(usize::from(self.takes_part(&order.transfer.staging)))
    }

    /// Whether one more file may be broadcast from here. Nobody asked for that, so it takes nothing from those who have
    /// files staged.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn permit_to_broadcast(&self) -> Result<Permit, String> {
        let permit = Arc::clone(&self.free_broadcasts).try_acquire_owned();
        let permit = permit.map_err(|_| format!("{BROADCASTS_MAX} other files are"))?;
        Ok(Permit { pset: self.pset, _homes: Arc::new(permit) })
    }

    pub(super) fn permit_for(&self, files: usize) -> Result<Option<Permit>, String> {
        if files == 0 {
            return Ok(None);
        }
        let permit =
            u32::try_from(files).ok().and_then(|files| Arc::clone(&self.free).try_acquire_many_owned(files).ok());
        let homes = permit.ok_or_else(|| {
            let free = self.free.available_permits();
            format!(
                "pset {} stages at most {TRANSFERS_MAX} files at once, {free} more of them now, and there are {files} \
                 more; wait for other jobs",
                self.pset
            )
        })?;
        Ok(Some(Permit { pset: self.pset, _homes: Arc::new(homes) }))
    }

    /// Gives a job's files their homes, which begin at once.
    ///
    /// # Errors
    /// Why the job cannot start.
    pub(crate) fn add(
        self: &Rc<Self>,
        spec: &StartJob,
        files: Vec<StagedFile>,
        permit: Permit,
        place: &JobPlace,
    ) -> Result<Held, String> {
        let mut held = Held { homes: Rc::clone(self), transfers: Vec::new(), _permit: permit };
        for (number, file) in files.into_iter().enumerate() {
            let key = Staging::key(&spec.world.key, spec.job, number);
            let cause = Cause::Job { of: Staging::file(spec.job, number), _place: place.clone() };
            held.transfers.push(self.begin(cause, key, file)?);
        }
        Ok(held)
    }

    /// Gives a file that nodes are to keep its home, which begins at once.
    ///
    /// # Errors
    /// Why it cannot be sent.
    pub(crate) fn add_kept(
        self: &Rc<Self>,
        transfer: &KeptTransfer,
        file: StagedFile,
        permit: Permit,
    ) -> Result<Held, String> {
        let cause = Cause::Kept { request: transfer.request, _permit: permit.clone() };
        let begun = self.begin(cause, transfer.key(), file)?;
        Ok(Held { homes: Rc::clone(self), transfers: vec![begun], _permit: permit })
    }

    /// Gives a file that is broadcast its home, which begins at once.
    ///
    /// # Errors
    /// Why it cannot be sent.
    pub(crate) fn add_broadcast(
        self: &Rc<Self>,
        (of, key): (FileOfJob, packet::TransferKey),
        Sent { plan, roster, content, pieces, room }: Sent,
        (permit, place): (Permit, JobPlace),
    ) -> Result<Held, String> {
        let source = Source::Received(Received::whole(plan.clone(), content, pieces, room));
        let begun = self.begin_from(Cause::Job { of, _place: place }, key, (plan, roster), source)?;
        Ok(Held { homes: Rc::clone(self), transfers: vec![begun], _permit: permit })
    }

    fn begin(
        &self,
        cause: Cause,
        key: packet::TransferKey,
        StagedFile { plan, roster, content, file }: StagedFile,
    ) -> Result<TransferId, String> {
        let source = match file {
            Some(file) => Source::stored(file),
            None => Source::Received(Received::new(plan.clone(), content, self.room_for(&plan)?)),
        };
        self.begin_from(cause, key, (plan, roster), source)
    }

    fn begin_from(
        &self,
        cause: Cause,
        key: packet::TransferKey,
        (plan, roster): (Plan, Roster),
        source: Source,
    ) -> Result<TransferId, String> {
        let now_ns = self.clock.now_ns();
        let seed = random().map_err(|error| format!("cannot stage files: {error}"))?;
        let me = roster.io_node(self.pset).ok_or_else(|| format!("{cause} goes to no node of pset {}", self.pset))?;
        let party = Party::new(&plan, key, roster, me, u64::from_le_bytes(seed), now_ns);
        let party = party.ok_or("no memory to stage files")?;
        let mut table = self.table.borrow_mut();
        if table.contains_key(&plan.transfer) {
            return Err(format!("{cause} is being sent already"));
        }
        table.insert(plan.transfer, Home::begin(cause, party, me, source, now_ns));
        self.changed.notify_one();
        Ok(plan.transfer)
    }
}

impl Homes {
    /// Room for a file that is to come.
    pub(super) fn room_for(&self, plan: &Plan) -> Result<OwnedSemaphorePermit, String> {
        room_in(&self.room, plan.bytes).ok_or_else(|| {
            let free = self.room.available_permits();
            format!(
                "pset {} has no memory left to pass on {} bytes: {free} MiB of {RECEIVED_MIB_MAX} are free; wait for \
                 other jobs",
                self.pset, plan.bytes
            )
        })
    }

    /// Room for a file of so many bytes that is to be broadcast.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn room_to_broadcast(&self, bytes: u64) -> Result<OwnedSemaphorePermit, String> {
        room_in(&self.broadcast_room, bytes).ok_or_else(|| {
            let free = self.broadcast_room.available_permits();
            format!("it has {bytes} bytes, and {free} MiB of {BROADCAST_MIB_MAX} for such files are free")
        })
    }
}

/// So many bytes of some room, in MiB.
fn room_in(room: &Arc<Semaphore>, bytes: u64) -> Option<OwnedSemaphorePermit> {
    let wanted = u32::try_from(bytes.div_ceil(1 << 20)).ok()?;
    Arc::clone(room).try_acquire_many_owned(wanted).ok()
}

/// What drives the homes.
pub(crate) struct Task {
    homes: Rc<Homes>,
    port: DatagramPort<Device>,
    alarm: Alarm,
    results: UnboundedReceiver<Read>,
    /// Counts rounds, so that another is the first to find room each time.
    turn: usize,
}

impl Task {
    /// Drives them for ever.
    pub(crate) async fn run(mut self) {
        loop {
            let has_more = self.receive();
            while let Ok(read) = self.results.try_recv() {
                self.take(read);
            }
            let due_ns = self.work();
            if has_more {
                tokio::task::yield_now().await;
                continue;
            }
            let wait_ns = due_ns.map(|due_ns| due_ns.saturating_sub(self.homes.clock.now_ns()));
            let read = tokio::select! {
                read = self.results.recv() => read,
                () = self.homes.changed.notified() => None,
                () = woken(&self.port) => None,
                () = self.alarm.after(wait_ns) => None,
            };
            read.into_iter().for_each(|read| self.take(read));
        }
    }

    /// Takes datagrams that came. Whether there may be more.
    fn receive(&self) -> bool {
        let mut table = self.homes.table.borrow_mut();
        for _ in 0..DATAGRAMS_PER_WAKE_MAX {
            let Some((source, datagram)) = self.port.receive() else { return false };
            let transfer = packet::address(&datagram);
            if let Some(home) = transfer.and_then(|(transfer, _)| table.get_mut(&transfer)) {
                home.receive(source, &datagram, self.homes.clock.now_ns());
            }
        }
        true
    }

    /// A piece was read; nobody wants those of a job that is no more.
    fn take(&self, Read { transfer, piece, result }: Read) {
        if let Some(home) = self.homes.table.borrow_mut().get_mut(&transfer) {
            home.read(piece, result);
        }
    }

    /// Has each do what it has to do. Gives when the next of them has to do more by itself, ns.
    fn work(&mut self) -> Option<u64> {
        let ways = Ways { port: &self.port, reads: &self.homes.reads, says: &self.homes.says };
        let mut table = self.homes.table.borrow_mut();
        self.turn = self.turn.wrapping_add(1);
        let first = self.turn.checked_rem(table.len()).unwrap_or(0);
        let mut due_ns: Option<u64> = None;
        let mut go_on = |home: &mut Home| match home.work(ways, self.homes.clock.now_ns()) {
            Pause::Until(Some(at_ns)) => due_ns = Some(due_ns.map_or(at_ns, |due_ns| due_ns.min(at_ns))),
            Pause::Until(None) | Pause::Room | Pause::Disk => {}
        };
        table.values_mut().skip(first).for_each(&mut go_on);
        table.values_mut().take(first).for_each(&mut go_on);
        table.retain(|_, home| !home.is_done());
        due_ns
    }
}

/// Waits until something came to the port or has gone from it, or any other event woke this task.
async fn woken(port: &DatagramPort<Device>) {
    let mut registered = false;
    poll_fn(|context| {
        if registered {
            return Poll::Ready(());
        }
        registered = true;
        port.register(context.waker());
        Poll::Pending
    })
    .await;
}
