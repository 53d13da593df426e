//! What the network does when all sockets of a job become data on all of its nodes, and are made again from that
//! ([`coppice_endpoint::record`]).

use alloc::boxed::Box;
use alloc::vec::Vec;

use coppice_endpoint::record::{NotMade, NotQuiet, OrphanRecord, TcpRecord, UdpRecord};
use coppice_endpoint::{SocketError, Stack, TcpSocket, UdpSocket};
use smoltcp::phy::Device;

use super::{Tcp, Udp};
use crate::sync::{LockLevel, passing};

/// See this module.
pub trait Again {
    /// See [`Stack::quieten`].
    ///
    /// # Errors
    /// As there.
    fn quieten(&self) -> Result<bool, SocketError>;

    /// See [`Stack::record_orphans`].
    ///
    /// # Errors
    /// As there.
    fn record_orphans(&self) -> Result<Vec<OrphanRecord>, NotQuiet>;

    /// See [`Stack::forget_orphans`].
    fn forget_orphans(&self);

    /// See [`Stack::make_orphans_again`].
    ///
    /// # Errors
    /// As there.
    fn make_orphans(&self, records: &[OrphanRecord]) -> Result<(), NotMade>;

    /// See [`TcpSocket::again`].
    ///
    /// # Errors
    /// As there.
    fn make_tcp(&self, record: &TcpRecord) -> Result<Box<dyn Tcp>, NotMade>;

    /// See [`UdpSocket::again`].
    ///
    /// # Errors
    /// As there.
    fn make_udp(&self, record: &UdpRecord) -> Result<Box<dyn Udp>, NotMade>;

    /// See [`Stack::call_again`].
    fn call(&self);

    /// See [`Stack::is_calling_again`].
    fn is_calling(&self) -> bool;

    /// See [`Stack::settle_again`].
    fn settle(&self, now_ns: u64);

    /// See [`Stack::is_settled_again`].
    fn is_settled(&self) -> bool;

    /// See [`Stack::is_made_again`].
    fn is_made(&self) -> bool;

    /// See [`Stack::end_making_again`].
    fn end(&self, now_ns: u64) -> usize;
}

impl<D: Device + Send + 'static> Again for Stack<D> {
    fn quieten(&self) -> Result<bool, SocketError> {
        let _passing = passing(LockLevel::Network);
        Self::quieten(self)
    }

    fn record_orphans(&self) -> Result<Vec<OrphanRecord>, NotQuiet> {
        let _passing = passing(LockLevel::Network);
        Self::record_orphans(self)
    }

    fn forget_orphans(&self) {
        let _passing = passing(LockLevel::Network);
        Self::forget_orphans(self);
    }

    fn make_orphans(&self, records: &[OrphanRecord]) -> Result<(), NotMade> {
        let _passing = passing(LockLevel::Network);
        self.make_orphans_again(records)
    }

    fn make_tcp(&self, record: &TcpRecord) -> Result<Box<dyn Tcp>, NotMade> {
        let _passing = passing(LockLevel::Network);
        Ok(Box::new(TcpSocket::again(self, record)?))
    }

    fn make_udp(&self, record: &UdpRecord) -> Result<Box<dyn Udp>, NotMade> {
        let _passing = passing(LockLevel::Network);
        Ok(Box::new(UdpSocket::again(self, record)?))
    }

    fn call(&self) {
        let _passing = passing(LockLevel::Network);
        self.call_again();
    }

    fn is_calling(&self) -> bool {
        let _passing = passing(LockLevel::Network);
        self.is_calling_again()
    }

    fn settle(&self, now_ns: u64) {
        let _passing = passing(LockLevel::Network);
        self.settle_again(now_ns);
    }

    fn is_settled(&self) -> bool {
        let _passing = passing(LockLevel::Network);
        self.is_settled_again()
    }

    fn is_made(&self) -> bool {
        let _passing = passing(LockLevel::Network);
        self.is_made_again()
    }

    fn end(&self, now_ns: u64) -> usize {
        let _passing = passing(LockLevel::Network);
        self.end_making_again(now_ns)
    }
}
