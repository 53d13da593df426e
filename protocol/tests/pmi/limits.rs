//! What happens at the limits of names, lines and numbers.

use coppice_protocol::limits::{
    PMI_BYTES_PER_JOB_MAX, PMI_FRAME_BODY_BYTES_MAX, PMI_KEY_BYTES_MAX, PMI_KEYS_PER_JOB_MAX, PMI_LINE_BYTES_MAX,
    PMI_NAME_BYTES_MAX, PMI_VALUE_BYTES_MAX,
};
use coppice_protocol::pmi::HEADER_BYTES;

use crate::cluster::Cluster;

const SUCCESS: &str = "cmd=put_result rc=0 msg=success\n";
const NO_ROOM: &str = "cmd=put_result rc=-1 msg=no_room_in_kvs_k0\n";

#[test]
fn keys_values_and_lines_have_their_longest() {
    let mut cluster = Cluster::new(&[1]);
    let put =
        |key: usize, value: usize| format!("cmd=put kvsname=k0 key={} value={}", "k".repeat(key), "v".repeat(value));
    assert_eq!(cluster.ask(0, &put(PMI_KEY_BYTES_MAX, PMI_VALUE_BYTES_MAX)), SUCCESS);
    let refused = "cmd=put_result rc=-1 msg=no_key_or_too_long\n";
    assert_eq!(cluster.ask(0, &put(PMI_KEY_BYTES_MAX + 1, 1)), refused);
    assert_eq!(cluster.ask(0, &put(1, PMI_VALUE_BYTES_MAX + 1)), "cmd=put_result rc=-1 msg=value_too_long\n");
    let long = |bytes: usize| "x".repeat(bytes);
    let too_long = "cmd=unknown rc=-1 msg=line_too_long\n";
    assert_eq!(cluster.ask(0, &long(PMI_LINE_BYTES_MAX)), "cmd=unknown rc=-1 msg=malformed_line\n");
    assert_eq!(cluster.ask(0, &long(PMI_LINE_BYTES_MAX + 1)), too_long);
    assert_eq!(cluster.ask(0, &long(10 * PMI_LINE_BYTES_MAX)), too_long);
    assert_eq!(cluster.ask(0, "cmd=get_appnum"), "cmd=appnum appnum=0\n");
    // Long names are not said back.
    let name = long(PMI_NAME_BYTES_MAX + 1);
    let answer = cluster.ask(0, &format!("cmd=get kvsname={name} key=k"));
    assert_eq!(answer, "cmd=get_result rc=-1 msg=kvs_?_not_found value=unknown\n");
}

#[test]
fn a_job_has_so_many_keys_and_its_nodes_their_share() {
    for nodes in [1, 2, 64] {
        let mut cluster = Cluster::new(&vec![1; nodes]);
        let share = PMI_KEYS_PER_JOB_MAX / nodes;
        for key in 0..share {
            assert_eq!(cluster.ask(0, &format!("cmd=put kvsname=k0 key={key} value=")), SUCCESS);
        }
        assert_eq!(cluster.ask(0, "cmd=put kvsname=k0 key=more value="), NO_ROOM);
        assert_eq!(cluster.ask(0, "cmd=get kvsname=k0 key=0"), "cmd=get_result rc=0 msg=success value=\n");
    }
}

/// All nodes put all that they may, and everybody knows all of it after the barrier.
#[test]
fn a_job_has_so_many_bytes_and_they_spread_in_bounded_frames() {
    for nodes in [1, 3] {
        let mut cluster = Cluster::new(&vec![1; nodes]);
        let mut keys = Vec::new();
        for rank in 0..nodes as u32 {
            let value = rank.to_string().repeat(PMI_VALUE_BYTES_MAX);
            let mut bytes = 0;
            for key in (0..).map(|key| format!("{rank}-{key}")) {
                bytes += key.len() + value.len();
                let answer = cluster.ask(rank, &format!("cmd=put kvsname=k0 key={key} value={value}"));
                if bytes > PMI_BYTES_PER_JOB_MAX / nodes {
                    assert_eq!(answer, NO_ROOM);
                    break;
                }
                assert_eq!(answer, SUCCESS);
                keys.push((key, value.clone()));
            }
            assert_eq!(cluster.ask(rank, "cmd=barrier_in"), if nodes == 1 { "cmd=barrier_out\n" } else { "" });
        }
        for (from, to) in cluster.pairs_with_output() {
            while let Some(frame) = cluster.frame(from, to) {
                assert!(frame.len() <= HEADER_BYTES + PMI_FRAME_BODY_BYTES_MAX);
                // What comes again does not count again.
                for _ in 0..5 {
                    cluster.deliver(to, &frame);
                }
            }
        }
        cluster.settle();
        for rank in 0..nodes as u32 {
            cluster.hear(rank);
            for (key, value) in &keys {
                let answer = cluster.ask(rank, &format!("cmd=get kvsname=k0 key={key}"));
                assert_eq!(answer, format!("cmd=get_result rc=0 msg=success value={value}\n"));
            }
        }
    }
}

/// Neither node can see that the other puts the same key. All agree on what it is.
#[test]
fn of_two_values_that_meet_the_lower_node_wins_everywhere() {
    let mut cluster = Cluster::new(&[1, 1, 1]);
    for rank in [2, 1] {
        assert_eq!(cluster.ask(rank, &format!("cmd=put kvsname=k0 key=who value={rank}")), SUCCESS);
    }
    for rank in 0..3 {
        cluster.ask(rank, "cmd=barrier_in");
    }
    cluster.settle();
    for rank in 0..3 {
        assert_eq!(cluster.hear(rank), "cmd=barrier_out\n");
        let get = "cmd=get kvsname=k0 key=who";
        assert_eq!(cluster.ask(rank, get), "cmd=get_result rc=0 msg=success value=1\n");
        let again = cluster.ask(rank, "cmd=put kvsname=k0 key=who value=9");
        assert_eq!(again, "cmd=put_result rc=-1 msg=duplicate_key_who\n");
    }
}
