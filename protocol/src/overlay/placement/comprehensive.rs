//! *Comprehensive* placement: a fuzzy evaluation of the nodes by several factors.
//!
//! Each factor of a node belongs to the grades of [`GRADES`] by some degree (*R*, the membership of factor *i* in grade
//! *j*); weighted by how much each factor counts (*W*), that says how much the node as a whole belongs to each grade
//! (*B = W ∘ R*, the weighted average). Its score is *B* times what the grades are worth. A process goes to the node
//! with the best score, and nodes are scored again after each.

use alloc::vec;
use alloc::vec::Vec;

/// What the grades are worth, from the best to the worst.
pub const GRADES: [f64; 4] = [100.0, 75.0, 50.0, 0.0];

/// How good a factor has to be to belong to a grade entirely: 1 is the best of all nodes, 0 the worst that there is.
const PEAKS: [f64; 4] = [1.0, 0.7, 0.4, 0.0];

/// What a node is scored by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Factor {
    /// How much of its cores is in use.
    Load,
    /// Memory that nobody wants.
    FreeMemory,
    /// Bandwidth of its link.
    Bandwidth,
    /// How far it is from the front end.
    Distance,
    /// How many back ends and communication processes it has for each core.
    Processes,
}

impl Factor {
    /// All, and how much each counts by itself (*W*). Together that is 1.
    pub const ALL: [(Self, f64); 5] = [
        (Self::Load, 0.3),
        (Self::FreeMemory, 0.1),
        (Self::Bandwidth, 0.15),
        (Self::Distance, 0.15),
        (Self::Processes, 0.3),
    ];
}

/// A node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Host {
    /// Part of its cores that is in use, from 0 to 1.
    pub load: f64,
    /// Memory that nobody wants, bytes.
    pub free_memory_bytes: u64,
    /// Bandwidth of its link, bytes per second.
    pub bandwidth: u64,
    /// Hops to the front end.
    pub distance: u32,
    /// Back ends that it has.
    pub back_ends: u32,
    /// Cores that it has.
    pub cores: u32,
}

/// What nodes are beside the best and the worst of all.
#[derive(Clone, Debug)]
pub struct Standing<'a> {
    hosts: &'a [Host],
    /// Communication processes that each has got.
    placed: Vec<u32>,
    /// The most that any has of what counts beside the others: memory, bandwidth, distance, processes for each core.
    most: [f64; 4],
}

impl<'a> Standing<'a> {
    /// Before anything was placed.
    #[must_use]
    pub fn new(hosts: &'a [Host]) -> Self {
        let placed = vec![0; hosts.len()];
        let most = |of: fn(&Host) -> f64| hosts.iter().map(of).fold(0.0, f64::max);
        let most = [
            most(|host| host.free_memory_bytes as f64),
            most(|host| host.bandwidth as f64),
            most(|host| host.distance.into()),
            // One is not little, however few the others have.
            most(|host| host.processes_per_core(0)).max(1.0),
        ];
        Self { hosts, placed, most }
    }

    /// One more on a node.
    pub fn place(&mut self, node: usize) {
        if let (Some(host), Some(placed)) = (self.hosts.get(node), self.placed.get_mut(node)) {
            *placed += 1;
            self.most[3] = self.most[3].max(host.processes_per_core(*placed));
        }
    }

    /// How good a factor of a node is, from 0 to 1.
    #[must_use]
    pub fn goodness(&self, node: usize, factor: Factor) -> f64 {
        let (Some(host), Some(placed)) = (self.hosts.get(node), self.placed.get(node)) else { return 0.0 };
        let part = |value: f64, most: f64| if most > 0.0 { (value / most).clamp(0.0, 1.0) } else { 1.0 };
        let [memory, bandwidth, distance, processes] = self.most;
        match factor {
            Factor::Load => 1.0 - part(host.load, 1.0),
            Factor::FreeMemory => part(host.free_memory_bytes as f64, memory),
            Factor::Bandwidth => part(host.bandwidth as f64, bandwidth),
            // All are at the same place, if none is away.
            Factor::Distance => 1.0 - if distance > 0.0 { part(host.distance.into(), distance) } else { 0.0 },
            Factor::Processes => 1.0 - part(host.processes_per_core(*placed), processes),
        }
    }

    /// What a node is worth as a whole, from 0 to 100.
    #[must_use]
    pub fn score(&self, node: usize) -> f64 {
        let mut evaluation = [0.0; GRADES.len()];
        for (factor, weight) in Factor::ALL {
            let row = memberships(self.goodness(node, factor));
            evaluation.iter_mut().zip(row).for_each(|(grade, membership)| *grade += weight * membership);
        }
        evaluation.iter().zip(GRADES).map(|(grade, worth)| grade * worth).sum()
    }
}

impl Host {
    /// With so many communication processes.
    fn processes_per_core(&self, placed: u32) -> f64 {
        (f64::from(self.back_ends) + f64::from(placed)) / f64::from(self.cores.max(1))
    }
}

/// How much something that is so good belongs to each grade: entirely at the grade's peak, and less and less to it on
/// the way to the next one's. Together that is 1.
#[must_use]
pub fn memberships(goodness: f64) -> [f64; GRADES.len()] {
    let goodness = goodness.clamp(0.0, 1.0);
    let mut row = [0.0; GRADES.len()];
    for better in 0..GRADES.len() - 1 {
        let (high, low) = (PEAKS[better], PEAKS[better + 1]);
        if goodness >= low {
            row[better] = (goodness - low) / (high - low);
            row[better + 1] = 1.0 - row[better];
            return row;
        }
    }
    row
}

