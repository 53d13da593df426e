//! What the service node is told of a transfer: its end, and now and then how far it is.

use coppice_protocol::distribution::Party;
use coppice_protocol::ids::JobId;
use coppice_protocol::keep::KeepProgress;
use coppice_protocol::limits::LOST_NAMED_MAX;
use coppice_protocol::ras::RasEvent;
use coppice_protocol::staging::{Station, damaged_piece};
use coppice_protocol::transfer::{FileOfJob, TransferEnd, TransferProgress};
use tokio::sync::mpsc::{Receiver, Sender, UnboundedReceiver, UnboundedSender, channel, unbounded_channel};

use crate::clock::ns;
use crate::limits::{PROGRESS_PAUSE, PROGRESS_QUEUED_MAX};

/// Where homes say it.
#[derive(Clone, Debug)]
pub(super) struct Says {
    ends: UnboundedSender<TransferEnd>,
    progress: Sender<Said>,
}

/// Where it comes out.
#[derive(Debug)]
pub(crate) struct News {
    /// Each transfer has one.
    ends: UnboundedReceiver<TransferEnd>,
    progress: Receiver<Said>,
}

/// Something that is to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// A transfer of a job's file is over.
    Ended(TransferEnd),
    /// A transfer of a job's file goes on.
    GoesOn(TransferProgress),
    /// A transfer of a file that nodes are to keep goes on.
    KeptGoesOn(KeepProgress),
    /// A piece is not the file's.
    Damaged(RasEvent),
}

/// Both ends of it.
pub(super) fn news() -> (Says, News) {
    let ((ends, over), (progress, going)) = (unbounded_channel(), channel(PROGRESS_QUEUED_MAX));
    (Says { ends, progress }, News { ends: over, progress: going })
}

impl Says {
    // Without anybody who takes it nobody wants to know.

    pub(super) fn ended(&self, end: TransferEnd) {
        drop(self.ends.send(end));
    }

    /// A piece of a job's file, or of one that is to be kept, is not the file's. Whoever sent it is not asked again, so
    /// there are few of these; beyond what may wait they are in the log alone.
    pub(super) fn damaged(&self, job: Option<JobId>, piece: u32, from: Option<Station>) {
        let event = damaged_piece(job, piece, from);
        let _ = self.progress.try_send(Said::Damaged(event));
    }

    /// `progress` is what goes on.
    pub(super) fn goes_on(&self, progress: Said) {
        let _ = self.progress.try_send(progress);
    }
}

impl News {
    /// What is to be told next; nothing when the homes are no more.
    pub(crate) async fn next(&mut self) -> Option<Said> {
        tokio::select! {
            biased;
            end = self.ends.recv() => end.map(Said::Ended),
            progress = self.progress.recv() => progress,
        }
    }
}

/// What was last said of how far a transfer is.
#[derive(Debug)]
pub(super) struct Watch {
    said: (u32, u32),
    /// Nothing more is said before then, ns.
    quiet_until_ns: u64,
}

impl Watch {
    /// Of a transfer that begins now.
    pub(super) fn new(now_ns: u64) -> Self {
        Self { said: (0, 0), quiet_until_ns: now_ns + ns(PROGRESS_PAUSE) }
    }

    /// What is to be said now, if it is time for that and something has changed: the length of what all of those next
    /// to home have, bytes, and how many nodes have all of it.
    pub(super) fn look(&mut self, party: &mut Party, now_ns: u64) -> Option<(u64, u32)> {
        if now_ns < self.quiet_until_ns {
            return None;
        }
        let plan = party.plan().clone();
        let now = party.machine().progress();
        if std::mem::replace(&mut self.said, now) == now {
            return None;
        }
        self.quiet_until_ns = now_ns + ns(PROGRESS_PAUSE);
        let (pieces, whole) = now;
        let bytes = (u64::from(pieces) * u64::from(plan.piece_bytes)).min(plan.bytes);
        Some((bytes, whole))
    }
}

