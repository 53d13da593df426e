//! The conversation of two ranks of an MPICH 4.0.2 program on two nodes, as it was recorded, word for word.

use crate::cluster::Cluster;

const CARDS: [&str; 2] =
    ["port#60720$description#10.0.0.1$ifname#10.0.0.1$", "port#60721$description#10.0.0.2$ifname#10.0.0.2$"];

/// What a rank says and hears before its first barrier.
fn start(cluster: &mut Cluster, rank: u32) {
    let exchanges = [
        ("cmd=init pmi_version=1 pmi_subversion=1", "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"),
        ("cmd=get_maxes", "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n"),
        ("cmd=get_appnum", "cmd=appnum appnum=0\n"),
        ("cmd=get_my_kvsname", "cmd=my_kvsname kvsname=k0\n"),
        ("cmd=get_my_kvsname", "cmd=my_kvsname kvsname=k0\n"),
        ("cmd=get kvsname=k0 key=PMI_process_mapping", "cmd=get_result rc=0 msg=success value=(vector,(0,2,1))\n"),
    ];
    for (says, hears) in exchanges {
        assert_eq!(cluster.ask(rank, says), hears);
    }
    let put = format!("cmd=put kvsname=k0 key=P{rank}-businesscard value={}", CARDS[rank as usize]);
    assert_eq!(cluster.ask(rank, &put), "cmd=put_result rc=0 msg=success\n");
}

fn barrier(cluster: &mut Cluster) {
    assert_eq!(cluster.ask(0, "cmd=barrier_in"), "");
    cluster.settle();
    assert_eq!(cluster.hear(0), "");
    // Node 1 has heard of node 0, which has yet to hear of node 1.
    assert_eq!(cluster.ask(1, "cmd=barrier_in"), "cmd=barrier_out\n");
    assert_eq!(cluster.hear(0), "");
    cluster.settle();
    assert_eq!(cluster.hear(0), "cmd=barrier_out\n");
}

#[test]
fn two_ranks_on_two_nodes() {
    let mut cluster = Cluster::new(&[1, 1]);
    start(&mut cluster, 0);
    start(&mut cluster, 1);
    barrier(&mut cluster);
    barrier(&mut cluster);
    for rank in [0, 1] {
        for (other, card) in CARDS.iter().enumerate() {
            let get = format!("cmd=get kvsname=k0 key=P{other}-businesscard");
            assert_eq!(cluster.ask(rank, &get), format!("cmd=get_result rc=0 msg=success value={card}\n"));
        }
    }
    barrier(&mut cluster);
    for rank in [0, 1] {
        assert_eq!(cluster.ask(rank, "cmd=finalize"), "cmd=finalize_ack\n");
    }
    assert_eq!(cluster.events, []);
    assert!(cluster.servers.iter().all(coppice_protocol::pmi::Server::is_settled));
}
