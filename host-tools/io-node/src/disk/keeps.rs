//! Files that are sent to be kept and have their home here: opened, like those of jobs, on threads.

use std::collections::HashMap;

use coppice_protocol::keep::KeepFile;

use super::opening::KeepOrder;
use super::place::OwedKeep;
use super::{Completions, Disk};
use crate::descriptors::JobDescriptors;
use crate::distribution::{Held, Permit, StagedFile};

/// They, by the numbers of their requests.
#[derive(Debug, Default)]
pub(super) struct Keeps(HashMap<u64, Option<Sending>>);

/// One that was opened, and is sent.
#[derive(Debug)]
struct Sending {
    _home: Held,
    _descriptors: JobDescriptors,
}

/// What a file that is to be sent has when it was opened.
#[derive(Debug)]
pub(crate) struct OpenedKeep {
    pub(super) order: KeepFile,
    pub(super) file: StagedFile,
    pub(super) permit: Permit,
    pub(super) descriptors: JobDescriptors,
}

impl Disk {
    /// As [`crate::machine::Effect::Keep`]. What is opened comes in [`super::Completion::KeepOpened`], for
    /// [`Disk::take_keep`].
    pub(crate) fn keep(&mut self, order: KeepFile) {
        let request = order.transfer.request;
        let owed = OwedKeep::new(request, Completions::clone(&self.completions));
        let granted = self.homes.permit_kept(&order).and_then(|permit| {
            let Some(permit) = permit else { return Ok(None) };
            Ok(Some((permit, self.descriptors.for_job(0, 1)?)))
        });
        match granted {
            Ok(None) => owed.nothing(),
            Ok(Some((permit, descriptors))) => {
                self.keeps.0.insert(request, None);
                self.opener.open_keep(KeepOrder { order, permit, descriptors, owed });
            }
            Err(reason) => owed.pay(Err(reason)),
        }
    }

    /// Takes what was opened. It is sent from now on, unless that was given up.
    ///
    /// # Errors
    /// Why it is not.
    pub(crate) fn take_keep(&mut self, opened: OpenedKeep) -> Result<(), String> {
        let OpenedKeep { order, file, permit, descriptors } = opened;
        let Some(place) = self.keeps.0.get_mut(&order.transfer.request) else { return Ok(()) };
        let home = self.homes.add_kept(&order.transfer, file, permit)?;
        *place = Some(Sending { _home: home, _descriptors: descriptors });
        Ok(())
    }

    /// As [`crate::machine::Effect::EndKeep`].
    pub(crate) fn end_keep(&mut self, request: u64) {
        self.keeps.0.remove(&request);
    }
}
