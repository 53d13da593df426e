//! The node as a member of one transfer.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use coppice_hal::scrub;
use coppice_protocol::distribution::{Outcome, PacketSet, Party, Plan, Step, Tally, TransferId};
use coppice_protocol::ids::JobId;
use coppice_protocol::staging::damaged_piece;

use super::Staging;
use super::room::{Hold, Room, is_right};
use crate::executor::{self, WaitQueue};
use crate::quota::{Charge, shared_bytes};
use crate::ras;
use crate::sync::{LockLevel, Mutex};

/// What a machine has of what is under way: asked for, answered, put together, reported, and to be done.
const MEMBER_BYTES: usize = 32 * 1024;
/// What it has of each piece: whether it is there, and that it is to be passed on.
const PIECE_BYTES: usize = 20;

/// Why a file that was to be kept is not there.
pub(super) const WANTED: &str = "its memory was wanted for something else";

/// How far it has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The file is not there yet.
    Receives,
    /// All of it is there, and right.
    Whole,
    /// It will not come, for this reason.
    Failed(String),
}

/// See this module.
pub(super) struct Member {
    /// Whose file it is, if it is a job's.
    job: Option<JobId>,
    plan: Plan,
    party: Mutex<Party>,
    room: Hold,
    state: Mutex<State>,
    /// Others were told that it is needed.
    was_needed: AtomicBool,
    /// A piece that is on its way out.
    sending: Mutex<Option<Burst>>,
    /// Who is told what comes.
    arrivals: Option<Arc<Arrivals>>,
    /// What it takes of the kernel's heap.
    _charge: Charge,
}

/// What comes, as those see it who wait for it.
#[derive(Default)]
pub(super) struct Arrivals {
    /// How many pieces have come.
    pub(super) count: AtomicU32,
    /// Told when one has, or none will any more.
    pub(super) changed: WaitQueue,
}

impl Arrivals {
    fn one_more(&self) {
        self.count.fetch_add(1, Ordering::Release);
        self.changed.wake_all();
    }
}

/// Packets of a piece that a member has still to get.
#[derive(Clone, Copy)]
struct Burst {
    to: u32,
    piece: u32,
    packets: PacketSet,
}

impl Member {
    /// What a member takes of the heap beside its room and its roster, bytes: itself, and what its machine may note of
    /// each piece.
    pub(super) fn bytes(plan: &Plan) -> usize {
        shared_bytes::<Self>() + MEMBER_BYTES + PIECE_BYTES * plan.pieces() as usize
    }

    /// `charge` is for [`Self::bytes`] and the roster.
    pub(super) fn new(job: Option<JobId>, party: Party, room: Hold, charge: Charge) -> Self {
        let plan = party.plan().clone();
        Self {
            job,
            plan,
            party: Mutex::new(LockLevel::Job, party),
            room,
            state: Mutex::new(LockLevel::Fact, State::Receives),
            was_needed: AtomicBool::new(false),
            sending: Mutex::new(LockLevel::Fact, None),
            arrivals: None,
            _charge: charge,
        }
    }

    /// These are told what comes.
    pub(super) fn telling(self, arrivals: Arc<Arrivals>) -> Self {
        Self { arrivals: Some(arrivals), ..self }
    }

    /// Whether a piece is here, and right.
    pub(super) fn has(&self, piece: u32) -> bool {
        self.party.lock().machine().has(piece)
    }

    /// The first piece that is not.
    pub(super) fn first_missing(&self) -> u32 {
        self.party.lock().machine().first_missing()
    }

    /// All of the file is here already.
    pub(super) fn has_all(&self) {
        self.party.lock().machine().holds_all(executor::now_ns());
    }

    /// Where the file is, if that was not given back.
    pub(super) fn room(&self) -> Option<Arc<Room>> {
        self.room.get()
    }

    /// Which transfer it is in.
    pub(super) fn transfer(&self) -> TransferId {
        self.plan.transfer
    }

    pub(super) fn state(&self) -> State {
        self.state.lock().clone()
    }

    /// What it has counted.
    pub(super) fn tally(&self) -> Tally {
        self.party.lock().tally()
    }

    /// When it is to be looked at next, ns.
    pub(super) fn due_ns(&self) -> Option<u64> {
        self.room().and_then(|_| self.party.lock().machine().due_ns())
    }

    /// A datagram of its transfer came.
    pub(super) fn receive(&self, source: Ipv4Addr, datagram: &[u8]) {
        let keep = |piece, packet, bytes: &[u8]| {
            if let Some(room) = self.room() {
                room.write(piece, packet, bytes);
            }
        };
        let heard = self.party.lock().receive(source, datagram, executor::now_ns(), keep);
        if let Err(error) = heard {
            log::debug!("staging: from {source}: {error}");
        }
    }

