//! The home of one transfer, or whoever is that for the nodes of its pset, as home is another's: carries out what its
//! machine says, with the bytes of the file.

use std::fmt;
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::sync::Arc;

use coppice_endpoint::DatagramPort;
use coppice_endpoint::limits::DATAGRAM_OVERHEAD_BYTES;
use coppice_protocol::broadcast::number_of;
use coppice_protocol::distribution::packet::HEADER_BYTES;
use coppice_protocol::distribution::{HOME, Outcome, PacketSet, Party, Plan, Step, TransferId};
use coppice_protocol::keep::KeepProgress;
use coppice_protocol::transfer::{FileOfJob, TransferProgress};
use rustix::io::Errno;
use tokio::sync::mpsc::UnboundedSender;

use super::homes::Permit;
use super::piece::{Kept, Piece};
use super::received::Received;
use super::report::{Said, Says, Watch, end_of};
use crate::disk::{JobPlace, Program};
use crate::files::Result;
use crate::limits::{HEARD_PER_TRANSFER_MAX, READS_PER_TRANSFER_MAX};
use crate::link::Device;

/// A piece that was read, or was not, on a thread.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) transfer: TransferId,
    pub(super) piece: u32,
    pub(super) result: Result<Piece>,
}

/// Where datagrams, reads and news of transfers go.
#[derive(Clone, Copy)]
pub(super) struct Ways<'a> {
    pub(super) port: &'a DatagramPort<Device>,
    pub(super) reads: &'a UnboundedSender<Read>,
    pub(super) says: &'a Says,
}

/// What a home waits for, beside datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    /// This time, ns, if any.
    Until(Option<u64>),
    /// Room in the port.
    Room,
    /// Reads.
    Disk,
}

/// Packets of a piece for a member that wait until the piece is read, and are sent when it is.
#[derive(Debug)]
struct Burst {
    to: u32,
    piece: u32,
    packets: PacketSet,
    content: Option<Rc<Piece>>,
}

/// Why a file is sent, with what is held until the last thread that reads it is done.
#[derive(Clone, Debug)]
pub(super) enum Cause {
    /// A job has it staged, or reads it, as the so-and-so-manieth.
    Job { of: FileOfJob, _place: JobPlace },
    /// Nodes are to keep it, by this request.
    Kept { request: u64, _permit: Permit },
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job { of, .. } => match number_of(*of) {
                Some(number) => write!(f, "broadcast {number} of job {}", of.job),
                None => write!(f, "staged file {} of job {}", of.file, of.job),
            },
            Self::Kept { request, .. } => write!(f, "file to be kept of request {request}"),
        }
    }
}

impl Cause {
    /// Which file of which job it is, if a job has it staged.
    const fn of_job(&self) -> Option<FileOfJob> {
        match self {
            Self::Job { of, .. } => Some(*of),
            Self::Kept { .. } => None,
        }
    }

    /// How that is said of it how far it is.
    const fn progress(&self, bytes: u64, whole: u32) -> Said {
        match self {
            Self::Job { of, .. } => Said::GoesOn(TransferProgress { of: *of, bytes, whole }),
            Self::Kept { request, .. } => Said::KeptGoesOn(KeepProgress { request: *request, bytes, whole }),
        }
    }
}

/// Where the bytes are.
#[derive(Debug)]
pub(super) enum Source {
    /// On the host's disk.
    Stored {
        /// The file.
        file: Arc<Program>,
        /// Pieces that were wanted last.
        kept: Kept,
    },
    /// As far as they came, in memory.
    Received(Received),
}

impl Source {
    /// A file of the host's.
    pub(super) fn stored(file: Program) -> Self {
        Self::Stored { file: Arc::new(file), kept: Kept::default() }
    }

    fn get(&mut self, piece: u32) -> Option<Rc<Piece>> {
        match self {
            Self::Stored { kept, .. } => kept.get(piece),
            Self::Received(received) => received.get(piece),
        }
    }
}

/// See this module.
#[derive(Debug)]
pub(super) struct Home {
    /// Also of whatever reads for it.
    cause: Cause,
    party: Party,
    /// Home is another's.
    passes_on: bool,
    source: Source,
    /// At most [`READS_PER_TRANSFER_MAX`].
    bursts: Vec<Burst>,
    /// Datagrams that came since it had done all that there was to do.
    heard: usize,
    begun_ns: u64,
    watch: Watch,
    has_failed: bool,
    is_over: bool,
}

