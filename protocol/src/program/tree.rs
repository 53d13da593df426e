//! The hash tree of a program's file: how a node sees that a few pages are those of the program, without the rest.
//!
//! What a program is is the BLAKE3 of its file, and BLAKE3 is a binary tree (its paper, section 2.1): a hash of each
//! KiB, and above them hashes of pairs. A page of four KiB is a whole subtree of it, so the tree above the pages needs
//! no other hash than the program's own. The store keeps its nodes in a file beside the program's; the I/O node sends
//! with pages the few nodes that stand beside the way up from them; the compute node hashes the pages, goes up to the
//! root with those nodes, and compares what it finds with the program's hash. Nobody on the way, the store and its disk
//! included, can give it another page.
//!
//! The stored tree is in pre-order: a node, what is left below it, what is right below it. A tree of *p* pages has
//! 2*p* − 1 nodes.

use alloc::vec::Vec;

use blake3::Hasher;
use blake3::hazmat::{HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};

use super::PAGE_BYTES;
use crate::ids::ProgramId;

/// A node: the chaining value of its subtree; at the root the file's hash.
pub type TreeNode = [u8; NODE_BYTES];

/// Length of a node, bytes.
pub const NODE_BYTES: usize = 32;

/// What the name of a stored tree ends with, behind the name of the program's own file.
pub const SUFFIX: &str = ".tree";

/// How many pages a file of so many bytes has. The last may be short.
#[must_use]
pub const fn pages(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE_BYTES)
}

/// How many nodes its tree has.
#[must_use]
pub const fn nodes(bytes: u64) -> u64 {
    (2 * pages(bytes)).saturating_sub(1)
}

/// The node of a page of a file of `bytes` bytes. What is no page, because it is empty, is nobody's.
#[must_use]
pub fn leaf(bytes: u64, page: u64, content: &[u8]) -> TreeNode {
    if content.is_empty() || content.len() as u64 > PAGE_BYTES {
        return [0; NODE_BYTES];
    }
    if pages(bytes) <= 1 {
        return *blake3::hash(content).as_bytes();
    }
    Hasher::new().set_input_offset(page.saturating_mul(PAGE_BYTES)).update(content).finalize_non_root()
}

/// A part of the tree.
#[derive(Clone, Copy, Debug)]
struct Subtree {
    /// Its first page.
    first: u64,
    /// Pages below it, not 0.
    pages: u64,
    /// Place of its root among the stored nodes.
    index: u64,
}

impl Subtree {
    /// The tree of a file, unless that is empty.
    fn whole(bytes: u64) -> Option<Self> {
        Some(Self { first: 0, pages: pages(bytes), index: 0 }).filter(|tree| tree.pages > 0)
    }

    /// What is below it; a page has nothing below it. On the left is the largest power of two that leaves something.
    fn children(self) -> Option<[Self; 2]> {
        let left = 1 << self.pages.checked_sub(1)?.checked_ilog2()?;
        Some([
            Self { first: self.first, pages: left, index: self.index + 1 },
            Self { first: self.first + left, pages: self.pages - left, index: self.index + 2 * left },
        ])
    }

    /// Whether it has one of `count` pages from `first` on.
    fn meets(self, first: u64, count: u64) -> bool {
        self.first < first.saturating_add(count) && first < self.first + self.pages
    }

    /// Its node, from those below it.
    fn merge(self, left: &TreeNode, right: &TreeNode) -> TreeNode {
        if self.index == 0 {
            *merge_subtrees_root(left, right, Mode::Hash).as_bytes()
        } else {
            merge_subtrees_non_root(left, right, Mode::Hash)
        }
    }
}

/// The whole tree of a file in pre-order; see [`build`].
#[must_use]
pub fn of(file: &[u8]) -> Vec<TreeNode> {
    let bytes = file.len() as u64;
    let pages = (0..).zip(file.chunks(PAGE_BYTES as usize));
    build(bytes, &pages.map(|(page, content)| leaf(bytes, page, content)).collect::<Vec<_>>())
}

/// The whole tree of a file of `bytes` bytes in pre-order, from the nodes of its pages. Its first node is the file's
/// hash. Empty if these are not its pages.
#[must_use]
pub fn build(bytes: u64, leaves: &[TreeNode]) -> Vec<TreeNode> {
    fn fill(tree: Subtree, leaves: &[TreeNode], nodes: &mut Vec<TreeNode>) -> TreeNode {
        let place = nodes.len();
        nodes.push([0; NODE_BYTES]);
        let node = match tree.children() {
            None => leaves.get(tree.first as usize).copied().unwrap_or_default(),
            Some(children) => {
                let [left, right] = children.map(|child| fill(child, leaves, nodes));
                tree.merge(&left, &right)
            }
        };
        nodes[place] = node;
        node
    }
    let mut all = Vec::new();
    if let Some(tree) = Subtree::whole(bytes).filter(|tree| tree.pages == leaves.len() as u64) {
        fill(tree, leaves, &mut all);
    }
    all
}

/// The places of the nodes that are sent with `count` pages from `first` on, in the order they are sent: those of the
/// largest parts of the tree that have none of the pages.
#[must_use]
pub fn beside(bytes: u64, first: u64, count: u64) -> Vec<u64> {
    fn find(tree: Subtree, first: u64, count: u64, found: &mut Vec<u64>) {
        if !tree.meets(first, count) {
            found.push(tree.index);
        } else if let Some(children) = tree.children() {
            children.into_iter().for_each(|child| find(child, first, count, found));
        }
    }
    let mut found = Vec::new();
    if let Some(tree) = Subtree::whole(bytes) {
        find(tree, first, count, &mut found);
    }
    found
}

