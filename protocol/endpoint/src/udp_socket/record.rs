//! A program's UDP socket as data; see [`crate::record`].

use alloc::sync::Arc;

use smoltcp::phy::Device;

use super::UdpSocket;
use crate::cell::{Cell, Readiness};
use crate::datagrams::{Number, Socket};
use crate::limits::DATAGRAM_BYTES_MAX;
use crate::record::{NotMade, NotQuiet, PortRecord, UdpRecord};
use crate::stack::Stack;
use crate::stack::net::Net;

impl<D: Device> UdpSocket<D> {
    /// Writes it down, and leaves it as it is. The record takes as much as was received.
    ///
    /// # Errors
    /// [`NotQuiet`]: it has datagrams that have not gone.
    pub fn record(&self) -> Result<UdpRecord, NotQuiet> {
        self.stack.with_net(|net| {
            let socket = net.datagrams.get_mut(self.number).filter(|socket| !socket.is_sending()).ok_or(NotQuiet)?;
            let port = socket.claim.as_ref().and_then(|claim| net.datagram_ports.record(claim));
            let received = socket.received().map(|datagram| (datagram.peer, datagram.bytes.clone())).collect();
            let &mut Socket { peer, error, broadcasts, read_shut, write_shut, .. } = socket;
            let told = self.cell.record();
            Ok(UdpRecord { port, peer, error, broadcasts, read_shut, write_shut, told, received })
        })
    }

    /// How many bytes are in its record that were received, and how many datagrams.
    pub fn record_holds(&self) -> (usize, usize) {
        self.stack.with_net(|net| {
            let Some(socket) = net.datagrams.get_mut(self.number) else { return (0, 1) };
            (socket.received().map(|datagram| datagram.bytes.len()).sum(), 1 + socket.received().count())
        })
    }

    /// Makes it again.
    ///
    /// # Errors
    /// [`NotMade`].
    pub fn again(stack: &Stack<D>, record: &UdpRecord) -> Result<Self, NotMade> {
        let cell = Arc::new(Cell::new(Readiness::NONE));
        let number = stack.with_net(|net| {
            let ticket = net.ticket()?;
            let number = net.datagrams.add(Socket::new(Arc::clone(&cell), ticket));
            Ok::<_, NotMade>(number)
        })?;
        // From here on it is closed when this fails.
        let made = Self { stack: stack.clone(), cell, number };
        stack.with_net(|net| net.fill_again(number, record))?;
        made.cell.again(record.told);
        Ok(made)
    }
}

impl Net {
    fn fill_again(&mut self, number: Number, record: &UdpRecord) -> Result<(), NotMade> {
        match record.port {
            None => {}
            Some(port @ PortRecord::Bound { address, .. }) => {
                let claim = self.datagram_ports.claim_again(port).map_err(|_| NotMade::Damaged)?;
                self.datagrams.bind(number, address, claim);
            }
            Some(PortRecord::Accepted(_)) => return Err(NotMade::Damaged),
        }
        for (peer, bytes) in &record.received {
            if bytes.len() > DATAGRAM_BYTES_MAX {
                return Err(NotMade::Damaged);
            }
            let mut datagram = self.datagram(bytes.len(), *peer)?;
            datagram.bytes.copy_from_slice(bytes);
            self.datagrams.deliver(number, datagram);
        }
        if let Some(socket) = self.datagrams.get_mut(number) {
            let &UdpRecord { peer, error, broadcasts, read_shut, write_shut, .. } = record;
            (socket.peer, socket.error, socket.broadcasts) = (peer, error, broadcasts);
            (socket.read_shut, socket.write_shut) = (read_shut, write_shut);
            socket.update(false);
        }
        Ok(())
    }
}
