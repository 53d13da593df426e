//! What people use today, as models of the same links: what it takes at best.

use coppice_protocol::distribution::Plan;

/// How a file gets to many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// One copy after another, from home.
    Sequential,
    /// Each member sends the whole file on to this many, one after another, when it has it: what `sbcast` does with a
    /// fan-out of 50.
    StoreAndForward(u32),
    /// Each member that has the whole file sends it to one that has not.
    Binomial,
    /// One after another in a chain, piece by piece.
    Chain,
}

impl Model {
    /// When the last member is whole, ns.
    #[must_use]
    pub fn whole_ns(self, plan: &Plan) -> f64 {
        let copy_ns = plan.link_ns(u64::from(plan.pieces()) * plan.wire_bytes(0, plan.packets(0))) as f64;
        let (members, latency_ns) = (f64::from(plan.members), f64::from(plan.link.latency_ns));
        match self {
            Self::Sequential => members * copy_ns + latency_ns,
            Self::StoreAndForward(fan_out) => {
                let (mut reached, mut layer, mut layers) = (0.0, 1.0, 0.0);
                let fan_out = f64::from(fan_out.max(1));
                while reached < members {
                    layer *= fan_out;
                    reached += layer;
                    layers += 1.0;
                }
                // In the last layer somebody may have fewer below it.
                let last = (members - (reached - layer)) / (layer / fan_out);
                ((layers - 1.0) * fan_out + last.ceil()) * copy_ns + layers * latency_ns
            }
            Self::Binomial => (members + 1.0).log2().ceil() * (copy_ns + latency_ns),
            Self::Chain => copy_ns + (members - 1.0) * (plan.piece_ns() as f64 + latency_ns),
        }
    }
}
