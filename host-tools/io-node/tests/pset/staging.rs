//! The I/O node as home of a file that a job stages: its one node, which is the test, gets all of it.

use std::collections::BTreeMap;
use std::time::Duration;

use coppice_endpoint::DatagramPort;
use coppice_io_node::clock::Clock;
use coppice_io_node::limits::TRANSFERS_MAX;
use coppice_io_node::link::Device;
use coppice_protocol::control::ToNode;
use coppice_protocol::distribution::packet::TransferKey;
use coppice_protocol::distribution::{Outcome, Party, Plan, Scheme, Step};
use coppice_protocol::ids::{JobId, ProgramId, PsetId};
use coppice_protocol::limits::STAGED_FILES_MAX;
use coppice_protocol::program::{PAGE_BYTES, tree};
use coppice_protocol::pset::{FromPset, StartJob, ToPset};
use coppice_protocol::psets::PsetTable;
use coppice_protocol::staging::{Roster, StagedFile, Staging};
use coppice_protocol::world::{JobKey, World};

use rustix::fs::{Advice, fadvise};

use crate::common::{JOB, NODE, Pset, RANK, run};

/// Six whole pieces and a part of one, whose last page is short.
const BYTES: usize = 6 * 32 * 1024 + 4096 + 77;

/// Puts a file there with its tree, and gives a job that stages it.
pub(crate) fn stage(pset: &Pset) -> (StartJob, Vec<u8>) {
    let file: Vec<u8> = (0..BYTES).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let nodes = tree::of(&file);
    for (name, bytes) in [("staged", &file[..]), ("staged.tree", nodes.as_flattened())] {
        std::fs::write(pset.dir.path().join(name), bytes).unwrap();
        // Not in memory, so that it is read on threads; on file systems that have a disk.
        let written = std::fs::File::open(pset.dir.path().join(name)).unwrap();
        written.sync_all().unwrap();
        fadvise(&written, 0, None, Advice::DontNeed).unwrap();
    }
    let staged = StagedFile { content: ProgramId(nodes[0]), bytes: BYTES as u64, path: Some("/data".into()) };
    let mut spec = pset.job();
    spec.world = World::new(JobKey([7; 32]), 1, [NODE]);
    spec.staging = Some(Box::new(Staging {
        home: PsetId(0),
        psets: PsetTable::new(2, 1),
        mtu: 9000,
        bytes_per_second: 20_000_000,
        latency_ns: 100_000,
        stall_ns: 0,
        scheme: Scheme::TwoTrees,
        files: vec![staged],
    }));
    spec.staged_files = vec![pset.dir.path().join("staged").to_str().unwrap().into()];
    (spec, file)
}

/// The member that the test plays.
pub(crate) struct Member {
    party: Party,
    plan: Plan,
    content: ProgramId,
    packets: BTreeMap<(u32, u32), Vec<u8>>,
    port: DatagramPort<Device>,
    clock: Clock,
}

impl Member {
    fn new(spec: &StartJob, port: DatagramPort<Device>, clock: Clock) -> Self {
        let staging = spec.staging.as_ref().unwrap();
        let roster = Roster::new(staging, &spec.world).unwrap();
        let plan = staging.plan(JOB, 0, &roster).unwrap();
        let key = Staging::key(&spec.world.key, JOB, 0);
        Self::of(plan, key, roster, staging.files[0].content, (port, clock))
    }

    /// The node among these, to which a file comes.
    pub(crate) fn of(
        plan: Plan,
        key: TransferKey,
        roster: Roster,
        content: ProgramId,
        (port, clock): (DatagramPort<Device>, Clock),
    ) -> Self {
        let me = roster.member_of(NODE).unwrap();
        let party = Party::new(&plan, key, roster, me, 5, clock.now_ns()).unwrap();
        Self { party, plan, content, packets: BTreeMap::new(), port, clock }
    }

    /// The bytes of a piece.
    fn bytes(&self, piece: u32) -> Vec<u8> {
        let data = self.packets.range((piece, 0)..(piece + 1, 0));
        data.filter(|((_, packet), _)| !self.plan.is_proof(piece, *packet))
            .flat_map(|(_, bytes)| bytes.clone())
            .collect()
    }

    fn is_right(&self, piece: u32) -> bool {
        let first = u64::from(piece) * u64::from(self.plan.piece_bytes) / PAGE_BYTES;
        let bytes = self.bytes(piece);
        let pages = (first..).zip(bytes.chunks(PAGE_BYTES as usize));
        let leaves: Vec<_> = pages.map(|(page, content)| tree::leaf(self.plan.bytes, page, content)).collect();
        let mut of_piece = self.packets.range((piece, 0)..(piece + 1, 0));
        let proof = of_piece.find(|((_, packet), _)| self.plan.is_proof(piece, *packet)).unwrap().1;
        let (beside, _) = proof.as_chunks();
        tree::program_of(self.plan.bytes, first, &leaves, beside) == Some(self.content)
    }

    /// Does what there is to do; says if that was the end.
    fn work(&mut self) -> Option<Outcome> {
        let now_ns = self.clock.now_ns();
        while let Some((source, datagram)) = self.port.receive() {
            let packets = &mut self.packets;
            let keep = |piece, packet, bytes: &[u8]| drop(packets.insert((piece, packet), bytes.to_vec()));
            self.party.receive(source, &datagram, now_ns, keep).unwrap();
        }
        self.party.machine().advance(now_ns);
        let mut ended = None;
        while let Some(step) = self.party.next(now_ns) {
            match step {
                Step::Datagram { to, bytes } => self.port.send(to, bytes),
                Step::Check { piece } => self.party.checked(piece, self.is_right(piece), now_ns),
                Step::End(outcome) => ended = Some(outcome),
                Step::Packets { .. } => panic!("nobody is below"),
                Step::Wrong { piece, .. } => panic!("piece {piece} is wrong"),
            }
        }
        ended
    }

