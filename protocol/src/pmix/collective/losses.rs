//! Calls with members on nodes that are gone.

use alloc::vec::Vec;

use super::{Call, CallId, Collectives, Outcome, Places};

impl Collectives {
    /// A node is gone: what its ranks are members of does not come to its end. Each node of the job hears of that by
    /// itself, so nobody waits for what the leader says.
    pub(crate) fn node_lost(&mut self, node: u32, places: &dyn Places, now_ns: u64) {
        self.gone.insert(node);
        self.told.retain(|(to, _), _| *to != node);
        self.over.remove(&node);
        self.missed.retain(|(_, of), _| *of != node);
        self.given_up.leader_lost(node);
        for led in self.led.values_mut() {
            led.parts.remove(&node);
            led.coming.remove(&node);
        }
        self.led.retain(|id, led| self.calls.contains_key(id) || !led.parts.is_empty() || !led.coming.is_empty());
        self.give_up_lost();
        // What others said may have been lost with it on its way.
        self.listen_anew(now_ns);
        self.advance(places, now_ns);
    }

    /// Tells those who wait for somebody on a node that is gone.
    pub(super) fn give_up_lost(&mut self) {
        let is_lost = |call: &Call| call.nodes.iter().any(|node| self.gone.contains(node));
        let lost: Vec<CallId> = self.calls.iter().filter(|(_, call)| is_lost(call)).map(|(id, _)| *id).collect();
        for id in lost {
            let Some(call) = self.calls.remove(&id) else { continue };
            self.numbers.remove(&id);
            self.led.remove(&id);
            self.release(id, &call, &Outcome::unreachable());
        }
    }
}
