//! Performance overlays: what is told of ranks is what they did, whoever dies on the way.

use std::time::Duration;

use coppice_tests::Cluster;
use coppice_tests::cluster::wait_until;
use coppice_tests::guests::{Toolchain, program};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A number of a record.
#[track_caller]
fn number(record: &Value, name: &str) -> u64 {
    record[name].as_u64().unwrap_or_else(|| panic!("no number `{name}` in {record}"))
}

/// The epochs that were recorded of a job.
fn epochs(cluster: &Cluster, job: &str) -> Vec<Value> {
    cluster.json(&["profile", job])["epochs"].as_array().expect("epochs").clone()
}

/// What all ranks did of something, in all epochs together.
fn sum(epochs: &[Value], metric: &str) -> u64 {
    let of = |epoch: &Value| {
        let metrics = epoch["metrics"].as_array().expect("metrics");
        metrics.iter().find(|found| found["metric"] == metric).map_or(0, |found| number(found, "sum"))
    };
    epochs.iter().map(of).sum()
}

/// What ranks printed of something, together.
fn printed(text: &str, name: &str) -> u64 {
    let values = text.lines().filter_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    values.sum()
}

/// Starts a job that belongs to nobody, with these arguments behind `run --detach`; its number.
fn detach(cluster: &Cluster, arguments: &[&str]) -> String {
    let ran = cluster.coppice(&[&["run", "--detach", "--keep-output"], arguments].concat()).success();
    ran.text().trim().to_owned()
}

/// Waits until a job's overlay is as it should be.
fn wait_for_overlay(cluster: &Cluster, job: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    wait_until(what, Duration::from_secs(60), || {
        last = cluster.json(&["overlay", job]);
        if is_so(&last) { Ok(()) } else { Err(last.to_string()) }
    });
    last
}

#[track_caller]
fn assert_near(told: u64, counted: u64, by: u64, what: &str) {
    assert!(told.abs_diff(counted) <= by, "{what}: {told} is told, {counted} was counted");
}

#[test]
fn what_is_told_of_ranks_is_what_they_did() {
    let cluster = Cluster::up(3);
    std::fs::write(cluster.root().join("input"), vec![7; 1 << 20]).expect("written");
    let path = program("overlay", Toolchain::Musl);
    let peers = ["10.128.0.1", "10.128.0.2", "10.128.0.3"];
    let ran = cluster.run(&[&["-n", "3", "--overlay=5", &path.to_string_lossy()], &peers[..]].concat()).success();
    let text = ran.text();
    let job = cluster.last_job();
    let epochs = epochs(&cluster, &job["job"].to_string());
    assert!(epochs.len() >= 10, "{} epochs", epochs.len());
    // Not the first one, to which not all may have come, nor the last ones, of which some ranks may have ended before
    // others, nor one at whose end a node's host was busy for as long as an epoch: that is in the node's next.
    let is_whole = |epoch: &Value| number(epoch, "ranks") == 3;
    let whole = epochs.iter().filter(|epoch| is_whole(epoch)).count();
    assert!(whole * 3 >= epochs.len() * 2, "{whole} of {} are whole", epochs.len());

    // Exactly, by its own count, the overlay's, and, where it has one, the job's record.
    for (name, metric) in [("sent", "bytes-sent"), ("received", "bytes-received")] {
        assert_eq!(printed(&text, name), sum(&epochs, metric), "{name}: {text}");
    }
    // What it printed itself is the last that it did.
    let shipped = printed(&text, "shipped");
    assert_eq!(shipped + text.len() as u64, sum(&epochs, "bytes-shipped"), "{text}");
    let ranks = job["rank_reports"].as_array().expect("ranks");
    let recorded = |name: &str| ranks.iter().map(|rank| number(rank, name)).sum::<u64>();
    assert_eq!((recorded("bytes_read"), recorded("bytes_written")), (shipped, text.len() as u64));
    // And so did each of them, one by one.
    let id = job["job"].to_string();
    for (rank, report) in ranks.iter().enumerate() {
        let told = cluster.json(&["profile", &id, "--rank", &rank.to_string()]);
        let spans = told["spans"].as_array().expect("spans");
        let value = |span: &Value, metric: &str| span["values"][metric].as_u64().unwrap_or_default();
        let sum = |metric: &str| spans.iter().map(|span| value(span, metric)).sum::<u64>();
        assert_eq!(sum("bytes-shipped"), number(report, "bytes_read") + number(report, "bytes_written"), "{told}");
        assert!((1_500_000_000..4_000_000_000).contains(&sum("sleep")) && spans.len() >= 10, "{told}");
        // All that it has sent went to other nodes of the job.
        let nodes = job["nodes"].as_array().expect("nodes").iter().filter(|node| **node != job["nodes"][rank]);
        let sent = nodes.map(|node| sum(&format!("sent-to:{node}"))).sum::<u64>();
        assert!(sent > 0 && sent == sum("bytes-sent"), "{sent}: {told}");
        // Calls one by one are all that it made; what it made once the overlay was there is known exactly.
        let of_all = |span: &Value| span["values"].as_object().cloned().expect("an object");
        let called = spans.iter().flat_map(of_all).filter(|(name, _)| name.starts_with("called:"));
        assert_eq!(called.filter_map(|(_, times)| times.as_u64()).sum::<u64>(), sum("calls"), "{told}");
        let calls = report["syscalls"].as_array().expect("calls");
        let made = |name: &str| calls.iter().find(|call| call["name"] == name).map_or(0, |call| number(call, "calls"));
        for name in ["sendto", "read"] {
            // At the end of an epoch they may have been few, and among the others.
            let (told_of, others) = (sum(&format!("called:{name}")), sum("called:others"));
            assert!(told_of > 0 && (told_of..=told_of + others).contains(&made(name)), "{name}: {told}");
        }
        let is_next = |pair: &[Value]| number(&pair[0], "end_ns") == number(&pair[1], "begin_ns");
        assert!(spans.windows(2).all(is_next), "{told}");
    }
    let refused = cluster.coppice(&["profile", &id, "--rank", "3"]);
    assert!(refused.status == 125 && refused.stderr.ends_with("has no rank 3; its last is 2\n"), "{}", refused.stderr);
    // Its first touches of its program were before the first epoch.
    let faults = printed(&text, "faults");
    assert_near(sum(&epochs, "faults"), faults, 60, "faults");
    assert!(recorded("page_faults") >= sum(&epochs, "faults"), "{job}");
    // By the same clock, so that a busy host is in both: what it computed, and no more than all that it did.
    let (user, least, most) = (sum(&epochs, "user"), printed(&text, "user"), printed(&text, "used"));
    assert!((least * 4 / 5..=most * 11 / 10).contains(&user), "user time: {user} of {least} to {most} ns");
    // 0.7 s in the middle, and the rests before, but for what passes until they are looked at, and after.
    let sleep = sum(&epochs, "sleep");
    let rests = 3 * (700 + 2 * 1200) * 1_000_000;
    assert!((rests * 4 / 5..=rests * 11 / 10).contains(&sleep), "{sleep} of {rests} ns");
    // All of the time of the ranks is somewhere. A node that is late to look has more of it in an epoch, and less in
    // the next. Ranks begin and end amid an epoch.
    let first = epochs.iter().position(is_whole).expect("one");
    let last = epochs.iter().rposition(is_whole).expect("one");
    let whole = &epochs[first + 1..last];
    let times = ["user", "kernel", "futex", "network", "file", "input", "sleep", "page", "ready"];
    let all: u64 = times.iter().map(|metric| sum(whole, metric)).sum();
    let (first, last) = (&whole[0], &whole[whole.len() - 1]);
    let period = number(first, "period_ns");
    let elapsed = number(last, "end_ns") - number(first, "end_ns") + period;
    assert_near(all, 3 * elapsed, 3 * 3 * period / 2, "all of the time");
}

