//! What is known of the transfers of a job's staged files, and of files that its nodes read: their ends, of whoever has
//! the files, and what each node counted, with the report of one of its ranks.

use std::collections::BTreeSet;

use coppice_api::staging::Scheme;
use coppice_api::stream::{JobEvent, StagingProgress};
use coppice_api::transfer::{MembersView, Ratio, TransferView, link_ns};
use coppice_protocol::broadcast::limits::BROADCASTS_PER_JOB_MAX;
use coppice_protocol::broadcast::{self, BroadcastBegun};
use coppice_protocol::distribution;
use coppice_protocol::ids::{JobId, NodeId, PsetId};
use coppice_protocol::limits::LOST_NAMED_MAX;
use coppice_protocol::staging::{StagedFile, Staging};
use coppice_protocol::text::ByteString;
use coppice_protocol::transfer::{MemberCounts, TransferEnd, TransferProgress};

use super::staging::Bandwidth;
use super::{Controller, Now};
use crate::plant::Plant;
use crate::records::What;

/// The transfers of one job.
#[derive(Debug, Default)]
pub(super) struct Transfers {
    begun: Option<Begun>,
    /// Over what files that its nodes read are broadcast.
    broadcasts_over: Option<(Staging, Bandwidth)>,
    broadcasts: Vec<Broadcast>,
}

/// A file that is broadcast, as its nodes read it.
#[derive(Debug)]
struct Broadcast {
    begun: BroadcastBegun,
    transfer: Transfer,
}

/// What the job's I/O nodes were told.
#[derive(Debug)]
struct Begun {
    staging: Staging,
    link: Bandwidth,
    /// The psets whose I/O nodes take part.
    psets: BTreeSet<PsetId>,
    files: Vec<Transfer>,
}

/// One of them.
#[derive(Debug, Default)]
struct Transfer {
    end: Option<TransferEnd>,
    members: MembersView,
    /// How much of it is known to have gone, bytes, and to how many nodes all of it.
    gone: (u64, u32),
}

impl Transfers {
    /// The job's I/O nodes are told to stage this, over links of that bandwidth.
    pub(super) fn begin(&mut self, staging: Staging, link: Bandwidth, psets: BTreeSet<PsetId>) {
        let files = staging.files.iter().map(|_| Transfer::default()).collect();
        self.begun = Some(Begun { staging, link, psets, files });
    }

    /// The job's I/O node may broadcast files so, over links of that bandwidth.
    pub(super) fn may_broadcast(&mut self, staging: Staging, link: Bandwidth) {
        self.broadcasts_over = Some((staging, link));
    }

    /// It does. Whether that is news, and its to say.
    fn broadcast_begun(&mut self, pset: PsetId, begun: BroadcastBegun) -> bool {
        let may = self.broadcasts_over.as_ref().is_some_and(|(staging, _)| staging.home == pset);
        let is_one = broadcast::number_of(begun.of).is_some_and(|number| number < BROADCASTS_PER_JOB_MAX);
        let is_news = may && is_one && self.broadcasts.iter().all(|known| known.begun.of != begun.of);
        if is_news {
            self.broadcasts.push(Broadcast { begun, transfer: Transfer::default() });
        }
        is_news
    }

    /// An I/O node says that one is over. Whether that is news, and its to say.
    fn ended(&mut self, pset: PsetId, end: TransferEnd) -> bool {
        let is_home = self.broadcasts_over.as_ref().is_some_and(|(staging, _)| staging.home == pset);
        let is_it = |known: &&mut Broadcast| is_home && known.begun.of == end.of && known.transfer.end.is_none();
        if let Some(known) = self.broadcasts.iter_mut().find(is_it) {
            known.transfer.end = Some(end);
            return true;
        }
        let begun = self.begun.as_mut().filter(|begun| begun.staging.home == pset);
        let transfer = begun.and_then(|begun| begun.files.get_mut(usize::from(end.of.file)));
        let Some(transfer) = transfer.filter(|transfer| transfer.end.is_none()) else { return false };
        transfer.end = Some(end);
        true
    }

    /// An I/O node says how far one is. Gives how far all are, on so many nodes, if it is its to say.
    fn goes_on(&mut self, pset: PsetId, progress: TransferProgress, nodes: u32) -> Option<StagingProgress> {
        let begun = self.begun.as_mut().filter(|begun| begun.staging.home == pset)?;
        let transfer = begun.files.get_mut(usize::from(progress.of.file)).filter(|transfer| transfer.end.is_none())?;
        transfer.gone = (progress.bytes, progress.whole);
        let of = |(file, transfer): (&StagedFile, &Transfer)| match transfer.end {
            Some(_) => (file.bytes, nodes),
            None => (transfer.gone.0.min(file.bytes), transfer.gone.1.min(nodes)),
        };
        let all = begun.staging.files.iter().zip(&begun.files).map(of);
        let bytes = all.clone().fold(0_u64, |sum, (bytes, _)| sum.saturating_add(bytes));
        let whole = all.map(|(_, whole)| whole).min().unwrap_or(0);
        Some(StagingProgress { bytes, total: begun.staging.bytes(), whole, nodes })
    }

    /// Whether all of them are over.
    fn are_over(&self) -> bool {
        self.begun.iter().flat_map(|begun| &begun.files).all(|transfer| transfer.end.is_some())
    }

