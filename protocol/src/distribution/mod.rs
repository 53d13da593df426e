//! Distribution: a file reaches all members of a group, each link carrying each byte about once.
//!
//! Home has the file, cut into pieces. A [`Machine`] at home and at every member is told what arrives and what time it
//! is, and says what is to be sent; it has no bytes, no sockets and no clock, so that nodes, host daemons and the
//! simulator drive the same one; a [`Party`] is one that speaks in datagrams ([`packet`]). What all of them know
//! beforehand is the [`Plan`]; the shape of the trees follows from it ([`crate::trees`]).
//!
//! **Two trees** ([`Scheme::TwoTrees`]). Every other piece goes down one binary tree, the rest down another; a member
//! passes pieces on in one of them only, so that its link is busy in both directions all the time and nowhere longer
//! than the file takes. With depth *d*, a piece's time *t* and latency *a* the last member is whole after about
//! *S/B* + 2 *d* (*t* + *a*).
//!
//! **Branches** ([`Scheme::Branches`]). The published scheme: each piece goes down a branch of its own, then members
//! ask others for what they lack, of whom they only estimate what they have.
//!
//! **What goes wrong.** Packets that are lost are asked for again, first of whoever sent the rest. A member that is
//! silent, or much slower than others, is left out: each of the two that send to it sends to one of those below it
//! instead, so that all links are as busy as before ([`stand_in`]). What it lacks itself, and what anybody misses to
//! whom nobody sends, is asked of those that by the estimate have it, chosen at random. Those further below notice
//! nothing but that pieces come later. An answer of "not here" corrects the estimate. Nobody passes on what has not
//! been checked; from who sent what was wrong nothing is taken any more.
//!
//! **The end.** Members tell those above them who is whole; home asks those of whom it hears nothing, until each is
//! whole or lost. Then it says that all is over, and members may leave.

mod asks;
mod assembly;
mod branches;
mod effect;
mod estimate;
mod farewell;
mod lanes;
mod machine;
mod message;
mod others;
pub mod packet;
mod party;
mod pieces;
mod plan;
mod ranges;
mod reports;
mod roll;
mod scheme;
mod seek;
mod sender;
mod serve;
mod stand_in;
#[cfg(test)]
mod tests;
mod two_trees;

pub use self::effect::{Effect, Outcome};
pub use self::estimate::HOME;
pub use self::machine::Machine;
pub use self::message::Message;
pub use self::party::{Party, Step, Tally};
pub use self::pieces::{PacketSet, PieceSet};
pub use self::plan::{Link, Plan, PlanError, TransferId};
pub use self::ranges::MemberRanges;
pub use self::scheme::{AskVariant, Scheme};