    /// It wants to leave the transfer, as soon as it is not [needed](Self::is_needed).
    pub(super) fn withdraw(&self) {
        self.party.lock().machine().withdraw(executor::now_ns());
    }

    /// Whether others may still want something of it; not if it will never be whole.
    pub(super) fn is_needed(&self) -> bool {
        let is_whole = self.state() == State::Whole && self.room().is_some();
        let is_sending = self.sending.lock().is_some();
        is_whole && (is_sending || self.party.lock().machine().is_needed())
    }

    /// Does what is to be done now, as long as the port takes what is sent. Returns whether its state has changed, or
    /// whether it is needed, since the last time.
    pub(super) async fn go_on(&self, port: &Staging) -> bool {
        let now_ns = executor::now_ns();
        {
            let mut party = self.party.lock();
            if party.machine().due_ns().is_some_and(|due_ns| due_ns <= now_ns) {
                party.machine().advance(now_ns);
            }
        }
        let before = self.state();
        while self.room().is_some() {
            if !self.send_on(port).await {
                break;
            }
            let step = self.party.lock().next(executor::now_ns());
            let Some(step) = step else { break };
            match step {
                Step::Datagram { to, bytes } => port.send(to, bytes),
                Step::Packets { to, piece, packets } => *self.sending.lock() = Some(Burst { to, piece, packets }),
                Step::Check { piece } => {
                    let is_right = is_right(&self.room, &self.plan, piece).await;
                    // Who sent what is gone is not to blame.
                    if self.room().is_none() {
                        break;
                    }
                    self.party.lock().checked(piece, is_right, executor::now_ns());
                    if let Some(arrivals) = self.arrivals.as_ref().filter(|_| is_right) {
                        arrivals.one_more();
                    }
                }
                Step::Wrong { piece, from } => self.report(piece, from),
                Step::End(Outcome::Silence) => {
                    *self.state.lock() = State::Failed(String::from("its bytes do not come any more"));
                }
                Step::End(_) => *self.state.lock() = State::Whole,
            }
        }
        if self.room().is_none() && before == State::Receives {
            *self.state.lock() = State::Failed(String::from(WANTED));
        }
        if let Some(arrivals) = self.arrivals.as_ref().filter(|_| self.state() != before) {
            arrivals.changed.wake_all();
        }
        let is_needed = self.is_needed();
        self.was_needed.swap(is_needed, Ordering::Relaxed) != is_needed || self.state() != before
    }

    /// Sends what there is left of a piece that is on its way out, packet by packet, and then gives others a turn.
    /// False if the port has no room for the next one, or for a message.
    async fn send_on(&self, port: &Staging) -> bool {
        let packet_bytes = (self.plan.packet_bytes.max(self.plan.proof_bytes()) + self.plan.overhead_bytes) as usize;
        let burst = *self.sending.lock();
        let Some(mut burst) = burst else { return port.has_room(packet_bytes) };
        let mut bytes = Vec::new();
        while let Some(packet) = burst.packets.numbers().next().filter(|_| port.has_room(packet_bytes)) {
            burst.packets = burst.packets.without(PacketSet::one(packet));
            if !self.room().is_some_and(|room| room.read(burst.piece, packet, &mut bytes)) {
                continue;
            }
            let datagram = self.party.lock().packet(burst.to, burst.piece, packet, &bytes, executor::now_ns());
            if let Some((address, datagram)) = datagram {
                port.send(address, datagram);
            }
        }
        scrub::bytes(&mut bytes);
        let is_sent = burst.packets.is_empty();
        *self.sending.lock() = Some(burst).filter(|_| !is_sent);
        executor::yield_now().await;
        is_sent && port.has_room(packet_bytes)
    }

    fn report(&self, piece: u32, from: Option<u32>) {
        let station = from.and_then(|member| self.party.lock().roster().station(member));
        ras::report(damaged_piece(self.job, piece, station));
    }
}

/// What a job holds of a member; the node leaves the transfer when this is dropped.
pub(super) struct Membership {
    pub(super) member: Arc<Member>,
    pub(super) service: Staging,
}

impl Membership {
    /// See [`Member::withdraw`].
    pub(super) fn withdraw(&self) -> Arc<Member> {
        self.member.withdraw();
        self.service.change();
        Arc::clone(&self.member)
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.service.leave(self.member.transfer());
    }
}
