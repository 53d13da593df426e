//! Jobs that are checkpointed, ended, and restarted from that: they go on as if nothing had been.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use coppice_tests::cluster::{finish_child, wait_until};
use coppice_tests::guests::{Toolchain, program};
use coppice_tests::namespace::fill;
use coppice_tests::{Cluster, host};

use rustix::process::{Pid, Signal, kill_process};

use crate::mpi;

/// Starts a job that nobody waits for. Gives its number.
pub(crate) fn start(cluster: &Cluster, arguments: &[&str]) -> String {
    let run = [&["run", "--detach", "--keep-output"], arguments].concat();
    cluster.coppice(&run).success().text().trim().to_owned()
}

/// What a job has said so far.
pub(crate) fn said(cluster: &Cluster, job: &str) -> String {
    cluster.coppice(&["logs", job]).success().text()
}

/// Waits until a job has said something.
pub(crate) fn wait_for(cluster: &Cluster, job: &str, words: &str) {
    wait_until("it has said so", Duration::from_secs(60), || {
        let text = said(cluster, job);
        if text.contains(words) { Ok(()) } else { Err(text) }
    });
}

/// Makes a checkpoint of a job. Gives its name.
pub(crate) fn checkpoint(cluster: &Cluster, job: &str) -> String {
    let made = cluster.coppice(&["checkpoint", job, "--json"]).success().text();
    let made: serde_json::Value = serde_json::from_str(&made).expect("JSON");
    made["checkpoint"].as_str().expect("a name").to_owned()
}

/// Has a job go on from a checkpoint, which nobody waits for. Gives its number.
pub(crate) fn restart(cluster: &Cluster, checkpoint: &str, options: &[&str]) -> String {
    let run = [&["restart", checkpoint, "--detach", "--keep-output"], options].concat();
    cluster.coppice(&run).success().text().trim().to_owned()
}

/// Ends a job.
pub(crate) fn end(cluster: &Cluster, job: &str) {
    let _ = cluster.coppice(&["kill", "--signal", "KILL", job]).success();
    assert_eq!(cluster.coppice(&["wait", job]).status, 137);
}

