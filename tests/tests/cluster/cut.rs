//! Whole jobs that become data and are made again, on all of their nodes at once, again and again while they run: with
//! their connections, the bytes in those, and what is shared between ranks. Nothing may come of it.

use std::process::{Child, Stdio};
use std::time::Duration;

use coppice_tests::cluster::{finish_child, wait_until};
use coppice_tests::guests::{Toolchain, program};
use coppice_tests::{Cluster, host};

use crate::mpi;

/// Jobs are run until they were cut so often.
const CUTS_MIN: usize = 20;

/// But not more often than this.
const RUNS_MAX: usize = 30;

/// Cuts a job until it is over. Gives how often that was done.
fn cut_until_over(cluster: &Cluster, job: &str, child: &mut Child) -> usize {
    let mut cuts = 0;
    while child.try_wait().expect("a child").is_none() {
        let ran = cluster.coppice(&["cut", job]);
        if ran.status == 0 {
            cuts += 1;
            continue;
        }
        // It does not run yet, or not any more, or a rank just waits for the I/O node.
        let said = ran.stderr;
        let is_expected = [
            "there is no job",
            "not all ranks",
            "has ended",
            "come to its end",
            "at its end",
            "does not run",
            "waits for nodes",
            "waits for the I/O",
        ];
        assert!(is_expected.iter().any(|words| said.contains(words)), "{said}");
    }
    cuts
}

