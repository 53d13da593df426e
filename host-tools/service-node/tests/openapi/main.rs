//! The API's description: it is kept as it is.

#[path = "../support/mod.rs"]
mod support;

mod kept;
