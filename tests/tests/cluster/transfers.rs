//! How files and programs get to all nodes of a job, and what is recorded of that.

use std::process::Command;

use coppice_tests::Cluster;
use coppice_tests::guests::{BUSYBOX, Toolchain, program};
use serde_json::Value;

/// Where jobs find the staged file.
const PATH: &str = "/in/data";

const BYTES: usize = 4 << 20;

/// A number of a record.
#[track_caller]
fn number(record: &Value, name: &str) -> u64 {
    record[name].as_u64().unwrap_or_else(|| panic!("no number `{name}` in {record}"))
}

/// The one transfer of the last job.
#[track_caller]
fn transfer(cluster: &Cluster) -> Value {
    let job = cluster.last_job();
    let transfers = job["transfers"].as_array().unwrap_or_else(|| panic!("no transfers in {job}"));
    assert_eq!(transfers.len(), 1, "{job}");
    transfers[0].clone()
}

/// What `coppice job` says of the last one.
fn described(cluster: &Cluster) -> String {
    let number = cluster.last_job()["job"].to_string();
    cluster.coppice(&["job", &number]).success().text()
}

#[test]
fn a_file_reaches_all_nodes_by_both_schemes_and_the_job_says_how() {
    let cluster = Cluster::up_with(&["--nodes", "8", "--bandwidth", "100M"]);
    let path = cluster.root().join("file");
    let content: Vec<u8> = (0..BYTES as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 53) as u8).collect();
    std::fs::write(&path, content).expect("written");
    let output = Command::new(BUSYBOX).arg("sha256sum").arg(&path).output().expect("run");
    let sum = String::from_utf8(output.stdout).expect("text").split(' ').next().expect("a sum").to_owned();
    let stage = format!("{}={PATH}", path.display());
    for (scheme, words) in [("two-trees", "by two trees in"), ("tree", "by a tree with 3 heads in")] {
        let arguments = ["-n", "8", "--scheme", scheme, "--no-stage", "--stage", &stage, BUSYBOX, "sha256sum", PATH];
        let ran = cluster.run(&arguments).success();
        assert_eq!(ran.text(), format!("{sum}  {PATH}\n").repeat(8), "{scheme}");
        let transfer = transfer(&cluster);
        assert_eq!((&transfer["scheme"], &transfer["path"]), (&scheme.into(), &PATH.into()), "{transfer}");
        assert_eq!((number(&transfer, "bytes"), number(&transfer, "nodes")), (BYTES as u64, 8), "{transfer}");
        assert_eq!((number(&transfer, "lost"), number(&transfer["members"], "wrong")), (0, 0), "{transfer}");
        assert_eq!(number(&transfer["members"], "nodes"), 8, "{transfer}");
        assert_eq!(number(&transfer, "link_bytes_per_second"), 12_500_000, "{transfer}");
        // Home keeps to the link, and sends all of it, though not to everybody.
        assert!(transfer["times_bound"].as_f64().is_some_and(|times| times >= 1.0), "{transfer}");
        let sent = number(&transfer, "home_bytes");
        assert!((BYTES as u64..4 * BYTES as u64).contains(&sent), "{transfer}");
        let described = described(&cluster);
        let line = described.lines().find(|line| line.starts_with("transfer of /in/data: 4.0 MiB to 8 nodes"));
        assert!(line.is_some_and(|line| line.contains(words)), "{described}");
    }
}

#[test]
fn a_large_cold_program_is_sent_ahead_by_itself_and_a_small_or_warm_one_is_not() {
    let cluster = Cluster::up_with(&["--nodes", "8", "--bandwidth", "20M"]);
    let path = program("whole", Toolchain::Musl);
    let bytes = std::fs::metadata(&path).expect("the program").len();
    let expected = Command::new(&path).output().expect("run").stdout;
    let path = path.to_str().expect("a path");
    let ran = cluster.run(&["-n", "8", path]).success();
    assert_eq!(ran.stdout, expected.repeat(8));
    let job = cluster.last_job();
    assert_eq!(job["ahead"]["staged"], true, "{job}");
    assert_eq!(number(&job["ahead"]["reckoned"], "nodes"), 8, "{job}");
    let transfer = transfer(&cluster);
    assert_eq!((&transfer["path"], number(&transfer, "bytes")), (&Value::Null, bytes), "{transfer}");
    assert_eq!(number(&transfer, "lost"), 0, "{transfer}");
    // Instead of eight times.
    let sent = number(&transfer, "home_bytes");
    assert!(10 * sent <= 22 * bytes, "{sent} of {bytes} bytes: {transfer}");
    let described = described(&cluster);
    assert!(
        described.contains("\nprogram staged: ") && described.contains("\ntransfer of the program: "),
        "{described}"
    );

    // Warm it runs from the pages that stayed.
    let ran = cluster.run(&["-n", "8", path]).success();
    assert_eq!(ran.stdout, expected.repeat(8));
    let job = cluster.last_job();
    assert_eq!((&job["ahead"]["staged"], &job["transfers"]), (&false.into(), &Value::Array(vec![])), "{job}");
    let fetched: u64 = (0..8).map(|rank| cluster.last_rank(rank).count("pages_fetched")).sum();
    assert_eq!(fetched, 0, "{job}");

    let small = program("true", Toolchain::Musl);
    let _ = cluster.run(&["-n", "8", small.to_str().expect("a path")]).success();
    let job = cluster.last_job();
    assert_eq!((&job["ahead"]["staged"], &job["transfers"]), (&false.into(), &Value::Array(vec![])), "{job}");
}
