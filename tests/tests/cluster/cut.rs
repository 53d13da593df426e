//! Whole jobs that become data and are made again, on all of their nodes at once, again and again while they run: with
//! their connections, the bytes in those, and what is shared between ranks. Nothing may come of it.

use std::process::{Child, Stdio};

use coppice_tests::Cluster;
use coppice_tests::cluster::finish_child;
use coppice_tests::guests::{Toolchain, program};

use crate::mpi;

/// Jobs are run until they were cut so often.
const CUTS_MIN: usize = 20;

/// But not more often than this.
const RUNS_MAX: usize = 30;

/// Cuts the newest job until it is over. Gives how often that was done.
fn cut_until_over(cluster: &Cluster, child: &mut Child) -> usize {
    let mut cuts = 0;
    while child.try_wait().expect("a child").is_none() {
        let job = cluster.last_job()["id"].to_string();
        let ran = cluster.coppice(&["cut", &job]);
        if ran.status == 0 {
            cuts += 1;
            continue;
        }
        // It does not run yet, or not any more, or a rank just waits for the I/O node.
        let said = ran.stderr;
        let is_expected =
            ["not all ranks", "has ended", "come to its end", "does not run", "waits for nodes", "waits for the I/O"];
        assert!(is_expected.iter().any(|words| said.contains(words)), "{said}");
    }
    cuts
}

/// Runs something again and again while it is cut, and looks at what each run said.
#[track_caller]
fn until_cut(cluster: &Cluster, arguments: &[&str], check: impl Fn(&str)) {
    let mut cuts = 0;
    for _ in 0..RUNS_MAX {
        let mut command = cluster.command(&[&["run", "--quiet"], arguments].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start");
        cuts += cut_until_over(cluster, &mut child);
        check(&finish_child(child, "the job").success().text());
        if cuts >= CUTS_MIN {
            return;
        }
    }
    panic!("{arguments:?} was cut {cuts} times in {RUNS_MAX} runs");
}

/// Connections between nodes, over links that lose frames, too; many at once; and one program's own.
#[test]
fn sockets_are_there_again() {
    for loss in [&[][..], &["--loss", "1%"][..]] {
        let cluster = Cluster::up_with(&[&["--nodes", "2"], loss].concat());
        let exchange = program("exchange", Toolchain::Musl);
        let bytes = (8_u64 << 20).to_string();
        until_cut(&cluster, &["-n", "2", &exchange.to_string_lossy(), &bytes], |said| {
            for rank in 0..2 {
                let line = format!("rank {rank}: {bytes} bytes each way");
                assert!(said.contains(&line), "{said}");
            }
        });
    }
}

/// MPI between ranks of one node and of two.
#[test]
fn mpi_programs_do_not_notice() {
    let cluster = Cluster::up_with(&["--nodes", "2", "--memory", "128M"]);
    let options = ["-n", "4", "--ranks-per-node", "2"];
    for (name, arguments, line) in [
        ("ring", &["2000"][..], "rank 3 of 4 on node1: 2000 rounds\n"),
        ("allreduce", &[], "allreduce: 4 ranks agree\n"),
        ("halo", &["64", "200", "/heat.ppm"], "as computed serially\n"),
    ] {
        let path = mpi::guest(name);
        until_cut(&cluster, &[&options[..], &[path.as_str()], arguments].concat(), |said| {
            assert!(said.contains(line), "{said}");
        });
    }
}
