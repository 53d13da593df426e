//! `/etc/hosts` and `/etc/hostname`: names of the job's nodes, whatever the job's root has by these names.
//!
//! A node's name and address follow from its number in the job, so the text of `/etc/hosts` follows from how many nodes
//! the job has, wherever they are. It is never made as a whole: its lines are all of one length, so that any part of it
//! is made without the rest, however many nodes there are.

use alloc::format;
use alloc::string::String;

use coppice_protocol::ids::JobNode;
use coppice_protocol::limits::NODE_ADDRESSES_MAX;

use super::excerpt::Excerpt;

/// Length of a line with its end: an address, a space, a name as long as any.
const LINE_BYTES: usize = 15 + 1 + 14 + 1;

/// The name that a node of a job is known by.
pub(crate) fn node_name(node: JobNode) -> String {
    format!("node{node}")
}

/// Writes the text of `/etc/hosts` for a job in whose network so many nodes are, as far as it is wanted.
pub(crate) fn write(nodes: u32, text: &mut Excerpt) {
    let lines = 1 + u64::from(nodes.min(NODE_ADDRESSES_MAX));
    let first = (text.skip() / LINE_BYTES as u64).min(lines);
    text.pass(first * LINE_BYTES as u64);
    for number in first..lines {
        if text.is_full() {
            return text.pass((lines - number) * LINE_BYTES as u64);
        }
        text.push(line(number).as_bytes());
    }
}

fn line(number: u64) -> String {
    let of = |address: &dyn core::fmt::Display, name: &str| {
        // Padding counts for texts alone.
        let address = format!("{address}");
        format!("{address:<15} {name:>14}\n")
    };
    // At most NODE_ADDRESSES_MAX.
    match number.checked_sub(1).map(|node| JobNode(node as u32)) {
        None => of(&"127.0.0.1", "localhost"),
        Some(node) => of(&node.address(), &node_name(node)),
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use alloc::vec::Vec;

    use coppice_protocol::ids::JobNode;
    use coppice_protocol::limits::NODE_ADDRESSES_MAX;
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::write;
    use crate::process::special::excerpt::Excerpt;

    fn read(nodes: u32, offset: u64, limit: usize) -> Vec<u8> {
        let mut text = Excerpt::new(offset, limit);
        write(nodes, &mut text);
        text.finish().expect("memory")
    }

    fn length(nodes: u32) -> u64 {
        let mut text = Excerpt::new(0, 0);
        write(nodes, &mut text);
        text.length()
    }

    fn all(nodes: u32) -> Vec<u8> {
        read(nodes, 0, usize::MAX)
    }

    #[test]
    fn every_node_has_its_line() {
        let text = String::from_utf8(all(4)).expect("letters");
        let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        // Wherever they are.
        let expected = [
            ["127.0.0.1", "localhost"],
            ["10.128.0.1", "node0"],
            ["10.128.0.2", "node1"],
            ["10.128.0.3", "node2"],
            ["10.128.0.4", "node3"],
        ];
        assert_eq!(words, expected);
    }

    #[test]
    fn a_part_of_a_large_jobs_text_costs_no_more_than_that() {
        let largest = NODE_ADDRESSES_MAX;
        let text = String::from_utf8(read(largest, length(largest) - 31, 4096)).expect("letters");
        let node = JobNode(NODE_ADDRESSES_MAX - 1);
        let words: Vec<&str> = text.split_whitespace().collect();
        assert_eq!(words, [alloc::format!("{}", node.address()), alloc::format!("node{node}")]);
        assert!(read(largest, length(largest), 1).is_empty());
        assert!(read(largest, u64::MAX, usize::MAX).is_empty());
        // No launch makes the kernel go on for ever.
        assert_eq!(length(u32::MAX), length(largest));
    }

    proptest! {
        #[test]
        fn parts_are_parts_of_the_whole(
            nodes in 0_u32..40,
            offset in 0_usize..1500,
            wanted in 0_usize..300,
        ) {
            let whole = all(nodes);
            prop_assert_eq!(whole.len() as u64, length(nodes));
            let from = offset.min(whole.len());
            prop_assert_eq!(read(nodes, offset as u64, wanted), &whole[from..whole.len().min(from + wanted)]);
        }
    }
}
