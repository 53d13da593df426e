//! Jobs that are checkpointed, ended, and restarted from that: they go on as if nothing had been.

use std::time::Duration;

use coppice_tests::cluster::wait_until;
use coppice_tests::guests::{Toolchain, program};
use coppice_tests::{Cluster, host};

/// Starts a job that nobody waits for. Gives its number.
fn start(cluster: &Cluster, arguments: &[&str]) -> String {
    let run = [&["run", "--detach", "--keep-output"], arguments].concat();
    cluster.coppice(&run).success().text().trim().to_owned()
}

/// What a job has said so far.
fn said(cluster: &Cluster, job: &str) -> String {
    cluster.coppice(&["logs", job]).success().text()
}

/// Waits until a job has said something.
fn wait_for(cluster: &Cluster, job: &str, words: &str) {
    wait_until("it has said so", Duration::from_secs(60), || {
        let text = said(cluster, job);
        if text.contains(words) { Ok(()) } else { Err(text) }
    });
}

/// Makes a checkpoint of a job. Gives its name.
fn checkpoint(cluster: &Cluster, job: &str) -> String {
    let made = cluster.coppice(&["checkpoint", job, "--json"]).success().text();
    let made: serde_json::Value = serde_json::from_str(&made).expect("JSON");
    made["checkpoint"].as_str().expect("a name").to_owned()
}

/// Has a job go on from a checkpoint, which nobody waits for. Gives its number.
fn restart(cluster: &Cluster, checkpoint: &str, options: &[&str]) -> String {
    let run = [&["restart", checkpoint, "--detach", "--keep-output"], options].concat();
    cluster.coppice(&run).success().text().trim().to_owned()
}

/// Ends a job.
fn end(cluster: &Cluster, job: &str) {
    let _ = cluster.coppice(&["kill", "--signal", "KILL", job]).success();
    assert_eq!(cluster.coppice(&["wait", job]).status, 137);
}

/// The number of the first round that was said.
fn first_round(said: &str) -> usize {
    let number = said.strip_prefix("round ").and_then(|rest| rest.split(':').next());
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no round: {said}"))
}

/// What is computed, said and written behind a checkpoint comes again, and nothing else; the file is as if nothing had
/// been, also on another node.
#[test]
fn a_program_goes_on_elsewhere() {
    let cluster = Cluster::up(2);
    let path = program("goes_on", Toolchain::Glibc);
    let native = host::run(cluster.root(), &path, &["400", "native.txt"]).text();
    let text = path.to_string_lossy();
    let job = start(&cluster, &["--nodes-list", "0", &text, "1000000", "/lines.txt", "5"]);
    wait_for(&cluster, &job, "round 5:");
    let name = checkpoint(&cluster, &job);
    wait_for(&cluster, &job, "round 20:");
    end(&cluster, &job);
    for node in ["1", "0"] {
        let job = restart(&cluster, &name, &["--nodes-list", node]);
        wait_until("it goes on", Duration::from_secs(60), || {
            let text = said(&cluster, &job);
            if text.lines().count() > 10 { Ok(()) } else { Err(text) }
        });
        end(&cluster, &job);
        let text = said(&cluster, &job);
        let first = first_round(&text);
        assert!(first > 5 && native.contains(&text), "on node {node}, from {first}: {text}");
        // What was written before it was said is there, and nothing that was cut off.
        let written = std::fs::read_to_string(cluster.root().join("lines.txt")).expect("text");
        assert!(native.starts_with(&written) && written.contains(&text), "on node {node}: {written}");
    }
}
