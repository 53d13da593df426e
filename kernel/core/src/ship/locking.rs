//! Waiting for a lock of a file that another rank may have.

use alloc::vec::Vec;

use coppice_protocol::lock::Asked;
use coppice_protocol::ship::{Call, Reply};

use super::pending::Caller;
use super::{Bell, Client};
use crate::errno::Errno;
use crate::sync::atomic::Ordering;

/// A lock that a thread waits for. Dropped before it has that, it does not stand in line for it any more.
pub(crate) struct Locking<'a> {
    client: &'a Client,
    asked: Asked,
    /// The number of its wait, which no other of the rank's has.
    number: u32,
    may_stand_in_line: bool,
}

impl<'a> Locking<'a> {
    /// Nothing was asked for yet.
    pub(crate) fn new(client: &'a Client, asked: Asked) -> Self {
        let number = client.bells.lock_waits.fetch_add(1, Ordering::Relaxed);
        Self { client, asked, number, may_stand_in_line: false }
    }

    /// What is rung when it is worth trying again.
    pub(crate) fn bell(&self) -> &'a Bell {
        &self.client.bells.lock
    }

    /// Tries to have it. `None`: not before the bell is rung.
    ///
    /// # Errors
    /// As [`Client::call`]; `EDEADLK`, `ENOLCK`.
    pub(crate) async fn attempt(&mut self) -> Result<Option<()>, Errno> {
        self.may_stand_in_line = true;
        match self.client.call(Call::Lock { asked: self.asked, wait: Some(self.number) }, Vec::new()).await? {
            (Reply::Later, _) => Ok(None),
            (Reply::Done, _) => {
                self.may_stand_in_line = false;
                Ok(Some(()))
            }
            _ => Err(Errno::EIO),
        }
    }
}

impl Drop for Locking<'_> {
    fn drop(&mut self) {
        if self.may_stand_in_line {
            self.client.push(Call::LockNothing { wait: self.number }, None, Caller::Nobody, false);
        }
    }
}
