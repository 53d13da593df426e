//! PMIx between a node and its ranks: what clients of OpenPMIx 3 to 5 say over a TCP connection, and what they hear.
//!
//! There is no description of that but OpenPMIx's source; where a layout comes from is said with its file there. All of
//! it is read here from bytes that a program may have made up.
//!
//! | module | what |
//! | --- | --- |
//! | `header` | messages out of bytes |
//! | [`Greeting`] | who speaks, and how it writes |
//! | [`Dialect`], [`Reader`], [`Writer`], [`Kind`] | numbers, texts, values |
//! | [`Request`] | calls |
//! | [`Status`], [`key`], [`rank`] | what has a number or a name |
//! | [`information`] | what is known of a job from its start |
//! | [`Cards`] | what ranks have put |
//! | `exchange` | the same of ranks of other nodes, when no fence has brought it |
//! | `collective` | calls of some ranks together |
//! | [`Query`] | what ranks ask about their job |
//! | `notification`, `board`, `relay` | what ranks are told unasked |
//! | [`Client`] | the conversation with one rank |

mod board;
mod call;
mod cards;
mod client;
mod collective;
mod desk;
mod dialect;
mod events;
mod exchange;
mod fences;
mod handshake;
mod header;
pub mod information;
pub mod key;
mod kind;
mod naming;
mod notification;
mod parcel;
mod query;
mod reader;
mod relay;
mod request;
mod status;
mod word;
mod writer;

pub(crate) use self::call::{CallId, Places};
pub use self::cards::Cards;
pub(crate) use self::cards::pieces;
pub use self::client::Client;
pub(crate) use self::desk::{Desk, DeskRecord};
pub use self::dialect::Dialect;
pub use self::events::SERVER_SPACE;
pub use self::handshake::Greeting;
pub use self::kind::Kind;
pub(crate) use self::notification::{Ending, Notification};
pub use self::query::Query;
pub(crate) use self::query::{Program, State};
pub use self::reader::{Info, Process, Read, Reader};
pub use self::request::{Buckets, Get, Named, Notify, Pairs, Request, Scope, Together};
pub use self::status::Status;
pub use self::writer::{Value, Writer};

/// Numbers that are no rank's.
pub mod rank {
    /// Nobody in particular.
    pub const UNDEFINED: u32 = u32::MAX;
    /// All of a name space.
    pub const WILDCARD: u32 = u32::MAX - 1;
}
