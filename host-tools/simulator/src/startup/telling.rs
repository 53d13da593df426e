//! From the submission until ranks run: the service node tells the I/O nodes, one after the other, each of those its
//! nodes, and each node makes its ranks.

use super::{Options, Order, Started};

/// When all were told, and when each rank runs its first instruction.
pub(super) struct Told {
    pub(super) started: Started,
    /// By rank, ns since the submission.
    pub(super) ranks_run_ns: Vec<u64>,
}

pub(super) fn tell(options: &Options) -> Told {
    let costs = &options.costs;
    let (mut told_ns, mut launched_ns) = (0, 0);
    let mut ranks_run_ns = Vec::with_capacity(options.ranks() as usize);
    let mut service_ns = costs.submit_ns;
    let mut first = 0;
    while first < options.nodes {
        let nodes = options.pset_nodes.max(1).min(options.nodes - first);
        first += nodes;
        let members = members(options, nodes);
        let of_service = match options.order {
            Order::New => u64::from(nodes) * costs.tell_node_ns,
            Order::Old => members * costs.tell_member_ns,
        };
        service_ns += costs.tell_pset_ns + of_service;
        let mut io_node_ns = service_ns + costs.latency_ns + members * costs.tell_member_ns;
        told_ns = told_ns.max(io_node_ns);
        for _ in 0..nodes {
            let launches = members / u64::from(nodes);
            let mut node_ns = 0;
            for _ in 0..launches {
                io_node_ns += costs.send_launch_ns.max(costs.on_link_ns(costs.launch_bytes));
                node_ns = node_ns.max(io_node_ns + costs.latency_ns) + costs.take_launch_ns;
            }
            launched_ns = launched_ns.max(node_ns);
            // The first core takes launches and makes all ranks.
            for _ in 0..options.ranks_per_node {
                node_ns += costs.make_rank_ns;
                ranks_run_ns.push(node_ns);
            }
        }
    }
    let running_ns = ranks_run_ns.iter().copied().max().unwrap_or(launched_ns);
    Told { started: Started { told_ns, launched_ns, running_ns, ..Started::default() }, ranks_run_ns }
}

/// What so many nodes are told apart: each of them, or each of their ranks.
fn members(options: &Options, nodes: u32) -> u64 {
    let each = match options.order {
        Order::New => 1,
        Order::Old => options.ranks_per_node,
    };
    u64::from(nodes) * u64::from(each)
}
