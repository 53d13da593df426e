//! PMI: conversations with ranks, and barriers between nodes, over the public interface.

mod again;
mod barriers;
mod cards;
mod cluster;
mod compact;
mod conversation;
mod departures;
mod fences;
mod frames;
mod limits;
mod modex;
mod names;
mod names_lost;
mod placement;
mod second;
mod spawns;
mod verbatim;
mod watch;
mod watch_lossy;
mod watching;
