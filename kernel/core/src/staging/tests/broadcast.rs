//! Files that ranks read and that come by themselves: read as they are, in whatever order that happens, and given back.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::pin::pin;

use coppice_protocol::broadcast::Broadcast;
use coppice_protocol::broadcast::limits::BROADCASTS_PER_JOB_MAX;
use coppice_protocol::ids::PsetId;
use coppice_protocol::lease::{FileId, Grant, Lease};
use coppice_protocol::limits::STAGED_FILES_MAX;
use coppice_protocol::ship::FileStatus;
use coppice_protocol::staging::{Roster, Staging as Staged};

use super::{At, Fault, JOB, KEY, NODES, Node, Wires, draw, file, home_of, node, node_of, staged, world};
use crate::errno::Errno;
use crate::executor;
use crate::files::cache::CachedFile;
use crate::memory::Spare;
use crate::process::testing::pool;
use crate::staging::Expected;

const VERSION: u64 = 7;
const FILE: FileId = FileId { device: 1, inode: 2 };
const LENGTH: usize = 300_001;

/// The broadcast of such a file.
fn broadcast(bytes: &[u8], number: u8) -> Broadcast {
    let staging = Staged { files: staged(&[bytes.to_vec()]).files, ..staged(&[]) };
    Broadcast { job: JOB, number, file: FILE, version: VERSION, staging }
}

/// A rank of the node opens the file and gets a lease of that version.
fn open(node: &Node, version: u64) -> Arc<CachedFile> {
    let status = FileStatus { device: 1, inode: 2, size: LENGTH as u64, ..FileStatus::default() };
    let grant = Grant { lease: Lease::Shared, number: version, known: version, version };
    let cache = &node.job.cache;
    cache.opened(&status, Some((grant, &[])), cache.opening().expect("memory"))
}

/// The node hears of a broadcast and takes part.
fn hears(node: &Node, order: Broadcast) -> Result<(), Errno> {
    let (job, site) = (&node.job, node.facts.as_site());
    let expected = Expected::new(order, (job.as_tenant(), &job.staging), &job.cache, site)?;
    assert!(executor::spawn(expected.join(&job.staging, site)?.make()).is_ok());
    Ok(())
}

/// Home sends it until all have it or are lost, which are said.
async fn home(wires: &Arc<Wires>, bytes: &[u8], order: &Broadcast) -> Vec<u32> {
    let roster = Roster::new(&order.staging, &world()).expect("memory");
    let plan = order.plan(&roster).expect("a plan");
    home_of(At(Arc::clone(wires), PsetId(0).address()), bytes, roster, plan, order.key(&KEY)).await.0
}

/// All pages of the file, one after the other, as they come.
async fn reads(file: &CachedFile) -> Option<Vec<u8>> {
    for page in 0..LENGTH.div_ceil(4096) as u64 {
        if !file.awaits(page).await {
            return None;
        }
    }
    file.known_bytes(0, LENGTH)
}

#[test]
fn all_nodes_read_what_was_sent_while_it_comes() {
    let faults: [Fault; 2] = [|_, _, _| true, |_, to, datagram| draw(datagram, to) >= 10];
    for fault in faults {
        let done = executor::run_to_end(async move {
            let (wires, bytes) = (Wires::new(fault), file(LENGTH));
            let order = broadcast(&bytes, 3);
            let nodes: Vec<Node> = (0..NODES).map(|number| node(&wires, number, &staged(&[]))).collect();
            // The last one opens it when it is there.
            let files: Vec<_> = nodes[1..].iter().map(|node| open(node, VERSION)).collect();
            for node in &nodes {
                assert_eq!(hears(node, order.clone()), Ok(()));
                assert_eq!(hears(node, order.clone()), Err(Errno::EEXIST), "it may be said twice");
            }
            let read = async {
                for file in &files {
                    assert_eq!(reads(file).await, Some(bytes.clone()));
                }
                core::future::pending::<()>().await;
            };
            let executor::Either::First(lost) = executor::race(home(&wires, &bytes, &order), pin!(read)).await else {
                panic!("it never ends")
            };
            assert_eq!(lost, []);
            for node in &nodes {
                let file = open(node, VERSION);
                assert_eq!(reads(&file).await, Some(bytes.clone()));
                // Before the next begins, or the job ends.
                if node.job.node.0 > 1 {
                    while node.job.staging.leaves_broadcasts() > 0 {
                        executor::sleep(1_000_000).await;
                    }
                }
                node.job.staging.settle().await;
                let counts = node.job.staging.counts();
                assert_eq!(counts.iter().map(|counts| counts.file).collect::<Vec<_>>(), [STAGED_FILES_MAX as u8 + 3]);
                assert_eq!(node.job.staging.counts(), [], "once");
            }
        });
        assert_eq!(done, Ok(()));
    }
}