/// Of a job that is over long before its first epoch would be, all that its ranks did is told, and where they were.
#[test]
fn what_a_short_job_does_is_told_to_its_end() {
    let cluster = Cluster::up(2);
    let path = program("profiled", Toolchain::Glibc);
    let path = path.to_string_lossy();
    // An epoch lasts a minute.
    let text = cluster.run(&["-n", "2", "--overlay=0.01667", "--sample", "200", &path, "500"]).success().text();
    let id = cluster.last_job()["job"].to_string();
    let epochs = epochs(&cluster, &id);
    assert!((1..=2).contains(&epochs.len()), "{epochs:?}");
    assert!(epochs.iter().all(|epoch| number(epoch, "ranks") == 2 && epoch["missing"] == ""), "{epochs:?}");
    let user = printed(&text, "total ");
    assert_near(sum(&epochs, "user"), user, user / 5, "user time");
    let rests = 2 * 2 * 1_200_000_000;
    assert_near(sum(&epochs, "sleep"), rests, rests / 5, "sleep");
    let alike = epochs[0]["alike"].as_array().expect("classes");
    assert_eq!(alike.iter().map(|class| number(class, "count")).sum::<u64>(), 2, "{alike:?}");
    assert_eq!(alike[0]["metric"], "sleep", "{alike:?}");
    let stacks = cluster.coppice(&["profile", &id, "--folded"]).success().text();
    assert!(stacks.lines().any(|line| line.contains("main;work;one_round;heavy ")), "{stacks}");
    let shown = cluster.coppice(&["profile", &id]).success().text();
    assert!(shown.contains("sleep"), "{shown}");
}

