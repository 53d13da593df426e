//! Which cores a rank has, and on which of them its threads run.
//!
//! As on Blue Gene: one rank has all cores of its node, R ranks have C/R each; if there are more ranks than cores they
//! share them. A thread is placed once, on the core with the fewest of its process's threads, and stays there unless
//! sched_setaffinity(2) says otherwise.

use core::ops::Range;

/// The cores of rank number `local` of the `ranks` on a node that has `cores`.
pub(crate) const fn cores_of(local: u32, ranks: u32, cores: usize) -> Range<usize> {
    let (local, ranks) = (local as usize, if ranks == 0 { 1 } else { ranks as usize });
    if ranks > cores {
        let core = local % if cores == 0 { 1 } else { cores };
        return core..core + 1;
    }
    let first = local % ranks * cores / ranks;
    first..(local % ranks + 1) * cores / ranks
}

/// A set of cores, core `n` as bit `n`.
pub(crate) fn mask(cores: &Range<usize>) -> u64 {
    let up_to = |end: usize| if end >= u64::BITS as usize { u64::MAX } else { (1 << end) - 1 };
    up_to(cores.end) & !up_to(cores.start)
}

/// The core of `allowed` with the fewest threads, of those the first behind `after`. `threads` says how many a core
/// has. `None` if none is allowed.
pub(crate) fn choose(allowed: u64, after: usize, threads: impl Fn(usize) -> usize) -> Option<usize> {
    let bits = u64::BITS as usize;
    let in_turn = (1..=bits).map(|step| (after + step) % bits);
    in_turn.filter(|core| allowed & 1 << core != 0).min_by_key(|core| threads(*core))
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::{choose, cores_of, mask};

    #[test]
    fn ranks_divide_the_cores() {
        assert_eq!(cores_of(0, 1, 4), 0..4);
        assert_eq!([0, 1].map(|rank| cores_of(rank, 2, 4)), [0..2, 2..4]);
        assert_eq!([0, 1, 2].map(|rank| cores_of(rank, 3, 4)), [0..1, 1..2, 2..4]);
        assert_eq!([0, 1, 2, 3].map(|rank| cores_of(rank, 4, 2)), [0..1, 1..2, 0..1, 1..2]);
    }

    #[test]
    fn every_core_belongs_to_a_rank_and_to_one_only() {
        for cores in 1..=64 {
            for ranks in 1..=cores {
                let all: Vec<_> = (0..ranks as u32).flat_map(|rank| cores_of(rank, ranks as u32, cores)).collect();
                assert_eq!(all, (0..cores).collect::<Vec<_>>(), "{ranks} ranks on {cores} cores");
            }
        }
    }

    #[test]
    fn threads_go_round() {
        assert_eq!([mask(&(0..1)), mask(&(2..4)), mask(&(0..64))], [1, 0b1100, u64::MAX]);
        let mut placed = [0; 4];
        let mut last = 0;
        placed[0] = 1;
        let order: Vec<usize> = (0..5)
            .map(|_| {
                last = choose(0b1011, last, |core| placed[core]).expect("some are allowed");
                placed[last] += 1;
                last
            })
            .collect();
        assert_eq!(order, [1, 3, 0, 1, 3]);
        assert_eq!(choose(0, 0, |_| 0), None);
    }
}
