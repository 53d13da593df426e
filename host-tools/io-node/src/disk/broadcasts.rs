//! Files that are broadcast ([`coppice_protocol::broadcast`]): taken into memory on a thread, with all that shows of
//! each piece that it is the file's, and sent from there.
//!
//! A file may be changed by others on the host while it is read. What was taken is the file only if that shows in
//! nothing that tells it from what it was; the machine holds that against what its readers were told.

use coppice_protocol::broadcast::file_of_job;
use coppice_protocol::ids::ProgramId;
use coppice_protocol::lease::Stamp;
use coppice_protocol::program::tree;
use coppice_protocol::staging::{Roster, StagedFile};
use tokio::sync::OwnedSemaphorePermit;

use super::place::{JobPlace, OwedFile};
use super::{Completions, Disk};
use crate::distribution::{Held, Permit, Piece, Sent, cut};
use crate::files::Whole;
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
            let permit = self.homes.permit_for(1)?.ok_or("nothing is sent from here")?;
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
            Err(reason) => tracing::warn!(job = of.job.0, number, reason, "a file that nodes read is not broadcast"),
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
) -> Result<(Box<Taken>, TakenFile), String> {
    let stamp = |whole: &Whole| whole.status().map(|status| Stamp::of(&status)).map_err(|error| error.to_string());
    let before = stamp(whole)?;
    let bytes = whole.read(order.bytes).map_err(|error| error.to_string())?;
    if stamp(whole)? != before || before.size() != order.bytes || bytes.len() as u64 != order.bytes {
        return Err("it was changed while it was read".to_owned());
    }
    let nodes = tree::of(&bytes);
    let content = ProgramId(*nodes.first().ok_or("it is empty")?);
    let file = StagedFile { content, bytes: order.bytes, path: whole.path() };
    order.broadcast.staging.files = vec![StagedFile { path: None, ..file.clone() }];
    let roster = Roster::new(&order.broadcast.staging, &order.world).ok_or("no memory to send it")?;
    let plan = order.broadcast.plan(&roster).map_err(|error| error.to_string())?;
    let pieces = cut(&plan, &bytes, &nodes)?;
    let taken = Box::new(Taken { order, roster, content, pieces, room, permit, place });
    Ok((taken, TakenFile { file, stamp: before }))
}
