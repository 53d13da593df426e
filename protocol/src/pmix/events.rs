//! Events: what a rank has others told, and what it is told.

use alloc::vec::Vec;

use super::client::Client;
use super::dialect::Dialect;
use super::notification::{Matter, Notification, Source};
use super::reader::Reader;
use super::request::Notify;
use super::status::Status;
use super::{key, rank};
use crate::ids::Rank;
use crate::limits::PMIX_EVENT_BYTES_MAX;
use crate::pmi::Server;

/// Messages that nobody asked for.
const UNASKED_TAG: u32 = 0;

/// The name space of the nodes' servers, whose ranks there are the job's nodes.
pub const SERVER_SPACE: &str = "coppice";

/// `pmix_data_range_t`.
mod range {
    pub(super) const UNDEFINED: u8 = 0;
    pub(super) const RESOURCE_MANAGER: u8 = 1;
    pub(super) const LOCAL: u8 = 2;
    pub(super) const NAMESPACE: u8 = 3;
    pub(super) const SESSION: u8 = 4;
    pub(super) const GLOBAL: u8 = 5;
    pub(super) const CUSTOM: u8 = 6;
    pub(super) const PROCESS_LOCAL: u8 = 7;
}

impl Client {
    /// Has others told what the rank says.
    ///
    /// # Errors
    /// [`Status::BAD_PARAM`]: nobody knows whom. [`Status::OUT_OF_RESOURCE`]: it is too long, or other nodes have not
    /// heard what was said before.
    pub(super) fn notify(
        &self,
        notify: &Notify<'_>,
        dialect: Dialect,
        server: &mut Server,
        now_ns: u64,
    ) -> Result<(), Status> {
        let Notify { status, range, infos, bytes } = notify;
        let like = Reader::new(&[], dialect);
        let has = |key: &[u8]| infos.iter().any(|info| info.key == key && info.is_true(like));
        let targets = infos.iter().find(|info| info.key == key::EVENT_CUSTOM_RANGE);
        let (is_far, targets) = match (*range, targets) {
            // What a client says to its server is for nobody else, and what a server has handled it has.
            (range::RESOURCE_MANAGER | range::PROCESS_LOCAL, None) => return Ok(()),
            _ if infos.iter().any(|info| info.key == key::SERVER_INTERNAL_NOTIFY) => return Ok(()),
            (range::LOCAL, None) => (false, None),
            (range::UNDEFINED | range::NAMESPACE | range::SESSION | range::GLOBAL, None) => (true, None),
            (range::CUSTOM, Some(info)) => {
                let processes = info.processes(like).ok_or(Status::BAD_PARAM)?;
                let space = server.space_name().as_bytes();
                let ours: Vec<u32> =
                    processes.iter().filter(|process| process.space == space).map(|process| process.rank).collect();
                let is_all = ours.contains(&rank::WILDCARD);
                let mut ranks: Vec<Rank> = ours.into_iter().filter(|rank| *rank < server.size()).map(Rank).collect();
                ranks.sort_unstable();
                ranks.dedup();
                (true, (!is_all).then(|| ranks.into()))
            }
            _ => return Err(Status::BAD_PARAM),
        };
        if bytes.len() > PMIX_EVENT_BYTES_MAX {
            return Err(Status::OUT_OF_RESOURCE);
        }
        let matter = Matter::Said {
            status: *status,
            range: *range,
            dialect,
            infos: infos.len() as u32,
            bytes: (*bytes).into(),
            is_for_defaults: !has(key::EVENT_NON_DEFAULT),
            is_kept: !has(key::EVENT_DO_NOT_CACHE),
        };
        server.notify(Notification { source: Source::Rank(self.rank), targets, matter }, is_far, now_ns)
    }

    /// Tells the rank what it is to be told, as far as there is room.
    pub(super) fn tell_events(&mut self, dialect: Dialect, server: &mut Server) {
        while self.has_room()
            && let Some((code, notification)) = server.take_notification(self.rank)
        {
            let space = server.space_name().as_bytes();
            let message = notification.message(code, dialect, space, SERVER_SPACE.as_bytes());
            self.say(UNASKED_TAG, &message);
        }
    }
}