/// The number of the first round that was said.
pub(crate) fn first_round(said: &str) -> usize {
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
pub(crate) fn checkpoint_soon(cluster: &Cluster, job: &str) -> Option<String> {
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
pub(crate) fn until_restarted(cluster: &Cluster, nodes: [&str; 2], arguments: &[&str], check: impl Fn(&str, &str)) {
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
            if ![0, 137].contains(&ended.status) {
                let reports = &cluster.json(&["job", &job])["rank_reports"];
                panic!("{arguments:?}: {}: {}\n{reports}", ended.status, ended.stderr);
            }
            all += &said(cluster, &job);
            let nodes = elsewhere.next().expect("there are always more");
            job = restart(cluster, &name, &["--nodes-list", nodes]);
            restarts += 1;
        }
        let ended = cluster.coppice(&["wait", &job]);
        let text = said(cluster, &job);
        if ended.status != 0 {
            let reports = &cluster.json(&["job", &job])["rank_reports"];
            panic!("{arguments:?}, {restarts} restarts: {}{text}\n{reports}", ended.stderr);
        }
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

/// What ranks of a node share is of the moment that they are of, while both go on writing to it at once.
#[test]
fn shared_memory_is_of_one_moment() {
    let cluster = Cluster::up_with(&["--nodes", "2", "--cores", "2"]);
    let shared = program("shared", Toolchain::Glibc);
    let run = ["-n", "2", "--ranks-per-node", "2", &shared.to_string_lossy(), "2", "pages", "3000000"];
    until_restarted(&cluster, ["0", "1"], &run, |_, all| {
        for rank in 0..2 {
            assert!(all.contains(&format!("rank {rank} on node0: 3000000 in the memory of node0\n")), "{all}");
        }
    });
}

/// Starts a program that goes on for ever, makes a checkpoint of it, and ends it when it has gone further. Gives the
/// checkpoint's name.
fn checkpointed(cluster: &Cluster, nodes: &str) -> String {
    let path = program("goes_on", Toolchain::Glibc);
    let job = start(cluster, &["--nodes-list", nodes, &path.to_string_lossy(), "1000000", "/lines.txt", "5"]);
    wait_for(cluster, &job, "round 5:");
    let name = checkpoint(cluster, &job);
    wait_for(cluster, &job, "round 10:");
    end(cluster, &job);
    name
}

/// Has a job go on from a checkpoint for some rounds.
#[track_caller]
fn goes_on(cluster: &Cluster, name: &str) {
    let path = program("goes_on", Toolchain::Glibc);
    let native = host::run(cluster.root(), &path, &["400", "native.txt"]).text();
    let job = restart(cluster, name, &[]);
    wait_until("it goes on", Duration::from_secs(60), || {
        let text = said(cluster, &job);
        if text.lines().count() > 3 { Ok(()) } else { Err(format!("{text}{}", cluster.json(&["jobs"]))) }
    });
    end(cluster, &job);
    let text = said(cluster, &job);
    assert!(first_round(&text) > 5 && native.contains(&text), "{text}");
}

/// A checkpoint is there when its node is gone, and when the cluster is.
#[test]
fn a_checkpoint_outlives_nodes_and_clusters() {
    let cluster = Cluster::up(1);
    let name = checkpointed(&cluster, "0");
    let _ = cluster.coppice(&["reboot", "0"]).success();
    cluster.wait_until_ready();
    goes_on(&cluster, &name);
    let _ = cluster.coppice(&["down"]).success();
    let _ = cluster.coppice(&["up", "--accel", "tcg", "--nodes", "2"]).success();
    goes_on(&cluster, &name);
    let listed = cluster.json(&["checkpoints"]);
    assert_eq!(listed[0]["checkpoint"], *name, "{listed}");
}

/// A node that is lost takes no checkpoint with it, neither a whole one nor one that is being made.
#[test]
fn a_node_is_lost_at_any_time() {
    let cluster = Cluster::up(2);
    let path = program("goes_on", Toolchain::Glibc);
    let text = path.to_string_lossy();
    let name = checkpointed(&cluster, "0");
    for number in 0..4 {
        // Not into the file of the checkpoint that is there, which may not get shorter.
        let job = start(&cluster, &["--nodes-list", "0", &text, "1000000", "/others.txt", "5"]);
        wait_for(&cluster, &job, "round 5:");
        let mut command = cluster.command(&["checkpoint", &job]);
        let making = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start");
        // At some time in it, from before it has begun on.
        std::thread::sleep(Duration::from_millis(number * 30));
        let _ = cluster.coppice(&["reboot", "0"]).success();
        let made = finish_child(making, "checkpoint");
        assert!([0, 125].contains(&made.status), "{}", made.stderr);
        assert_eq!(made.stderr.lines().count(), usize::from(made.status != 0), "{}", made.stderr);
        assert_eq!(cluster.coppice(&["wait", &job]).status, 125);
        cluster.wait_until_ready();
        let listed = cluster.json(&["checkpoints", &job]);
        assert_eq!(listed.as_array().map(Vec::len), Some(usize::from(made.status == 0)), "{listed}");
    }
    goes_on(&cluster, &name);
}

/// Files that are not what they were are named, and nothing is started.
#[test]
fn files_that_changed_are_refused() {
    let cluster = Cluster::up(1);
    let name = checkpointed(&cluster, "0");
    let file = cluster.root().join("lines.txt");
    let bytes = std::fs::read(&file).expect("written");
    let refused = |words: &str| {
        let ran = cluster.coppice(&["restart", &name]);
        let lines: Vec<_> = ran.stderr.lines().filter(|line| line.contains(words)).collect();
        assert!(ran.status == 125 && lines.len() == 1, "{words}: {}", ran.stderr);
        assert!(lines[0].contains("/lines.txt"), "{}", ran.stderr);
    };
    std::fs::OpenOptions::new().write(true).open(&file).expect("open").set_len(10).expect("cut");
    refused("fewer than the");
    let aside = cluster.root().join("aside.txt");
    std::fs::rename(&file, &aside).expect("rename");
    refused("cannot be opened any more");
    std::fs::write(&file, &bytes).expect("write");
    refused("is another file now");
    std::fs::rename(&aside, &file).expect("rename");
    std::fs::write(&file, &bytes).expect("write");
    goes_on(&cluster, &name);
}

/// Files that have grown behind the checkpoint are cut back, or left as they are.
#[test]
fn files_that_have_grown_may_stay() {
    const LONG: u64 = 64 << 20;
    let cluster = Cluster::up(1);
    let name = checkpointed(&cluster, "0");
    let file = cluster.root().join("lines.txt");
    let length_after = |options: &[&str]| {
        std::fs::OpenOptions::new().write(true).open(&file).expect("open").set_len(LONG).expect("grown");
        let job = restart(&cluster, &name, options);
        wait_for(&cluster, &job, "round ");
        end(&cluster, &job);
        std::fs::metadata(&file).expect("a file").len()
    };
    assert_eq!(length_after(&["--keep-files"]), LONG);
    assert!(length_after(&[]) < LONG);
}

/// Whatever is damaged is found, before anything is started or by the rank that reads it; other checkpoints are whole.
#[test]
fn damaged_checkpoints_are_refused() {
    // What is damaged in the storage is not missed where a region has it.
    let cluster = Cluster::up_with(&["--nodes", "1", "--storage", "kept", "--nmr", "0"]);
    let name = checkpointed(&cluster, "0");
    let mut objects: Vec<_> = files_below(&cluster.root().join("kept/objects"));
    assert!(objects.len() > 3, "{objects:?}");
    objects.sort();
    for object in &objects {
        let whole = std::fs::read(object).expect("an object");
        let mut damaged = whole.clone();
        *damaged.last_mut().expect("a byte") ^= 1;
        std::fs::write(object, &damaged).expect("write");
        let ran = cluster.coppice(&["restart", "--verify", &name]);
        assert!(ran.status == 125 && ran.stderr.contains("damaged"), "{}", ran.stderr);
        let ran = cluster.coppice(&["restart", "--quiet", "--timeout", "5", &name]);
        assert_eq!(ran.status, 125, "{}", ran.stderr);
        std::fs::write(object, &whole).expect("write");
    }
    goes_on(&cluster, &name);
    let _ = cluster.coppice(&["checkpoints", "--delete", &name]).success();
    assert_eq!(files_below(&cluster.root().join("kept/objects")), Vec::<PathBuf>::new());
    let gone = cluster.coppice(&["restart", &name]);
    assert!(gone.status == 125 && gone.stderr.lines().count() == 1, "{}", gone.stderr);
}

/// All files below a directory.
pub(crate) fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { files.extend(files_below(&path)) } else { files.push(path) }
    }
    files
}

