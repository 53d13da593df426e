//! Locks of files between ranks on two nodes, and between jobs.

use coppice_tests::guests::{Toolchain, program};
use coppice_tests::{Cluster, Waiting, host};

/// Two ranks on each of two nodes.
const PLACED: [&str; 4] = ["-n", "4", "--ranks-per-node", "2"];

/// Has ranks do something with a file; what they print, in lines.
#[track_caller]
fn run(cluster: &Cluster, options: &[&str], arguments: &[&str]) -> Vec<String> {
    let guest = program("locks_between", Toolchain::Glibc);
    let guest = guest.to_str().expect("a path");
    let ran = cluster.run(&[&PLACED[..], options, &[guest], arguments].concat());
    let may_fail = options.contains(&"--on-rank-failure");
    assert!(ran.status == 0 || may_fail, "{arguments:?}: {}{}", ran.text(), ran.stderr);
    ran.text().lines().map(str::to_owned).collect()
}

#[test]
fn what_ranks_count_under_a_lock_is_exact() {
    const TIMES: usize = 150;
    let cluster = Cluster::up(2);
    let times = TIMES.to_string();
    for (kind, io) in [("fcntl", "leased"), ("ofd", "leased"), ("flock", "leased"), ("fcntl", "strict")] {
        let file = format!("/counted-{kind}-{io}");
        run(&cluster, &["--io", io], &["count", &file, kind, &times]);
        let bytes = std::fs::read(cluster.root().join(&file[1..])).expect("it is there");
        let counted = u64::from_le_bytes(bytes.try_into().expect("a number"));
        assert_eq!(counted, 4 * TIMES as u64, "{kind} {io}");
    }
}

#[test]
fn who_has_a_lock_is_known_everywhere_until_it_ends() {
    let cluster = Cluster::up(2);
    for how in ["ended", "killed", "closed"] {
        let options = ["--on-rank-failure", "continue"];
        let mut lines = run(&cluster, &options, &["holder", &format!("/held-{how}"), how]);
        lines.sort();
        let found = |rank: u32| format!("rank {rank}: 1000 has 1 from 10, 20 bytes");
        let expected = ["1000 has it", &found(1), &found(2), "rank 3 has it", &found(3)];
        assert_eq!(lines, expected, "{how}");
    }
}

#[test]
fn who_would_wait_for_itself_is_told_and_who_waits_can_be_interrupted() {
    let cluster = Cluster::up(2);
    let mut lines = run(&cluster, &[], &["deadlock", "/both"]);
    lines.sort();
    assert_eq!(lines, ["EDEADLK", "has both"]);
    assert_eq!(run(&cluster, &[], &["interrupted", "/waited"]), ["-1 EINTR", "0"]);
}

#[test]
fn who_wants_a_lock_has_it_as_often_as_others() {
    let cluster = Cluster::up(2);
    let lines = run(&cluster, &[], &["turns", "/turns", "3000"]);
    let mut times: Vec<u32> = lines.iter().map(|line| line.parse().expect("a number")).collect();
    times.sort_unstable();
    println!("{times:?}");
    assert!(times[0] > 0 && times[0] * 2 > times[3], "{times:?}");
}

#[test]
fn jobs_lock_each_other_out() {
    let cluster = Cluster::up(2);
    let guest = program("locks_between", Toolchain::Glibc);
    let guest = guest.to_str().expect("a path");
    let tries = |expected: &str| {
        let ran = cluster.run(&[guest, "tries", "/shared"]).success();
        assert_eq!(ran.text(), expected);
    };
    let waiting = Waiting::start(&cluster, &[guest, "holds", "/shared"], "held");
    // It is a process that cannot be named.
    tries("1 0\nEAGAIN\n");
    let _ = waiting.go_on().success();
    tries("2 0\nhas it\n");
}

/// One database that ranks on two nodes write to; and what the host finds in it.
#[test]
fn ranks_write_to_one_sqlite_database() {
    const ROWS: u32 = 12;
    let cluster = Cluster::up(2);
    let guest = program("sqlite_ranks", Toolchain::Sqlite);
    let path = guest.to_str().expect("a path");
    let rows = ROWS.to_string();
    let ran = cluster.run(&[&PLACED[..], &[path, "write", "/rows.db", &rows]].concat());
    assert_eq!(ran.status, 0, "{}{}", ran.text(), ran.stderr);
    let (all, sum) = (4 * ROWS, 4 * (0..ROWS).sum::<u32>());
    let expected =
        format!("integrity_check ok\njournal_mode delete\nrows {all}\ndifferent {all}\nsum {sum}\ntotal {all}\n");
    assert_eq!(cluster.run(&[path, "check", "/rows.db"]).success().text(), expected);
    assert_eq!(host::run(cluster.root(), &guest, &["check", "rows.db"]).text(), expected);
}
