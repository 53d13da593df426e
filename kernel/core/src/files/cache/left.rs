//! Pages of files that jobs have read and not changed, which the node keeps for jobs that come, whatever program these
//! run: libraries, modules, data. Nothing stays of what not everybody on the host may read, which may be a secret.
//!
//! They are believed as pages of a file that was closed are: if its version is the same still when it is opened again
//! ([`coppice_protocol::lease`]).
//!
//! They take memory that nobody else wants: whoever finds no free frame has the file given back that was used longest
//! ago, in turn with retained page tables ([`crate::memory::Retention`]). What is known of a file is here or in a job's
//! cache, never in both.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_hal::addr::PAGE_BYTES;
use coppice_protocol::ids::ProgramId;
use coppice_protocol::limits::RETAINED_PROGRAMS_MAX;
use coppice_protocol::retain::{HeldAs, RetainedProgram};

use super::pages::Pages;
use super::{FileCache, Known};
use crate::files::names::{Place, ToldManifests};
use crate::limits::FILES_LEFT_MAX;
use crate::memory::{FileIdentity, Retention, Spare};
use crate::quota::Charge;
use crate::ship::Client;
use crate::sync::{LockLevel, Mutex};

/// See this module.
pub(crate) struct LeftFiles {
    retention: Arc<Retention>,
    /// So many files.
    most: usize,
    manifests: ToldManifests,
    left: Mutex<Left>,
}

#[derive(Default)]
struct Left {
    files: BTreeMap<FileIdentity, LeftFile>,
    /// By when they were used last.
    by_use: BTreeMap<u64, FileIdentity>,
}

/// What was read of a file.
pub(super) struct LeftFile {
    /// What the job ran that read it last.
    pub(super) program: ProgramId,
    /// The version that the pages are of.
    pub(super) version: u64,
    pub(super) pages: Pages,
    /// Frames that they take, with what they are found by.
    pub(super) frames: u64,
    /// When it was used last, as [`Retention::next_use`] counts: no two at the same time.
    pub(super) used: u64,
    /// What it is charged with.
    pub(super) charge: Charge,
}

impl Left {
    fn remove(&mut self, identity: FileIdentity) -> Option<LeftFile> {
        let file = self.files.remove(&identity)?;
        self.by_use.remove(&file.used);
        Some(file)
    }

    fn pop_oldest(&mut self) -> Option<LeftFile> {
        let (_, identity) = self.by_use.pop_first()?;
        self.files.remove(&identity)
    }
}

/// What a job may use that others have read, and to whom it leaves what it reads itself.
pub(crate) struct Leaves {
    /// Where that lies.
    pub(crate) files: Arc<LeftFiles>,
    /// What the job runs.
    pub(crate) program: ProgramId,
}

impl FileCache {
    /// Asks for all that the job's program is going to look up, as it seems.
    pub(crate) async fn load_names(&self, client: &Client) {
        if let Some(Leaves { files, program }) = &self.left {
            self.names.load(client, files.manifests(), *program).await;
        }
    }

    /// The same again, if a place was told so and that is too old to be believed. Whether that was done.
    pub(crate) async fn load_names_again(&self, place: &Place, client: &Client) -> bool {
        let Some(Leaves { files, program }) = &self.left else { return false };
        self.names.load_again(place, client, (files.manifests(), *program)).await
    }

    /// A file is not known any more; what was read of it is left to jobs that come, if it was only read.
    pub(super) fn leave(&self, Known { file, _charge: charge, .. }: Known) {
        if let Some(Leaves { files, program }) = &self.left
            && let Some((version, pages)) = file.leave_pages()
        {
            let (program, frames, used) = (*program, pages.frames(), self.retention.next_use());
            files.leave(file.identity(), LeftFile { program, version, pages, frames, used, charge });
        }
        file.forget();
    }
}

impl LeftFiles {
    /// Nothing yet. It is given back when `retention` is to give something back.
    pub(crate) fn new(retention: &Arc<Retention>) -> Arc<Self> {
        Self::of_most(retention, FILES_LEFT_MAX)
    }

    fn of_most(retention: &Arc<Retention>, most: usize) -> Arc<Self> {
        let left = Mutex::new(LockLevel::Retention, Left::default());
        let this = Arc::new(Self { retention: Arc::clone(retention), most, manifests: ToldManifests::default(), left });
        let weak = Arc::downgrade(&this);
        retention.add_spare(weak);
        this
    }

