//! A socket as data, but for what carries its bytes.

use alloc::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Socket, Transport};
use crate::errno::Errno;
use crate::files::socket_options::Options;
use crate::limits::SOCKET_BYTES;
use crate::quota::Quota;

/// See this module.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SocketRecord {
    serial: u64,
    options: Options,
}

impl Socket {
    /// Writes it down.
    pub(crate) fn record(&self) -> SocketRecord {
        SocketRecord { serial: self.serial, options: self.options() }
    }

    /// What carries its bytes.
    pub(in crate::files) fn into_transport(self) -> Transport {
        self.transport
    }

    /// Makes it again.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(in crate::files) fn again(
        record: SocketRecord,
        transport: Transport,
        quota: &Arc<Quota>,
    ) -> Result<Self, Errno> {
        let charge = quota.charge(SOCKET_BYTES)?;
        Ok(Self { serial: record.serial, ..Self::with(transport, record.options, charge) })
    }
}
