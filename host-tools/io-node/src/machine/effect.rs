//! What the machine wants done outside, and in what terms it is told of it.

use std::collections::VecDeque;

use coppice_endpoint::NetError;
use coppice_protocol::ids::{NodeId, Rank};
use coppice_protocol::keep::KeepFile;
use coppice_protocol::pset::StartJob;
use coppice_protocol::ship::{Call, Reply};

use super::broadcasts::TakeFile;
use super::calls::CallId;
use super::lines::LineId;
use super::manifests::ToCheck;
use super::regions::RegionOrder;

/// A reply with its bulk bytes.
pub type Answer = (Reply, Vec<u8>);

/// A start of a job: what it has outside goes by this number, which is never another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlaceId(pub u64);

/// Why a connection is no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disconnected {
    /// The node closed it.
    Closed,
    /// It broke.
    Broken(NetError),
}

/// Something to be done outside.
#[derive(Debug)]
pub enum Effect {
    /// There is something in [`super::Machine::transmit`] for this connection, or it is to be read again.
    Move(LineId),
    /// Call [`super::Machine::listen`] for this connection.
    Listen(LineId),
    /// End a connection. It is not known any more.
    End {
        /// Which.
        line: LineId,
        /// As far as they fit at once these go first, and the end is orderly; without, it is a reset.
        last: Option<Vec<u8>>,
    },
    /// Say [`super::Machine::flushed`] when the node has all that was queued for it, or the connection broke.
    Flush(LineId),
    /// Open a job's root and program, with files for its ranks. Answer with [`super::Machine::opened`], in any case and
    /// whenever that is; and then with [`super::Machine::left`] when nothing of it is left, not even a thread.
    Open {
        /// The job's number here.
        place: PlaceId,
        /// What it is.
        spec: Box<StartJob>,
    },
    /// Nothing is wanted any more of what was opened.
    Drop(PlaceId),
    /// Look at or change data of files, read the program, or put or get objects of checkpoints. If that may have to
    /// wait, only prepare it and say so with [`super::Machine::waits`]; else answer with [`super::Machine::done`].
    Try {
        /// The call's number, by which it is answered.
        id: CallId,
        /// Whose it is.
        place: PlaceId,
        /// Which of its ranks.
        rank: Rank,
        /// What to do.
        call: Call,
        /// The bytes that came with it.
        bulk: Vec<u8>,
    },
    /// Do what was prepared, on a thread that may wait, and answer with [`super::Machine::done`].
    Run(CallId),
    /// What was prepared is not wanted any more, and is not answered.
    Cancel(CallId),
    /// Look at, open or close files or change names, on the thread that the job has for this node, and answer with
    /// [`super::Machine::done`].
    Names {
        /// The call's number, by which it is answered.
        id: CallId,
        /// Whose it is.
        place: PlaceId,
        /// Which of its ranks.
        rank: Rank,
        /// What to do.
        call: Call,
    },
    /// Ask again what is in a manifest, on the thread that the job has for this node, and answer with
    /// [`super::Machine::done`].
    Manifest {
        /// The call's number, by which it is answered.
        id: CallId,
        /// Whose it is.
        place: PlaceId,
        /// Which of its ranks.
        rank: Rank,
        /// What is in it.
        to_check: ToCheck,
    },
    /// Close the files of a rank, behind what else there is to do for its node; answer with [`super::Machine::closed`].
    Close {
        /// Whose they are.
        place: PlaceId,
        /// Which of its ranks.
        rank: Rank,
        /// Where it ran.
        node: NodeId,
    },
    /// Open a file that nodes are to keep and send it to them, if its home is here; if that cannot be, say so with
    /// [`super::Machine::keep_failed`].
    Keep(Box<KeepFile>),
    /// Nothing is wanted any more of the file of that request.
    EndKeep(u64),
    /// Take a file into memory, on a thread, and answer with [`super::Machine::file_taken`]; what was taken stays until
    /// [`Effect::EndBroadcast`], or the job goes.
    Take(Box<TakeFile>),
    /// Send what was taken for the broadcast of that number.
    Broadcast {
        /// Whose it is.
        place: PlaceId,
        /// Which.
        number: u8,
    },
    /// Nothing is wanted any more of what was taken for the broadcast of that number.
    EndBroadcast {
        /// Whose it is.
        place: PlaceId,
        /// Which.
        number: u8,
    },
    /// Pull from a node's region or wipe there, on a thread; answer with [`super::Machine::region_done`]. Until then
    /// there is no other for that node, and there are never more than [`crate::limits::REGION_THREADS_MAX`] in all.
    Region(RegionOrder),
}

/// The effects that nobody has taken yet.
#[derive(Debug, Default)]
pub(super) struct Effects {
    queue: VecDeque<Effect>,
}

impl Effects {
    pub(super) fn push(&mut self, effect: Effect) {
        self.queue.push_back(effect);
    }

    /// Whether calls are to be tried.
    pub(super) fn have_calls(&self) -> bool {
        self.queue.iter().any(|effect| matches!(effect, Effect::Try { .. }))
    }

    /// As [`Effect::Move`]; once is enough.
    pub(super) fn push_move(&mut self, line: LineId) {
        if !matches!(self.queue.back(), Some(Effect::Move(last)) if *last == line) {
            self.push(Effect::Move(line));
        }
    }

    pub(super) fn next(&mut self) -> Option<Effect> {
        self.queue.pop_front()
    }
}