impl Home {
    /// Begins, as that member.
    pub(super) fn begin(cause: Cause, mut party: Party, me: u32, source: Source, now_ns: u64) -> Self {
        match &source {
            _ if me == HOME => party.machine().begin(now_ns),
            Source::Stored { .. } => party.machine().holds_all(now_ns),
            Source::Received(_) => {}
        }
        Self {
            cause,
            party,
            passes_on: me != HOME,
            source,
            bursts: Vec::new(),
            heard: 0,
            begun_ns: now_ns,
            watch: Watch::new(now_ns),
            has_failed: false,
            is_over: false,
        }
    }

    /// A datagram came. If there is much to be done that waits, the datagram is lost, as it may be on the way.
    pub(super) fn receive(&mut self, source: Ipv4Addr, datagram: &[u8], now_ns: u64) {
        if self.heard >= HEARD_PER_TRANSFER_MAX {
            return;
        }
        self.heard += 1;
        // Nobody needs to send bytes to where they are, and none are kept.
        let keep = |piece, packet, bytes: &[u8]| {
            if let Source::Received(received) = &mut self.source {
                received.keep(piece, packet, bytes);
            }
        };
        if let Err(error) = self.party.receive(source, datagram, now_ns, keep) {
            tracing::debug!(cause = %self.cause, %source, %error, "datagram of no use");
        }
    }

    /// A piece was read.
    pub(super) fn read(&mut self, piece: u32, result: Result<Piece>) {
        match result {
            Ok(content) => {
                let content = Rc::new(content);
                for burst in self.bursts.iter_mut().filter(|burst| burst.piece == piece) {
                    burst.content = Some(Rc::clone(&content));
                }
                if let Source::Stored { kept, .. } = &mut self.source {
                    kept.keep(piece, content);
                }
            }
            Err(error) => {
                self.bursts.retain(|burst| burst.piece != piece);
                self.fail(piece, error);
            }
        }
    }

    /// Whether it passes on what another sends, and nobody wants anything of it any more.
    pub(super) fn is_done(&self) -> bool {
        self.passes_on && self.is_over && self.bursts.is_empty() && !self.party.is_needed()
    }

    /// Does what there is to do, as far as there is room for it.
    pub(super) fn work(&mut self, ways: Ways<'_>, now_ns: u64) -> Pause {
        let room_bytes = piece_room(self.party.plan());
        let mut has_advanced = false;
        loop {
            if !ways.port.has_room(room_bytes) {
                return Pause::Room;
            }
            if let Some(index) = self.bursts.iter().position(|burst| burst.content.is_some()) {
                let burst = self.bursts.remove(index);
                self.send(ways.port, &burst, now_ns);
                continue;
            }
            if self.bursts.len() >= READS_PER_TRANSFER_MAX {
                return Pause::Disk;
            }
            if let Some(step) = self.party.next(now_ns) {
                self.take(step, ways, now_ns);
                continue;
            }
            self.heard = 0;
            if !self.passes_on
                && let Some((bytes, whole)) = self.watch.look(&mut self.party, now_ns)
            {
                ways.says.goes_on(self.cause.progress(bytes, whole));
            }
            let due_ns = self.party.machine().due_ns();
            if has_advanced || due_ns.is_none_or(|due_ns| due_ns > now_ns) {
                return Pause::Until(due_ns);
            }
            self.party.machine().advance(now_ns);
            has_advanced = true;
        }
    }

