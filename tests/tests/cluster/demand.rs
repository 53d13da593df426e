//! Demand paging: only touched pages come over the network, and `coppice job` says how many did.

use coppice_tests::Cluster;
use coppice_tests::guests::{BUSYBOX, Toolchain, program};

/// Numbers of the one rank of the last job.
fn report(cluster: &Cluster, field: &str) -> u64 {
    let job = cluster.last_job();
    job["rank_reports"][0][field].as_u64().unwrap_or_else(|| panic!("no {field} in {job}"))
}

#[test]
fn untouched_pages_are_not_fetched() {
    let cluster = Cluster::up(1);
    let path = program("sparse", Toolchain::Glibc);
    let file_pages = std::fs::metadata(&path).expect("program").len().div_ceil(4096);
    assert!(file_pages > 4096, "the program has only {file_pages} pages");
    let _ = cluster.run(&[&*path.to_string_lossy()]).success();
    // Four pages of 16 MiB are touched; the rest is the C library and what is read ahead.
    let fetched = report(&cluster, "pages_fetched");
    assert!((10..1024).contains(&fetched), "{fetched} of {file_pages} pages fetched");
    assert!(report(&cluster, "page_faults") > 0);
    // Untouched memory costs nothing: the program reserves more than the node has.
    assert!(report(&cluster, "pages_peak") < 2048);
}

#[test]
fn job_counts_calls_and_bytes() {
    let cluster = Cluster::up(1);
    std::fs::write(cluster.root().join("in"), vec![7u8; 1_000_000]).expect("file");
    let _ = cluster.run(&[BUSYBOX, "dd", "if=in", "of=out", "bs=100000"]).success();
    assert!(report(&cluster, "bytes_read") >= 1_000_000);
    assert!(report(&cluster, "bytes_written") >= 1_000_000);
    let job = cluster.last_job();
    let calls = |name: &str| {
        let all = job["rank_reports"][0]["syscalls"].as_array().expect("calls").clone();
        all.iter().find(|call| call["name"] == name).map_or(0, |call| call["calls"].as_u64().expect("count"))
    };
    // Ten blocks, and at most three lines of summary.
    assert!((10..=13).contains(&calls("write")), "{job}");
    assert!(calls("read") >= 10, "{job}");
}

/// A call that Coppice does not have answers ENOSYS and is visible by number.
#[test]
fn unknown_calls_are_counted() {
    let cluster = Cluster::up(1);
    let path = program("unknown_call", Toolchain::Musl);
    let ran = cluster.run(&[&*path.to_string_lossy()]).success();
    assert_eq!(ran.text(), "refused with ENOSYS\n");
    let job = cluster.last_job();
    let calls = job["rank_reports"][0]["syscalls"].as_array().expect("calls");
    let unknown = calls.iter().find(|call| call["number"] == 153).unwrap_or_else(|| panic!("no vhangup in {job}"));
    assert_eq!((unknown["calls"].as_u64(), unknown["unknown"].as_u64()), (Some(2), Some(2)), "{job}");
}