#[test]
fn what_came_is_believed_only_of_the_version_that_it_is_of() {
    let done = executor::run_to_end(async {
        let (wires, bytes) = (Wires::new(|_, _, _| true), file(LENGTH));
        let order = broadcast(&bytes, 0);
        let nodes: Vec<Node> = (0..NODES).map(|number| node(&wires, number, &staged(&[]))).collect();
        let older = open(&nodes[0], VERSION - 1);
        nodes.iter().for_each(|node| assert_eq!(hears(node, order.clone()), Ok(())));
        assert_eq!(home(&wires, &bytes, &order).await, []);
        assert!(!older.awaits(0).await);
        // The lease goes, and with it what came.
        let right = open(&nodes[1], VERSION);
        assert!(right.awaits(0).await && right.known_bytes(0, 4096).is_some());
        nodes[1].job.cache.is_unsure(right.identity());
        assert!(!right.awaits(1).await && right.known_bytes(0, 4096).is_none());
    });
    assert_eq!(done, Ok(()));
}

#[test]
fn nobody_waits_for_what_does_not_come() {
    let done = executor::run_to_end(async {
        let wires = Wires::new(|_, _, _| false);
        let node = node(&wires, 1, &staged(&[]));
        let file = open(&node, VERSION);
        assert_eq!(hears(&node, broadcast(&super::file(LENGTH), 0)), Ok(()));
        let begun_ns = executor::now_ns();
        assert!(!file.awaits(0).await, "it is asked for");
        let waited_ns = executor::now_ns() - begun_ns;
        assert!((1_000_000_000..5_000_000_000).contains(&waited_ns), "{waited_ns}");
        assert!(!file.awaits(0).await && executor::now_ns() - begun_ns == waited_ns, "nor does the next wait");
    });
    assert_eq!(done, Ok(()));
}

#[test]
fn its_memory_goes_when_somebody_wants_it_and_with_the_job() {
    let done = executor::run_to_end(async {
        let (wires, bytes) = (Wires::new(|_, _, _| true), file(LENGTH));
        let order = broadcast(&bytes, 0);
        let node_on = |number| node_of(&wires, number, &staged(&[]), pool());
        let nodes: Vec<Node> = (0..NODES).map(node_on).collect();
        let [opened, unopened] = [&nodes[0], &nodes[1]];
        let file = open(opened, VERSION);
        nodes.iter().for_each(|node| assert_eq!(hears(node, order.clone()), Ok(())));
        assert_eq!(home(&wires, &bytes, &order).await, []);
        for node in [opened, unopened] {
            let cache = &node.job.cache;
            assert!(cache.bytes() >= LENGTH as u64 && cache.oldest().is_some());
            assert!(cache.give_back());
            assert_eq!((cache.bytes(), cache.oldest()), (0, None));
        }
        assert!(!file.awaits(0).await, "it is asked for");
        // Of another node it goes with the job.
        let third = &nodes[2];
        assert!(third.job.cache.bytes() > 0);
        let _ = third.job.cache.end();
        assert_eq!(third.job.cache.bytes(), 0);
    });
    assert_eq!(done, Ok(()));
}

#[test]
fn a_node_takes_no_part_in_what_makes_no_sense_or_has_no_room() {
    let done = executor::run_to_end(async {
        let wires = Wires::new(|_, _, _| true);
        let node = node(&wires, 1, &staged(&[]));
        let bytes = file(LENGTH);
        let mut long = broadcast(&bytes, 0);
        long.staging.files[0].bytes = 200 << 20;
        let mut nothing = broadcast(&bytes, 1);
        nothing.staging.files.clear();
        let before = node.facts.quota.taken();
        let cases = [(long, Errno::ENOMEM), (nothing, Errno::EINVAL)];
        for (order, errno) in cases.into_iter().chain([(broadcast(&bytes, BROADCASTS_PER_JOB_MAX), Errno::EINVAL)]) {
            assert_eq!(hears(&node, order), Err(errno));
        }
        assert_eq!((node.facts.quota.taken(), node.job.cache.bytes()), (before, 0));
    });
    assert_eq!(done, Ok(()));
}
