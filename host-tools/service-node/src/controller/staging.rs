//! Staging: which files the nodes of a job get before it starts, and over what.

use std::collections::BTreeMap;

use coppice_api::job::Submission;
use coppice_api::link::LinkShapes;
use coppice_api::path;
use coppice_api::staging::{ProgramStaging, Scheme, StagedView};
use coppice_protocol::distribution;
use coppice_protocol::ids::PsetId;
use coppice_protocol::psets::PsetTable;
use coppice_protocol::staging::{StagedFile, Staging};
use coppice_protocol::text::ByteString;

use super::Controller;
use super::job::Job;
use super::links::{Links, latency_ns};
use super::requests::Refused;
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
        let program = (job.stage_program == ProgramStaging::Always).then_some(program);
        // Where they come from and how fast makes no difference to whether they can.
        let speed = speed([LinkShapes::both(self.config.link)]);
        let from = (PsetId(0), self.links.psets());
        let Some(staging) = staging(job, program, staged, from, speed) else { return Ok(()) };
        let (bytes, free) = (staging.bytes(), self.smallest_free());
        if bytes > free {
            return Err(Refused::bad(format!(
                "cannot stage {bytes} bytes: a node has {free} bytes of memory free; stage less, or use \
                 `coppice up --memory` with more"
            )));
        }
        for (number, file) in staging.files.iter().enumerate() {
            staging.check(number, job.nodes_wanted()).map_err(|error| {
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
pub(super) fn of_job(job: &Job, store: &ProgramStore, links: &Links) -> (Option<Staging>, Vec<ByteString>) {
    let Some((_, first)) = job.ranks.iter().next() else { return (None, Vec::new()) };
    let program = job.is_sent_ahead().then_some(&*job.program);
    let nodes = job.ranks.by_node().map(|(node, _)| node);
    let speed = speed(links.to(nodes, first.pset, scheme(&job.submission)));
    let from = (first.pset, links.psets());
    let staging = staging(&job.submission, program, &job.staged, from, speed);
    let files = staging.iter().flat_map(|staging| &staging.files);
    let files = files.map(|file| path::bytes(store.path(file.content))).collect();
    (staging, files)
}

/// What a job would have staged if its program were, over links like these, its home being the I/O node of one of these
/// psets.
pub(super) fn with_program(
    job: &Job,
    from: (PsetId, PsetTable),
    links: impl IntoIterator<Item = LinkShapes>,
) -> Option<Staging> {
    staging(&job.submission, Some(&job.program), &job.staged, from, speed(links))
}

/// Over what files are broadcast that a job's nodes read, if they are: its links are known to be slow, as somebody said
/// how fast they are. Over others, what each node does for the others is more than what is saved.
pub(super) fn of_broadcasts(job: &Job, links: &Links) -> Option<(Staging, Bandwidth)> {
    let nodes = || job.ranks.by_node().map(|(node, _)| node);
    let home = job.ranks.psets().next().filter(|_| nodes().nth(1).is_some())?;
    let scheme = scheme(&job.submission);
    let bandwidth = Some(Bandwidth::of(links.to(nodes(), home, scheme))).filter(|link| link.is_stated)?;
    let speed = speed(links.to(nodes(), home, scheme));
    Some((over(Vec::new(), (home, links.psets()), scheme, speed), bandwidth))
}

/// How a job's files are to be sent.
pub(super) fn scheme(job: &Submission) -> distribution::Scheme {
    match job.scheme {
        Scheme::TwoTrees => distribution::Scheme::TwoTrees,
        Scheme::Tree => distribution::Scheme::published(job.nodes_wanted()),
    }
}

/// What a job asked to have staged, as it is recorded.
pub(super) fn asked(job: &Submission, program: &ProgramRow, staged: &[Held]) -> Vec<StagedView> {
    let is_program = job.stage_program == ProgramStaging::Always;
    let program = is_program.then_some(StagedView { path: None, bytes: program.bytes });
    let files = job.staged.iter().zip(staged);
    let files = files.map(|(asked, held)| StagedView { path: Some(asked.path.clone()), bytes: held.bytes });
    program.into_iter().chain(files).collect()
}

/// The program first, if it is to be; nothing if there is nothing to stage.
fn staging(
    job: &Submission,
    program: Option<&ProgramRow>,
    staged: &[Held],
    from: (PsetId, PsetTable),
    speed: (u64, u32),
) -> Option<Staging> {
    let program = program.map(|row| StagedFile { content: row.id, bytes: row.bytes, path: None });
    let files = job.staged.iter().zip(staged);
    let files = files.map(|(asked, held)| {
        let path = Some(asked.path.clone());
        StagedFile { content: held.id, bytes: held.bytes, path }
    });
    let files: Vec<StagedFile> = program.into_iter().chain(files).collect();
    (!files.is_empty()).then(|| over(files, from, scheme(job), speed))
}

/// Files that are sent so, home being the I/O node of one of these psets, over links with that bandwidth, bytes/s, and
/// latency, ns.
pub(super) fn over(
    files: Vec<StagedFile>,
    (home, psets): (PsetId, PsetTable),
    scheme: distribution::Scheme,
    (bytes_per_second, latency_ns): (u64, u32),
) -> Staging {
    Staging { home, psets, mtu: MTU, bytes_per_second, latency_ns, stall_ns: STALL_NS, scheme, files }
}

/// The part of a link's bandwidth that is left for all else that goes over it. Without, what the link has not sent yet
/// only ever grows, and answers take longer and longer.
const LINK_SHARE_OF_OTHERS: u64 = 16;

/// Bandwidth of each link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bandwidth {
    /// What it is taken to be, bytes/s.
    pub(super) bytes_per_second: u64,
    /// Somebody said so.
    pub(super) is_stated: bool,
}

impl Bandwidth {
    /// That of the slowest of these links.
    pub(super) fn of(links: impl IntoIterator<Item = LinkShapes>) -> Self {
        let of_one = |stated: Option<u64>| {
            let bytes_per_second = stated.map_or(LINK_BYTES_PER_SECOND_DEFAULT, |bits| (bits / 8).max(1));
            Self { bytes_per_second, is_stated: stated.is_some() }
        };
        let directions = links.into_iter().flat_map(|LinkShapes { to, from }| [to, from]);
        let each = directions.map(|direction| of_one(direction.bandwidth_bits_per_s));
        each.min_by_key(|link| (link.bytes_per_second, !link.is_stated)).unwrap_or(of_one(None))
    }
}

/// Bandwidth of each link that transfers may use, bytes/s, and latency from node to node, ns, where a file passes these
/// links: nothing gets through a tree faster than through its slowest part.
pub(super) fn speed(links: impl IntoIterator<Item = LinkShapes>) -> (u64, u32) {
    let shaped = |bits: u64| (bits / 8 - bits / 8 / LINK_SHARE_OF_OTHERS).max(1);
    let links: Vec<LinkShapes> = links.into_iter().collect();
    let directions = links.iter().flat_map(|link| [link.to, link.from]);
    let most = directions.map(|way| way.bandwidth_bits_per_s.map_or(LINK_BYTES_PER_SECOND_DEFAULT, shaped));
    let latency_ns = latency_ns(&links).saturating_add(HOP_NS);
    (most.min().unwrap_or(u64::MAX), u32::try_from(latency_ns).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use coppice_api::link::{LinkShape, LinkShapes};

    use super::{Bandwidth, HOP_NS, LINK_BYTES_PER_SECOND_DEFAULT, speed};

    fn shape(bits: u64, latency_ns: u64) -> LinkShape {
        LinkShape { bandwidth_bits_per_s: Some(bits), latency_ns, ..LinkShape::default() }
    }

    #[test]
    fn links_are_as_fast_as_was_said() {
        assert_eq!(speed([LinkShapes::default()]), (LINK_BYTES_PER_SECOND_DEFAULT, HOP_NS as u32));
        let told = |bits, latency_ns| speed([LinkShapes::both(shape(bits, latency_ns))]);
        assert_eq!(told(1_000_000_000, 2_000_000), (117_187_500, 4_050_000));
        assert_eq!(told(1, u64::MAX), (1, u32::MAX));
    }

    #[test]
    fn the_slowest_of_them_counts_whichever_way() {
        let fast = LinkShapes::both(shape(1_000_000_000, 1_000_000));
        let slow_to = LinkShapes { to: shape(10_000_000, 3_000_000), ..fast };
        let slow_from = LinkShapes { from: shape(80_000_000, 7_000_000), ..fast };
        assert_eq!(speed([fast, slow_to, slow_from]), (1_171_875, 10_050_000));
        // What nobody said anything of is not taken for faster than it is by itself.
        assert_eq!(speed([fast, LinkShapes::default()]), (LINK_BYTES_PER_SECOND_DEFAULT, 2_050_000));
        let bandwidth = |links: &[LinkShapes]| {
            let Bandwidth { bytes_per_second, is_stated } = Bandwidth::of(links.iter().copied());
            (bytes_per_second, is_stated)
        };
        assert_eq!(bandwidth(&[fast, slow_to, slow_from]), (1_250_000, true));
        assert_eq!(bandwidth(&[fast, LinkShapes::default()]), (LINK_BYTES_PER_SECOND_DEFAULT, false));
        assert_eq!(bandwidth(&[]), (LINK_BYTES_PER_SECOND_DEFAULT, false));
    }
}