    /// What it is given back with.
    pub(crate) fn retention(&self) -> &Arc<Retention> {
        &self.retention
    }

    /// What was told of names.
    pub(crate) fn manifests(&self) -> &ToldManifests {
        &self.manifests
    }

    /// A job leaves what it has read of a file. At [`FILES_LEFT_MAX`] the one goes that was used longest ago.
    pub(super) fn leave(&self, identity: FileIdentity, file: LeftFile) {
        let gone = {
            let mut left = self.left.lock();
            let before = left.remove(identity);
            left.by_use.insert(file.used, identity);
            left.files.insert(identity, file);
            let oldest = if left.files.len() > self.most { left.pop_oldest() } else { None };
            [before, oldest]
        };
        gone.into_iter().flatten().for_each(|file| self.take_apart(file));
    }

    /// What was left of a file, which is a job's from now on.
    pub(super) fn take(&self, identity: FileIdentity) -> Option<LeftFile> {
        self.left.lock().remove(identity)
    }

    fn take_apart(&self, mut file: LeftFile) {
        if let Some(table) = file.pages.take() {
            self.retention.take_apart(table);
        }
    }

    /// Gives back what was read by jobs of one program, or all. Returns what that was.
    pub(crate) fn discard(&self, program: Option<ProgramId>) -> Vec<RetainedProgram> {
        self.manifests.forget(program);
        self.give_up(|file| program.is_none_or(|program| file.program == program))
    }

    /// Gives back what was not read by jobs of a program.
    pub(crate) fn discard_others(&self, program: ProgramId) {
        self.give_up(|file| file.program != program);
    }

    fn give_up(&self, goes: impl Fn(&LeftFile) -> bool) -> Vec<RetainedProgram> {
        let gone: Vec<LeftFile> = {
            let mut left = self.left.lock();
            let gone: Vec<FileIdentity> =
                left.files.iter().filter(|(_, file)| goes(file)).map(|(identity, _)| *identity).collect();
            gone.into_iter().filter_map(|identity| left.remove(identity)).collect()
        };
        let held = by_program(gone.iter());
        gone.into_iter().for_each(|file| self.take_apart(file));
        held
    }
}

/// What there is of each program, the one that was used last first.
fn by_program<'a>(files: impl Iterator<Item = &'a LeftFile>) -> Vec<RetainedProgram> {
    let mut programs: BTreeMap<ProgramId, (u64, RetainedProgram)> = BTreeMap::new();
    for file in files {
        let none = RetainedProgram { program: file.program, pages: 0, bytes: 0, held_as: HeldAs::Read };
        let (used, held) = programs.entry(file.program).or_insert((0, none));
        *used = file.used.max(*used);
        held.pages += file.pages.count();
        held.bytes += file.frames * PAGE_BYTES as u64;
    }
    let mut held: Vec<(u64, RetainedProgram)> = programs.into_values().collect();
    held.sort_by_key(|(used, _)| core::cmp::Reverse(*used));
    held.into_iter().map(|(_, held)| held).take(RETAINED_PROGRAMS_MAX).collect()
}

impl Spare for LeftFiles {
    fn oldest(&self) -> Option<u64> {
        let oldest = self.left.lock().by_use.first_key_value().map(|(used, _)| *used);
        // Names take little, and go last.
        oldest.or_else(|| self.manifests.newest())
    }

    fn give_back(&self) -> bool {
        let oldest = self.left.lock().pop_oldest();
        match oldest {
            Some(file) => {
                self.take_apart(file);
                true
            }
            None => self.manifests.forget(None),
        }
    }

    fn held(&self) -> Vec<RetainedProgram> {
        by_program(self.left.lock().files.values())
    }

    fn bytes(&self) -> u64 {
        let left = self.left.lock();
        left.files.values().map(|file| file.frames).sum::<u64>() * PAGE_BYTES as u64
    }

    fn charged(&self) -> usize {
        let of_files: usize = self.left.lock().files.values().map(|file| file.charge.bytes()).sum();
        of_files + self.manifests.charged()
    }
}

#[cfg(test)]
mod tests;
