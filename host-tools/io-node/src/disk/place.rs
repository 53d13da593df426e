//! What is owed to the machine: that a job's place is free, that a call or an order about a region is done, that files
//! are closed. Each is held by whoever has something of it, and said when the last of them goes, whatever becomes of
//! the thread it is on.

use std::sync::Arc;

use coppice_protocol::ids::Rank;
use rustix::io::Errno;

use super::{Completion, Completions, Opened, OpenedKeep, Taken as TakenForBroadcast};
use crate::files::Result;
use crate::machine::{Answer, CallId, PlaceId, RegionAnswer, RegionOrder, TakenFile, failed};

/// A job's place among all jobs, which others can have when the job and all its threads are gone.
#[derive(Clone, Debug)]
pub(crate) struct JobPlace(Arc<Taken>);

#[derive(Debug)]
struct Taken {
    id: PlaceId,
    completions: Completions,
}

impl JobPlace {
    /// The place of that number.
    pub(super) fn new(id: PlaceId, completions: Completions) -> Self {
        Self(Arc::new(Taken { id, completions }))
    }

    /// Its number.
    pub(super) fn id(&self) -> PlaceId {
        self.0.id
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        // Without an event loop nobody wants to know.
        drop(self.completions.send(Completion::Left(self.id)));
    }
}

/// What was opened for a job. If that is not paid, there could be no thread for it.
#[derive(Debug)]
pub(super) struct OwedOpen {
    place: PlaceId,
    completions: Completions,
    opened: Option<core::result::Result<Box<Opened>, String>>,
}

impl OwedOpen {
    pub(super) fn new(place: PlaceId, completions: Completions) -> Self {
        Self { place, completions, opened: None }
    }

    pub(super) fn pay(mut self, opened: core::result::Result<Box<Opened>, String>) {
        self.opened = Some(opened);
    }
}

impl Drop for OwedOpen {
    fn drop(&mut self) {
        let opened = self.opened.take();
        let opened = opened.unwrap_or_else(|| Err("cannot start a thread that opens its root".to_owned()));
        drop(self.completions.send(Completion::Opened(self.place, opened)));
    }
}

/// What was opened of a file that is to be sent, to be kept. If that is not paid, there could be no thread for it.
#[derive(Debug)]
pub(super) struct OwedKeep {
    request: u64,
    completions: Completions,
    opened: Option<core::result::Result<Box<OpenedKeep>, String>>,
    is_nothing: bool,
}

impl OwedKeep {
    pub(super) fn new(request: u64, completions: Completions) -> Self {
        Self { request, completions, opened: None, is_nothing: false }
    }

    pub(super) fn pay(mut self, opened: core::result::Result<Box<OpenedKeep>, String>) {
        self.opened = Some(opened);
    }

    /// Nothing is owed: the file is sent from elsewhere.
    pub(super) fn nothing(mut self) {
        self.is_nothing = true;
    }
}

impl Drop for OwedKeep {
    fn drop(&mut self) {
        if self.is_nothing {
            return;
        }
        let opened = self.opened.take();
        let opened = opened.unwrap_or_else(|| Err("cannot start a thread that opens the file".to_owned()));
        drop(self.completions.send(Completion::KeepOpened(self.request, opened)));
    }
}

/// What was taken of a file that is to be broadcast. If that is not paid, there could be no thread for it.
#[derive(Debug)]
pub(super) struct OwedFile {
    of: (PlaceId, u8),
    completions: Completions,
    taken: Option<core::result::Result<(Box<TakenForBroadcast>, TakenFile), String>>,
}

impl OwedFile {
    pub(super) fn new(of: (PlaceId, u8), completions: Completions) -> Self {
        Self { of, completions, taken: None }
    }

    pub(super) fn pay(mut self, taken: core::result::Result<(Box<TakenForBroadcast>, TakenFile), String>) {
        self.taken = Some(taken);
    }
}

impl Drop for OwedFile {
    fn drop(&mut self) {
        let taken = self.taken.take().unwrap_or_else(|| Err("cannot start a thread that reads it".to_owned()));
        drop(self.completions.send(Completion::FileTaken(self.of, taken)));
    }
}

/// A call's answer. One that is not paid is `EIO`.
#[derive(Debug)]
pub(super) struct Owed {
    id: CallId,
    completions: Completions,
    answer: Option<Answer>,
}

impl Owed {
    pub(super) fn new(id: CallId, completions: Completions) -> Self {
        Self { id, completions, answer: None }
    }

    pub(super) fn pay(mut self, result: Result<Answer>) {
        self.answer = Some(result.unwrap_or_else(failed));
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        let answer = self.answer.take().unwrap_or_else(|| failed(Errno::IO));
        drop(self.completions.send(Completion::Done(self.id, answer)));
    }
}

/// What came of an order about a region. If that is not paid, there was no thread for it.
#[derive(Debug)]
pub(super) struct OwedRegion {
    order: RegionOrder,
    completions: Completions,
    answer: Option<RegionAnswer>,
}

impl OwedRegion {
    pub(super) fn new(order: RegionOrder, completions: Completions) -> Self {
        Self { order, completions, answer: None }
    }

    pub(super) fn pay(mut self, answer: RegionAnswer) {
        self.answer = Some(answer);
    }

    /// It is not done, for that reason.
    pub(super) fn refuse(self, reason: &str) {
        let answer = self.order.work.failed(reason.to_owned());
        self.pay(answer);
    }
}

impl Drop for OwedRegion {
    fn drop(&mut self) {
        let nobody = || "the directory of checkpoints cannot be used; the log of the I/O node says why".to_owned();
        let answer = self.answer.take().unwrap_or_else(|| self.order.work.failed(nobody()));
        drop(self.completions.send(Completion::RegionDone(self.order.node, answer)));
    }
}

/// That a rank's files are closed.
#[derive(Debug)]
pub(super) struct OwedClose {
    place: PlaceId,
    rank: Rank,
    completions: Completions,
}

impl OwedClose {
    pub(super) fn new(place: PlaceId, rank: Rank, completions: Completions) -> Self {
        Self { place, rank, completions }
    }
}

impl Drop for OwedClose {
    fn drop(&mut self) {
        drop(self.completions.send(Completion::Closed(self.place, self.rank)));
    }
}