    fn take(&mut self, step: Step, ways: Ways<'_>, now_ns: u64) {
        match step {
            Step::Datagram { to, bytes } => ways.port.send(to, bytes),
            Step::Packets { to, piece, packets } => {
                let content = self.source.get(piece);
                let is_new = content.is_none() && self.bursts.iter().all(|burst| burst.piece != piece);
                self.bursts.push(Burst { to, piece, packets, content });
                if is_new {
                    self.start_reading(piece, ways);
                }
            }
            Step::Check { piece } => {
                // As short as on a node, where it is done in one go, too.
                let is_right =
                    if let Source::Received(received) = &mut self.source { received.check(piece) } else { false };
                self.party.checked(piece, is_right, now_ns);
            }
            Step::Wrong { piece, from } => {
                let from = from.and_then(|member| self.party.roster().station(member));
                tracing::error!(cause = %self.cause, piece, ?from, "a piece is not what the file's hash says");
                ways.says.damaged(self.cause.of_job().map(|of| of.job), piece, from);
            }
            Step::End(Outcome::Whole) => {
                tracing::debug!(cause = %self.cause, "all of the file is here, for this pset's nodes");
                self.is_over = true;
                self.party.machine().withdraw(now_ns);
            }
            Step::End(Outcome::Silence) => {
                self.is_over = true;
                let (cause, tally) = (&self.cause, self.party.tally());
                tracing::warn!(%cause, ?tally, "the file does not come from its home any more");
            }
            Step::End(outcome) => self.say_end(&outcome, ways, now_ns),
        }
    }

    /// Reads a piece now if the host has it in memory, else on a thread.
    fn start_reading(&mut self, piece: u32, ways: Ways<'_>) {
        // What came and is right is not given away before all is over.
        let Source::Stored { file, .. } = &self.source else { return self.read(piece, Err(Errno::NOENT)) };
        let plan = self.party.plan().clone();
        let start = match Piece::start(&plan, file, piece) {
            Ok(start) if start.is_done() => return self.read(piece, Piece::finish(&plan, piece, start)),
            Ok(start) => start,
            Err(error) => return self.read(piece, Err(error)),
        };
        let (reads, cause) = (ways.reads.clone(), self.cause.clone());
        tokio::task::spawn_blocking(move || {
            let result = Piece::finish(&plan, piece, start);
            drop(cause);
            // Without an event loop nobody wants it.
            drop(reads.send(Read { transfer: plan.transfer, piece, result }));
        });
    }

    fn send(&mut self, port: &DatagramPort<Device>, burst: &Burst, now_ns: u64) {
        let plan = self.party.plan().clone();
        let Burst { to, piece, packets, content: Some(content) } = burst else { return };
        for packet in packets.numbers() {
            let Some(bytes) = content.packet(&plan, *piece, packet) else { continue };
            if let Some((address, datagram)) = self.party.packet(*to, *piece, packet, bytes, now_ns) {
                port.send(address, datagram);
            }
        }
    }

    /// Says so once: of a disk that fails, more is not to be said.
    fn fail(&mut self, piece: u32, error: Errno) {
        if !std::mem::replace(&mut self.has_failed, true) {
            tracing::error!(cause = %self.cause, piece, %error, "cannot read a file");
        }
    }

    fn say_end(&mut self, outcome: &Outcome, ways: Ways<'_>, now_ns: u64) {
        let Outcome::All { lost } = outcome else { return };
        self.is_over = true;
        let (tally, ms) = (self.party.tally(), now_ns.saturating_sub(self.begun_ns) / 1_000_000);
        let (cause, bytes) = (&self.cause, self.party.plan().bytes);
        if lost.is_empty() {
            tracing::info!(%cause, bytes, ms, ?tally, "every node has the file");
        } else {
            // They may have it all the same, or get it yet.
            tracing::warn!(%cause, bytes, ms, ?tally, ?lost, "nodes did not say that they have the file");
        }
        if let Some(of) = self.cause.of_job() {
            ways.says.ended(end_of(of, &self.party, self.begun_ns, lost, now_ns));
        }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if !self.is_over {
            let (cause, bytes, tally) = (&self.cause, self.party.plan().bytes, self.party.tally());
            tracing::info!(%cause, bytes, ?tally, "the file is not sent any more");
        }
    }
}

/// Room that all packets of a piece take in the port, bytes.
fn piece_room(plan: &Plan) -> usize {
    let packets = usize::try_from(plan.packets(0).count()).unwrap_or(usize::MAX);
    let bytes = plan.piece_length(0).saturating_add(plan.proof_bytes());
    packets
        .saturating_mul(HEADER_BYTES + DATAGRAM_OVERHEAD_BYTES)
        .saturating_add(usize::try_from(bytes).unwrap_or(usize::MAX))
}
