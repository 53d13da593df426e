//! The programs of jobs: which are stored, and that nothing else runs than what was submitted.
//!
//! A job has its program and what it has staged held from its submission to its end, so that the store keeps that. When
//! the job has its nodes, and somebody has touched a copy since its bytes were last hashed, that is hashed first; its
//! nodes wait for that.

use std::path::Path;

use coppice_api::job::{EXIT_COPPICE, Submission};
use coppice_api::shown;
use coppice_protocol::ids::{JobId, ProgramId};
use coppice_protocol::ras::{RasKind, Severity};

use super::requests::Refused;
use super::{Controller, Now, ras};
use crate::database::FileKey;
use crate::limits::STORE_PROGRAMS_MAX;
use crate::metrics::seen::StoredSeen;
use crate::plant::Plant;
use crate::store::{Found, Held, stored_bytes};

impl<P: Plant> Controller<P> {
    /// Records the program as used and removes others if the store has become too large.
    pub(super) fn keep_program(
        &mut self,
        program: &Held,
        file: FileKey,
        job: &Submission,
        now: Now,
    ) -> Result<(), Refused> {
        self.records.storage_mut().use_program(program, file, &job.program, now.realtime_ns)?;
        self.store.recorded(program);
        let stored = self.records.storage().stored_programs()?;
        let mut bytes: u64 = stored.iter().map(|program| stored_bytes(program.bytes)).sum();
        let mut programs = stored.len();
        for old in stored {
            if bytes <= self.store.bytes_max() && programs <= STORE_PROGRAMS_MAX {
                break;
            }
            match self.store.remove(old.id) {
                Ok(true) => self.records.storage_mut().program_removed(old.id)?,
                // Somebody needs it.
                Ok(false) => continue,
                Err(error) => tracing::warn!(%error, program = %old.id, "cannot remove from the store"),
            }
            bytes -= stored_bytes(old.bytes);
            programs -= 1;
        }
        self.stored = StoredSeen { programs, bytes };
        Ok(())
    }

    /// The stored copy of a program was not what it should be, and is removed.
    pub(super) fn program_altered(&mut self, program: ProgramId, path: &Path, now: Now) {
        let path = shown(path);
        let text = format!(
            "the stored copy of '{path}' was damaged or changed; it is removed and made anew from the file: {program}"
        );
        self.record_ras(None, &ras(Severity::Warn, RasKind::Recovery, None, text), now);
    }

    /// A copy that a job needs, which has its nodes, was looked at.
    pub(super) fn program_checked(&mut self, id: JobId, found: Result<Found, String>, now: Now) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let Some(number) = job.awaits_copy else { return };
        job.launch_goes_on(now.instant);
        let needed = job.needed(number).map(|(copy, source)| (copy.id, source.path));
        if let (Ok(Found::Altered), Some((program, path))) = (&found, needed) {
            self.program_altered(program, &path, now);
        }
        match found {
            Ok(_) => self.start_from(id, number + 1),
            Err(reason) => self.end_unstarted(id, EXIT_COPPICE, Some(reason), now),
        }
    }

    /// Has a job's ranks started when all that it needs, from this copy on, is as it should be.
    pub(super) fn start_from(&mut self, id: JobId, mut number: usize) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        while let Some((copy, source)) = job.needed(number) {
            if !self.store.is_unaltered(copy.id) {
                let copy = copy.clone();
                job.awaits_copy = Some(number);
                return self.plant.check_program(id, copy, source);
            }
            number += 1;
        }
        self.tell_start(id);
    }
}
