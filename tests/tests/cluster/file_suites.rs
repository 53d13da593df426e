//! Programs that others have published to try file systems with, as they are: pjdfstest, which looks at what each call
//! must and must not do, and fsx, which does everything to a file and looks at every byte.

use std::collections::BTreeSet;

use coppice_tests::Cluster;
use coppice_tests::guests::file_suite;

/// pjdfstest's tests of these calls, and of files of these kinds, want a FIFO, a socket or a device: names lead to
/// regular files and directories (docs/linux.md).
const CALLS_THAT_ARE_NOT: [&str; 2] = ["mkfifo", "mknod"];
const KINDS_THAT_ARE_NOT: [&str; 4] = ["fifo", "socket", "block", "char"];

/// Those that want what else there is not.
const OTHERS_THAT_ARE_NOT: [&str; 24] = [
    // Files of other users, and calls in their name: everything is whose the cluster is.
    "chmod::clear_isgid_bit",
    "chmod::failed_chmod_unchanged_ctime::dir",
    "chmod::failed_chmod_unchanged_ctime::regular",
    "ftruncate::affected_create_flags_only",
    "link::share_metadata::regular",
    "link::unchanged_ctime_fails::regular",
    "mkdir::uid_gid_eq_euid_egid",
    "open::uid_gid_eq_euid_egid",
    "posix_fallocate::affected_only_create_flags",
    "rename::unchanged_ctime_failed::dir",
    "rename::unchanged_ctime_failed::regular",
    "rename::unchanged_ctime_failed::symlink",
    "rename::write_access_required_subdir",
    "truncate::unchanged_ctime_failed",
    "unlink::unchanged_ctime_failed::regular",
    "utimensat::nobody",
    "utimensat::utime_now_nobody",
    "utimensat::utime_now_write_perm",
    "utimensat::write_perm",
    // A FIFO and a socket.
    "open::fifo_nonblock_wronly",
    "open::socket_error",
    // A second program that runs.
    "open::etxtbsy",
    "truncate::etxtbsy",
    // A limit of links of one file, which the host's file system may not have.
    "link::link_count_max",
];

/// So many pass at least, for whoever may do all that the host lets root do.
const PASSED_MIN: usize = 160;

/// What is asked of pjdfstest beyond its defaults. Times differ if they are so far apart: a clock's tick.
const PJDFSTEST: &str = r#"
[features]
posix_fallocate = {}
rename_ctime = {}
utimensat = {}
utime_now = {}
[settings]
naptime = 0.02
allow_remount = false
expected_failures = []
[dummy_auth]
entries = [["nobody", "nobody"], ["tests", "tests"]]
"#;

/// All that fsx can do; beside it, little of each file is left as it was.
const FSX: &str = r"
flen = 262144
[opsize]
max = 65536
min = 0
align = 1
[weights]
close_open = 1.0
invalidate = 0.2
mapread = 5.0
mapwrite = 5.0
read = 10.0
write = 10.0
truncate = 3.0
fsync = 0.5
fdatasync = 0.5
posix_fallocate = 1.0
punch_hole = 1.0
sendfile = 1.0
posix_fadvise = 1.0
copy_file_range = 1.0
";

/// What fsx does for one seed, and how many are tried in each way.
const STEPS: &str = "1000";
const SEEDS: u32 = 2;

fn put(cluster: &Cluster, name: &str, text: &str) {
    std::fs::write(cluster.root().join(name), text).expect("a file in the root");
}

fn is_meant(test: &str) -> bool {
    let mut parts = test.split("::");
    let call = parts.next().unwrap_or_default();
    CALLS_THAT_ARE_NOT.contains(&call)
        || parts.last().is_some_and(|kind| KINDS_THAT_ARE_NOT.contains(&kind))
        || OTHERS_THAT_ARE_NOT.contains(&test)
}

/// The names of tests that ended so.
fn named<'a>(text: &'a str, end: &'a str) -> impl Iterator<Item = &'a str> {
    text.lines().filter_map(move |line| Some(line.strip_suffix(end)?.trim())).filter(|name| !name.contains(' '))
}

#[test]
fn calls_do_what_pjdfstest_wants() {
    let cluster = Cluster::up(1);
    std::fs::create_dir(cluster.root().join("etc")).expect("a directory");
    put(&cluster, "etc/passwd", "nobody:x:65534:65534::/:/bin/false\ntests:x:1001:1001::/:/bin/false\n");
    put(&cluster, "etc/group", "nobody:x:65534:\ntests:x:1001:\n");
    put(&cluster, "pjdfstest.toml", PJDFSTEST);
    let program = file_suite("pjdfstest");
    let program = program.to_str().expect("a path");
    let mut of_ways = Vec::new();
    for io in ["leased", "strict"] {
        let at = format!("/{io}");
        std::fs::create_dir(cluster.root().join(io)).expect("a directory");
        // Some fail, and it says so at its end, too.
        let ran = cluster.run(&["--io", io, program, "-c", "/pjdfstest.toml", "-p", &at]);
        let text = ran.text();
        let failed: BTreeSet<String> = named(&text, "FAILED").map(str::to_owned).collect();
        let more: Vec<&String> = failed.iter().filter(|name| !is_meant(name)).collect();
        assert!(more.is_empty(), "{io}: {more:?}: {text}{}", ran.stderr);
        let passed = named(&text, "ok").count();
        let least = if rustix::process::geteuid().is_root() { PASSED_MIN } else { PASSED_MIN / 2 };
        assert!(passed >= least, "{io}: {passed} passed: {text}{}", ran.stderr);
        assert!(ran.stderr.contains("Summary:") || text.contains("Summary:"), "{io}: {text}{}", ran.stderr);
        of_ways.push(failed);
    }
    assert_eq!(of_ways[0], of_ways[1], "what is kept of files makes a difference");
}

#[test]
fn fsx_finds_every_byte() {
    let cluster = Cluster::up(1);
    put(&cluster, "fsx.toml", FSX);
    let program = file_suite("fsx");
    let program = program.to_str().expect("a path");
    for seed in 1..=SEEDS {
        for io in ["leased", "strict"] {
            let (seed, at) = (seed.to_string(), format!("/{io}"));
            let ran =
                cluster.run(&["--io", io, program, "-q", "-f", "/fsx.toml", "-P", "/", "-N", STEPS, "-S", &seed, &at]);
            assert_eq!(ran.status, 0, "seed {seed}, {io}: {}{}", ran.text(), ran.stderr);
            assert!(ran.text().contains("All operations completed"), "seed {seed}, {io}: {}", ran.text());
        }
    }
}
