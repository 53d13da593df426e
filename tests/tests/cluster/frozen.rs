//! Whole programs on nodes that take every process apart and make it again, wherever it is, again and again: nothing
//! may come of it.

use coppice_tests::Cluster;
use coppice_tests::guests::{Toolchain, program};

use crate::guests::compare;
use crate::mpi;

/// How often processes are taken apart, on average.
const EVERY: &str = "2ms";

/// Each guest is to be taken apart so often.
const TIMES_MIN: u64 = 100;

/// A guest that is done sooner is run again, but not for ever.
const RUNS_MAX: u32 = 400;

#[track_caller]
fn freezing(nodes: u32, cores: u32, more: &[&str]) -> Cluster {
    let (nodes, cores) = (nodes.to_string(), cores.to_string());
    Cluster::up_with(&[&["--nodes", &nodes, "--cores", &cores, "--freeze-every", EVERY], more].concat())
}

/// How often processes of all nodes were taken apart so far.
fn times(cluster: &Cluster) -> u64 {
    let consoles = cluster.home_path().join("state/default/consoles");
    let lines = |path| std::fs::read_to_string(path).unwrap_or_default();
    let files = std::fs::read_dir(consoles).expect("consoles").filter_map(Result::ok);
    let said: Vec<String> = files.map(|file| lines(file.path())).collect();
    let of_line = |line: &str| line.split_once("was taken apart ")?.1.split(' ').next()?.parse::<u64>().ok();
    said.iter().flat_map(|text| text.lines()).filter_map(of_line).sum()
}

/// Runs something until processes were taken apart [`TIMES_MIN`] times meanwhile.
#[track_caller]
fn until_taken_apart(cluster: &Cluster, what: &str, run: impl Fn()) {
    let before = times(cluster);
    for _ in 0..RUNS_MAX {
        run();
        if times(cluster) - before >= TIMES_MIN {
            return;
        }
    }
    panic!("{what} was taken apart {} times in {RUNS_MAX} runs", times(cluster) - before);
}

/// Guests whose every line is compared with the host's.
#[test]
fn programs_do_not_notice() {
    let cluster = freezing(1, 1, &[]);
    for name in [
        "files",
        "memory",
        "vectors",
        "signals",
        "signals_wait",
        "runtime_calls",
        "pipes_and_locks",
        "nested_epolls",
        "sockets",
        "interfaces",
    ] {
        until_taken_apart(&cluster, name, || compare(&cluster, name, Toolchain::Glibc, &[]));
    }
    until_taken_apart(&cluster, "standard", || compare(&cluster, "standard", Toolchain::Rust, &[]));
}

#[test]
fn programs_with_threads_do_not_notice() {
    for cores in [1, 2] {
        let cluster = freezing(1, cores, &[]);
        for name in ["threads_posix", "threads_sync", "threads_c11", "threads_cancel", "closed_meanwhile"] {
            until_taken_apart(&cluster, name, || compare(&cluster, name, Toolchain::Musl, &[]));
        }
        until_taken_apart(&cluster, "OpenMP", || compare(&cluster, "threads_openmp", Toolchain::OpenMp, &["4"]));
        // Threads that wait in calls of several kinds, and many objects.
        let holds_much = program("holds_much", Toolchain::Glibc);
        until_taken_apart(&cluster, "holds_much", || {
            let ran = cluster.run(&[&*holds_much.to_string_lossy()]).success();
            assert_eq!(ran.text(), "still there\n", "{cores} cores");
        });
        let torture = program("signals_torture", Toolchain::Glibc);
        until_taken_apart(&cluster, "signals_torture", || {
            let ran = cluster.run(&[&*torture.to_string_lossy(), "12", "100"]).success();
            assert_eq!(ran.text(), "sent 1200, taken 1200, wrong 0, standard ones 1\n", "{cores} cores");
        });
    }
}

/// Connections between nodes, over links that lose frames, and many of them at once.
#[test]
fn peers_do_not_notice() {
    let cluster = freezing(2, 1, &["--loss", "1%"]);
    let exchange = program("exchange", Toolchain::Musl);
    let bytes = (2_u64 << 20).to_string();
    until_taken_apart(&cluster, "exchange", || {
        let ran = cluster.run(&["-n", "2", "--nodes-list", "0,1", &exchange.to_string_lossy(), &bytes]).success();
        for rank in 0..2 {
            let line = format!("rank {rank}: {bytes} bytes each way");
            assert!(ran.text().contains(&line), "{}", ran.text());
        }
    });
    drop(cluster);
    // Connections come in the order they are made in only where no frame is lost.
    let cluster = freezing(2, 1, &[]);
    let many = program("many_sockets", Toolchain::Glibc);
    until_taken_apart(&cluster, "many_sockets", || {
        let ran = cluster.run(&["-n", "2", "--nodes-list", "0,1", &many.to_string_lossy(), "200"]).success();
        assert_eq!(ran.text(), "epoll: 200 sockets\npoll: 200 sockets\n");
    });
    let pmi = program("pmi", Toolchain::Musl);
    until_taken_apart(&cluster, "pmi", || {
        let _ = cluster.run(&["-n", "2", "--nodes-list", "0,1", &pmi.to_string_lossy(), "exchange", "20"]).success();
    });
}

/// MPI between ranks of one node and of two, some with threads besides; over links that lose frames, too.
#[test]
fn mpi_programs_do_not_notice() {
    for (cores, more) in [(1, &[][..]), (2, &["--loss", "1%"][..])] {
        let cluster = freezing(2, cores, &[&["--memory", "128M"], more].concat());
        let options = ["-n", "4", "--ranks-per-node", "2"];
        for (name, arguments, line) in [
            ("ring", &[][..], "rank 3 of 4 on node1: 10 rounds\n"),
            ("allreduce", &[], "allreduce: 4 ranks agree\n"),
            ("onesided", &[], "onesided: 4 ranks agree\n"),
            ("io", &["/words"], "io: 524288 bytes right\n"),
            ("halo", &["64", "30", "/heat.ppm"], "as computed serially\n"),
        ] {
            until_taken_apart(&cluster, name, || {
                let said = mpi::run(&cluster, &options, name, arguments).success().text();
                assert!(said.contains(line), "{cores} cores: {said}");
            });
        }
        let hybrid = program("hybrid", Toolchain::MpiOpenMp);
        until_taken_apart(&cluster, "hybrid", || {
            let path = hybrid.to_string_lossy();
            let ran = cluster.run(&[&options[..], &[&*path, "multiple", "3"]].concat()).success();
            assert_eq!(ran.text(), "multiple: 4 ranks of 3 threads on 1 cores agree\n", "{cores} cores");
        });
    }
}
