//! Who sends what to whom in which step of a barrier, by each algorithm ([`Fence`]): one node's part of it.
//!
//! - **Dissemination** (Hensgen, Finkel, Manber, "Two algorithms for barrier synchronization", 1988) that carries an
//!   allgather (Bruck, Ho, Kipnis, Upfal, Weathersby, "Efficient algorithms for all-to-all communications in multiport
//!   message-passing systems", 1997): of `n` nodes, node `i` sends in step `k` to node `i + 2^k` what it has gathered
//!   so far, and waits for what `i − 2^k` has gathered. The last step of an `n` that is no power of two sends only what
//!   the receiver lacks. `⌈log₂ n⌉` steps, `n · ⌈log₂ n⌉` messages.
//! - **Tree**: binomial, with node 0 at its root. In step `k` of as many, a node whose lowest bit is `k` sends up to
//!   `i − 2^k` what those below it and itself have put. Then as many steps down, the highest bit first: each is sent by
//!   the node above it what is not its own or of those below it. In a step a node sends, or receives, or has no part.
//!   `2 · ⌈log₂ n⌉` steps, `2 (n − 1)` messages.
//! - **Ring**: in step `k` node `i` sends to `i + 1` what node `i − k` has put. `n − 1` steps, `n (n − 1)` messages.
//!
//! After the last step a node has all that was put, each node's once; so it has heard of everybody, directly or not,
//! and everybody has entered. What a node sends in a step it has before it, and it waits for one other at most.
//!
//! Nodes that have to do with each other in a tree or a ring also have in a dissemination: all are `2^k` apart. So a
//! node needs connections with the same others whatever the algorithm is, and these are where letters go, too
//! ([`super::route`]).

use super::fence::Fence;

/// Steps that go to twice as far each until all nodes are reached.
pub(crate) const fn depth(nodes: u32) -> u32 {
    match nodes.checked_next_power_of_two() {
        Some(power) => power.trailing_zeros(),
        None => u32::BITS,
    }
}

/// Nodes whose numbers follow each other; after the last comes the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origins {
    first: u32,
    count: u32,
    nodes: u32,
}

impl Origins {
    pub(crate) fn has(self, node: u32) -> bool {
        node < self.nodes && around(node, self.nodes - self.first % self.nodes, self.nodes) < self.count
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = u32> {
        (0..self.count).map(move |further| around(self.first, further, self.nodes))
    }
}

/// So many nodes further; in 64 bits, as no sum of two indices is too large.
fn around(node: u32, further: u32, nodes: u32) -> u32 {
    ((u64::from(node) + u64::from(further)) % u64::from(nodes.max(1))) as u32
}

/// What passes between a node and another in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// The other.
    pub(crate) peer: u32,
    /// Whose puts.
    pub(crate) origins: Origins,
}

/// The steps of a barrier for one node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    pub(crate) fence: Fence,
    me: u32,
    nodes: u32,
    /// `⌈log₂ n⌉`.
    depth: u32,
}

impl Schedule {
    /// For node `me` of `nodes`.
    pub(crate) fn new(fence: Fence, me: u32, nodes: u32) -> Self {
        Self { fence, me, nodes, depth: depth(nodes) }
    }

    /// The same node's of another algorithm.
    pub(crate) fn of(self, fence: Fence) -> Self {
        Self { fence, ..self }
    }

    /// How many steps there are.
    pub(crate) fn steps(self) -> u32 {
        match self.fence {
            Fence::Dissemination => self.depth,
            Fence::Tree => 2 * self.depth,
            Fence::Ring => self.nodes.saturating_sub(1),
        }
    }

