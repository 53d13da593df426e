//! Nodes of the job that are gone: who talks to one of their programs need not wait until it has been silent for long,
//! which a connection over which nothing is sent never finds out.

use alloc::vec::Vec;

use coppice_protocol::ids::JobNode;
use coppice_protocol::world::NetworkTag;
use smoltcp::phy::Device;
use smoltcp::wire::IpAddress;

use super::Stack;
use super::table::Key;
use crate::ethernet::Realm;

impl<D: Device> Stack<D> {
    /// Breaks off what programs of this job have to do with one of its nodes: connections are told that the peer has
    /// not answered ([`crate::SocketError::TimedOut`]). Nothing, if another job is here.
    pub fn break_off(&self, tag: NetworkTag, node: JobNode) {
        let is_any = self.with_net(|net| {
            if net.sides.job.as_ref().is_none_or(|job| job.network.tag() != tag) {
                return false;
            }
            let address = IpAddress::Ipv4(node.address());
            let keys: Vec<Key> = net
                .table
                .iter_mut()
                .filter(|(_, entry)| entry.realm() == Realm::Job)
                .filter(|(_, entry)| entry.socket().remote_endpoint().is_some_and(|peer| peer.addr == address))
                .map(|(key, entry)| {
                    entry.silence.give_up();
                    key
                })
                .collect();
            keys.iter().for_each(|key| net.table.enqueue(*key));
            !keys.is_empty()
        });
        if is_any {
            self.kick();
        }
    }
}