/// How many of `count` communication processes run on each node. Their sum is `count`, unless there are no nodes. Of
/// nodes with the same score the first gets it.
#[must_use]
pub fn comprehensive(hosts: &[Host], count: u32) -> Vec<u32> {
    let mut standing = Standing::new(hosts);
    for _ in 0..count {
        let scores = (0..hosts.len()).map(|node| (node, standing.score(node)));
        let best = scores.reduce(|best, other| if other.1 > best.1 { other } else { best });
        if let Some((node, _)) = best {
            standing.place(node);
        }
    }
    standing.placed
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::{Strategy, any};
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::{Factor, Host, Standing, comprehensive, memberships};

    const MIB: u64 = 1 << 20;

    /// Two nodes. The first is idle, and far away with a slow link; the second has a rank that takes half of its cores.
    const TWO: [Host; 2] = [
        Host { load: 0.0, free_memory_bytes: 64 * MIB, bandwidth: 50, distance: 2, back_ends: 0, cores: 2 },
        Host { load: 0.5, free_memory_bytes: 32 * MIB, bandwidth: 100, distance: 1, back_ends: 1, cores: 2 },
    ];

    fn is_near(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-9
    }

    /// By hand, with the weights .3 .1 .15 .15 .3 and the grades 100 75 50 0:
    ///
    /// ```text
    ///              node 0                                 node 1
    /// load         1    1    0    0    0                  0.5  0    1/3  2/3  0
    /// free memory  1    1    0    0    0                  0.5  0    1/3  2/3  0
    /// bandwidth    0.5  0    1/3  2/3  0                  1    1    0    0    0
    /// distance     0    0    0    0    1                  0.5  0    1/3  2/3  0
    /// processes    1    1    0    0    0                  0.5  0    1/3  2/3  0
    /// B                 0.7  0.05 0.1  0.15                    0.15 17/60 34/60 0
    /// score             70 + 3.75 + 5 = 78.75                  15 + 21.25 + 28.333… = 64.5833…
    /// ```
    ///
    /// With one process on node 0 its processes are 0.5, too: B = 0.4, 0.15, 0.3, 0.15, and the score 40 + 11.25 + 15 =
    /// 66.25. With two it has 1 of them for each core, which is as bad as it gets: B = 0.4, 0.05, 0.1, 0.45, and the
    /// score 48.75. So the third goes to node 1, and the fourth to node 0, as node 1 has two then: B = 0.15, 11/60,
    /// 22/60, 0.3, the score 15 + 13.75 + 18.333… = 47.0833….
    #[test]
    fn a_worked_example_comes_out() {
        let scores = |placed: &[u32; 2]| {
            let mut standing = Standing::new(&TWO);
            for (node, count) in placed.iter().enumerate() {
                (0..*count).for_each(|_| standing.place(node));
            }
            [0, 1].map(|node| standing.score(node))
        };
        for (placed, expected) in [
            ([0, 0], [78.75, 64.583_333_333_333]),
            ([1, 0], [66.25, 64.583_333_333_333]),
            ([2, 0], [48.75, 64.583_333_333_333]),
            ([2, 1], [48.75, 47.083_333_333_333]),
        ] {
            let scores = scores(&placed);
            assert!(scores.iter().zip(expected).all(|(score, it)| is_near(*score, it)), "{placed:?}: {scores:?}");
        }
        assert_eq!(comprehensive(&TWO, 4), [3, 1]);
    }

    #[test]
    fn memberships_are_shared_by_neighbouring_grades() {
        for (goodness, row) in [
            (1.0, [1.0, 0.0, 0.0, 0.0]),
            (0.85, [0.5, 0.5, 0.0, 0.0]),
            (0.7, [0.0, 1.0, 0.0, 0.0]),
            (0.4, [0.0, 0.0, 1.0, 0.0]),
            (0.1, [0.0, 0.0, 0.25, 0.75]),
            (-3.0, [0.0, 0.0, 0.0, 1.0]),
            (7.0, [1.0, 0.0, 0.0, 0.0]),
        ] {
            assert!(memberships(goodness).iter().zip(row).all(|(it, wanted)| is_near(*it, wanted)), "{goodness}");
        }
    }

    #[test]
    fn weights_are_one_together() {
        assert!(is_near(Factor::ALL.iter().map(|(_, weight)| weight).sum(), 1.0));
    }

    fn host() -> impl Strategy<Value = Host> {
        (0.0..1.5, any::<u64>(), any::<u64>(), any::<u32>(), any::<u32>(), any::<u32>()).prop_map(
            |(load, free_memory_bytes, bandwidth, distance, back_ends, cores)| Host {
                load,
                free_memory_bytes,
                bandwidth,
                distance,
                back_ends,
                cores,
            },
        )
    }

    proptest! {
        #[test]
        fn all_are_placed_and_scores_are_within_bounds(hosts in vec(host(), 1..20), count in 0_u32..50) {
            let placed = comprehensive(&hosts, count);
            prop_assert_eq!(placed.iter().sum::<u32>(), count);
            let mut standing = Standing::new(&hosts);
            standing.placed = placed;
            for node in 0..hosts.len() {
                prop_assert!((0.0..=100.0 + 1e-9).contains(&standing.score(node)));
            }
        }

        /// The worse one gets no more than the better one.
        #[test]
        fn who_is_better_in_everything_gets_more(better in host(), count in 0_u32..50) {
            let worse = Host {
                load: better.load + 0.1,
                free_memory_bytes: better.free_memory_bytes / 2,
                bandwidth: better.bandwidth / 2,
                distance: better.distance.saturating_add(1),
                back_ends: better.back_ends.saturating_add(1),
                ..better
            };
            let placed = comprehensive(&[worse, better], count);
            prop_assert!(placed[0] <= placed[1], "{placed:?}");
        }
    }
}