    /// What this node sends in a step, and to whom.
    pub(crate) fn sends(self, step: u32) -> Option<Part> {
        if step >= self.steps() {
            return None;
        }
        let Self { fence, me, nodes, .. } = self;
        let part = |peer, first, count| Some(Part { peer, origins: Origins { first, count, nodes } });
        match fence {
            Fence::Dissemination => {
                let far = 1 << step;
                let count = self.carried(step);
                part(around(me, far, nodes), around(me, nodes - (count - 1), nodes), count)
            }
            Fence::Tree => {
                let (bit, is_up) = self.branch(step);
                let far = 1 << bit;
                if is_up {
                    return if is_lowest_bit(bit, me) { part(me - far, me, self.below(me, far)) } else { None };
                }
                let child = self.child(bit)?;
                let below = self.below(child, far);
                part(child, around(child, below, nodes), nodes - below)
            }
            Fence::Ring => part(around(me, 1, nodes), around(me, nodes - step, nodes), 1),
        }
    }

    /// What this node receives in a step, and from whom.
    pub(crate) fn receives(self, step: u32) -> Option<Part> {
        if step >= self.steps() {
            return None;
        }
        let Self { fence, me, nodes, .. } = self;
        let peer = match fence {
            Fence::Dissemination => around(me, nodes - (1 << step), nodes),
            Fence::Tree => match self.branch(step) {
                (bit, true) => self.child(bit)?,
                (bit, false) if is_lowest_bit(bit, me) => me - (1 << bit),
                _ => return None,
            },
            Fence::Ring => around(me, nodes - 1, nodes),
        };
        let Part { origins, .. } = Self { me: peer, ..self }.sends(step)?;
        Some(Part { peer, origins })
    }

    /// Whether this node is the first of both to say something to another: that one needs not call it.
    pub(crate) fn calls(self, peer: u32) -> bool {
        let Self { fence, me, nodes, .. } = self;
        if peer == me || peer >= nodes {
            return false;
        }
        let (there, back) = (around(peer, nodes - me, nodes), around(me, nodes - peer, nodes));
        // Both may say something to the other at once: then one of them is to call.
        let is_first = |is_reached: &dyn Fn(u32) -> bool| is_reached(there) && (me < peer || !is_reached(back));
        match fence {
            Fence::Dissemination => is_first(&u32::is_power_of_two),
            Fence::Tree => me & me.wrapping_sub(1) == peer,
            Fence::Ring => is_first(&|far| far == 1),
        }
    }

    /// How many nodes' puts a step of a dissemination carries: its sender's, and of as many of those before the sender
    /// as the receiver lacks.
    fn carried(self, step: u32) -> u32 {
        let gathered = 1_u32 << step;
        gathered.min(self.nodes.saturating_sub(gathered))
    }

    /// Which bit of nodes' numbers a step of a tree is about, and whether it goes up.
    fn branch(self, step: u32) -> (u32, bool) {
        if step < self.depth { (step, true) } else { (2 * self.depth - 1 - step, false) }
    }

    /// The node below this one whose lowest bit is that, if there is one.
    fn child(self, bit: u32) -> Option<u32> {
        let child = self.me.checked_add(1 << bit)?;
        (self.me.trailing_zeros() > bit && child < self.nodes).then_some(child)
    }

    /// How many nodes are below one whose lowest bit is so much, and itself.
    fn below(self, node: u32, far: u32) -> u32 {
        far.min(self.nodes - node)
    }
}

