//! Keys that ranks of a node put and get, whichever way the job's ranks come to know them.

use super::Server;
use crate::ids::Rank;
use crate::pmi::letter::Wish;
use crate::pmi::modex::Modex;
use crate::pmi::names::KnownValue;
use crate::pmi::space::PutError;
use crate::pmi::startup::Startup;

impl Server {
    /// Has the job's ranks find each other in this way. It is for all nodes of the job to do so, before a rank has said
    /// anything.
    pub fn set_startup(&mut self, startup: Startup) {
        self.modex = startup.modex.unwrap_or_else(|| Modex::of(self.size()));
        self.force_fence(startup.fence);
    }

    /// Whether barriers bring keys that others have put.
    pub(crate) fn brings_keys(&self) -> bool {
        self.modex == Modex::Full
    }

    /// A rank puts a key: done, or the number of the answer.
    pub(crate) fn put_key(
        &mut self,
        rank: Rank,
        (key, value): (&[u8], &[u8]),
        now_ns: u64,
    ) -> Result<Option<u64>, PutError> {
        if self.brings_keys() {
            return self.space.put(key, value).map(|()| None);
        }
        let wish = Wish::put(key, value, self.barriers())?;
        // It has too much under way already.
        self.ask(rank, wish, now_ns).map(Some).map_err(|_| PutError::NoRoom)
    }

    /// Another node may know a key that is not known here: the number of the answer, if it is asked.
    pub(crate) fn ask_for_key(&mut self, rank: Rank, key: &[u8], now_ns: u64) -> Option<u64> {
        let wish = Wish::get(key).filter(|_| !self.brings_keys())?;
        self.ask(rank, wish, now_ns).ok()
    }

    /// The value of a key has come, which was put before some barrier: if that is through the value is what it is, and
    /// others here need not ask, nor wait for what they have asked.
    pub(super) fn keep_value(&mut self, known: &KnownValue) {
        if known.generation < self.barriers() {
            self.space.keep(&known.key, &known.value, known.generation);
            self.names.is_known(known);
        }
    }
}
