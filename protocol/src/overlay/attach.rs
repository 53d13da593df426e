//! Which back end speaks to which communication process (the *attach rule*): an IBE takes as many as another, on its
//! own node first.

use alloc::vec;
use alloc::vec::Vec;

/// How many back ends an IBE has below it, at most: so many for each if that divides, else one more.
#[must_use]
pub const fn fan_out(back_ends: u32, ibes: u32) -> u32 {
    if ibes == 0 { 0 } else { back_ends.div_ceil(ibes) }
}

/// For each back end, by the node that it is on, the IBE that it speaks to, as an index into `ibes`, which says on
/// which node each of those is. Nothing, if there are no IBEs.
///
/// Who finds no room on its own node goes to the nearest IBE further on that has room, round all of them: back ends of
/// neighbouring nodes stay together, as nodes are numbered along psets.
#[must_use]
pub fn attach(back_ends: &[u32], ibes: &[u32]) -> Option<Vec<u32>> {
    let count = u32::try_from(ibes.len()).ok().filter(|count| *count > 0)?;
    let most = fan_out(u32::try_from(back_ends.len()).ok()?, count);
    // IBEs by their nodes, so that those of a node, and of the next one, are found.
    let mut order: Vec<u32> = (0..count).collect();
    order.sort_by_key(|ibe| ibes[*ibe as usize]);
    let at_or_after = |node: u32| order.partition_point(|ibe| ibes[*ibe as usize] < node);
    let mut taken = vec![0_u32; order.len()];
    let mut attached: Vec<Option<u32>> = vec![None; back_ends.len()];
    // Where to look next on each node: what is before that is full.
    let mut full_before = vec![0_usize; order.len()];
    for (back_end, node) in back_ends.iter().enumerate() {
        let first = at_or_after(*node);
        if order.get(first).is_none_or(|ibe| ibes[*ibe as usize] != *node) {
            continue;
        }
        let mut place = first + full_before[first];
        while order.get(place).is_some_and(|ibe| ibes[*ibe as usize] == *node) {
            if taken[place] < most {
                taken[place] += 1;
                attached[back_end] = Some(order[place]);
                break;
            }
            place += 1;
            full_before[first] += 1;
        }
    }
    // The next with room, from each on: joined as they fill.
    let mut next: Vec<usize> = (0..=order.len()).collect();
    for (back_end, node) in
        back_ends.iter().enumerate().filter(|(back_end, _)| attached[*back_end].is_none()).collect::<Vec<_>>()
    {
        let start = at_or_after(*node);
        let place = [start, 0].into_iter().find_map(|from| with_room(&mut next, &taken, most, from))?;
        taken[place] += 1;
        attached[back_end] = Some(order[place]);
    }
    attached.into_iter().collect()
}

/// The first place from `from` on that has room.
fn with_room(next: &mut [usize], taken: &[u32], most: u32, from: usize) -> Option<usize> {
    let mut place = from;
    loop {
        let after = *next.get(place)?;
        if after != place {
            place = after;
        } else if *taken.get(place)? < most {
            break;
        } else {
            next[place] = place + 1;
        }
    }
    // Whoever looks from there again need not go the whole way.
    let mut at = from;
    while at != place {
        let after = next[at];
        next[at] = place;
        at = after;
    }
    Some(place)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::collection::vec;
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::{attach, fan_out};

    #[test]
    fn the_fan_out_is_as_published() {
        for (back_ends, ibes, wanted) in [(12, 4, 3), (13, 4, 4), (0, 4, 0), (3, 4, 1), (5, 0, 0)] {
            assert_eq!(fan_out(back_ends, ibes), wanted);
        }
    }

    #[test]
    fn its_own_node_comes_first_and_then_the_next_one() {
        // Two each. Node 0 has three, of which one goes on to node 2, the next that has an IBE.
        assert_eq!(attach(&[0, 0, 0, 2], &[2, 0]), Some([1, 1, 0, 0].into()));
        // Who is behind the last one begins at the first one.
        assert_eq!(attach(&[9, 0, 9], &[1, 5]), Some([0, 0, 1].into()));
        assert_eq!(attach(&[0, 1], &[]), None);
        assert_eq!(attach(&[], &[0]), Some(Vec::new()));
        // Two on one node share what is there.
        assert_eq!(attach(&[3, 3, 3, 3], &[3, 3]), Some([0, 0, 1, 1].into()));
    }

    proptest! {
        #[test]
        fn all_are_attached_and_none_has_too_many(
            back_ends in vec(0_u32..20, 0..100), ibes in vec(0_u32..20, 1..30),
        ) {
            let attached = attach(&back_ends, &ibes).expect("there are some");
            prop_assert_eq!(attached.len(), back_ends.len());
            let most = fan_out(back_ends.len() as u32, ibes.len() as u32);
            let mut taken = alloc::vec![0; ibes.len()];
            attached.iter().for_each(|ibe| taken[*ibe as usize] += 1);
            prop_assert!(taken.iter().all(|taken| *taken <= most), "{:?}", taken);
            // Nobody is sent away while there is room on its own node.
            for (node, ibe) in back_ends.iter().zip(&attached).filter(|(node, ibe)| **node != ibes[**ibe as usize]) {
                let has_room = |other: usize| ibes[other] == *node && taken[other] < most;
                prop_assert!(!(0..ibes.len()).any(has_room), "{node} at {ibe}");
            }
        }
    }
}
