//! What programs ask of sockets by setsockopt(2), as far as it must be remembered.

use bitflags::bitflags;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

bitflags! {
    /// Options that are on or off.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Flags: u32 {
        /// `SO_REUSEADDR`.
        const REUSE_ADDRESS = 1;
        /// `SO_REUSEPORT`.
        const REUSE_PORT = 1 << 1;
        /// `SO_KEEPALIVE`.
        const KEEP_ALIVE = 1 << 2;
        /// `SO_BROADCAST`.
        const BROADCAST = 1 << 3;
        /// `SO_LINGER` with `l_onoff`.
        const LINGER = 1 << 4;
        /// `SO_OOBINLINE`.
        const URGENT_IN_LINE = 1 << 5;
        /// `SO_DONTROUTE`.
        const NO_ROUTE = 1 << 6;
        /// `TCP_NODELAY`, which is how it is always.
        const NO_DELAY = 1 << 7;
        /// `TCP_CORK`, which changes nothing here.
        const CORK = 1 << 8;
        /// `TCP_QUICKACK`, which changes nothing here.
        const QUICK_ACKNOWLEDGE = 1 << 9;
    }
}

impl Serialize for Flags {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.bits().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Flags {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u32::deserialize(deserializer).map(Self::from_bits_truncate)
    }
}

/// What was asked of a socket. 0 where nothing was asked and something else is not said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Options {
    pub(crate) flags: Flags,
    /// `SO_RCVTIMEO`, ns; 0: none.
    pub(crate) receive_timeout_ns: u64,
    /// `SO_SNDTIMEO`, ns; 0: none.
    pub(crate) send_timeout_ns: u64,
    /// `l_linger` of `SO_LINGER`, s. Only 0 has an effect: close(2) does not wait.
    pub(crate) linger_s: u32,
    /// `SO_RCVBUF`, bytes. Buffers are as large as they are.
    pub(crate) receive_bytes: u32,
    /// `SO_SNDBUF`, bytes.
    pub(crate) send_bytes: u32,
    /// `SO_RCVLOWAT`, bytes: told, not obeyed.
    pub(crate) receive_low: u32,
    /// `SO_PRIORITY`.
    pub(crate) priority: u32,
    /// `TCP_KEEPIDLE`, s.
    pub(crate) keep_idle_s: u32,
    /// `TCP_KEEPINTVL`, s.
    pub(crate) keep_interval_s: u32,
    /// `TCP_KEEPCNT`.
    pub(crate) keep_count: u32,
    /// `TCP_MAXSEG`, bytes.
    pub(crate) segment_bytes: u32,
    /// `TCP_USER_TIMEOUT`, ms.
    pub(crate) user_timeout_ms: u32,
    /// `TCP_SYNCNT`.
    pub(crate) tries: u32,
    /// `TCP_LINGER2`, s.
    pub(crate) closing_s: u32,
    /// `TCP_DEFER_ACCEPT`, s.
    pub(crate) defer_s: u32,
    /// `IP_TOS`.
    pub(crate) service: u32,
    /// `IP_TTL`.
    pub(crate) hops: u32,
}

impl Default for Options {
    /// As they are on Linux.
    fn default() -> Self {
        Self {
            flags: Flags::empty(),
            receive_timeout_ns: 0,
            send_timeout_ns: 0,
            linger_s: 0,
            receive_bytes: 0,
            send_bytes: 0,
            receive_low: 1,
            priority: 0,
            keep_idle_s: 7200,
            keep_interval_s: 75,
            keep_count: 9,
            segment_bytes: 0,
            user_timeout_ms: 0,
            tries: 6,
            closing_s: 60,
            defer_s: 0,
            service: 0,
            hops: 64,
        }
    }
}

impl Options {
    /// Whether closing resets the connection.
    pub(crate) fn aborts(&self) -> bool {
        self.flags.contains(Flags::LINGER) && self.linger_s == 0
    }

    /// How long the peer may be silent before it is asked for a sign of life, s; `None`: as long as it likes.
    pub(crate) fn keep_alive_s(&self) -> Option<u32> {
        self.flags.contains(Flags::KEEP_ALIVE).then_some(self.keep_idle_s)
    }
}