/// The end of a transfer that began at `begun_ns` and in which these members were lost.
pub(super) fn end_of(of: FileOfJob, party: &Party, begun_ns: u64, lost: &[u32], now_ns: u64) -> TransferEnd {
    let tally = party.tally();
    let nodes = || party.roster().nodes_of(lost);
    TransferEnd {
        of,
        pieces: party.plan().pieces(),
        elapsed_ns: now_ns.saturating_sub(begun_ns),
        bytes_sent: tally.bytes_sent,
        answered: tally.answered,
        lost: u32::try_from(nodes().count()).unwrap_or(u32::MAX),
        first_lost: nodes().take(LOST_NAMED_MAX).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use coppice_protocol::distribution::{HOME, Party, Scheme};
    use coppice_protocol::ids::{JobId, NodeId, ProgramId, PsetId};
    use coppice_protocol::psets::PsetTable;
    use coppice_protocol::staging::{Roster, StagedFile, Staging};
    use coppice_protocol::transfer::TransferProgress;
    use coppice_protocol::world::{JobKey, World};

    use super::{Said, Watch, end_of, news};
    use crate::clock::ns;
    use crate::limits::{PROGRESS_PAUSE, PROGRESS_QUEUED_MAX};

    /// Home of many nodes and a file of four pieces.
    fn party() -> Party {
        let file = StagedFile { content: ProgramId([1; 32]), bytes: 100_000, path: None };
        let (home, scheme) = (PsetId(1), Scheme::published(40));
        let links = (9000, 1_000_000, 0, 0);
        let (mtu, bytes_per_second, latency_ns, stall_ns) = links;
        let psets = PsetTable::new(40, 20);
        let staging = Staging { home, psets, mtu, bytes_per_second, latency_ns, stall_ns, scheme, files: vec![file] };
        let world = World::new(JobKey([2; 32]), 1, (0..40).map(NodeId));
        let roster = Roster::new(&staging, &world).expect("memory");
        let plan = staging.plan(JobId(1), 0, &roster).expect("a plan");
        assert_eq!(roster.address(HOME), Some(Ipv4Addr::from([10, 0, 0, 2])));
        Party::new(&plan, Staging::key(&world.key, JobId(1), 0), roster, HOME, 3, 0).expect("memory")
    }

    #[test]
    fn progress_is_said_now_and_then_and_only_if_there_is_any() {
        let mut party = party();
        party.machine().begin(0);
        let mut watch = Watch::new(0);
        let pause_ns = ns(PROGRESS_PAUSE);
        assert_eq!(watch.look(&mut party, pause_ns), None, "nothing was sent");
        party.machine().advance(pause_ns);
        assert_eq!(watch.look(&mut party, pause_ns - 1), None, "it is too early");
        let (bytes, whole) = watch.look(&mut party, pause_ns).expect("something was sent");
        assert!(whole == 0 && (32_768..=100_000).contains(&bytes), "{bytes} bytes, {whole} nodes");
        party.machine().advance(2 * pause_ns - 1);
        assert_eq!(watch.look(&mut party, 2 * pause_ns - 1), None, "it is too early again");
        let (more, _) = watch.look(&mut party, 2 * pause_ns).expect("more was sent");
        assert!(more > bytes);
        assert_eq!(watch.look(&mut party, 3 * pause_ns), None);
    }

    #[tokio::test]
    async fn ends_are_never_lost_and_progress_is_if_nobody_takes_it() {
        let (says, mut news) = news();
        let (mut party, of) = (party(), Staging::file(JobId(1), 0));
        let lost: Vec<u32> = (1..40).collect();
        let end = end_of(of, &party, 5, &lost, 12);
        assert_eq!((end.elapsed_ns, end.lost, end.pieces, end.first_lost.len()), (7, 39, 4, 16));
        let mut watch = Watch::new(0);
        party.machine().begin(0);
        party.machine().advance(ns(PROGRESS_PAUSE));
        let (bytes, whole) = watch.look(&mut party, ns(PROGRESS_PAUSE)).expect("something was sent");
        let progress = Said::GoesOn(TransferProgress { of, bytes, whole });
        for _ in 0..=PROGRESS_QUEUED_MAX {
            says.goes_on(progress.clone());
            says.ended(end.clone());
        }
        drop(says);
        let (mut ends, mut others) = (0, 0);
        while let Some(said) = news.next().await {
            match said {
                Said::Ended(_) => ends += 1,
                Said::GoesOn(_) | Said::KeptGoesOn(_) | Said::Damaged(_) => others += 1,
            }
        }
        assert_eq!(ends, PROGRESS_QUEUED_MAX + 1);
        assert!(others <= PROGRESS_QUEUED_MAX, "{others}");
    }
}
