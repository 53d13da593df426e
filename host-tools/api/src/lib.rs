//! Types, paths and client of the service node's HTTP API.
//!
//! A cluster is one `coppiced` process. It answers HTTP/1.1 on a Unix socket that only its user may open; where that
//! socket and everything else of a cluster lies is [`paths`]. Listings and orders are JSON ([`cluster`], [`node`],
//! [`job`], [`checkpoint`], [`inspect`], [`keep`], [`link`], [`overlay`], [`ras`], [`program`], [`retain`]); what a job
//! writes, or is kept of that ([`output`]), comes as binary frames ([`stream`]), so that output is neither encoded nor
//! copied more than needed. [`client`] is the typed way to all of it, for Coppice's own tools as for other programs; it
//! looks at the [`version`] of who answers. All types describe themselves, which the service node makes an OpenAPI
//! document of (`docs/openapi.json`); [`schema`] has what that needs besides.
//!
//! Names, paths, arguments and variables are bytes on Linux. In JSON they are strings; one that is not UTF-8 is an
//! object with its bytes in hexadecimal instead, such as `{"bytes":"66ff6f"}` ([`ByteString`]).

pub mod ahead;
pub mod body;
pub mod checkpoint;
pub mod client;
pub mod cluster;
mod counted;
pub mod cut;
pub mod descriptors;
pub mod error;
pub mod holder;
pub mod inspect;
pub mod job;
pub mod keep;
pub mod limits;
pub mod link;
pub mod node;
pub mod output;
pub mod overlay;
pub mod path;
pub mod paths;
pub mod presence;
pub mod program;
pub mod ras;
pub mod retain;
pub mod schema;
pub mod show;
pub mod stacks;
pub mod staging;
pub mod stream;
pub mod transfer;
pub mod version;

pub use client::Client;
pub use coppice_protocol::text::{ByteString, Shown};
pub use coppice_protocol::{signal, syscalls, trace};
pub use counted::counted;
pub use error::{ApiError, in_one_line};
pub use path::shown;
pub use paths::{ClusterName, ClusterPaths, PathError};
