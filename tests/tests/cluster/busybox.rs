//! Debian's busybox, unmodified, on four nodes at once: byte for byte what it gives on the host.

use std::path::Path;

use coppice_tests::guests::BUSYBOX;
use coppice_tests::{Cluster, host};

/// Nodes the programs run on.
const NODES: usize = 4;

/// Size of the file they work on, bytes.
const FILE_BYTES: usize = 20 * 1024 * 1024;

/// A text file with lines of different lengths, the same at each call.
fn write_text(path: &Path) {
    let mut text = String::with_capacity(FILE_BYTES + 128);
    let mut state = 12345u64;
    while text.len() < FILE_BYTES {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let number = state >> 33;
        text.push_str(&format!("{} {} {}\n", number % 100_000, "word".repeat((number % 11) as usize), number));
    }
    std::fs::write(path, text).expect("write the file");
}

/// Runs one command line on all nodes and on the host, and compares.
fn compare(cluster: &Cluster, arguments: &[&str]) {
    let native = host::run(cluster.root(), Path::new(BUSYBOX), arguments);
    // Labelled, because the output of four ranks arrives mixed.
    let on_nodes = cluster.run(&[&["-n", "4", "--label", BUSYBOX], arguments].concat());
    assert_eq!(on_nodes.status, native.status, "{arguments:?}: {}", on_nodes.stderr);
    let text = on_nodes.text();
    for rank in 0..NODES {
        let of_rank: String =
            text.split_inclusive('\n').filter_map(|line| line.strip_prefix(&format!("{rank}: "))).collect();
        assert!(of_rank.as_bytes() == native.stdout, "{arguments:?}: rank {rank} differs from the host");
    }
}

/// Reading programs, each over the same 20 MB on all four nodes at once.
#[test]
fn reads_as_on_the_host() {
    let cluster = Cluster::up(4);
    write_text(&cluster.root().join("text"));
    // The names of owners come from the job's own /etc, as in any chroot.
    std::fs::create_dir(cluster.root().join("etc")).expect("directory");
    for name in ["passwd", "group"] {
        std::fs::copy(Path::new("/etc").join(name), cluster.root().join("etc").join(name)).expect("copy");
    }
    std::fs::create_dir(cluster.root().join("directory")).expect("directory");
    std::fs::write(cluster.root().join("directory/small"), "contents\n").expect("file");
    std::os::unix::fs::symlink("small", cluster.root().join("directory/link")).expect("link");

    for arguments in [
        &["sha256sum", "text"][..],
        &["wc", "text"],
        &["ls", "-l", "directory"],
        &["ls", "-la", "directory"],
        &[
            "awk",
            "{ sum += $1; if (length($2) > longest) longest = length($2) } END { print NR, sum, longest }",
            "text",
        ],
        &["cat", "directory/small", "missing"],
        &["md5sum", "directory/small", "directory/link"],
        &["find", "directory"],
        &["stat", "-c", "%n %s %a %F", "directory/small", "directory/link"],
    ] {
        compare(&cluster, arguments);
    }
}

/// `sort` and `cat` write all of the 20 MB to standard output of every rank: it must arrive whole and in order.
#[test]
fn large_output_arrives_whole() {
    let cluster = Cluster::up_with(&["--nodes", "4", "--memory", "128M"]);
    write_text(&cluster.root().join("text"));
    for arguments in [&["cat", "text"][..], &["sort", "text"]] {
        compare(&cluster, arguments);
    }
}

/// Writing programs, on all nodes at once: what they leave in the host's directory is what the command leaves natively.
/// (All ranks write the same bytes to the same places, so the last one leaves what one alone would.)
#[test]
fn writes_as_on_the_host() {
    let cluster = Cluster::up(4);
    let text = cluster.root().join("text");
    write_text(&text);
    let original = std::fs::read(&text).expect("read");
    let file = |name: &str| std::fs::read(cluster.root().join(name)).expect("file written on a node");

    let _ = cluster.run(&["-n", "4", BUSYBOX, "cp", "text", "copy"]).success();
    assert!(file("copy") == original, "cp");
    let _ = cluster.run(&["-n", "4", BUSYBOX, "dd", "if=text", "of=dd", "bs=1000000", "skip=1", "count=7"]).success();
    assert!(file("dd") == original[1_000_000..8_000_000], "dd");
    let _ = cluster
        .run(&["-n", "4", BUSYBOX, "dd", "if=text", "of=dd", "bs=4k", "seek=3", "count=2", "conv=notrunc"])
        .success();
    let mut expected = original[1_000_000..8_000_000].to_vec();
    expected[12288..20480].copy_from_slice(&original[..8192]);
    assert!(file("dd") == expected, "dd with seek");

    let lines = "b\nc\na\n";
    std::fs::write(cluster.root().join("lines"), lines).expect("file");
    let _ = cluster.run(&[BUSYBOX, "sort", "-o", "sorted", "lines"]).success();
    assert_eq!(file("sorted"), b"a\nb\nc\n");
    let _ = cluster.run(&[BUSYBOX, "mkdir", "-p", "deep/er/est"]).success();
    let _ = cluster.run(&[BUSYBOX, "mv", "sorted", "deep/er/est/moved"]).success();
    assert_eq!(file("deep/er/est/moved"), b"a\nb\nc\n");
    let _ = cluster.run(&[BUSYBOX, "rm", "-r", "deep"]).success();
    assert!(!cluster.root().join("deep").exists());
}
