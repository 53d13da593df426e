//! The directory in which checkpoints are kept ([`coppice_protocol::checkpoint`]).
//!
//! | in the directory | what |
//! | --- | --- |
//! | `format` | which version of all this it is |
//! | `objects/ab/abcd…` | objects, by their names; the I/O nodes put them |
//! | `packs/abcd…` | objects, many in a file |
//! | `jobs/<job>/<number>.json` | manifests: what is here is a checkpoint; the service node writes them |
//! | `jobs/<job>/<number>.verified` | notes that all of such a one was read and is what was written |
//! | `temporary` | what is being written, until it has its name |
//!
//! Nothing gets its name before all of it is written, and a manifest none before all its objects are on stable storage.
//! So whoever is killed leaves files in `temporary` and objects that no manifest reaches, and no half checkpoint. The
//! service node removes these when it starts, before any I/O node does: [`Storage::sweep`] the files, and
//! [`Storage::collect`] the objects. It must, as after a crash of the host an object may be there that was never on
//! stable storage; one that a manifest reaches was. Where it cannot, as a manifest is damaged, no checkpoint is to be
//! made before that is deleted.
//!
//! All calls wait for the disk: they are for threads that may.
//!
//! | module | what |
//! | --- | --- |
//! | [`limits`] | every bound, with what happens at it |
//! | `directory` | the directory itself, and how a file gets there whole |
//! | `objects`, `encoding` | objects, and what their files hold |
//! | `packs` | files of many objects |
//! | `manifest`, `manifests` | what a checkpoint is; all of them |
//! | `verified` | which checkpoints were found to be whole |
//! | `reach` | which objects a checkpoint has: whether all are there, and which none has |

mod directory;
mod encoding;
mod error;
pub mod limits;
mod manifest;
mod manifests;
mod objects;
mod packs;
mod reach;
#[cfg(test)]
mod tests;
mod verified;

pub use directory::Storage;
pub use error::StorageError;
pub use manifest::{Manifest, ManifestPart, PartKind};
pub use objects::Named;
pub use packs::Packing;
pub use reach::Collected;

/// What is done in a storage directory, or why not.
pub type Result<T> = core::result::Result<T, StorageError>;
