//! Which ranks are where, and what MPICH is told of it.

use coppice_protocol::ids::{NodeId, Rank};
use coppice_protocol::limits::PMI_MAPPING_BYTES_MAX;
use coppice_protocol::pmi::{NodeRanks, Placement, PlacementError};
use proptest::collection::vec;
use proptest::{prop_assert, prop_assert_eq, proptest};

/// Ranks in blocks of these sizes on nodes 100, 101, …
pub(crate) fn blocks(counts: &[u32]) -> Placement {
    let mut first = 0;
    let places = (100..).zip(counts).map(|(node, count)| {
        let place = NodeRanks { node: NodeId(node), first: Rank(first), count: *count };
        first += count;
        place
    });
    Placement::new(places.collect()).expect("in order")
}

#[test]
fn the_mapping_is_true_to_the_placement() {
    let mapping = |counts: &[u32]| blocks(counts).process_mapping().expect("short");
    assert_eq!(mapping(&[1]), "(vector,(0,1,1))");
    assert_eq!(mapping(&[1, 1]), "(vector,(0,2,1))");
    assert_eq!(mapping(&[2; 4]), "(vector,(0,4,2))");
    assert_eq!(mapping(&[4, 4, 3]), "(vector,(0,2,4),(2,1,3))");
    assert_eq!(mapping(&[1, 3, 3, 1]), "(vector,(0,1,1),(1,2,3),(3,1,1))");
}

/// As MPICH reads it (`MPIR_NODEMAP_populate_ids_from_mapping`).
fn read_mapping(text: &str) -> Vec<u32> {
    let blocks = text.strip_prefix("(vector,(").and_then(|text| text.strip_suffix("))")).expect("a vector");
    let mut nodes = Vec::new();
    for block in blocks.split("),(") {
        let numbers: Vec<u32> = block.split(',').map(|number| number.parse().expect("a number")).collect();
        let [first, count, ranks] = numbers[..] else { panic!("{block}") };
        nodes.extend((first..first + count).flat_map(|node| vec![node; ranks as usize]));
    }
    nodes
}

proptest! {
    #[test]
    fn mappings_and_placements_agree(counts in vec(1..6_u32, 1..70)) {
        let placement = blocks(&counts);
        let size: u32 = counts.iter().sum();
        prop_assert_eq!(placement.size(), size);
        let nodes: Vec<u32> =
            (0..size).map(|rank| placement.index_of_rank(Rank(rank)).expect("placed")).collect();
        prop_assert_eq!(placement.index_of_rank(Rank(size)), None);
        for (rank, index) in (0..).map(Rank).zip(&nodes) {
            let place = placement.place(*index).expect("an index");
            prop_assert!(place.has(rank) && place.ranks().any(|other| other == rank));
            prop_assert_eq!(placement.index_of(place.node), Some(*index));
        }
        match placement.process_mapping() {
            Some(text) => {
                prop_assert!(text.len() <= PMI_MAPPING_BYTES_MAX);
                prop_assert_eq!(read_mapping(&text), nodes);
            }
            None => prop_assert!(counts.len() > 40),
        }
    }
}

#[test]
fn places_that_are_none_of_a_job_are_refused() {
    let place = |node, first, count| NodeRanks { node: NodeId(node), first: Rank(first), count };
    let refused = |places: Vec<NodeRanks>| Placement::new(places).expect_err("refused");
    assert_eq!(refused(vec![]), PlacementError::Empty);
    assert_eq!(refused(vec![place(1, 1, 1)]), PlacementError::Order(Rank(1)));
    assert_eq!(refused(vec![place(1, 0, 2), place(2, 1, 1)]), PlacementError::Order(Rank(1)));
    assert_eq!(refused(vec![place(1, 0, 0)]), PlacementError::Order(Rank(0)));
    assert_eq!(refused(vec![place(1, 0, 1), place(2, 1, 1), place(1, 2, 1)]), PlacementError::NodeTwice(NodeId(1)));
    assert_eq!(refused(vec![place(1, 0, u32::MAX), place(2, u32::MAX, 1)]), PlacementError::TooMany);
}
