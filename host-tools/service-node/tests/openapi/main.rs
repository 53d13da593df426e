//! The API's description: it is kept as it is, and whatever is asked and answered is as it says.

#[path = "../support/mod.rs"]
mod support;

mod caller;
mod calls;
mod description;
mod documented;
mod kept;
mod values;