/// Runs something again and again while it is cut, and looks at what each run said.
#[track_caller]
fn until_cut(cluster: &Cluster, arguments: &[&str], check: impl Fn(&str)) {
    let mut cuts = 0;
    let before = cluster.json(&["jobs"]).as_array().map_or(0, Vec::len);
    for run in 1..=RUNS_MAX {
        let mut command = cluster.command(&[&["run", "--quiet"], arguments].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start");
        cuts += cut_until_over(cluster, &(before + run).to_string(), &mut child);
        check(&finish_child(child, "the job").success().text());
        if cuts >= CUTS_MIN {
            return;
        }
    }
    panic!("{arguments:?} was cut {cuts} times in {RUNS_MAX} runs");
}

/// Guests of one rank, whose every line is as on the host.
#[test]
fn programs_do_not_notice() {
    let cluster = Cluster::up_with(&["--nodes", "1", "--cores", "2"]);
    for (name, toolchain) in [
        ("files", Toolchain::Glibc),
        ("signals", Toolchain::Glibc),
        ("pipes_and_locks", Toolchain::Glibc),
        ("nested_epolls", Toolchain::Glibc),
        ("sockets", Toolchain::Glibc),
        ("threads_sync", Toolchain::Musl),
        ("closed_meanwhile", Toolchain::Musl),
    ] {
        let path = program(name, toolchain);
        let native = host::run::<&str>(cluster.root(), &path, &[]);
        until_cut(&cluster, &[&path.to_string_lossy()], |said| assert_eq!(said, native.text(), "{name}"));
    }
    let torture = program("signals_torture", Toolchain::Glibc);
    until_cut(&cluster, &[&torture.to_string_lossy(), "12", "100"], |said| {
        assert_eq!(said, "sent 1200, taken 1200, wrong 0, standard ones 1\n");
    });
}

/// Connections between nodes, over links that lose frames, too, and many at once.
#[test]
fn sockets_are_there_again() {
    for loss in [&["--loss", "1%"][..], &[]] {
        let cluster = Cluster::up_with(&[&["--nodes", "2"], loss].concat());
        let exchange = program("exchange", Toolchain::Musl);
        let bytes = (8_u64 << 20).to_string();
        until_cut(&cluster, &["-n", "2", &exchange.to_string_lossy(), &bytes], |said| {
            for rank in 0..2 {
                let line = format!("rank {rank}: {bytes} bytes each way");
                assert!(said.contains(&line), "{said}");
            }
        });
        if loss.is_empty() {
            // They come in the order they are made in only where no frame is lost.
            let many = program("many_sockets", Toolchain::Glibc);
            until_cut(&cluster, &["-n", "2", &many.to_string_lossy(), "200"], |said| {
                assert_eq!(said, "epoll: 200 sockets\npoll: 200 sockets\n");
            });
        }
    }
}

/// MPI between ranks of one node and of two, with threads, and with memory that ranks share.
#[test]
fn mpi_programs_do_not_notice() {
    let cluster = Cluster::up_with(&["--nodes", "2", "--memory", "128M"]);
    let options = ["-n", "4", "--ranks-per-node", "2"];
    for (name, arguments, line) in [
        ("ring", &["2000"][..], "rank 3 of 4 on node1: 2000 rounds\n"),
        ("allreduce", &[], "allreduce: 4 ranks agree\n"),
        ("onesided", &[], "onesided: 4 ranks agree\n"),
        ("halo", &["64", "200", "/heat.ppm"], "as computed serially\n"),
    ] {
        let path = mpi::guest(name);
        until_cut(&cluster, &[&options[..], &[path.as_str()], arguments].concat(), |said| {
            assert!(said.contains(line), "{said}");
        });
    }
    let hybrid = program("hybrid", Toolchain::MpiOpenMp);
    until_cut(&cluster, &[&options[..], &[&*hybrid.to_string_lossy(), "multiple", "3"]].concat(), |said| {
        assert_eq!(said, "multiple: 4 ranks of 3 threads on 1 cores agree\n");
    });
}

/// Whoever asks for a cut may be gone before it is done: it comes to its end all the same.
#[test]
fn whoever_asked_may_go() {
    let cluster = Cluster::up(2);
    let exchange = program("exchange", Toolchain::Musl);
    let bytes = (8_u64 << 20).to_string();
    for job in 1..=5 {
        let mut command = cluster.command(&["run", "--quiet", "-n", "2", &*exchange.to_string_lossy(), &bytes]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start");
        while child.try_wait().expect("a child").is_none() {
            let mut command = cluster.command(&["cut", &job.to_string()]);
            let mut asks = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("start");
            // It has come to somewhere in it.
            std::thread::yield_now();
            let _ = asks.kill();
            let _ = asks.wait();
        }
        let said = finish_child(child, "the job").success().text();
        assert!(said.contains(&format!("rank 1: {bytes} bytes each way")), "{said}");
    }
}

/// The steps of a cut after which its nodes wait for the next one.
const STEPS: [&str; 6] = ["stop", "quiet", "record", "make", "connect", "settle"];

/// Starts what has two ranks exchange bytes for a while, on nodes of their own, and cuts that as far as to a step.
/// Gives the number of the job.
fn cut_as_far_as(cluster: &Cluster, step: &str, bytes: u64) -> String {
    let exchange = program("exchange", Toolchain::Musl);
    let arguments = ["run", "--detach", "--keep-output", "-n", "2", &exchange.to_string_lossy(), &bytes.to_string()];
    let job = cluster.coppice(&arguments).success().text().trim().to_owned();
    wait_until("the job runs", Duration::from_secs(60), || {
        let ran = cluster.coppice(&["cut", &job, "--last", step]);
        if ran.status == 0 { Ok(()) } else { Err(ran.stderr) }
    });
    job
}

/// Nodes that hear no more of whoever leads go on by themselves, in whatever step that is.
#[test]
fn jobs_go_on_when_nobody_leads_any_more() {
    let cluster = Cluster::up_with(&["--nodes", "12", "--memory", "64M"]);
    let bytes = 64_u64 << 20;
    for job in STEPS.map(|step| cut_as_far_as(&cluster, step, bytes)) {
        let said =
            cluster.coppice(&["wait", &job]).success().stderr + &cluster.coppice(&["logs", &job]).success().text();
        for rank in 0..2 {
            assert!(said.contains(&format!("rank {rank}: {bytes} bytes each way")), "job {job}: {said}");
        }
    }
    let late = cluster.coppice(&["console", "0"]).success().text();
    assert!(late.contains("the next step of its cut has not come in time"), "{late}");
}

/// A job that is ended in the middle of a cut, or loses a node there, leaves its nodes as it found them.
#[test]
fn jobs_end_in_whatever_step() {
    let cluster = Cluster::up_with(&["--nodes", "2", "--memory", "64M"]);
    let exchange = program("exchange", Toolchain::Musl);
    for (end, status) in [(&["kill", "--signal", "KILL"][..], 137), (&["reboot"][..], 125)] {
        for step in STEPS {
            let job = cut_as_far_as(&cluster, step, 1 << 40);
            let whom = if end[0] == "reboot" { "1" } else { &job };
            let _ = cluster.coppice(&[end, &[whom]].concat()).success();
            let ran = cluster.coppice(&["wait", &job]);
            assert_eq!(ran.status, status, "after {step}: {}", ran.stderr);
            cluster.wait_until_ready();
            let _ = cluster.run(&["-n", "2", &exchange.to_string_lossy(), "100000"]).success();
        }
    }
    assert_eq!(cluster.json(&["nodes"])[0]["generation"], 1, "the node was rebooted");
}
