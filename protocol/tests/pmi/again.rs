//! Jobs that go on elsewhere from what was written down of them: between barriers and within one.

use crate::cluster::Cluster;

const RELEASED: &str = "cmd=barrier_out\n";

fn put(cluster: &mut Cluster, rank: u32, key: &str) {
    let said = cluster.ask(rank, &format!("cmd=put kvsname=k0 key={key} value=of_{rank}"));
    assert_eq!(said, "cmd=put_result rc=0 msg=success\n");
}

fn get(cluster: &mut Cluster, rank: u32, key: &str, of: u32) {
    let said = cluster.ask(rank, &format!("cmd=get kvsname=k0 key={key}"));
    assert_eq!(said, format!("cmd=get_result rc=0 msg=success value=of_{of}\n"));
}

fn enter(cluster: &mut Cluster, ranks: impl IntoIterator<Item = u32>) {
    for rank in ranks {
        assert_eq!(cluster.say(rank, b"cmd=barrier_in\n"), 15);
    }
}

fn all_leave(cluster: &mut Cluster, ranks: u32) {
    cluster.settle();
    for rank in 0..ranks {
        assert_eq!(cluster.hear(rank), RELEASED, "rank {rank}");
    }
    assert_eq!(cluster.events, []);
}

#[test]
fn keys_are_known_as_before_and_barriers_go_on() {
    let mut cluster = Cluster::new(&[2, 1, 2]);
    put(&mut cluster, 0, "early");
    enter(&mut cluster, 0..5);
    all_leave(&mut cluster, 5);
    put(&mut cluster, 4, "late");
    let mut cluster = cluster.again();
    assert!(cluster.servers.iter().all(|server| server.barriers() == 1));
    for rank in 0..5 {
        get(&mut cluster, rank, "early", 0);
    }
    // Once only.
    assert!(cluster.ask(4, "cmd=put kvsname=k0 key=late value=x").contains("duplicate_key"));
    enter(&mut cluster, 0..5);
    all_leave(&mut cluster, 5);
    get(&mut cluster, 2, "late", 4);
}

#[test]
fn a_barrier_that_is_not_through_is_entered_anew() {
    // Whatever has been said of it: nothing, a part, all but the last.
    for frames in 0..6 {
        let mut cluster = Cluster::new(&[2, 1, 2]);
        put(&mut cluster, 1, "mine");
        enter(&mut cluster, 0..4);
        for _ in 0..frames {
            let Some((from, to)) = cluster.pairs_with_output().first().copied() else { break };
            let frame = cluster.frame(from, to).expect("something");
            cluster.deliver(to, &frame);
        }
        let mut cluster = cluster.again();
        for rank in 0..5 {
            assert_eq!(cluster.hear(rank), "", "rank {rank}");
        }
        cluster.settle();
        enter(&mut cluster, [4]);
        all_leave(&mut cluster, 5);
        get(&mut cluster, 3, "mine", 1);
    }
}

#[test]
fn half_a_line_and_what_was_not_heard_are_there_again() {
    let mut cluster = Cluster::new(&[1, 1]);
    enter(&mut cluster, 0..2);
    assert_eq!(cluster.say(0, b"cmd=get_universe_size\ncmd=get_app"), 33);
    // They may leave, and were not told.
    cluster.settle();
    let mut cluster = cluster.again();
    let heard = cluster.hear(0);
    assert!(heard.contains("cmd=universe_size size=2\n"), "{heard}");
    assert_eq!(cluster.hear(1), RELEASED);
    assert_eq!(cluster.ask(0, "num"), "cmd=appnum appnum=0\n");
}

#[test]
fn what_is_of_other_ranks_is_refused() {
    let (mut cluster, mut other) = (Cluster::new(&[2, 1]), Cluster::new(&[1, 2]));
    assert!(other.servers[0].restore(cluster.servers[0].record(), 0).is_err());
    enter(&mut other, [0]);
    let own = other.servers[0].record();
    assert!(other.servers[0].restore(own, 0).is_err(), "it has entered a barrier");
}