    /// The whole file.
    pub(crate) async fn get(&mut self) -> Vec<u8> {
        loop {
            if let Some(outcome) = self.work() {
                assert_eq!(outcome, Outcome::Whole);
                // Home hears of it.
                for _ in 0..100 {
                    assert_eq!(self.work(), None);
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                return (0..self.plan.pieces()).flat_map(|piece| self.bytes(piece)).collect();
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Forgets everything, as a node that comes late.
    fn again(self, spec: &StartJob) -> Self {
        Self::new(spec, self.port, self.clock)
    }
}

#[test]
fn a_node_gets_a_staged_file_until_the_job_goes() {
    run(async {
        let (mut pset, node) = Pset::with_node().await;
        let (spec, file) = stage(&pset);
        let (port, clock) = pset.open_distribution();
        pset.send(ToPset::Start(spec.clone())).await;
        let mut member = Member::new(&spec, port, clock);
        assert!(member.get().await == file);
        let tally = member.party.tally();
        assert_eq!((tally.wrong, member.plan.pieces()), (0, 7));
        let ToNode::Launch(launch) = node.control.message().await else { panic!("no launch") };
        assert_eq!((launch.first, launch.staging.as_ref()), (RANK, spec.staging.as_deref()));

        // The service node is told what that took.
        let FromPset::Transferred(end) = pset.receive().await else { panic!("no end") };
        assert_eq!((end.of, end.pieces, end.lost), (Staging::file(JOB, 0), 7, 0));
        assert!(end.first_lost.is_empty() && end.answered <= tally.asked, "{end:?}, {tally:?}");
        // Each piece once with what goes with it, and what was asked for; home keeps to the link.
        let wire = |piece| member.plan.wire_bytes(piece, member.plan.packets(piece));
        let once: u64 = (0..7).map(wire).sum();
        assert!((BYTES as u64..=once + end.answered * wire(0)).contains(&end.bytes_sent), "{end:?}");
        assert!(end.elapsed_ns >= member.plan.link_ns(BYTES as u64) / 2, "{end:?}");

        // Who comes late gets it, too: not by itself, but when it asks.
        let mut member = member.again(&spec);
        assert!(member.get().await == file);
        assert!(member.party.tally().asked > 0);

        // Without a job there is no home: nothing comes any more, whatever is asked.
        pset.send(ToPset::Forget { job: JOB }).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        let mut member = member.again(&spec);
        while member.port.receive().is_some() {}
        for _ in 0..500 {
            assert_eq!(member.work(), None);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(member.packets.is_empty());
    });
}

#[test]
fn a_job_whose_staged_files_cannot_be_read_is_refused() {
    run(async {
        let (mut pset, node) = Pset::with_node().await;
        let (good, _) = stage(&pset);
        let mut missing = good.clone();
        missing.staged_files = vec![pset.dir.path().join("nowhere").to_str().unwrap().into()];
        let mut longer = good.clone();
        longer.staging.as_mut().unwrap().files[0].bytes += 1;
        let mut unnamed = good.clone();
        unnamed.staged_files.clear();
        let cases = [(missing, "nowhere: "), (longer, "cannot read staged file"), (unnamed, "1 files that lie at 0")];
        for (spec, expected) in cases {
            pset.send(ToPset::Start(spec)).await;
            match pset.receive().await {
                FromPset::Refused { job: JOB, ranks, reason } if ranks == RANK.into() => {
                    assert!(reason.contains(expected), "{reason}")
                }
                other => panic!("{other:?} for {expected}"),
            }
        }
        // Another pset is their home: what is not here comes from there.
        let mut elsewhere = good;
        elsewhere.staging.as_mut().unwrap().home = PsetId(1);
        elsewhere.staged_files = vec![pset.dir.path().join("nowhere").to_str().unwrap().into()];
        pset.send(ToPset::Start(elsewhere)).await;
        assert!(matches!(node.control.message().await, ToNode::Launch(_)));
    });
}

#[test]
fn no_more_files_are_staged_at_once_than_there_may_be() {
    run(async {
        let (mut pset, node) = Pset::with_node().await;
        let (mut spec, _) = stage(&pset);
        let staging = spec.staging.as_mut().unwrap();
        staging.files = vec![staging.files[0].clone(); STAGED_FILES_MAX];
        spec.staged_files = vec![spec.staged_files[0].clone(); STAGED_FILES_MAX];
        let jobs = u32::try_from(TRANSFERS_MAX / STAGED_FILES_MAX).unwrap();
        let job = |number| ToPset::Start(StartJob { job: JobId(number), ..spec.clone() });
        for number in 0..jobs {
            pset.send(job(number.into())).await;
            assert!(matches!(node.control.message().await, ToNode::Launch(_)));
        }
        pset.send(job(jobs.into())).await;
        match pset.receive().await {
            FromPset::Refused { reason, .. } => assert!(reason.contains("0 more of them now"), "{reason}"),
            other => panic!("{other:?}"),
        }
        // When one goes, there is room for the next.
        pset.send(ToPset::Forget { job: JobId(0) }).await;
        assert!(matches!(node.control.message().await, ToNode::Kill { .. }));
        pset.send(job(jobs.into())).await;
        assert!(matches!(node.control.message().await, ToNode::Launch(_)));
    });
}
