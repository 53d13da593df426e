//! The node as a member of one transfer.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use core::sync::atomic::{AtomicBool, Ordering};

use coppice_endpoint::limits::DATAGRAM_OVERHEAD_BYTES;
use coppice_hal::scrub;
use coppice_protocol::distribution::{Outcome, PacketSet, Party, Plan, Step, TransferId};
use coppice_protocol::ids::JobId;
use coppice_protocol::ras::{RasEvent, RasKind, Severity};

use super::Staging;
use super::room::Room;
use crate::executor;
use crate::limits::STAGING_QUEUE_BYTES;
use crate::ras;
use crate::sync::{LockLevel, Mutex};

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
    job: JobId,
    plan: Plan,
    party: Mutex<Party>,
    pub(super) room: Room,
    state: Mutex<State>,
    /// Others were told that it is needed.
    was_needed: AtomicBool,
}

impl Member {
    pub(super) fn new(job: JobId, party: Party, room: Room) -> Self {
        let plan = *party.plan();
        Self {
            job,
            plan,
            party: Mutex::new(LockLevel::Job, party),
            room,
            state: Mutex::new(LockLevel::Fact, State::Receives),
            was_needed: AtomicBool::new(false),
        }
    }

    /// Which transfer it is in.
    pub(super) fn transfer(&self) -> TransferId {
        self.plan.transfer
    }

    pub(super) fn state(&self) -> State {
        self.state.lock().clone()
    }

    /// When it is to be looked at next, ns.
    pub(super) fn due_ns(&self) -> Option<u64> {
        self.party.lock().machine().due_ns()
    }

    /// A datagram of its transfer came.
    pub(super) fn receive(&self, source: Ipv4Addr, datagram: &[u8]) {
        let keep = |piece, packet, bytes: &[u8]| self.room.write(piece, packet, bytes);
        let heard = self.party.lock().receive(source, datagram, executor::now_ns(), keep);
        if let Err(error) = heard {
            log::debug!("staging: from {source}: {error}");
        }
    }

    /// Whether others still wait for something of it; not if it will never be whole.
    pub(super) fn is_needed(&self) -> bool {
        self.state() == State::Whole && self.party.lock().machine().is_needed()
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
        // With what a datagram counts in the queue beside its bytes. What a longer piece has no room for is lost.
        let packets = self.plan.packets(0);
        let piece_bytes =
            self.plan.wire_bytes(0, packets) as usize + packets.count() as usize * DATAGRAM_OVERHEAD_BYTES;
        while port.has_room(piece_bytes.min(STAGING_QUEUE_BYTES / 2)) {
            let step = self.party.lock().next(executor::now_ns());
            let Some(step) = step else { break };
            match step {
                Step::Datagram { to, bytes } => port.send(to, bytes),
                Step::Packets { to, piece, packets } => {
                    self.send(port, to, piece, packets);
                    executor::yield_now().await;
                }
                Step::Check { piece } => {
                    let is_right = self.room.is_right(piece).await;
                    self.party.lock().checked(piece, is_right, executor::now_ns());
                }
                Step::Wrong { piece, from } => self.report(piece, from),
                Step::End(Outcome::Silence) => {
                    *self.state.lock() = State::Failed(String::from("its bytes do not come any more"));
                }
                Step::End(_) => *self.state.lock() = State::Whole,
            }
        }
        let is_needed = self.is_needed();
        self.was_needed.swap(is_needed, Ordering::Relaxed) != is_needed || self.state() != before
    }

    fn send(&self, port: &Staging, to: u32, piece: u32, packets: PacketSet) {
        let mut bytes = Vec::new();
        for packet in packets.numbers() {
            if !self.room.read(piece, packet, &mut bytes) {
                break;
            }
            let datagram = self.party.lock().packet(to, piece, packet, &bytes, executor::now_ns());
            if let Some((address, datagram)) = datagram {
                port.send(address, datagram);
            }
        }
        scrub::bytes(&mut bytes);
    }

    fn report(&self, piece: u32, from: Option<u32>) {
        let whose = match from {
            Some(0) => String::from("the I/O node"),
            Some(member) => format!("node {} of the job", member - 1),
            None => String::from("several nodes"),
        };
        ras::report(RasEvent {
            severity: Severity::Error,
            kind: RasKind::DamagedPiece,
            job: Some(self.job),
            rank: None,
            address: None,
            instruction: None,
            text: format!("piece {piece} of a staged file, from {whose}, is not what the file's hash says"),
        });
    }
}

/// What a job holds of a member; the node leaves the transfer when this is dropped.
pub(super) struct Membership {
    pub(super) member: Arc<Member>,
    pub(super) service: Staging,
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.service.leave(self.member.transfer());
    }
}