/// The program to which pages belong whose nodes are `leaves`, from page `first` on, of a file of `bytes` bytes, if the
/// nodes beside them are these: if any of this was changed, another program's. (Where the file ends is shown by its end
/// only: `bytes` is not checked by pages from elsewhere.) `None` if there are not as many nodes as there should be.
#[must_use]
pub fn program_of(bytes: u64, first: u64, leaves: &[TreeNode], beside: &[TreeNode]) -> Option<ProgramId> {
    struct Given<'a> {
        first: u64,
        leaves: &'a [TreeNode],
        beside: core::slice::Iter<'a, TreeNode>,
    }
    fn climb(tree: Subtree, given: &mut Given<'_>) -> Option<TreeNode> {
        if !tree.meets(given.first, given.leaves.len() as u64) {
            return given.beside.next().copied();
        }
        let Some([left, right]) = tree.children() else {
            return given.leaves.get((tree.first - given.first) as usize).copied();
        };
        let (left, right) = (climb(left, given)?, climb(right, given)?);
        Some(tree.merge(&left, &right))
    }
    let mut given = Given { first, leaves, beside: beside.iter() };
    let root = climb(Subtree::whole(bytes)?, &mut given)?;
    given.beside.next().is_none().then_some(ProgramId(root))
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::collection::vec;
    use proptest::prelude::{ProptestConfig, any};
    use proptest::{prop_assert, prop_assert_eq, prop_assume, proptest};

    use super::{PAGE_BYTES, TreeNode, beside, build, leaf, nodes, of, program_of};
    use crate::ids::ProgramId;
    use crate::limits::{PROGRAM_BYTES_MAX, TREE_NODES_PER_REPLY_MAX};

    /// A file that is nowhere the same.
    fn file(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
    }

    fn leaves(file: &[u8]) -> Vec<TreeNode> {
        let pages = file.chunks(PAGE_BYTES as usize);
        (0..).zip(pages).map(|(page, content)| leaf(file.len() as u64, page, content)).collect()
    }

    #[test]
    fn the_root_is_the_hash_of_the_file() {
        for bytes in [1, 1023, 1024, 1025, 4095, 4096, 4097, 8192, 8193, 12_288, 40_000, 65_536, 1_000_001] {
            let file = file(bytes);
            let tree = of(&file);
            assert_eq!(tree[0], *blake3::hash(&file).as_bytes(), "{bytes}");
            assert_eq!(tree.len() as u64, nodes(bytes as u64));
        }
        assert!(build(0, &[]).is_empty() && build(1, &[]).is_empty() && beside(0, 0, 1).is_empty());
        assert_eq!(program_of(0, 0, &[], &[]), None);
    }

    #[test]
    fn no_pages_need_more_nodes_than_the_limit() {
        let worst = [PROGRAM_BYTES_MAX, PROGRAM_BYTES_MAX - 1, PROGRAM_BYTES_MAX / 2 + 1];
        let most = worst.into_iter().flat_map(|bytes| {
            let middle = bytes / PAGE_BYTES / 2;
            (middle - 33..middle + 33).map(move |first| beside(bytes, first, 2).len())
        });
        let most = most.max().expect("some");
        assert!((TREE_NODES_PER_REPLY_MAX - 4..=TREE_NODES_PER_REPLY_MAX).contains(&most), "{most}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn pages_lead_to_their_program_and_no_others_do(
            bytes in 1..150_000_usize,
            first in 0..40_u64,
            count in 1..33_u64,
            flip in any::<proptest::sample::Index>(),
        ) {
            let file = file(bytes);
            let id = ProgramId(*blake3::hash(&file).as_bytes());
            let bytes = bytes as u64;
            let all = leaves(&file);
            prop_assume!((first as usize) < all.len());
            let tree = build(bytes, &all);
            let pages = all[first as usize..].iter().take(count as usize).copied().collect::<Vec<_>>();
            let others: Vec<TreeNode> = beside(bytes, first, count).iter().map(|index| tree[*index as usize]).collect();
            prop_assert_eq!(program_of(bytes, first, &pages, &others), Some(id));
            // Anything that is changed is seen.
            let flip = flip.index(32 * (pages.len() + others.len()));
            let (mut other_pages, mut beside_other) = (pages.clone(), others.clone());
            match beside_other.get_mut(flip / 32) {
                Some(node) => node[flip % 32] ^= 1,
                None => other_pages[flip / 32 - others.len()][flip % 32] ^= 1,
            }
            prop_assert!(program_of(bytes, first, &other_pages, &beside_other) != Some(id));
            prop_assert!(program_of(bytes, first + 1, &pages, &others) != Some(id));
            let more = [&others[..], &[[0; 32]]].concat();
            prop_assert_eq!(program_of(bytes, first, &pages, &more), None);
        }

        #[test]
        fn no_nodes_make_it_panic(
            bytes: u64,
            first: u64,
            leaves in vec(any::<TreeNode>(), 0..9),
            others in vec(any::<TreeNode>(), 0..70),
        ) {
            let _ = program_of(bytes, first, &leaves, &others);
        }
    }
}
