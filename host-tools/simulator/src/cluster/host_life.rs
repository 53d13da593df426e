//! Beginnings and ends of the service node: what goes with it, and who starts it again.

use super::queue::{Event, Party};
use super::world::{LOOK_NS, World};

impl World {
    /// The service node and all that lives with it are gone.
    pub(super) fn kill_host(&mut self) {
        if !self.host.is_up() {
            return;
        }
        self.forget_wanted();
        self.kept_dies();
        self.trouble = self.host.kill().err();
        for pset in self.io_nodes.keys().copied().collect::<Vec<_>>() {
            self.io_node_ends(pset, "killed");
        }
        for node in self.machines.keys().copied().collect::<Vec<_>>() {
            self.machine_ends(node, "killed");
        }
        self.ordered_ns.clear();
        self.link_orders.host_died();
        self.checkers.given_up.host_ends(self.now_ns);
        // Nobody else hears what was said to it.
        self.queue.forget(|event| matches!(event, Event::Plant(_) | Event::Led(_)));
        // What users meant to say they say to the next one.
        for event in self.deferred.remove(&Party::Host).unwrap_or_default() {
            if matches!(event, Event::User(_)) {
                self.plan(0, event);
            }
        }
        self.look_at_streams();
    }

    /// Somebody starts the service node soon, if nobody is about to.
    pub(super) fn plan_start(&mut self, in_ns: u64) {
        if !std::mem::replace(&mut self.host.is_awaited, true) {
            self.plan(in_ns, Event::HostStart);
        }
    }

    /// The service node starts, if none runs.
    pub(super) fn start_host(&mut self) {
        self.host.is_awaited = false;
        if self.host.is_up() {
            return;
        }
        self.note("service node", format_args!("starts"));
        if let Err(error) = self.host.start(self.now_ns) {
            if self.host.disk.is_well() {
                self.trouble = Some(error);
                return;
            }
            // Whoever wants it tries again.
            self.note("service node that cannot start", format_args!("{error:#}"));
            self.trouble = self.host.kill().err();
            return self.plan_start(LOOK_NS);
        }
        self.checkers.rates.host_starts(self.host.disk.refused(), self.now_ns);
        self.settle_host();
    }
}
