//! PMI, versions 1 and 2: what MPI programs ask of whoever started them, and how the nodes of a job answer together.
//!
//! Every node serves its own ranks: a [`Conversation`] with each, over one [`Server`] of the job. What a rank puts is
//! kept on its node; a barrier brings it to the others ([`spread`]), or they ask for it ([`modex`]). Where ranks are is
//! known to all from the launch ([`Placement`]), so that nothing is exchanged for it. Names that ranks publish are kept
//! by one node each ([`names`]). That a node of the job is dead the others find out among themselves ([`watch`]).
//!
//! ```text
//! rank ──lines──► Conversation ──► Server ◄── frames ──► the servers of other nodes
//!                                    │
//!                                    └──► events: a rank is released, the job ends
//! ```
//!
//! Sans-IO: bytes and time go in, bytes and events come out.

mod attributes;
mod circle;
mod compact;
mod conversation;
mod drawer;
mod failure;
mod fence;
mod frame;
mod gather;
mod letter;
mod line;
mod message;
mod modex;
mod names;
mod naming;
mod news;
mod outbox;
mod placement;
mod question;
mod record;
mod request;
mod route;
mod schedule;
mod second;
mod server;
mod shelf;
mod space;
mod spawning;
mod spread;
mod startup;
mod watch;

pub use self::compact::{Card, Measures, pack, unpack};
pub use self::conversation::Conversation;
pub use self::failure::{Departure, Failure};
pub use self::fence::{BYTE_NS, Conditions, FIRST_BYTES_PER_NODE, FRAME_NS, Fence, STEP_NS, UnknownFence};
pub use self::frame::{HEADER_BYTES, PeerError, PeerFrame, PeerFrames, VERSION};
pub(crate) use self::letter::{Answer, Refusal, Verb, Wish};
pub use self::modex::{Modex, NoModex};
pub(crate) use self::placement::Places;
pub use self::placement::{NodeRanks, Placement, PlacementError};
pub use self::record::{BadRecord, ServerRecord};
pub(crate) use self::route::{Hop, Route, Way};
pub(crate) use self::server::Patience;
pub use self::server::{Event, Server};
pub use self::startup::Startup;