/// The process on node 1 dies with its node, and later two at once: those below it are heard in the same run, and who
/// is missing is said.
#[test]
fn who_is_below_a_process_that_dies_goes_on_being_heard() {
    let cluster = Cluster::up(8);
    let topology = cluster.root().join("tree");
    std::fs::write(&topology, "fe:0 => 1:0 2:0 ; 1:0 => 3:0 4:0 ; 2:0 => 5:0 ;").expect("written");
    let nodes = ["--nodes-list", "0-7", "--overlay=4", "--overlay-topology", &topology.to_string_lossy()];
    let arguments = [&nodes[..], &["--on-rank-failure", "continue", "/bin/busybox", "sleep", "600"]].concat();
    let job = detach(&cluster, &arguments);
    let last_has = |ranks: u64| move |view: &Value| view["last"]["ranks"] == ranks;
    let view = wait_for_overlay(&cluster, &job, "all ranks to be heard", last_has(8));
    assert_eq!(view["processes"].as_array().map(Vec::len), Some(5), "{view}");
    for (dead, living) in [(&[1_u64][..], 7), (&[3, 5][..], 5)] {
        let nodes = cluster.json(&["nodes"]);
        for node in dead {
            let pid = nodes[*node as usize]["pid"].as_i64().expect("a process");
            let pid = Pid::from_raw(i32::try_from(pid).expect("a process id")).expect("a process id");
            kill_process(pid, Signal::KILL).expect("kill");
        }
        // As many may be in an epoch before their death, to which another came late.
        let _ = wait_for_overlay(&cluster, &job, "those that live to be heard, and no others", |view| {
            let missing = view["missing"].as_array().expect("missing").iter();
            let missing: Vec<&str> = missing.filter_map(|missing| missing["ranks"].as_str()).collect();
            let missing = missing.join(",");
            let processes = view["processes"].as_array().expect("processes");
            last_has(living)(view)
                && processes.iter().all(|process| !dead.contains(&number(process, "node")))
                && dead.iter().all(|rank| missing.contains(&rank.to_string()))
        });
    }
    let _ = cluster.coppice(&["kill", "--signal", "KILL", &job]).success();
    let _ = cluster.coppice(&["wait", &job]);
    let epochs = epochs(&cluster, &job);
    assert!(epochs.iter().all(|epoch| number(epoch, "ranks") <= 8 && number(epoch, "of") == 8), "{epochs:?}");
    let numbers: Vec<u64> = epochs.iter().map(|epoch| number(epoch, "epoch")).collect();
    assert!(numbers.is_sorted() && numbers.windows(2).all(|pair| pair[0] < pair[1]), "each epoch is there once");
}

#[test]
fn an_overlay_is_begun_and_ended_while_a_job_runs() {
    let cluster = Cluster::up(2);
    let job = detach(&cluster, &["-n", "2", "/bin/busybox", "sleep", "600"]);
    assert_eq!(cluster.json(&["overlay", &job])["state"], "off");
    for (generation, rate) in [(1, "5"), (2, "10")] {
        let _ = cluster.coppice(&["overlay", &job, "on", "--rate", rate]).success();
        let view = wait_for_overlay(&cluster, &job, "an epoch", |view| view["last"]["ranks"] == 2);
        assert_eq!(number(&view, "generation"), generation, "{view}");
        assert_eq!(view["state"], "running", "{view}");
    }
    wait_until("an epoch in which the ranks slept", Duration::from_secs(60), || {
        let shown = cluster.coppice(&["profile", &job]).success().text();
        if shown.contains("sleep") { Ok(()) } else { Err(shown) }
    });
    let off = cluster.coppice(&["overlay", &job, "off"]).success();
    assert_eq!(off.text(), format!("overlay of job {job}: none\n"));
    let recorded = epochs(&cluster, &job);
    let generations: Vec<u64> = recorded.iter().map(|epoch| number(epoch, "generation")).collect();
    assert!(generations.contains(&1) && generations.contains(&2), "{generations:?}");
    let _ = cluster.coppice(&["kill", "--signal", "KILL", &job]).success();
    let _ = cluster.coppice(&["overlay", "999"]).refused(&["there is no job 999"]);
    let _ = cluster.coppice(&["profile", "999"]).refused(&["there is no job 999"]);
    let path = program("true", Toolchain::Musl);
    let path = path.to_string_lossy();
    let _ = cluster.coppice(&["run", "--overlay=1000", &path]).refused(&["an epoch of 1 ms is too short"]);
    let _ = cluster
        .coppice(&["run", "--overlay", "--overlay-topology", "/no/such/file", &path])
        .refused(&["/no/such/file"]);
}

/// Whatever is gathered of it, what an MPI program computes is the same.
#[test]
fn an_mpi_job_computes_the_same_under_an_overlay() {
    let cluster = Cluster::up(4);
    let path = program("halo", Toolchain::Mpi);
    let run = |overlay: &[&str], picture: &str| {
        let program = [&*path.to_string_lossy(), "96", "60", &format!("/{picture}")].map(str::to_owned);
        let program: Vec<&str> = program.iter().map(String::as_str).collect();
        let text = cluster.run(&[&["-n", "4"], overlay, &program[..]].concat()).success().text();
        assert!(text.ends_with("as computed serially\n"), "{overlay:?}: {text}");
        std::fs::read(cluster.root().join(picture)).expect("a picture")
    };
    let without = run(&[], "none.ppm");
    for (overlay, picture) in [("--overlay=1", "1.ppm"), ("--overlay=10", "10.ppm"), ("--overlay=100", "100.ppm")] {
        assert!(run(&[overlay], picture) == without, "{overlay}");
    }
}
