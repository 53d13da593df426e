//! PMIx: what clients of OpenPMIx say, and what they hear.

mod dead_nodes;
mod events;
mod events_lost;
mod exchange;
mod fences;
mod gets;
mod greetings;
mod groups;
mod hostile;
mod losses;
mod lost_nodes;
mod names;
mod nodes;
mod parts;
mod queries;
mod table;
mod values;
mod verbatim;
