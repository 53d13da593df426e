//! Models of a lease that is wanted back while the file is opened, closed and written on other cores.

use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_protocol::ids::{JobId, Rank};
use coppice_protocol::lease::{FileId, Grant, Lease};
use coppice_protocol::ship::{FileStatus, Handle};
use shuttle::thread;

use super::{CachedFile, FileCache, Leaseholder};
use crate::executor::check;
use crate::memory::{FileIdentity, Retention};
use crate::process::testing::pool;
use crate::quota::tests::quota;
use crate::ship::{Client, Ship};

const FILE: FileId = FileId { device: 1, inode: 2 };
const IDENTITY: FileIdentity = FileIdentity { device: FILE.device, inode: FILE.inode };

/// A job on a node.
#[derive(Clone)]
struct Node {
    cache: Arc<FileCache>,
    client: Client,
}

impl Node {
    fn new() -> Self {
        let cache = FileCache::new(pool(), &Arc::new(Retention::default()), &quota(), None);
        Self { cache, client: Ship::new().client(JobId(7), Rank(1)) }
    }

    /// A rank has opened the file, with the lease of that number or none.
    fn opened(&self, number: Option<u64>) -> Arc<CachedFile> {
        let status = FileStatus { device: FILE.device, inode: FILE.inode, size: 10, ..FileStatus::default() };
        let grant = number.map(|number| Grant { lease: Lease::Sole, number, known: 1, version: number });
        let opening = self.cache.opening().expect("memory");
        self.cache.opened(&status, grant.map(|grant| (grant, &[][..])), opening)
    }

    fn closed(&self) {
        self.cache.closed(IDENTITY);
    }

    fn recall(&self, number: u64) {
        self.cache.recall(&self.client, FILE, number);
    }

    /// Bytes wait to be written, with a handle of their own.
    fn wrote(&self, file: &CachedFile) {
        file.writes_with(&self.client, Handle(1));
        assert!(file.state.lock().unwritten.add(0..10));
    }

    /// Does all of that at a time, each on a core of its own.
    fn at_a_time<const N: usize>(&self, what: [fn(&Self); N]) {
        let doing = what.map(|does| {
            let node = self.clone();
            thread::spawn(move || does(&node))
        });
        doing.into_iter().for_each(|thread| thread.join().expect("no panic"));
    }

    fn given_back(&self) -> Vec<u64> {
        self.client.given_back()
    }
}

/// To the I/O node a rank that is opening the file has it open, so nothing but an answer ends the lease.
#[test]
fn a_lease_that_is_wanted_is_given_back_whoever_closes_and_opens_the_file() {
    check(|| {
        let node = Node::new();
        node.opened(Some(1));
        node.at_a_time([|node| node.recall(1), Node::closed, |node| drop(node.opened(None))]);
        assert_eq!(node.given_back(), [1]);
    });
}

#[test]
fn a_lease_is_given_back_once_all_is_written_or_lost() {
    check(|| {
        let node = Node::new();
        let file = node.opened(Some(1));
        node.opened(None);
        node.wrote(&file);
        node.at_a_time([|node| node.recall(1), Node::closed, |node| node.client.fail_writes()]);
        // If it came before there was anything.
        node.client.fail_writes();
        assert_eq!((node.given_back(), file.lease(), file.is_unwritten()), (Vec::from([1]), None, false));
    });
}

/// What is said of two opens may be looked at in any order, and after what came later.
#[test]
fn a_lease_that_was_given_back_is_not_had() {
    check(|| {
        let node = Node::new();
        let file = node.opened(None);
        node.at_a_time([|node| drop(node.opened(Some(1))), |node| drop(node.opened(Some(2))), |node| node.recall(2)]);
        assert_eq!((node.given_back(), file.lease()), (Vec::from([2]), None));
        assert_eq!(node.opened(Some(3)).lease(), Some(3));
    });
}
