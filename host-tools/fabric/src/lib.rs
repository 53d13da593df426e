//! User-space Ethernet switch: the cluster's network, one unix datagram per frame, no privilege needed.
//!
//! Every station (a QEMU machine's `dgram` netdev, an I/O node) has one *link* to the switch: a pair of datagram
//! sockets `<name>.sock` (the station's) and `<name>.sw` (the switch's) in one directory. The switch forwards by
//! destination address, and it can make any link slow, lossy or dead in either direction, count on it and record it.
//!
//! | module | what |
//! | --- | --- |
//! | [`command`] | the JSON lines that control a running switch |
//! | [`names`] | link names, socket paths, the text form of an Ethernet address |
//! | [`limits`] | every bound, with what happens at it |
//! | [`station`] | the other end of a link, for programs that are a station |
//! | [`server`] | the loop that waits for frames, time and commands |
//! | `execute`, `lines` | what commands do; lines in and out |
//! | `switch`, `addresses`, `link`, `buffers` | forwarding |
//! | `shaper`, `under_way` | links that are slow or lossy |
//! | `pcap`, `recording`, `recordings` | the format; a recording, and the thread that writes it; all of them |
pub mod command;
pub mod limits;
pub mod names;
pub mod server;
pub mod station;

mod addresses;
mod buffers;
mod execute;
mod lines;
mod link;
mod pcap;
mod recording;
mod recordings;
mod shaper;
mod switch;
mod under_way;
