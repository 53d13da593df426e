//! MPI jobs to which something happens: they end soon, and the user is told why; or nothing happens to their results.

use coppice_tests::physical::Monitor;
use coppice_tests::{Cluster, Waiting};

use crate::mpi::{cluster, everything_is_right, guest, run};

#[test]
fn abort_reaches_the_user() {
    let cluster = cluster(4);
    let ran = run(&cluster, &["-n", "4"], "abort", &["2", "7"]);
    assert_eq!(ran.status, 7, "{}", ran.stderr);
    assert!(ran.stderr.contains("application called MPI_Abort(MPI_COMM_WORLD, 7) - process 2"), "{}", ran.stderr);
    assert!(ran.stderr.contains("rank 2 aborted the job with code 7"), "{}", ran.stderr);
    assert_eq!(ran.text(), "", "nobody was let go");
    everything_is_right(&cluster, 4, 1);
}

/// The others wait for it for ever.
#[test]
fn a_rank_that_goes_away_ends_the_job() {
    let cluster = cluster(2);
    for (how, said) in [
        ("signal", "rank 1 on node 1 was ended by signal 11 without finalizing MPI"),
        ("exit", "rank 1 on node 1 exited with status 4 without finalizing MPI"),
        ("before", "rank 1 on node 1 exited with status 4, and other ranks wait for it in a PMI barrier"),
    ] {
        let ran = run(&cluster, &["-n", "2"], "crash", &["1", how]);
        assert_ne!(ran.status, 0, "{how}: {}", ran.text());
        assert!(ran.stderr.contains(said), "{how}: {}", ran.stderr);
        assert_eq!(ran.text(), "", "{how}");
    }
    let _ = run(&cluster, &["-n", "2"], "allreduce", &[]).success();
}

/// One frame in a hundred is lost on every link, and each takes 5 ms, in both directions.
#[test]
fn bad_links_change_no_result() {
    let cluster = Cluster::up_with(&["--nodes", "4", "--memory", "128M", "--loss", "1%", "--latency", "5ms"]);
    everything_is_right(&cluster, 4, 1);
}

#[test]
fn a_cut_link_ends_the_job_with_the_nodes_name() {
    let cluster = cluster(4);
    let job = Waiting::start(&cluster, &["-n", "4", &guest("ring"), "0"], "going round");
    Monitor::of_node(&cluster, 2).cut_link();
    let ran = job.end();
    assert_ne!(ran.status, 0);
    assert!(ran.stderr.contains("node 2"), "{}", ran.stderr);
    let reason = cluster.last_job()["reason"].clone();
    assert!(reason.as_str().is_some_and(|reason| reason.contains("node 2")), "{reason}");
}
