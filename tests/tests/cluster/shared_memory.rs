//! Memory that is shared by name: `/dev/shm` as programs see it, and that nothing of it is left.

use coppice_tests::guests::{Toolchain, program};
use coppice_tests::physical::{PAGE_BYTES, Pattern, memory_of};
use coppice_tests::{Cluster, Waiting};

#[test]
fn files_in_dev_shm_are_as_on_linux() {
    let cluster = Cluster::up(1);
    for toolchain in [Toolchain::Glibc, Toolchain::Musl] {
        let path = program("shared", toolchain);
        let ran = cluster.run(&[path.to_str().expect("a path"), "1", "calls"]).success();
        let expected = "again: File exists\nnested: Invalid argument\n100640 10000 1\nhello hello\n\
                        Jello 20000\n1021994\nb\nNo such file or directory, Jello\n";
        assert_eq!(ran.text(), expected, "{toolchain:?}");
    }
}

#[test]
fn nothing_is_left_of_what_ranks_shared() {
    const FILLED_PAGES: usize = 2 * 256;
    let cluster = Cluster::up(1);
    let path = program("shared", Toolchain::Glibc);
    let path = path.to_str().expect("a path");
    for (seed, kill) in [(35_001, false), (35_002, true)] {
        let seed_text = format!("{seed}");
        let waiting = Waiting::start(&cluster, &[path, "1", "fill", &seed_text], "filled");
        let pattern = Pattern::of_seed(seed);
        let seen = memory_of(&cluster, 0).pages_with(&pattern).len();
        assert!(seen >= FILLED_PAGES, "only {seen} pages of {PAGE_BYTES} bytes are filled");
        if kill {
            let job = cluster.json(&["jobs"]);
            let running = job.as_array().and_then(|jobs| jobs.iter().find(|job| job["state"] == "running"));
            let _ = cluster.coppice(&["kill", &running.expect("it runs")["job"].to_string()]).success();
            assert!(waiting.end().status > 128);
        } else {
            let _ = waiting.go_on().success();
        }
        memory_of(&cluster, 0).assert_none(&pattern, "the end of the job");
        // The next job finds another /dev/shm.
        let ran = cluster.run(&[coppice_tests::guests::BUSYBOX, "ls", "/dev/shm"]).success();
        assert_eq!(ran.text(), "");
    }
}
