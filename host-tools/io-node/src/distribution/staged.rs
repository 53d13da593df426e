//! The files that a job stages, opened.

use coppice_protocol::distribution::Plan;
use coppice_protocol::limits::STAGED_FILES_MAX;
use coppice_protocol::program::PAGE_BYTES;
use coppice_protocol::pset::StartJob;
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
        let plan = staging.plan(spec.job, index, spec.world.node_count());
        let plan = plan.map_err(|error| format!("cannot stage file {path}: {error}"))?;
        if !u64::from(plan.piece_bytes).is_multiple_of(PAGE_BYTES) {
            return Err(format!("cannot stage file {path} over links with an MTU of {}", staging.mtu));
        }
        let file = &staging.files[index];
        let file = Program::open(path, file.content, file.bytes)
            .map_err(|error| format!("cannot read staged file {path}: {error}"))?;
        Ok(StagedFile { plan, file })
    };
    spec.staged_files.iter().enumerate().map(open_one).collect()
}