/// A job that loses nodes goes on from its checkpoints by itself, whoever follows it notices no more than a line of it.
#[test]
fn jobs_that_lose_nodes_go_on_by_themselves() {
    let cluster = Cluster::up_with(&["--nodes", "3", "--memory", "128M"]);
    let ring = mpi::guest("ring");
    let policy = ["--checkpoint-every", "1s", "--max-restarts", "2", "--overlay=4"];
    let run = [&["run", "-n", "2"], &policy[..], &[ring.as_str(), "30000"]].concat();
    let mut command = cluster.command(&run);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start");
    for job in ["1", "2"] {
        wait_until("there is a checkpoint of it", Duration::from_secs(60), || {
            let listed = cluster.coppice(&["checkpoints", job, "--json"]);
            let is_there = listed.status == 0 && listed.text().contains("checkpoint");
            let events = || cluster.coppice(&["ras"]).text();
            if is_there { Ok(()) } else { Err(format!("{}{}{}", listed.stderr, listed.text(), events())) }
        });
        let shown = cluster.json(&["job", job]);
        let node = usize::try_from(shown["nodes"][1].as_u64().expect("a node")).expect("a number");
        let pid = cluster.json(&["nodes"])[node]["pid"].as_i64().expect("a process");
        let pid = Pid::from_raw(i32::try_from(pid).expect("a process id")).expect("a process id");
        kill_process(pid, Signal::KILL).expect("kill");
    }
    let ended = finish_child(child, "run");
    let (said, told) = (ended.text(), ended.stderr.clone());
    let jobs = cluster.json(&["jobs"]);
    assert_eq!(ended.status, 0, "{told}{said}{jobs}");
    for words in ["goes on as job 2 from checkpoint 1@", "goes on as job 3 from checkpoint 2@"] {
        assert!(told.contains(words), "{told}{jobs}");
    }
    for rank in 0..2 {
        assert!(said.contains(&format!("rank {rank} of 2 on node{rank}: 30000 rounds\n")), "{said}");
    }
    assert_eq!(jobs.as_array().map(Vec::len), Some(3), "{jobs}");
    // Each has an overlay again that begins with it.
    for job in ["1", "2", "3"] {
        let profile = cluster.json(&["profile", job]);
        let epochs = profile["epochs"].as_array().expect("epochs");
        let whole = epochs.iter().filter(|epoch| epoch["ranks"] == 2 && epoch["generation"] == 1);
        assert!(whole.count() > 0, "job {job}: {profile}");
    }
}

/// Room for a cluster of a node, its programs and two checkpoints, KiB.
const DISK_KIB: u64 = 24 * 1024;

/// Storage that is full is said in one line; the job goes on, earlier checkpoints are whole, and nothing half-written
/// is left.
#[test]
fn storage_that_is_full_costs_no_job() {
    let mounted = Cluster::with_mounts(|cluster, mounts| mounts.mount_small_disk(&cluster.home_path(), DISK_KIB));
    let Some(cluster) = mounted else { return };
    let _ = cluster.coppice(&["up", "--accel", "tcg", "--nodes", "1"]).success();
    let path = program("goes_on", Toolchain::Glibc);
    let job = start(&cluster, &[&path.to_string_lossy(), "1000000", "/lines.txt", "5"]);
    wait_for(&cluster, &job, "round 5:");
    let name = checkpoint(&cluster, &job);
    let filler = fill(&cluster.home_path());
    let refused = cluster.coppice(&["checkpoint", &job]);
    assert!(refused.status == 125 && refused.stderr.contains("full"), "{}", refused.stderr);
    assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);
    std::fs::remove_file(filler).expect("remove");
    let mut again = None;
    wait_until("there is room again", Duration::from_secs(60), || {
        let made = cluster.coppice(&["checkpoint", &job, "--json"]);
        again = (made.status == 0).then(|| made.text());
        if again.is_some() { Ok(()) } else { Err(made.stderr) }
    });
    assert!(again.is_some_and(|made| !made.contains(&name)));
    let storage = cluster.home_path().join("state/default/checkpoints");
    assert_eq!(files_below(&storage.join("temporary")), Vec::<PathBuf>::new());
    end(&cluster, &job);
    // The newer one first: the older cuts the file back further.
    for name in [format!("{job}@2"), name] {
        goes_on(&cluster, &name);
    }
}
