//! What one job leaves and the next finds: as long as it is what is in the file, and as much as there may be.

use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_protocol::ids::{JobId, ProgramId, Rank};
use coppice_protocol::lease::{Grant, Lease};
use coppice_protocol::retain::HeldAs;
use coppice_protocol::ship::{FileStatus, Handle};

use super::LeftFiles;
use crate::files::cache::{CachedFile, FileCache, Leaves};
use crate::memory::{FileChange, FileIdentity, Retention, Spare};
use crate::process::testing::pool;
use crate::quota::tests::quota;
use crate::ship::Ship;

const PAGE: u64 = 4096;

fn program(number: u8) -> ProgramId {
    ProgramId([number; 32])
}

/// A job that runs a program, on a node with this.
fn job(left: &Arc<LeftFiles>, number: u8) -> Arc<FileCache> {
    let leaves = Leaves { files: Arc::clone(left), program: program(number) };
    FileCache::new(pool(), left.retention(), &quota(), Some(leaves))
}

/// Opens a file of two pages, of which bytes of one version are true and further ones are of another; all of it comes
/// with that or nothing.
fn open(cache: &FileCache, inode: u64, (known, version): (u64, u64), bytes: &[u8]) -> Arc<CachedFile> {
    let status = FileStatus { device: 1, inode, size: 2 * PAGE, mode: 0o100_644, ..FileStatus::default() };
    open_as(cache, &status, (known, version), bytes)
}

fn open_as(cache: &FileCache, status: &FileStatus, (known, version): (u64, u64), bytes: &[u8]) -> Arc<CachedFile> {
    let grant = Grant { lease: Lease::Shared, number: 1, known, version };
    cache.opened(status, Some((grant, bytes)), cache.opening().expect("memory"))
}

/// A job reads files and ends.
fn reads(left: &Arc<LeftFiles>, number: u8, inodes: core::ops::Range<u64>) {
    let cache = job(left, number);
    for inode in inodes {
        open(&cache, inode, (1, 1), &[7; 2 * PAGE as usize]);
        cache.closed(FileIdentity { device: 1, inode });
    }
    assert!(cache.end().is_none());
}

/// Pages of a file that a job finds whose bytes are of that version.
fn finds(left: &Arc<LeftFiles>, inode: u64, version: u64) -> u64 {
    let cache = job(left, 9);
    let file = open(&cache, inode, (version, version), &[]);
    let (found, bytes) = (file.take_found(), file.known_bytes(PAGE, 1));
    assert_eq!(found > 0, bytes == Some([7].to_vec()), "{found} pages, {bytes:?}");
    assert_eq!(file.take_found(), 0, "once");
    found
}

#[test]
fn a_job_finds_what_others_have_read_if_it_is_true() {
    let left = LeftFiles::new(&Arc::<Retention>::default());
    reads(&left, 1, 10..11);
    assert_eq!([finds(&left, 10, 1), finds(&left, 11, 1)], [2, 0]);
    assert_eq!([finds(&left, 10, 1), finds(&left, 10, 2), finds(&left, 10, 1)], [2, 0, 0], "it has changed");
    // Who wants none leaves none and takes none away.
    reads(&left, 1, 10..11);
    let cache = FileCache::new(pool(), left.retention(), &quota(), None);
    assert_eq!(open(&cache, 10, (1, 1), &[]).take_found(), 0);
    assert!(cache.end().is_none());
    assert_eq!(finds(&left, 10, 1), 2);
}

#[test]
fn what_a_job_has_changed_or_had_open_to_write_is_not_left() {
    let whole = [7; 2 * PAGE as usize];
    let changes: [fn(&FileCache, &Arc<CachedFile>); 4] = [
        |_, _| {},
        |cache, file| cache.changed(file.identity(), &FileChange::Written(0..1)),
        |_, file| file.writes_with(&Ship::new().client(JobId(1), Rank(0)), Handle(1)),
        |cache, file| cache.is_unsure(file.identity()),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let left = LeftFiles::new(&Arc::<Retention>::default());
        let cache = job(&left, 1);
        let file = open(&cache, 10, (1, 1), &whole);
        change(&cache, &file);
        let _ = cache.end();
        assert_eq!(left.bytes() > 0, number == 0, "change {number}");
    }
}

#[test]
fn what_not_everybody_may_read_is_not_left() {
    let left = LeftFiles::new(&Arc::<Retention>::default());
    for (mode, is_left) in [(0o100_600, false), (0o100_640, false), (0o100_604, true)] {
        let cache = job(&left, 1);
        let status = FileStatus { device: 1, inode: 10, size: 2 * PAGE, mode, ..FileStatus::default() };
        open_as(&cache, &status, (1, 1), &[7; 2 * PAGE as usize]);
        let _ = cache.end();
        assert_eq!(left.bytes() > 0, is_left, "{mode:o}");
    }
}

/// What was used longest ago goes first, whoever wants its memory or its place.
#[test]
fn so_much_is_left_and_no_more() {
    let left = LeftFiles::new(&Arc::<Retention>::default());
    reads(&left, 1, 0..3);
    reads(&left, 2, 3..4);
    assert_eq!(finds(&left, 0, 1), 2, "it is used again");
    let held = left.held();
    let said: Vec<_> = held.iter().map(|held| (held.program, held.pages, held.held_as)).collect();
    assert_eq!(said, [(program(9), 2, HeldAs::Read), (program(2), 2, HeldAs::Read), (program(1), 4, HeldAs::Read)]);
    assert_eq!(held.iter().map(|held| held.bytes).sum::<u64>(), left.bytes());
    assert!(left.retention().give_back(), "the second file of the first program");
    assert_eq!([finds(&left, 1, 1), finds(&left, 2, 1)], [0, 2]);
    let gone = left.discard(Some(program(2)));
    assert_eq!(gone.iter().map(|held| held.pages).collect::<Vec<_>>(), [2]);
    assert_eq!([finds(&left, 3, 1), finds(&left, 0, 1)], [0, 2]);
    left.discard_others(program(9));
    assert_eq!(finds(&left, 0, 1), 2);
    left.discard(None);
    assert_eq!((left.bytes(), left.oldest(), left.retention().bytes()), (0, None, 0));
    let left = LeftFiles::of_most(&Arc::default(), 3);
    reads(&left, 1, 0..5);
    assert_eq!([1, 2, 3, 4].map(|inode| finds(&left, inode, 1)), [0, 2, 2, 2]);
}
