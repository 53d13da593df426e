//! What a node keeps of a program when it ends: nothing that a run did to its pages is among it.

use coppice_tests::Cluster;
use coppice_tests::guests::{Toolchain, program};

/// Data pages that `rewrites.c` changes and makes read-only, at least.
const CHANGED_PAGES: u64 = 64;

/// A program that changes its data, its RELRO area and its text in every way there is: the next run sees the file.
#[test]
fn changed_pages_are_the_files_again() {
    let cluster = Cluster::up(1);
    std::fs::write(cluster.root().join("zeros"), [0; 8192]).expect("file");
    for toolchain in [Toolchain::Glibc, Toolchain::GlibcPie, Toolchain::Musl] {
        let path = program("rewrites", toolchain);
        let run_with = |options: &[&str], arguments: &[&str]| {
            let ran = cluster.run(&[options, &[path.to_str().expect("a path"), "zeros"], arguments].concat()).success();
            assert!(ran.text().contains("\n012345678910\n"), "{toolchain:?}: {}", ran.text());
            assert!(ran.text().ends_with("\nall is changed\n"), "{toolchain:?}: {}", ran.text());
            ran.text()
        };
        let run = |options| run_with(options, &[]);
        let first = run(&[]);
        for _ in 0..3 {
            assert_eq!(run(&[]), first, "{toolchain:?}");
            let rank = cluster.last_rank(0);
            assert!(rank.count("pages_retained") > 10, "{toolchain:?}: {rank:?}");
            // What lost its pristine copy is fetched again; never more than the pages the program changed.
            assert!(rank.count("pages_fetched") <= 32, "{toolchain:?}: {rank:?}");
        }
        assert_eq!(run(&["--no-retain"]), first, "{toolchain:?}");
        assert_eq!(cluster.last_rank(0).count("pages_retained"), 0);
        // Where there was no memory for pristine copies of changed pages, they are fetched again.
        assert_eq!(run_with(&[], &["hungry"]), first, "{toolchain:?}");
        let (retained, fetched) =
            (cluster.last_rank(0).count("pages_retained"), cluster.last_rank(0).count("pages_fetched"));
        assert!(retained > CHANGED_PAGES && fetched < CHANGED_PAGES / 2, "{toolchain:?}: {retained} {fetched}");
        assert_eq!(run(&[]), first, "{toolchain:?}");
        let fetched = cluster.last_rank(0).count("pages_fetched");
        assert!(fetched >= CHANGED_PAGES, "{toolchain:?}: {fetched}");
    }
}
