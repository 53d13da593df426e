//! The example of a program that uses the client, with the real API behind its socket.

mod support;

// Its `main` looks for a cluster of the user's.
#[expect(dead_code, reason = "only what it does with a cluster is run here")]
#[path = "../../api/examples/jobs.rs"]
mod jobs;

use coppice_api::job::JobState;
use support::Cluster;
use support::served::Served;

#[tokio::test]
async fn the_example_runs_a_job_from_its_submission_to_its_end() {
    let mut cluster = Cluster::up(1, 1);
    cluster.behaviour.exits = Some(3);
    let served = Served::new(cluster);
    let before = served.submit(1).await;
    served.client.wait(before).await.expect("ended");
    let mut out = Vec::new();
    let ended = jobs::run(&served.client, &served.program, &mut out).await.expect("done");
    assert_eq!((ended.state, ended.exit_status, ended.detached), (JobState::Ended, Some(3), true));
    let out = String::from_utf8(out).expect("text");
    assert_eq!(out, format!("job {before}, prog: ended\njob {} exited with 3\n", ended.job));
    served.down().await;
}