    /// A node says what it counted, once.
    pub(super) fn counted(&mut self, counts: &[MemberCounts]) {
        let staged = (0..).zip(self.begun.iter_mut().flat_map(|begun| &mut begun.files));
        let broadcasts = self.broadcasts.iter_mut().map(|known| (known.begun.of.file, &mut known.transfer));
        for (number, transfer) in staged.chain(broadcasts) {
            let Some(counts) = counts.iter().find(|counts| counts.file == number) else { continue };
            let sum = &mut transfer.members;
            sum.nodes = sum.nodes.saturating_add(1);
            sum.asked = sum.asked.saturating_add(counts.asked);
            sum.answered = sum.answered.saturating_add(counts.answered);
            sum.wrong = sum.wrong.saturating_add(counts.wrong);
            sum.crossed_bytes = sum.crossed_bytes.saturating_add(counts.crossed_bytes);
        }
    }

    /// How many of them go through the I/O node of a pset.
    pub(super) fn at(&self, pset: PsetId) -> usize {
        self.begun.iter().filter(|begun| begun.psets.contains(&pset)).map(|begun| begun.files.len()).sum()
    }

    /// Whether any of them is over.
    pub(super) fn have_ended(&self) -> bool {
        let staged = self.begun.iter().flat_map(|begun| &begun.files);
        let broadcasts = self.broadcasts.iter().map(|known| &known.transfer);
        staged.chain(broadcasts).any(|transfer| transfer.end.is_some())
    }

    /// Those that are over, of a job on these nodes.
    pub(super) fn views(&self, nodes: &[NodeId]) -> Vec<TransferView> {
        let staged = self.begun.iter().flat_map(|Begun { staging, link, files, .. }| {
            let of = |file: &StagedFile| (file.path.clone(), file.bytes, None);
            staging.files.iter().map(of).zip(files).map(move |(of, transfer)| (staging, link, of, transfer))
        });
        let broadcasts = self.broadcasts_over.iter().flat_map(|(staging, link)| {
            self.broadcasts.iter().map(move |Broadcast { begun, transfer }| {
                let of = (Some(begun.path.clone()), begun.bytes, Some(begun.opened));
                (staging, link, of, transfer)
            })
        });
        let view = |(staging, link, of, transfer): (_, &Bandwidth, _, _)| view(staging, *link, of, transfer, nodes);
        staged.chain(broadcasts).filter_map(view).collect()
    }
}

/// What is said of a file, its length, bytes, and how many nodes had it open if it was broadcast for that; if
/// its transfer is over.
fn view(
    staging: &Staging,
    link: Bandwidth,
    (path, bytes, readers): (Option<ByteString>, u64, Option<u32>),
    transfer: &Transfer,
    nodes: &[NodeId],
) -> Option<TransferView> {
    let end = transfer.end.as_ref()?;
    let (scheme, branches) = match staging.scheme {
        distribution::Scheme::TwoTrees => (Scheme::TwoTrees, None),
        distribution::Scheme::Branches { branches, .. } => (Scheme::Tree, Some(branches)),
    };
    Some(TransferView {
        path,
        bytes,
        readers,
        scheme,
        branches,
        pieces: end.pieces,
        nodes: u32::try_from(nodes.len()).unwrap_or(u32::MAX),
        link_bytes_per_second: link.bytes_per_second,
        link_is_stated: link.is_stated,
        elapsed_ns: end.elapsed_ns,
        times_bound: Ratio::of(end.elapsed_ns, link_ns(bytes, link.bytes_per_second)),
        home_bytes: end.bytes_sent,
        home_answered: end.answered,
        lost: end.lost,
        lost_nodes: end.first_lost.iter().take(LOST_NAMED_MAX).map(|node| node.0).collect(),
        members: Some(transfer.members).filter(|members| members.nodes > 0),
    })
}

impl<P: Plant> Controller<P> {
    /// An I/O node says that a transfer is over.
    pub(super) fn transfer_ended(&mut self, pset: PsetId, end: TransferEnd, now: Now) {
        let (id, is_staged) = (end.of.job, broadcast::number_of(end.of).is_none());
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if job.transfers.ended(pset, end) {
            job.launch_goes_on(now.instant);
            if is_staged && job.transfers.are_over() {
                job.feed.event(&JobEvent::Staged);
            }
            self.record_transfers(id, now);
        } else {
            tracing::warn!(pset = pset.0, job = id.0, "the end of a transfer that it has not");
        }
    }

    /// An I/O node broadcasts a file that a job's nodes read.
    pub(super) fn broadcast_begun(&mut self, pset: PsetId, begun: BroadcastBegun) {
        let id = begun.of.job;
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if !job.transfers.broadcast_begun(pset, begun) {
            tracing::warn!(pset = pset.0, job = id.0, "a broadcast that is none");
        }
    }

    /// An I/O node says how far a transfer is: whoever runs the job may want to know.
    pub(super) fn transfer_goes_on(&mut self, pset: PsetId, progress: TransferProgress, now: Now) {
        let Some(job) = self.jobs.get_mut(&progress.of.job) else { return };
        job.launch_goes_on(now.instant);
        if let Some(progress) = job.transfers.goes_on(pset, progress, job.submission.nodes_wanted()) {
            job.feed.progress(&JobEvent::Staging(progress));
        }
    }

    /// Records what is known of a job's transfers, if it has any that are over.
    pub(super) fn record_transfers(&mut self, id: JobId, now: Now) {
        let Some(job) = self.jobs.get(&id) else { return };
        let views = job.transfer_views();
        if !views.is_empty() {
            self.records.add(What::Transfers(id, views), now);
        }
    }
}
