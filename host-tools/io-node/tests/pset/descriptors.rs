//! Files that jobs have open, of as many as the I/O node may have open.

use coppice_protocol::control::ToNode;
use coppice_protocol::ids::{JobId, NodeId, Rank};
use coppice_protocol::limits::HANDLES_PER_RANK_KEPT;
use coppice_protocol::pset::{FromPset, Member, StartJob, ToPset};
use coppice_protocol::session::Identity;
use coppice_protocol::ship::{Call, Handle, Location, Owner, Reply};

use crate::common::{JOB, OWNER, Pset, RANK, identity, run};
use crate::node::Node;
use crate::{one_end, report};

const ENFILE: u16 = 23;

/// What the I/O node may have open: what it keeps back for itself, and this for jobs.
const FOR_JOBS: u64 = 400;
const LIMIT: u64 = coppice_io_node::limits::DESCRIPTORS_OWN as u64 + FOR_JOBS;

async fn open(node: &mut Node, owner: Owner) -> Result<Handle, u16> {
    let at = Location { directory: None, path: "/file".into() };
    let id = node.request(owner, Call::Open { at, flags: 0, mode: 0 }, &[]);
    let (answered, reply, _) = node.reply().await;
    assert_eq!(answered, id);
    match reply.plain() {
        Reply::Opened { handle, .. } => Ok(handle),
        Reply::Failed(errno) => Err(errno),
        other => panic!("{other:?} for open"),
    }
}

/// Opens as many as it gets.
async fn open_all(node: &mut Node, owner: Owner) -> Vec<Handle> {
    let mut handles = Vec::new();
    loop {
        match open(node, owner).await {
            Ok(handle) => handles.push(handle),
            Err(errno) => {
                assert_eq!(errno, ENFILE);
                return handles;
            }
        }
    }
}

#[test]
fn a_job_that_opens_all_it_can_leaves_others_theirs() {
    run(async {
        let mut pset = Pset::start_with_files(Some(LIMIT)).await;
        std::fs::write(pset.root().join("file"), "x").unwrap();
        pset.add_node(1).await;
        let mut greedy = pset.ready_node(1).await;
        let other = Identity { node: NodeId(1), ..identity(1) };
        pset.add(other).await;
        let mut modest = pset.ready(other).await;

        pset.send(ToPset::Start(pset.job())).await;
        assert!(matches!(greedy.control.message().await, ToNode::Launch(_)));
        let held = open_all(&mut greedy, OWNER).await;
        let (most, least) = (FOR_JOBS as usize * 7 / 8, FOR_JOBS as usize * 3 / 8);
        assert!((least..most).contains(&held.len()), "{}", held.len());

        // Another one starts, and has what is kept for its ranks, whatever the first does.
        let members = vec![Member { first: RANK, count: 1, node: NodeId(1), use_retained: false, restore: None }];
        let second = StartJob { job: JobId(42), members, ..pset.job() };
        pset.send(ToPset::Start(second)).await;
        assert!(matches!(modest.control.message().await, ToNode::Launch(_)));
        let owner = Owner { job: JobId(42), rank: RANK };
        for _ in 0..HANDLES_PER_RANK_KEPT {
            assert!(open(&mut modest, owner).await.is_ok());
            assert_eq!(open(&mut greedy, OWNER).await, Err(ENFILE));
        }
        // And its share of the rest: the files that the first closes are not all the first's again.
        for handle in held {
            assert!(matches!(greedy.call(Call::Close(handle), &[]).await.0.plain(), Reply::Status(_)));
        }
        assert!(open_all(&mut modest, owner).await.len() > least - HANDLES_PER_RANK_KEPT);
        assert!(!open_all(&mut greedy, OWNER).await.is_empty());

        // One whose ranks cannot even have those is refused with the reason.
        let members = vec![Member { first: Rank(0), count: 64, node: NodeId(1), use_retained: false, restore: None }];
        let third = StartJob { job: JobId(43), size: 64, members, ..pset.job() };
        pset.send(ToPset::Start(third)).await;
        match pset.receive().await {
            FromPset::Refused { job: JobId(43), reason, .. } => assert!(reason.contains("64 ranks need"), "{reason}"),
            other => panic!("{other:?} for a job with too many ranks"),
        }
        assert_eq!(JOB, OWNER.job);
    });
}

/// How often the I/O node has the root's file open.
fn count_open(pset: &Pset) -> usize {
    let open = std::fs::read_dir(format!("/proc/{}/fd", pset.process())).unwrap();
    let names = open.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
    names.filter(|name| *name == pset.root().join("file")).count()
}

#[test]
fn whoever_hears_of_a_ranks_end_finds_its_files_closed() {
    const FILES: usize = 1000;
    run(async {
        let (mut pset, mut node) = Pset::with_job().await;
        std::fs::write(pset.root().join("file"), "x").unwrap();
        for _ in 0..FILES {
            open(&mut node, OWNER).await.unwrap();
        }
        assert_eq!(count_open(&pset), FILES);
        node.control.send(0, &one_end(report()), &[]);
        assert!(matches!(pset.receive().await, FromPset::Ended(_)));
        assert_eq!(count_open(&pset), 0);
    });
}
