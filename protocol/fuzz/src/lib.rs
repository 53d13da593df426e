//! Every parser of the protocols under inputs that somebody changed: whatever comes, it answers and does not panic, and
//! what it reads it reads again the same from its own bytes.
//!
//! A [`Target`] is a function over bytes that panics when something does not hold. A [`Hunt`] starts from the target's
//! corpus: the bytes of all messages as the protocol's own tests have them, the files in `corpus/`, and what a target
//! makes for itself. It changes entries at random and keeps those of which the parser made something new. It needs
//! nothing but a stable compiler. The same seed makes the same inputs.

mod corpus;
mod hunt;
mod mutate;
mod random;
mod targets;

pub use corpus::{from_hex, to_hex};
pub use hunt::{Found, Hunt};
pub use targets::{TARGETS, Target};
