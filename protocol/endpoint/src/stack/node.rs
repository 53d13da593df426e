//! What the node's own connections and listeners do to a stack.

use core::net::Ipv4Addr;

use smoltcp::socket::tcp::State as TcpState;
use smoltcp::wire::IpAddress;

use super::BufferSizes;
use super::listen::{Arrival, Listener, Place};
use super::net::Net;
use super::owner::Owner;
use super::ports::Claim;
use super::table::Key;
use crate::listener::Peer;
use crate::{NetError, SocketError};

impl Net {
    /// Starts to connect to `address`:`peer_port`.
    pub(crate) fn connect(&mut self, address: Ipv4Addr, peer_port: u16, sizes: BufferSizes) -> Result<Key, NetError> {
        let key = self.add(sizes, Owner::Stream)?;
        let claim = self.ports.take_for_node();
        let port = claim.as_ref().map_or(0, Claim::port);
        if let Some(entry) = self.table.get_mut(key) {
            entry.claim = claim;
        }
        self.start(key, (address, peer_port), port).inspect_err(|_| self.remove(key))?;
        Ok(key)
    }

    /// Opens a port of the node's own.
    pub(crate) fn listen(&mut self, place: Place, listener: Listener) -> Result<Claim, NetError> {
        if place.port == 0 {
            return Err(NetError::Address);
        }
        let claim = self.ports.listen_for_node(place.port).ok_or(NetError::PortInUse)?;
        self.listeners.insert(place, listener);
        Ok(claim)
    }

    /// The next connection at a port of the node's own. Those that were reset before anybody accepted them are passed
    /// over.
    pub(crate) fn accept(&mut self, place: Place) -> Option<(Key, Peer)> {
        loop {
            let Arrival::Remote(key) = self.listeners.get_mut(place)?.take()? else { continue };
            let Some(entry) = self.table.get_mut(key) else { continue };
            let peer = entry.socket().remote_endpoint();
            let (false, Some(peer)) = (entry.socket().state() == TcpState::Closed, peer) else {
                self.remove(key);
                continue;
            };
            entry.owner = Owner::Stream;
            let IpAddress::Ipv4(address) = peer.addr;
            return Some((key, (address, peer.port)));
        }
    }

    /// Closes a port; connections that wait there are reset.
    pub(crate) fn unlisten(&mut self, place: Place) {
        let Some(listener) = self.listeners.remove(place) else { return };
        let Listener { making, ready, waiting, .. } = listener;
        let made = ready.into_iter().filter_map(|arrival| match arrival {
            Arrival::Remote(key) => Some(key),
            Arrival::Local(end) => {
                end.fail(SocketError::Reset);
                None
            }
        });
        for key in making.into_iter().chain(made) {
            if let Some(entry) = self.table.get_mut(key) {
                entry.socket_mut().abort();
                self.let_close(key);
            }
        }
        waiting.into_iter().for_each(|end| end.fail(SocketError::Refused));
    }
}
