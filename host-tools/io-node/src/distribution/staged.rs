//! The files that a job stages, or nodes are to keep, opened.

use coppice_protocol::distribution::{Plan, PlanError};
use coppice_protocol::keep::KeepFile;
use coppice_protocol::limits::STAGED_FILES_MAX;
use coppice_protocol::program::PAGE_BYTES;
use coppice_protocol::pset::StartJob;
use coppice_protocol::staging;
use coppice_protocol::text::ByteString;

use crate::disk::Program;

/// One of them, with its hash tree, and how it gets to the nodes.
#[derive(Debug)]
pub(crate) struct StagedFile {
    pub(super) plan: Plan,
    pub(super) file: Program,
}

/// Opens all files of a job that has its home here, in their order. That may wait for a disk.
///
/// # Errors
/// Why the job cannot start.
pub(crate) fn open(spec: &StartJob) -> Result<Vec<StagedFile>, String> {
    let Some(staging) = &spec.staging else { return Ok(Vec::new()) };
    if staging.files.len() != spec.staged_files.len() || staging.files.len() > STAGED_FILES_MAX {
        let (files, paths) = (staging.files.len(), spec.staged_files.len());
        return Err(format!("cannot stage {files} files that lie at {paths} places; {STAGED_FILES_MAX} are possible"));
    }
    let open_one = |(index, path): (usize, &ByteString)| {
        open_one(path, &staging.files[index], staging.mtu, staging.plan(spec.job, index, spec.world.node_count()))
    };
    spec.staged_files.iter().enumerate().map(open_one).collect()
}

/// Opens a file that nodes are to keep. That may wait for a disk.
///
/// # Errors
/// Why it cannot be sent.
pub(crate) fn open_kept(order: &KeepFile) -> Result<StagedFile, String> {
    let (transfer, path) = (&order.transfer, &order.file);
    let file = transfer.file().map_err(|error| format!("cannot stage file {path}: {error}"))?;
    open_one(path, file, transfer.staging.mtu, transfer.plan())
}

fn open_one(
    path: &ByteString,
    file: &staging::StagedFile,
    mtu: u16,
    plan: Result<Plan, PlanError>,
) -> Result<StagedFile, String> {
    let plan = plan.map_err(|error| format!("cannot stage file {path}: {error}"))?;
    if !u64::from(plan.piece_bytes).is_multiple_of(PAGE_BYTES) {
        return Err(format!("cannot stage file {path} over links with an MTU of {mtu}"));
    }
    let file = Program::open(path, file.content, file.bytes)
        .map_err(|error| format!("cannot read staged file {path}: {error}"))?;
    Ok(StagedFile { plan, file })
}
