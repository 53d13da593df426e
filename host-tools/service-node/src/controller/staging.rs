//! Staging: which files the nodes of a job get before it starts, and over what.

use std::collections::BTreeMap;

use coppice_api::job::Submission;
use coppice_api::path;
use coppice_api::staging::StagedView;
use coppice_protocol::ids::{JobId, PsetId};
use coppice_protocol::staging::{StagedFile, Staging};
use coppice_protocol::text::ByteString;

use super::job::Job;
use super::requests::Refused;
use super::{Controller, LinkConfig};
use crate::database::ProgramRow;
use crate::limits::{HOP_NS, LINK_BYTES_PER_SECOND_DEFAULT, STALL_NS};
use crate::plant::{MTU, Plant};
use crate::store::{Held, ProgramStore, stored_bytes};

impl<P: Plant> Controller<P> {
    /// Whether nodes have room for what a job has staged, and it can be sent to so many.
    pub(super) fn check_staging(&self, job: &Submission, program: &ProgramRow, staged: &[Held]) -> Result<(), Refused> {
        if job.staged.len() != staged.len() {
            return Err(Refused::bad("the files to be staged are not those of the job; submit it again".to_owned()));
        }
        self.check_kept(staged)?;
        let program = job.stage_program.then_some(program);
        // Where they come from makes no difference to whether they can.
        let Some(staging) = staging(job, program, staged, PsetId(0), &self.config.link) else { return Ok(()) };
        let (bytes, free) = (staging.bytes(), self.smallest_free());
        if bytes > free {
            return Err(Refused::bad(format!(
                "cannot stage {bytes} bytes: a node has {free} bytes of memory free; stage less, or use \
                 `coppice up --memory` with more"
            )));
        }
        for (number, file) in staging.files.iter().enumerate() {
            staging.plan(JobId(0), number, job.nodes_wanted()).map_err(|error| {
                let name = file.path.clone().unwrap_or_else(|| job.name.clone());
                Refused::bad(format!("cannot stage '{name}' of {} bytes: {error}; stage less", file.bytes))
            })?;
        }
        Ok(())
    }
}

impl<P: Plant> Controller<P> {
    /// Whether the store may keep so much more for jobs: their files stay until they end, and no other makes room.
    pub(super) fn check_kept(&self, staged: &[Held]) -> Result<(), Refused> {
        let kept = self.jobs.values().flat_map(|job| &job.staged).chain(self.keeps.files()).chain(staged);
        let kept: BTreeMap<_, _> = kept.map(|held| (held.id, stored_bytes(held.bytes))).collect();
        let bytes = kept.values().fold(0_u64, |sum, bytes| sum.saturating_add(*bytes));
        let most = self.store.bytes_max();
        if bytes <= most || staged.is_empty() {
            return Ok(());
        }
        Err(Refused::conflict(&format!(
            "cannot stage these files: with those of other jobs they are {bytes} bytes, and at most {most} are kept; \
             wait until other jobs have ended"
        )))
    }
}

/// What a job that has nodes has staged, and the files of the store with that, in the same order.
pub(super) fn of_job(job: &Job, store: &ProgramStore, link: &LinkConfig) -> (Option<Staging>, Vec<ByteString>) {
    let Some((_, first)) = job.ranks.iter().next() else { return (None, Vec::new()) };
    let is_held = job.ranks.by_node().all(|(_, ranks)| ranks.iter().all(|state| state.use_retained));
    let program = (job.submission.stage_program && !is_held).then_some(&*job.program);
    let staging = staging(&job.submission, program, &job.staged, first.pset, link);
    let files = staging.iter().flat_map(|staging| &staging.files);
    let files = files.map(|file| path::bytes(store.path(file.content))).collect();
    (staging, files)
}

/// What a job asked to have staged, as it is recorded.
pub(super) fn asked(job: &Submission, program: &ProgramRow, staged: &[Held]) -> Vec<StagedView> {
    let program = job.stage_program.then_some(StagedView { path: None, bytes: program.bytes });
    let files = job.staged.iter().zip(staged);
    let files = files.map(|(asked, held)| StagedView { path: Some(asked.path.clone()), bytes: held.bytes });
    program.into_iter().chain(files).collect()
}

/// The program first, if it is to be; nothing if there is nothing to stage.
fn staging(
    job: &Submission,
    program: Option<&ProgramRow>,
    staged: &[Held],
    home: PsetId,
    link: &LinkConfig,
) -> Option<Staging> {
    let program = program.map(|row| StagedFile { content: row.id, bytes: row.bytes, path: None });
    let files = job.staged.iter().zip(staged);
    let files = files.map(|(asked, held)| {
        let path = Some(asked.path.clone());
        StagedFile { content: held.id, bytes: held.bytes, path }
    });
    let files: Vec<StagedFile> = program.into_iter().chain(files).collect();
    (!files.is_empty()).then(|| over(files, home, link))
}

/// Files that are sent from there over such links.
pub(super) fn over(files: Vec<StagedFile>, home: PsetId, link: &LinkConfig) -> Staging {
    let (bytes_per_second, latency_ns) = speed(link);
    Staging { home, mtu: MTU, bytes_per_second, latency_ns, stall_ns: STALL_NS, files }
}

/// The part of a link's bandwidth that is left for all else that goes over it. Without, what the link has not sent yet
/// only ever grows, and answers take longer and longer.
const LINK_SHARE_OF_OTHERS: u64 = 16;

/// Bandwidth of each link that transfers may use, bytes/s, and latency from node to node, ns.
fn speed(link: &LinkConfig) -> (u64, u32) {
    let shaped = |bits: u64| (bits / 8 - bits / 8 / LINK_SHARE_OF_OTHERS).max(1);
    let bytes_per_second = link.bandwidth_bits_per_s.map_or(LINK_BYTES_PER_SECOND_DEFAULT, shaped);
    // One link to the switch, one from it.
    let latency_ns = link.latency_ns.saturating_mul(2).saturating_add(HOP_NS);
    (bytes_per_second, u32::try_from(latency_ns).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::{HOP_NS, LINK_BYTES_PER_SECOND_DEFAULT, LinkConfig, speed};

    #[test]
    fn links_are_as_the_cluster_was_told() {
        assert_eq!(speed(&LinkConfig::default()), (LINK_BYTES_PER_SECOND_DEFAULT, HOP_NS as u32));
        let told = |bits, latency_ns| speed(&LinkConfig { bandwidth_bits_per_s: Some(bits), latency_ns });
        assert_eq!(told(1_000_000_000, 2_000_000), (117_187_500, 4_050_000));
        assert_eq!(told(1, u64::MAX), (1, u32::MAX));
    }
}
