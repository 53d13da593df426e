//! The performance overlay of a job: a tree of processes that starts itself, gathers what the job's ranks do while they
//! do it, and brings it together on the way.
//!
//! Terms, as those have them who published it:
//!
//! - **BE**, back end: one for each rank; it says what the rank has done in an epoch.
//! - **AP**, auxiliary process: one for each node, which its first BE triggers; it says what the node has done.
//! - **CP**, communication process: an inner node of the tree, which aggregates what comes from below.
//! - **IBE**: a CP that has BEs below it.
//! - **FE**, front end: the root.
//!
//! CPs run on the job's own nodes. How many run where is a matter of [`placement`], unless a file says it
//! ([`topology`]); which BE speaks to which IBE follows from [`attach`]. What they say is a [`Part`] of an epoch: whose
//! it is, and a [`Summary`] for each [`Metric`]; which nodes are in it, and one for each [`NodeMetric`]; and
//! [`Counters`] that programs offer themselves. Where programs were, if somebody wants to know, goes up beside that as
//! [`Stacks`], which are of no epoch and of no rank: nothing of them is said again, so that nothing is counted twice,
//! and what somebody has of them who dies is lost.

mod alike;
pub mod attach;
mod back_ends;
mod counters;
mod epochs;
pub mod frame;
mod front_end;
mod gathering;
mod message;
mod metric;
mod missing;
mod node;
mod node_metric;
mod part;
pub mod placement;
mod process;
mod sending;
mod sketch;
mod stacks;
mod summaries;
mod summary;
mod tally;
pub mod topology;
mod totals;
mod tree;

pub use self::alike::{Alike, Share};
pub use self::back_ends::{BackEnds, Deeds, Gathered};
pub use self::counters::{CounterName, Counters, NoName};
pub use self::front_end::{Event, FrontEnd, Layout, Seat, Standing, Subject};
pub use self::message::{Above, Child, Down, Generation, NoMessage, Source, Up};
pub use self::metric::{METRICS, Metric, Unit};
pub use self::node::Node;
pub use self::node_metric::{NODE_METRICS, NodeMetric, NodeValues};
pub use self::part::{NotMerged, Part, Values};
pub use self::process::Process;
pub use self::sketch::Sketch;
pub use self::stacks::Stacks;
pub use self::summary::Summary;
pub use self::tally::{Calls, Peers, Tallies, Tally, TopTallies, TopTally};
pub use self::totals::{Totals, is_turn};

#[cfg(test)]
mod tests;
