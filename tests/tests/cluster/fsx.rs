//! An exerciser of files against a model (`tests/guests/c/fsx.c`): the same program with the same seed on the host and
//! on a node, with what nodes keep of files and without. It looks at every byte itself; here, what it says at its end
//! and the files it leaves are held against each other.
//!
//! The suite tries a few seeds; `COPPICE_SEED` begins elsewhere, and `COPPICE_SECONDS` goes on for so long.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use coppice_tests::guests::{Toolchain, program};
use coppice_tests::random::told;
use coppice_tests::{Cluster, host};

/// What is done to files for one seed.
const STEPS: u32 = 4000;
/// Seeds of the suite.
const SEEDS: u64 = 3;
/// Ranks that have the memory of one small node.
const RANKS: u64 = 3;

fn guest() -> PathBuf {
    program("fsx", Toolchain::Glibc)
}

/// The files of a directory, which are taken out of it.
fn taken(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path());
    let files = entries.filter(|path| path.is_file()).map(|path| {
        let bytes = std::fs::read(&path).expect("a file");
        std::fs::remove_file(&path).expect("it can be removed");
        (path.file_name().unwrap_or_default().to_string_lossy().into_owned(), bytes)
    });
    files.collect()
}

/// What the program says on the host and leaves behind.
#[track_caller]
fn on_the_host(seed: u64) -> (String, BTreeMap<String, Vec<u8>>) {
    let directory = tempfile::tempdir().expect("temporary directory");
    let ran = host::run(directory.path(), &guest(), &[seed.to_string(), STEPS.to_string()]);
    assert_eq!(ran.status, 0, "seed {seed} on the host: {}{}", ran.text(), ran.stderr);
    (ran.text(), taken(directory.path()))
}

/// Whether files are the same, without showing what is in them.
#[track_caller]
fn assert_same(one: &BTreeMap<String, Vec<u8>>, other: &BTreeMap<String, Vec<u8>>, when: &str) {
    assert!(one.keys().eq(other.keys()), "{when}: {:?} and {:?}", one.keys(), other.keys());
    for (name, bytes) in one {
        assert!(*bytes == other[name], "{when}: {name} of {} and {} bytes", bytes.len(), other[name].len());
    }
}

#[track_caller]
fn try_seed(cluster: &Cluster, seed: u64, io: &str) {
    let (told, files) = on_the_host(seed);
    let (guest, when) = (guest(), format!("seed {seed}, {io}"));
    let (seed, steps) = (seed.to_string(), STEPS.to_string());
    let ran = cluster.run(&["--io", io, guest.to_str().expect("a path"), &seed, &steps]);
    assert_eq!(ran.status, 0, "{when}: {}{}", ran.text(), ran.stderr);
    assert_eq!(ran.text(), told, "{when}");
    assert_same(&taken(cluster.root()), &files, &when);
}

#[test]
fn a_program_that_does_everything_to_files_finds_them_as_on_linux() {
    let cluster = Cluster::up(1);
    let first = told("COPPICE_SEED").unwrap_or(1);
    let end = told("COPPICE_SECONDS").map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let (mut tried, begun) = (0, Instant::now());
    while end.map_or(tried < SEEDS, |end| Instant::now() < end) {
        try_seed(&cluster, first + tried, "leased");
        tried += 1;
    }
    try_seed(&cluster, first + tried, "strict");
    println!("{tried} seeds in {:.0} s", begun.elapsed().as_secs_f64());
}

/// What is known of files goes when memory is wanted, and nothing of them is lost.
#[test]
fn several_ranks_of_a_small_node_find_their_files_as_on_linux() {
    let cluster = Cluster::up_with(&["--nodes", "1", "--memory", "32M"]);
    let first = told("COPPICE_SEED").unwrap_or(101);
    let (guest, ranks) = (guest(), RANKS.to_string());
    let (seed, steps) = (first.to_string(), STEPS.to_string());
    let path = guest.to_str().expect("a path");
    let ran = cluster.run(&["-n", &ranks, "--ranks-per-node", &ranks, path, &seed, &steps]);
    assert_eq!(ran.status, 0, "{}{}", ran.text(), ran.stderr);
    for rank in 0..RANKS {
        let files = taken(&cluster.root().join(format!("fsx-{rank}")));
        assert_same(&files, &on_the_host(first + rank).1, &format!("seed {first}, rank {rank}"));
    }
}
