//! Files that are broadcast ([`coppice_protocol::broadcast`]): taken into memory on a thread, with all that shows of
//! each piece that it is the file's, and sent from there.
//!
//! A file may be changed by others on the host while it is read. What was taken is the file only if that shows in
//! nothing that tells it from what it was; the machine holds that against what its readers were told.

use coppice_protocol::broadcast::file_of_job;
use coppice_protocol::ids::ProgramId;
use coppice_protocol::lease::Stamp;
use coppice_protocol::staging::{Roster, StagedFile};
use rustix::io::Errno;
use tokio::sync::OwnedSemaphorePermit;

use super::place::{JobPlace, OwedFile};
use super::{Completion, Completions, Disk};
use crate::distribution::{Held, Permit, Piece, Sent, cut};
use crate::files::{Result, Whole};
use crate::machine::{PlaceId, TakeFile, TakenFile};

/// What a job's broadcasts have here, by their numbers.
#[derive(Debug)]
pub(super) enum OfBroadcast {
    /// It was taken.
    Taken(Box<Taken>),
    /// It is sent.
    Sent { _home: Held },
}

/// A file that was taken.
#[derive(Debug)]
pub(crate) struct Taken {
    order: TakeFile,
    roster: Roster,
    content: ProgramId,
    pieces: Vec<Piece>,
    room: OwnedSemaphorePermit,
    permit: Permit,
    place: JobPlace,
}

impl Disk {
    /// As [`crate::machine::Effect::Take`]. What is taken comes in [`super::Completion::FileTaken`], for
    /// [`Disk::keep_taken`].
    pub(crate) fn take_file(&mut self, order: TakeFile) {
        let (place, number) = (order.place, order.broadcast.number);
        let owed = OwedFile::new((place, number), Completions::clone(&self.completions));
        let begun = self.whose((place, order.file.0.rank)).map_err(|error| error.to_string());
        let begun = begun.and_then(|(job, files, _)| {
            let whole = files.whole(order.file.1).map_err(|error| error.to_string())?;
            let room = self.homes.room_to_broadcast(order.bytes)?;
            let permit = self.homes.permit_to_broadcast()?;
            Ok((whole, room, permit, job.place.clone()))
        });
        match begun {
            Ok((whole, room, permit, place)) => drop(tokio::task::spawn_blocking(move || {
                owed.pay(take(order, &whole, (room, permit, place)));
            })),
            Err(reason) => owed.pay(Err(reason)),
        }
    }

    /// Takes what was taken, unless its job is gone.
    pub(crate) fn keep_taken(&mut self, (place, number): (PlaceId, u8), taken: Box<Taken>) {
        if let Some(job) = self.jobs.get_mut(&place) {
            job.broadcasts.insert(number, OfBroadcast::Taken(taken));
        }
    }

    /// As [`crate::machine::Effect::Broadcast`].
    pub(crate) fn broadcast(&mut self, place: PlaceId, number: u8) {
        let Some(job) = self.jobs.get_mut(&place) else { return };
        let Some(OfBroadcast::Taken(taken)) = job.broadcasts.remove(&number) else { return };
        let Taken { order, roster, content, pieces, room, permit, place } = *taken;
        let of = file_of_job(order.broadcast.job, number);
        let key = order.broadcast.key(&order.world.key);
        let sent = order.broadcast.plan(&roster).map_err(|error| error.to_string());
        let sent = sent.map(|plan| Sent { plan, roster, content, pieces, room });
        match sent.and_then(|sent| self.homes.add_broadcast((of, key), sent, (permit, place))) {
            Ok(home) => drop(job.broadcasts.insert(number, OfBroadcast::Sent { _home: home })),
            Err(reason) => {
                let of = (job.place.id(), number);
                drop(self.completions.send(Completion::FileTaken(of, Err(reason))));
            }
        }
    }

    /// As [`crate::machine::Effect::EndBroadcast`].
    pub(crate) fn end_broadcast(&mut self, place: PlaceId, number: u8) {
        if let Some(job) = self.jobs.get_mut(&place) {
            job.broadcasts.remove(&number);
        }
    }
}

/// Takes a file, however long its disk needs for it.
fn take(
    mut order: TakeFile,
    whole: &Whole,
    (room, permit, place): (OwnedSemaphorePermit, Permit, JobPlace),
) -> core::result::Result<(Box<Taken>, TakenFile), String> {
    // What it is shows when all of it was read.
    let mut file = StagedFile { content: ProgramId([0; 32]), bytes: order.bytes, path: None };
    order.broadcast.staging.files = vec![file.clone()];
    let roster = Roster::new(&order.broadcast.staging, &order.world).ok_or("no memory to send it")?;
    let plan = order.broadcast.plan(&roster).map_err(|error| error.to_string())?;
    let stamp = || whole.status().map(|status| Stamp::of(&status));
    let piece = |number| {
        let (offset, length) = (u64::from(number) * u64::from(plan.piece_bytes), plan.piece_length(number));
        whole.read(offset, length)
    };
    let read = || Ok((stamp()?, (0..plan.pieces()).map(piece).collect::<Result<Vec<_>>>()?, stamp()?));
    let (before, pieces, after) = read().map_err(|error: Errno| error.to_string())?;
    let bytes: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
    if before != after || before.size() != order.bytes || bytes != order.bytes {
        return Err("it was changed while it was read".to_owned());
    }
    let (content, pieces) = cut(&plan, pieces)?;
    file.content = content;
    order.broadcast.staging.files = vec![file.clone()];
    let taken = Box::new(Taken { order, roster, content, pieces, room, permit, place });
    Ok((taken, TakenFile { file: StagedFile { path: whole.path(), ..file }, stamp: before }))
}
