//! How clients of different versions write numbers.
//!
//! A client says which of OpenPMIx's *bfrops* modules it writes with. Of those that the versions 2.1 to 5 have there
//! are two kinds: up to `v3` a number is as wide as its type, most significant byte first, and sizes, plain integers
//! and process ids say which type they are; from `v4` on numbers are short (*flex128*) and say nothing.

use serde::{Deserialize, Serialize};

/// See this module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Dialect {
    /// `v21` and `v3`.
    Wide,
    /// `v4` and `v41`.
    Short,
}

impl Dialect {
    /// That of a client that names this module.
    #[must_use]
    pub fn of_module(name: &[u8]) -> Option<Self> {
        match name {
            b"v21" | b"v3" => Some(Self::Wide),
            b"v4" | b"v41" => Some(Self::Short),
            _ => None,
        }
    }
}
