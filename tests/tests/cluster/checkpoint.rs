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

/// Restarts from a checkpoint and waits for the end. Gives what is said from there on.
fn restart(cluster: &Cluster, checkpoint: &str, options: &[&str]) -> String {
    let run = [&["restart", checkpoint, "--quiet"], options].concat();
    cluster.coppice(&run).success().text()
}

/// What is computed, said and written behind a checkpoint comes again, and nothing else; the file is as if nothing had
/// been.
#[test]
fn a_program_goes_on_elsewhere() {
    let cluster = Cluster::up(2);
    let path = program("goes_on", Toolchain::Glibc);
    let native = host::run(cluster.root(), &path, &["40", "native.txt"]);
    let expected = std::fs::read(cluster.root().join("native.txt")).expect("written");
    let text = path.to_string_lossy();
    let job = start(&cluster, &["--nodes-list", "0", &text, "40", "/lines.txt", "20"]);
    wait_for(&cluster, &job, "round 5:");
    let name = checkpoint(&cluster, &job);
    wait_for(&cluster, &job, "round 20:");
    let _ = cluster.coppice(&["kill", "--signal", "KILL", &job]).success();
    let _ = cluster.coppice(&["wait", &job]);
    for node in ["1", "0"] {
        let rest = restart(&cluster, &name, &["--nodes-list", node]);
        assert!(native.text().ends_with(&rest), "on node {node}: {rest}");
        let rounds = rest.lines().count();
        assert!((20..36).contains(&rounds), "{rounds} rounds: {rest}");
        let written = std::fs::read(cluster.root().join("lines.txt")).expect("written");
        assert_eq!(String::from_utf8_lossy(&written), String::from_utf8_lossy(&expected));
    }
}
