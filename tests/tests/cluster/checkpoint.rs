//! Jobs that are checkpointed, ended, and restarted from that: they go on as if nothing had been.

use std::time::{Duration, Instant};

use coppice_tests::cluster::wait_until;
use coppice_tests::guests::{Toolchain, program};
use coppice_tests::{Cluster, host};

use crate::mpi;

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

/// How often a program is ended and goes on from a checkpoint.
const RESTARTS: u32 = 4;

/// How often a program is run that comes to its end before it was checkpointed so often.
const RUNS_MAX: u32 = 30;

/// Makes a checkpoint of a job, unless that ends before.
fn checkpoint_soon(cluster: &Cluster, job: &str) -> Option<String> {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let made = cluster.coppice(&["checkpoint", job, "--json"]);
        if made.status == 0 {
            let made: serde_json::Value = serde_json::from_str(&made.text()).expect("JSON");
            return made["checkpoint"].as_str().map(str::to_owned);
        }
        let said = made.stderr;
        if ["has ended", "come to its end", "came to its end", "at its end"].iter().any(|words| said.contains(words)) {
            return None;
        }
        let is_early =
            ["not all ranks", "does not run", "waits for", "try again"].iter().any(|words| said.contains(words));
        assert!(is_early && Instant::now() < end, "{said}");
    }
}

/// Runs something that is checkpointed, ended, and restarted on other nodes, some times over, and that then comes to
/// its end; again, if it does so before. Looks at what the last one said, and at what all said together, in which some
/// may come twice.
#[track_caller]
fn until_restarted(cluster: &Cluster, nodes: [&str; 2], arguments: &[&str], check: impl Fn(&str, &str)) {
    let mut restarts = 0;
    for _ in 0..RUNS_MAX {
        let mut all = String::new();
        let mut job = start(cluster, &[&["--nodes-list", nodes[0]], arguments].concat());
        let mut elsewhere = nodes.iter().cycle().skip(1);
        while restarts < RESTARTS
            && let Some(name) = checkpoint_soon(cluster, &job)
        {
            let _ = cluster.coppice(&["kill", "--signal", "KILL", &job]);
            let ended = cluster.coppice(&["wait", &job]);
            assert!([0, 137].contains(&ended.status), "{}", ended.stderr);
            all += &said(cluster, &job);
            let nodes = elsewhere.next().expect("there are always more");
            job = restart(cluster, &name, &["--nodes-list", nodes]);
            restarts += 1;
        }
        let ended = cluster.coppice(&["wait", &job]);
        let text = said(cluster, &job);
        assert_eq!(ended.status, 0, "{arguments:?}, {restarts} restarts: {}{text}", ended.stderr);
        all += &text;
        check(&text, &all);
        if restarts == RESTARTS {
            return;
        }
    }
    panic!("{arguments:?} was restarted {restarts} times in {RUNS_MAX} runs");
}

/// Guests of one rank, whose every line behind a checkpoint is as on the host.
#[test]
fn programs_do_not_notice() {
    let cluster = Cluster::up_with(&["--nodes", "2", "--cores", "2"]);
    for (name, toolchain) in
        [("signals", Toolchain::Glibc), ("sockets", Toolchain::Glibc), ("threads_sync", Toolchain::Musl)]
    {
        let path = program(name, toolchain);
        let native = host::run::<&str>(cluster.root(), &path, &[]).text();
        until_restarted(&cluster, ["0", "1"], &[&path.to_string_lossy()], |said, _| {
            assert!(native.ends_with(said), "{name}: {said}");
        });
    }
}

/// Connections between nodes are there again on other nodes, with the bytes that were in them.
#[test]
fn sockets_are_there_again() {
    let cluster = Cluster::up(4);
    let exchange = program("exchange", Toolchain::Musl);
    let bytes = (8_u64 << 20).to_string();
    until_restarted(&cluster, ["0-1", "2-3"], &["-n", "2", &exchange.to_string_lossy(), &bytes], |_, all| {
        for rank in 0..2 {
            let line = format!("rank {rank}: {bytes} bytes each way");
            assert!(all.contains(&line), "{all}");
        }
    });
}

/// MPI between ranks of one node and of two, with threads, and with memory that ranks share.
#[test]
fn mpi_programs_do_not_notice() {
    let cluster = Cluster::up_with(&["--nodes", "4", "--memory", "128M"]);
    let options = ["-n", "4", "--ranks-per-node", "2"];
    for (name, arguments, line) in [
        ("ring", &["2000"][..], "rank 3 of 4 on node1: 2000 rounds\n"),
        ("allreduce", &[], "allreduce: 4 ranks agree\n"),
        ("onesided", &[], "onesided: 4 ranks agree\n"),
        ("halo", &["64", "200", "/heat.ppm"], "as computed serially\n"),
    ] {
        let path = mpi::guest(name);
        let run = [&options[..], &[path.as_str()], arguments].concat();
        until_restarted(&cluster, ["0-1", "2-3"], &run, |_, all| assert!(all.contains(line), "{name}: {all}"));
    }
    let hybrid = program("hybrid", Toolchain::MpiOpenMp);
    let hybrid = hybrid.to_string_lossy();
    let run = [&options[..], &[&*hybrid, "multiple", "3"]].concat();
    until_restarted(&cluster, ["0-1", "2-3"], &run, |_, all| {
        assert!(all.contains("multiple: 4 ranks of 3 threads on 1 cores agree\n"), "{all}");
    });
}
