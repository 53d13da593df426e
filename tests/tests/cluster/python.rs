//! Debian's Python, unmodified: programs and parts of its own tests, on a node and on the host.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use coppice_tests::{Cluster, host};

/// Debian's.
const PYTHON: &str = "/usr/bin/python3";

/// Modules of the standard library whose tests are run: what rests on calls of the system's, and what computes.
const MODULES: [&str; 14] = [
    "test_array",
    "test_bisect",
    "test_csv",
    "test_file",
    "test_fileio",
    "test_hashlib",
    "test_mmap",
    "test_posixpath",
    "test_random",
    "test_re",
    "test_resource",
    "test_select",
    "test_struct",
    "test_tempfile",
];

fn guest(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("guests/python").join(name)
}

fn directory(cluster: &Cluster, name: &str) -> String {
    let directory = cluster.root().join(name);
    std::fs::create_dir(&directory).expect("directory");
    directory.canonicalize().expect("there").to_string_lossy().into_owned()
}

fn cluster() -> Cluster {
    Cluster::up_with(&["--nodes", "1", "--memory", "512M"])
}

#[test]
fn what_programs_do_every_day_comes_to_the_same() {
    let cluster = cluster();
    let script = guest("everyday.py").to_string_lossy().into_owned();
    let (here, there) = (directory(&cluster, "host"), directory(&cluster, "node"));
    let native = host::run(cluster.root(), Path::new(PYTHON), &[&script, &here]);
    let ran = cluster.run(&["--root", "/", PYTHON, &script, &there]);
    assert_eq!((ran.status, ran.text()), (0, native.text()), "{}", ran.stderr);
}

/// How each test went, by name.
fn results(text: &str) -> BTreeMap<&str, &str> {
    text.lines().filter_map(|line| line.rsplit_once(": ")).collect()
}

/// Tests that start other programs fail, as nothing does that here; all others do what they do on the host.
#[test]
fn its_own_tests_find_nothing() {
    let cluster = cluster();
    let work = directory(&cluster, "work");
    let script = guest("own_tests.py").to_string_lossy().into_owned();
    let arguments = [&[&*script], &MODULES[..]].concat();
    let native = host::run(cluster.root(), Path::new(PYTHON), &arguments).text();
    let ran = cluster.run(&[&["--root", "/", "--cwd", &work, PYTHON], &arguments[..]].concat());
    let text = ran.text();
    let (here, there) = (results(&native), results(&text));
    let differ: Vec<_> = here
        .iter()
        .map(|(name, how)| (name, how, there.get(name).copied().unwrap_or("not run")))
        .filter(|(_, how, there)| how != &there && *there != "starts another")
        .collect();
    assert!(differ.is_empty(), "{differ:?}\n{}", ran.stderr);
    let passed = there.values().filter(|how| **how == "ok").count();
    let others = there.values().filter(|how| **how == "starts another").count();
    assert!(passed > 1500 && others < 20, "{passed} passed, {others} start others");
}

/// What CNK has not, nodes have not; programs are told so.
#[test]
fn there_are_no_second_processes() {
    let cluster = cluster();
    for code in [
        "import os; os.fork()",
        "import subprocess; subprocess.run(['/bin/true'])",
        "import os; os.execv('/bin/true', ['true'])",
        "import multiprocessing as m; m.Process(target=print).start()",
    ] {
        let ran = cluster.run(&["--root", "/", PYTHON, "-c", code]);
        assert!(ran.stderr.contains("[Errno 38] Function not implemented"), "{code}: {}", ran.stderr);
        assert_eq!(ran.status, 1, "{code}");
    }
}

/// Debian's mpi4py on its Open MPI, unmodified: ranks find each other through PMIx, and compute with NumPy.
#[test]
fn ranks_of_mpi4py_work_together() {
    let cluster = Cluster::up_with(&["--nodes", "3", "--memory", "512M"]);
    let script = guest("sums.py").to_string_lossy().into_owned();
    let ran = cluster.run(&["-n", "3", "--label", "--root", "/", PYTHON, &script]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let text = ran.text();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    // 0 + 1 + 2 in every place, and what each has of a product that is 1000 × the identity.
    let expected = [0, 1, 2].map(|rank| format!("{rank}: rank {rank} of 3: 3000.0 [0, 1, 2] 1000.0"));
    assert_eq!(lines, expected);
}
