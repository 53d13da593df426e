//! What calls about files answer and do to attributes, on the host and on a node, line by line
//! (`tests/guests/c/file_errors.c`). Random sequences are the likeness tests'; these are the ones that somebody thought
//! of, mostly of what may be seen of bytes that a node has not written yet.

use coppice_tests::guests::{Toolchain, program};
use coppice_tests::{Cluster, host};

/// What a node means to answer otherwise: a line of the host's, the node's, and why.
const MEANT: &[(&str, &str, &str)] = &[
    (
        "open 154: open(path_4095, O_RDONLY) = 0",
        "open 154: open(path_4095, O_RDONLY) = ENAMETOOLONG",
        "a path is the working directory's and what a program says, together",
    ),
    (
        "attributes 16   f:    file 604, links 1, size 200, mtime same, ctime grew",
        "attributes 16   f:    file 604, links 1, size 200, mtime same, ctime same",
        "chown(2) to the same owner changes nothing",
    ),
];

/// Lines of the host that a node does not say, with what it says.
fn differences(host: &str, node: &str) -> Vec<String> {
    let meant = |pair: &(&str, &str)| MEANT.iter().any(|(host, node, _)| (*host, *node) == *pair);
    assert_eq!(host.lines().count(), node.lines().count(), "{node}");
    let pairs = host.lines().zip(node.lines()).filter(|pair| pair.0 != pair.1 && !meant(pair));
    pairs.map(|(host, node)| format!("{host}\n    the node: {node}")).collect()
}

#[test]
fn calls_about_files_answer_and_leave_what_they_do_on_linux() {
    let guest = program("file_errors", Toolchain::Glibc);
    let directory = tempfile::tempdir().expect("temporary directory");
    let native = host::run::<&str>(directory.path(), &guest, &[]).success().text();
    assert!(native.lines().count() > 700, "{native}");
    let cluster = Cluster::up(1);
    for io in ["leased", "strict"] {
        let ran = cluster.run(&["--io", io, guest.to_str().expect("a path")]).success();
        let different = differences(&native, &ran.text());
        assert!(different.is_empty(), "{io}: {} lines differ\n{}", different.len(), different.join("\n"));
        for name in ["w", "probe"] {
            let path = cluster.root().join(name);
            let removed = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
            removed.expect("it can be removed");
        }
    }
}
