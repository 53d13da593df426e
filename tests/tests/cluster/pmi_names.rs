//! Names that ranks publish: each is found from all nodes of its job, whatever happens on the way.

use coppice_tests::Cluster;

use crate::checkpoint::until_restarted;
use crate::pmi::{exchanged_by_second, second, sorted};

/// Also while processes are made data and again, all the time, and from the port.
#[test]
fn all_ranks_find_what_one_publishes() {
    let cluster = Cluster::up_with(&["--nodes", "3", "--freeze-every", "20ms"]);
    let second = second();
    for how in [&["names", "10"][..], &["port", "names", "10"]] {
        let ran = cluster.run(&[&["-n", "8", "--ranks-per-node", "3", &second], how].concat()).success();
        assert_eq!(sorted(&ran.text()), exchanged_by_second(8, "(vector,(0,2,3),(2,1,2))"), "{}", ran.stderr);
    }
}

/// One frame in a hundred is lost on every link, and each takes 5 ms, in both directions.
#[test]
fn bad_links_lose_no_name() {
    let cluster = Cluster::up_with(&["--nodes", "4", "--loss", "1%", "--latency", "5ms"]);
    let ran = cluster.run(&["-n", "4", &second(), "names", "10"]).success();
    assert_eq!(sorted(&ran.text()), exchanged_by_second(4, "(vector,(0,4,1))"), "{}", ran.stderr);
}

/// In the middle of that the job is checkpointed, and goes on on other nodes.
#[test]
fn names_go_on_elsewhere() {
    let cluster = Cluster::up(4);
    let run = ["-n", "4", "--ranks-per-node", "2", &second(), "names", "400"];
    until_restarted(&cluster, ["0-1", "2-3"], &run, |text, _| {
        let done = (0..4).filter(|rank| text.contains(&format!("rank {rank}: done\n"))).count();
        assert_eq!(done, 4, "{text}");
    });
}
