//! The files that a job stages, or nodes are to keep, opened.

use coppice_protocol::distribution::{Plan, PlanError};
use coppice_protocol::ids::{ProgramId, PsetId};
use coppice_protocol::keep::KeepFile;
use coppice_protocol::limits::STAGED_FILES_MAX;
use coppice_protocol::program::PAGE_BYTES;
use coppice_protocol::pset::StartJob;
use coppice_protocol::staging::{self, Roster, Staging};
use coppice_protocol::text::ByteString;

use crate::disk::Program;

/// One of them, and how it gets to the nodes.
#[derive(Debug)]
pub(crate) struct StagedFile {
    pub(super) plan: Plan,
    pub(super) roster: Roster,
    /// What it is.
    pub(super) content: ProgramId,
    /// It, with its hash tree; `None` where it is not on this host and home is elsewhere.
    pub(super) file: Option<Program>,
}

/// Opens all files of a job, in their order, for an I/O node of that pset. That may wait for a disk.
///
/// # Errors
/// Why the job cannot start.
pub(crate) fn open(spec: &StartJob, pset: PsetId) -> Result<Vec<StagedFile>, String> {
    let Some(staging) = &spec.staging else { return Ok(Vec::new()) };
    if staging.files.len() != spec.staged_files.len() || staging.files.len() > STAGED_FILES_MAX {
        let (files, paths) = (staging.files.len(), spec.staged_files.len());
        return Err(format!("cannot stage {files} files that lie at {paths} places; {STAGED_FILES_MAX} are possible"));
    }
    let roster = Roster::new(staging, &spec.world).ok_or("no memory to stage files, or nodes of no pset")?;
    let open_one = |(index, path): (usize, &ByteString)| {
        let plan = staging.plan(spec.job, index, &roster);
        open_one(path, &staging.files[index], (staging, pset), plan, roster.clone())
    };
    spec.staged_files.iter().enumerate().map(open_one).collect()
}

/// Opens a file that nodes are to keep. That may wait for a disk.
///
/// # Errors
/// Why it cannot be sent.
pub(crate) fn open_kept(order: &KeepFile, pset: PsetId) -> Result<StagedFile, String> {
    let (transfer, path) = (&order.transfer, &order.file);
    let file = transfer.file().map_err(|error| format!("cannot stage file {path}: {error}"))?;
    let roster = transfer.roster().ok_or("no memory to stage a file, or nodes of no pset")?;
    let plan = transfer.plan(&roster);
    open_one(path, file, (&transfer.staging, pset), plan, roster)
}

fn open_one(
    path: &ByteString,
    file: &staging::StagedFile,
    (staging, pset): (&Staging, PsetId),
    plan: Result<Plan, PlanError>,
    roster: Roster,
) -> Result<StagedFile, String> {
    let mtu = staging.mtu;
    let plan = plan.map_err(|error| format!("cannot stage file {path}: {error}"))?;
    if !u64::from(plan.piece_bytes).is_multiple_of(PAGE_BYTES) {
        return Err(format!("cannot stage file {path} over links with an MTU of {mtu}"));
    }
    let content = file.content;
    let file = match Program::open(path, content, file.bytes) {
        Ok(file) => Some(file),
        Err(error) if staging.home == pset => return Err(format!("cannot read staged file {path}: {error}")),
        Err(error) => {
            tracing::info!(%path, %error, "a staged file is not on this host: it comes from another pset");
            None
        }
    };
    Ok(StagedFile { plan, roster, content, file })
}