fn is_lowest_bit(bit: u32, node: u32) -> bool {
    node.trailing_zeros() == bit
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;

    use super::{Fence, Part, Schedule};

    /// Everybody's steps one after the other, as if each took its place at once.
    fn walk(fence: Fence, nodes: u32) -> u32 {
        let of = |node| Schedule::new(fence, node, nodes);
        let mut known: Vec<BTreeSet<u32>> = (0..nodes).map(|node| BTreeSet::from([node])).collect();
        let mut messages = 0;
        for step in 0..of(0).steps() {
            let before = known.clone();
            for node in 0..nodes {
                let Some(Part { peer, origins }) = of(node).sends(step) else { continue };
                messages += 1;
                assert_eq!(
                    of(peer).receives(step),
                    Some(Part { peer: node, origins }),
                    "{fence} {nodes} {node} {step}"
                );
                let far = (peer + nodes - node) % nodes;
                assert!(far.is_power_of_two() || (nodes - far).is_power_of_two(), "{fence}: {node} to {peer}");
                for origin in origins.iter() {
                    assert!(origins.has(origin) && before[node as usize].contains(&origin), "{fence} {nodes}");
                    assert!(known[peer as usize].insert(origin), "{fence} {nodes}: {peer} hears of {origin} twice");
                }
            }
            for node in 0..nodes {
                let sent = of(node).receives(step).map(|part| of(part.peer).sends(step).expect("sent").peer);
                assert!(sent.is_none_or(|to| to == node), "{fence} {nodes} {node} {step}");
            }
        }
        for node in 0..nodes {
            assert_eq!(known[node as usize].len(), nodes as usize, "{fence} {nodes} {node}");
            assert!(of(node).sends(of(node).steps()).is_none() && of(node).receives(u32::MAX).is_none());
        }
        messages
    }

    #[test]
    fn all_hear_of_all_once_with_so_many_messages() {
        for nodes in (1..=66_u32).chain([100, 128, 129]) {
            let depth = nodes.next_power_of_two().ilog2();
            assert_eq!(walk(Fence::Dissemination, nodes), nodes * depth);
            assert_eq!(walk(Fence::Tree, nodes), 2 * (nodes - 1));
            assert_eq!(walk(Fence::Ring, nodes), nodes * (nodes - 1));
        }
    }

    /// Of two that say something to each other one calls, who has something to say before he hears anything; of others
    /// nobody does.
    #[test]
    fn one_of_two_calls() {
        for (fence, nodes) in Fence::ALL.into_iter().flat_map(|fence| (1..=34).map(move |nodes| (fence, nodes))) {
            let of = |node| Schedule::new(fence, node, nodes);
            let first =
                |node, peer| (0..of(node).steps()).find(|step| of(node).sends(*step).is_some_and(|it| it.peer == peer));
            for (one, other) in (0..nodes).flat_map(|one| (0..=one).map(move |other| (one, other))) {
                let calls = [of(one).calls(other), of(other).calls(one)];
                let firsts = [first(one, other), first(other, one)];
                let expected = usize::from(firsts != [None, None] && one != other);
                assert_eq!(calls.iter().filter(|calls| **calls).count(), expected, "{fence} {nodes}: {one} {other}");
                for (call, [sent, heard]) in calls.into_iter().zip([firsts, [firsts[1], firsts[0]]]) {
                    let is_first =
                        sent.is_some_and(|sent| fence != Fence::Tree || heard.is_none_or(|heard| sent < heard));
                    assert!(!call || is_first, "{fence} {nodes}: {one} {other}");
                }
            }
            assert!(!of(0).calls(nodes) && !of(0).calls(u32::MAX));
        }
    }

    #[test]
    fn origins_are_those_and_no_others() {
        for nodes in 1..20 {
            for (fence, me, step) in Fence::ALL
                .into_iter()
                .flat_map(|fence| (0..nodes).flat_map(move |me| (0..2 * nodes).map(move |step| (fence, me, step))))
            {
                let Some(Part { origins, .. }) = Schedule::new(fence, me, nodes).sends(step) else { continue };
                let listed: BTreeSet<u32> = origins.iter().collect();
                assert_eq!(listed.len(), origins.count as usize);
                assert!((0..2 * nodes).all(|node| origins.has(node) == listed.contains(&node)));
            }
        }
    }

    /// Nothing overflows at the largest numbers.
    #[test]
    fn as_many_nodes_as_there_are_numbers() {
        for nodes in [u32::MAX, u32::MAX - 1, 1 << 31, (1 << 31) + 1] {
            for (fence, me) in
                Fence::ALL.into_iter().flat_map(|fence| [0, 1, nodes / 2, nodes - 1].map(|me| (fence, me)))
            {
                let schedule = Schedule::new(fence, me, nodes);
                for step in (0..70).chain([nodes - 2, nodes - 1, u32::MAX]) {
                    let parts = [schedule.sends(step), schedule.receives(step)];
                    assert!(
                        parts
                            .into_iter()
                            .flatten()
                            .all(|part| part.peer < nodes && part.origins.has(part.origins.first))
                    );
                }
            }
        }
    }
}
