//! Shapes of trees over the members of a group, which are numbered from 1; 0 is whoever is above them all. Everything
//! that goes through a tree takes its shape from here, so that each member finds its place from numbers alone and no
//! tree is ever sent.

mod branches;
mod in_order;
mod inside;
mod over_psets;
mod topology;

pub use self::branches::{Branches, Place};
pub use self::in_order::{InOrder, TwoTrees};
pub use self::over_psets::TreesOverPsets;
pub use self::topology::Topology;
