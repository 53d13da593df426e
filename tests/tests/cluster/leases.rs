//! Files that several nodes use at a time, and of which nodes keep what they know.
//!
//! What ranks do to files follows from a seed (`tests/guests/c/coherence.c`), so each knows what it must see. The suite
//! tries a few seeds; `COPPICE_SEED` begins elsewhere, and `COPPICE_SECONDS` goes on for so long.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use coppice_tests::guests::{BUSYBOX, Toolchain, program};
use coppice_tests::physical::{Pattern, memory_of};
use coppice_tests::{Cluster, Waiting};

/// Ranks of each node, of two nodes.
const PER_NODE: u32 = 2;
/// What is done to files for one seed.
const STEPS: u32 = 1500;
/// Seeds of the suite.
const SEEDS: u64 = 4;

fn told(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

/// FNV-1a, as the guest has it.
fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Has ranks do what follows from a seed, and looks whether the files are what the guest says.
#[track_caller]
fn try_seed(cluster: &Cluster, path: &Path, seed: u64, io: &str) {
    let (ranks, per_node) = ((2 * PER_NODE).to_string(), PER_NODE.to_string());
    let (seed_text, steps) = (seed.to_string(), STEPS.to_string());
    let path = path.to_str().expect("a path");
    let command = ["-n", &ranks, "--ranks-per-node", &per_node, "--io", io, path, &seed_text, &steps, &per_node];
    let ran = cluster.run(&command);
    let text = ran.text();
    assert_eq!(ran.status, 0, "seed {seed}, {io}: {text}{}", ran.stderr);
    for line in text.lines() {
        let [name, length, digest] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let bytes = std::fs::read(cluster.root().join(name)).expect("it is there");
        assert_eq!((bytes.len().to_string(), format!("{:x}", sum(&bytes))), (length.into(), digest.into()), "{name}");
        std::fs::remove_file(cluster.root().join(name)).expect("it can be removed");
    }
}

#[test]
fn what_one_rank_wrote_every_other_reads_at_once() {
    let cluster = Cluster::up(2);
    let path = program("coherence", Toolchain::Glibc);
    let first = told("COPPICE_SEED").unwrap_or(1);
    let end = told("COPPICE_SECONDS").map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let (mut tried, begun) = (0, Instant::now());
    while end.map_or(tried < SEEDS, |end| Instant::now() < end) {
        try_seed(&cluster, &path, first + tried, "leased");
        tried += 1;
    }
    try_seed(&cluster, &path, first + tried, "strict");
    println!("{tried} seeds in {:.0} s", begun.elapsed().as_secs_f64());
}

/// A process of the host changes a name that a node keeps asking for.
#[test]
fn what_the_host_does_to_names_is_seen_soon() {
    let cluster = Cluster::up(1);
    let path = |name: &str| cluster.root().join(name);
    std::fs::write(path("there"), b"12345").expect("it is written");
    // Says what it sees as soon as that is something else, for some seconds.
    let script = "i=0; while [ $i -lt 400000 ]; do [ -e /there ] && s=there || s=gone; [ -e /moved ] && s=$s-moved; \
                  [ \"$s\" != \"$l\" ] && echo $s; l=$s; [ $s = gone-moved ] && exit 0; i=$((i+1)); done; exit 1";
    let waiting = std::thread::scope(|scope| {
        let running = scope.spawn(|| cluster.run(&[BUSYBOX, "sh", "-c", script]));
        std::thread::sleep(Duration::from_secs(3));
        std::fs::rename(path("there"), path("moved")).expect("it is renamed");
        running.join().expect("it runs")
    });
    let ran = waiting.success();
    assert!(ran.text().starts_with("there\n") && ran.text().ends_with("gone-moved\n"), "{}", ran.text());
}

/// Bytes that were to be written later and cannot be.
#[test]
fn what_a_full_disk_does_not_take_is_said_and_nothing_else_is_lost() {
    let small = |cluster: &Cluster| {
        let directory = cluster.root().join("small");
        std::fs::create_dir_all(&directory).map(|()| directory)
    };
    let cluster = Cluster::with_mounts(|cluster, mounts| {
        small(cluster).is_ok_and(|directory| mounts.mount_small_disk(&directory, 256))
    });
    let Some(cluster) = cluster else { return };
    let _ = cluster.coppice(&["up", "--accel", "tcg", "--nodes", "1"]).success();
    // At the close of a file, at a later write, and when it is to be on the disk.
    for (count, how) in [("80", "notrunc"), ("2000", "notrunc"), ("80", "fsync")] {
        let (count, how) = (format!("count={count}"), format!("conv={how}"));
        let dd = ["dd", "if=/dev/zero", "of=/small/file", "bs=4096", count.as_str(), how.as_str()];
        let ran = cluster.run(&[&[BUSYBOX], &dd[..]].concat());
        assert_eq!(ran.status, 1, "{count} {how}: {}", ran.stderr);
        assert!(ran.stderr.contains("No space left on device"), "{count} {how}: {}", ran.stderr);
        let _ = cluster.run(&[BUSYBOX, "rm", "/small/file"]).success();
    }
    let _ = cluster.run(&[BUSYBOX, "dd", "if=/dev/zero", "of=/small/fits", "bs=4096", "count=8"]).success();
    let ran = cluster.run(&[BUSYBOX, "wc", "-c", "/small/fits"]).success();
    assert_eq!(ran.text(), "32768 /small/fits\n");
}

/// What a program has written to a file that it has mapped is in the file when its end is told, however it ended.
#[test]
fn what_was_written_to_a_mapping_is_there_when_its_program_is_gone() {
    const BYTES: usize = 1_000_123;
    let cluster = Cluster::up(1);
    let path = program("maps_and_dies", Toolchain::Glibc);
    let before: Vec<u8> = Pattern::of_seed(41).bytes().iter().copied().cycle().take(BYTES).collect();
    let mut expected = before.clone();
    for (turn, byte) in expected.iter_mut().step_by(1000).enumerate() {
        *byte = byte.wrapping_add((turn + 1) as u8);
    }
    for (io, how, status) in [("leased", "abort", 134), ("leased", "beyond", 135), ("strict", "abort", 134)] {
        std::fs::write(cluster.root().join("mapped"), &before).expect("it is written");
        let ran = cluster.run(&["--io", io, path.to_str().expect("a path"), "/mapped", how]);
        assert_eq!(ran.status, status, "{io} {how}: {}", ran.stderr);
        assert!(std::fs::read(cluster.root().join("mapped")).expect("it is there") == expected, "{io} {how}");
    }
}

#[test]
fn nothing_of_a_file_is_left_when_its_job_has_ended() {
    const BYTES: usize = 400 * 1024;
    let cluster = Cluster::up(1);
    let path = program("keeps_open", Toolchain::Glibc);
    let pattern = Pattern::of_seed(36_001);
    let bytes: Vec<u8> = pattern.bytes().iter().copied().cycle().take(BYTES).collect();
    let secret = cluster.root().join("secret");
    std::fs::write(&secret, bytes).expect("it is written");
    std::fs::set_permissions(&secret, Permissions::from_mode(0o600)).expect("private");
    let waiting = Waiting::start(&cluster, &[path.to_str().expect("a path"), "/secret"], "read");
    let seen = memory_of(&cluster, 0).pages_with(&pattern).len();
    assert!(seen >= BYTES / 4096, "only {seen} pages of the file are there");
    let ran = waiting.go_on().success();
    assert!(ran.text().contains(&format!("{BYTES} bytes")), "{}", ran.text());
    memory_of(&cluster, 0).assert_none(&pattern, "the end of the job");
}
