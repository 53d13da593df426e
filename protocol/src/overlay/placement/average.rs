//! *Best-effort average*: all nodes get as many processes as each other, as far as what runs on them already lets that
//! be. A node that has more than its share keeps what it has, and the others share what is left.

use alloc::vec;
use alloc::vec::Vec;

/// How many communication processes run on each node (*AS*), if node *i* has `back_ends[i]` back ends (*OS*) and there
/// are `count` of them. Their sum is `count`, unless there are no nodes.
#[must_use]
pub fn best_effort_average(back_ends: &[u32], count: u32) -> Vec<u32> {
    let nodes = back_ends.len() as u64;
    if nodes == 0 {
        return Vec::new();
    }
    // What all nodes that are not settled have together, and are to have (*sum*).
    let mut sum = back_ends.iter().copied().map(u64::from).sum::<u64>() + u64::from(count);
    // What each is to have (*TS*): the first get what does not divide.
    let mut targets: Vec<u64> = (0..nodes).map(|node| sum / nodes + u64::from(node < sum % nodes)).collect();
    // Those that have more than that (*RS*) keep it.
    let mut is_settled = vec![false; back_ends.len()];
    loop {
        let mut has_grown = false;
        for ((target, is_settled), back_ends) in targets.iter_mut().zip(&mut is_settled).zip(back_ends) {
            let own = u64::from(*back_ends);
            if !*is_settled && own > *target {
                (*target, *is_settled, has_grown) = (own, true, true);
                sum -= own;
            }
        }
        if !has_grown {
            break;
        }
        // Never empty: if all had more than their share, the shares would not add up to the sum.
        let mut open: Vec<usize> = (0..back_ends.len()).filter(|node| !is_settled[*node]).collect();
        open.sort_by_key(|node| targets[*node]);
        let (share, rest) = (sum / open.len() as u64, sum % open.len() as u64);
        for (place, node) in (0..).zip(open) {
            targets[node] = share + u64::from(place < rest);
        }
    }
    // What is missing is at most `count`.
    targets.iter().zip(back_ends).map(|(target, own)| target.saturating_sub(u64::from(*own)) as u32).collect()
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::collection::vec;
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::best_effort_average;

    #[test]
    fn the_published_example_comes_out() {
        assert_eq!(best_effort_average(&[6, 1, 1, 0], 4), [0, 1, 1, 2]);
    }

    #[test]
    fn what_does_not_divide_goes_to_the_first_that_have_least() {
        assert_eq!(best_effort_average(&[0, 0, 0], 4), [2, 1, 1]);
        // Shares are 4 3 3 3. The second keeps its 9, and of the other 4, of which 3 have had less before, those get
        // what is left.
        assert_eq!(best_effort_average(&[0, 9, 0, 0], 4), [1, 0, 2, 1]);
        assert_eq!(best_effort_average(&[2, 2], 0), [0, 0]);
        assert_eq!(best_effort_average(&[], 3), []);
        assert_eq!(best_effort_average(&[7], 3), [3]);
        assert_eq!(best_effort_average(&[u32::MAX, u32::MAX], u32::MAX), [u32::MAX / 2 + 1, u32::MAX / 2]);
    }

    proptest! {
        #[test]
        fn all_are_placed_and_the_least_laden_are_alike(back_ends in vec(0_u32..40, 1..60), count in 0_u32..200) {
            let placed = best_effort_average(&back_ends, count);
            prop_assert_eq!(placed.iter().sum::<u32>(), count);
            // No node that got some has more than one that did not get as many could have had.
            let total: Vec<u32> = placed.iter().zip(&back_ends).map(|(placed, own)| placed + own).collect();
            let most = placed.iter().zip(&total).filter(|(placed, _)| **placed > 0).map(|(_, total)| *total).max();
            let least = total.iter().copied().min().unwrap_or(0);
            prop_assert!(most.is_none_or(|most| most <= least + 1), "{total:?} {placed:?}");
        }
    }
}
