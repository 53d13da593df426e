//! What code addresses of programs are called, and what is made of stacks of them.
//!
//! A sampled rank gives addresses, innermost first ([`Stack`]). [`Symbols`] looks into the program's file and says
//! which functions lie there, inlined ones too, as well as the file tells: by its debug information (DWARF), else by
//! its symbol table, else by how far into the program it is. [`Profile`] is stacks with names, from which come a table
//! of functions, folded lines, a flame graph and what `pprof` reads.
//!
//! The file may be any. What makes no sense in it is passed over, reading it has limits ([`limits`]), and debug
//! information is read on a thread of its own, so that a file made for that can neither keep nor end whoever asks.

mod dwarf;
mod flame;
pub mod limits;
mod names;
pub mod pprof;
mod profile;
mod symbols;
mod table;
#[cfg(test)]
mod tests;

pub use self::profile::{Profile, Row};
pub use self::symbols::{Frame, Place, Symbols, SymbolsError};

/// Code addresses, innermost first, and how often they were seen. None: what could not be told apart.
pub type Stack = (Vec<u64>, u64);
