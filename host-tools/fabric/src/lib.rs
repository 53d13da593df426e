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
pub mod command;
pub mod limits;
pub mod names;
pub mod station;
