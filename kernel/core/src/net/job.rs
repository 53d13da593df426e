//! The network of the job that is on the node: from the launch of its first rank here until what the job left in the
//! kernel is wiped ([`super::Dial::scrub_connections`]), which is before its end is reported.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;

use coppice_endpoint::JobNetwork;
use coppice_protocol::control::Launch;
use coppice_protocol::spawn::Joined;
use coppice_protocol::world::NetworkTag;

use super::Network;
use crate::quota::Quota;

/// Has `network` be in that of a rank's job, unless it is. The job's table of nodes is charged to `quota` for as long
/// as it is there.
///
/// # Errors
/// There is no memory for the table, or the rank's node is not in it: one line that says so.
pub(crate) fn enter(order: &Launch, network: &dyn Network, quota: &Arc<Quota>) -> Result<(), String> {
    let (tag, own) = (order.world.network_tag(order.job), order.world.node_of(order.first));
    if network.is_in_job(tag) {
        return Ok(());
    }
    let charge = quota.charge(JobNetwork::memory_bytes(order.world.network().count()));
    let charge = charge.map_err(|errno| format!("network of the job: {errno}"))?;
    let job = JobNetwork::new(tag, &order.world, own).and_then(|job| job.keeping(charge));
    network.enter_job(job.ok_or_else(|| "the job's nodes make no network".to_string())?);
    Ok(())
}

/// Nodes have come to the network with this tag. How many nodes it has now that are known here; nothing if it is not
/// that of the job that is here.
pub(crate) fn join(tag: NetworkTag, joined: &Joined, network: &dyn Network, quota: &Arc<Quota>) -> Option<u32> {
    let known = network.nodes().filter(|_| network.is_in_job(tag))?;
    if known != joined.first {
        return Some(known);
    }
    let Ok(charge) = quota.charge(JobNetwork::memory_bytes(joined.nodes.len())) else { return Some(known) };
    network.join_job(tag, joined.first, &joined.nodes, Box::new(charge))
}

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;
    use alloc::vec;
    use alloc::vec::Vec;

    use coppice_protocol::control::Launch;
    use coppice_protocol::ids::{JobId, JobNode, NodeId, Rank};
    use coppice_protocol::spawn::Joined;
    use coppice_protocol::world::{JobKey, Kin, NetworkTag, NodeRange, World};

    use super::{enter, join};
    use crate::net::Network;
    use crate::net::testing::Net;
    use crate::process::testing::order;
    use crate::quota::tests::quota;

    fn launch(job: u64, nodes: Vec<u32>) -> Launch {
        let world = World::new(JobKey([2; 32]), 1, nodes.into_iter().map(NodeId));
        Launch { job: JobId(job), first: Rank(1), world, ..order(2) }
    }

    #[test]
    fn nodes_come_to_the_network_of_the_job_and_are_paid_for_once() {
        let (net, quota) = (Net::new(), quota());
        let stack = &net.dial.stack;
        let order = launch(7, vec![3, 9]);
        let tag = order.world.network_tag(order.job);
        let joined = |first, node: u32| Joined {
            job: JobId(7),
            first,
            nodes: vec![NodeRange { first: NodeId(node), count: 2 }],
        };
        assert_eq!(join(tag, &joined(2, 20), stack, &quota), None, "nobody is here");
        assert_eq!(enter(&order, stack, &quota), Ok(()));
        let alone = quota.taken();
        // What came before is missing; it; the same again.
        assert_eq!(join(tag, &joined(4, 30), stack, &quota), Some(2));
        assert_eq!(quota.taken(), alone);
        assert_eq!(join(tag, &joined(2, 20), stack, &quota), Some(4));
        let more = quota.taken();
        assert!(more > alone);
        assert_eq!(join(tag, &joined(2, 20), stack, &quota), Some(4));
        assert_eq!((quota.taken(), Network::nodes(stack)), (more, Some(4)));
        let eaten: Vec<_> = core::iter::from_fn(|| quota.charge(64).ok()).collect();
        assert_eq!(join(tag, &joined(4, 30), stack, &quota), Some(4), "there is no memory");
        drop(eaten);
        assert_eq!(join(tag, &joined(4, 30), stack, &quota), Some(6));
        stack.leave_job();
        assert_eq!((quota.taken(), Network::nodes(stack)), (0, None));
        assert_eq!(join(tag, &joined(6, 40), stack, &quota), None);
    }

    /// One that a rank of another job has started.
    #[test]
    fn a_job_of_a_family_is_behind_those_that_were_there() {
        let (net, quota) = (Net::new(), quota());
        let stack = &net.dial.stack;
        let order = launch(8, vec![3, 9]);
        let (tag, before) = (NetworkTag([5; 8]), vec![NodeRange { first: NodeId(40), count: 3 }]);
        let order = Launch { world: World { kin: Some(Box::new(Kin { tag, before })), ..order.world }, ..order };
        assert_eq!(enter(&order, stack, &quota), Ok(()));
        assert_eq!((Network::address(stack), Network::nodes(stack)), (Some(JobNode(4).address()), Some(5)));
        assert!(Network::is_in_job(stack, tag));
    }

    #[test]
    fn one_job_after_the_other_has_the_network_and_pays_for_it() {
        let (net, quota) = (Net::new(), quota());
        let stack = &net.dial.stack;
        assert_eq!(enter(&launch(7, vec![3, 9]), stack, &quota), Ok(()));
        let one = quota.taken();
        assert!(one > 0);
        assert_eq!(Network::address(stack), Some(JobNode(1).address()));
        // Another rank of the same job.
        assert_eq!(enter(&launch(7, vec![3, 9]), stack, &quota), Ok(()));
        assert_eq!(quota.taken(), one);
        // Nodes that are no neighbours take more than those that are.
        let scattered = (0..1000).map(|node| node * 2).collect();
        assert_eq!(enter(&launch(8, scattered), stack, &quota), Ok(()));
        assert_eq!(quota.taken(), one + 998 * 8);
        stack.leave_job();
        assert_eq!((quota.taken(), Network::address(stack)), (0, None));
        let stranger = enter(&launch(9, vec![3]), stack, &quota);
        assert!(stranger.is_err_and(|error| error.contains("make no network")));
        let eaten: Vec<_> = core::iter::from_fn(|| quota.charge(64).ok()).collect();
        let poor = enter(&launch(9, vec![3, 9]), stack, &quota);
        assert!(poor.is_err_and(|error| error.starts_with("network of the job")));
        drop(eaten);
        assert_eq!((quota.taken(), Network::address(stack)), (0, None));
    }
}
