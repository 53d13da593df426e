//! A rank's place at PMI, from its launch to its end.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_protocol::control::Exit;
use coppice_protocol::ids::Rank;
use coppice_protocol::limits::{PMI_PORT, PMIX_PORT};
use coppice_protocol::pmi::Conversation;
use coppice_protocol::pmix::{Client, SERVER_SPACE};
use coppice_protocol::text::ByteString;

use super::job::Job;
use super::speech::Speech;
use super::{Endpoint, Pmi};
use crate::errno::Errno;
use crate::files::{Servers, Service};

/// The descriptor at which a rank finds PMI: high, so that the first file that a program opens is 3 as everywhere.
pub(crate) const PMI_DESCRIPTOR: i32 = 255;

/// The variable that says that a rank was started by another one.
const SPAWNED: &str = "PMI_SPAWNED";

/// Where a rank's process connects with the node.
struct Ports {
    job: Arc<Job>,
    rank: Rank,
}

impl Servers for Ports {
    fn has(&self, port: u16) -> bool {
        port == PMIX_PORT
    }

    fn connect(&self, port: u16) -> Result<Box<dyn Service>, Errno> {
        if !self.has(port) || self.job.is_over() {
            return Err(Errno::ECONNREFUSED);
        }
        let speech = Speech::Pmix(Client::new(self.rank));
        Ok(Box::new(Endpoint::new(Arc::clone(&self.job), self.rank, speech)?))
    }
}

/// See this module. Dropped before [`Self::leave`], the rank never ran.
pub(crate) struct Seat {
    pmi: Pmi,
    job: Arc<Job>,
    rank: Rank,
    has_left: bool,
}

impl Seat {
    pub(super) fn new(pmi: Pmi, job: Arc<Job>, rank: Rank) -> Self {
        Self { pmi, job, rank, has_left: false }
    }

    /// What the rank is to find at [`PMI_DESCRIPTOR`].
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn endpoint(&self) -> Result<Endpoint, Errno> {
        Endpoint::new(Arc::clone(&self.job), self.rank, Speech::Pmi(Conversation::on_descriptor(self.rank)))
    }

    /// Where the rank's process reaches PMIx.
    pub(crate) fn servers(&self) -> Arc<dyn Servers> {
        Arc::new(Ports { job: Arc::clone(&self.job), rank: self.rank })
    }

    /// The same, for a rank that is made from a checkpoint, of which this was written down.
    ///
    /// # Errors
    /// `EINVAL`: nothing was written down like that.
    pub(crate) fn endpoint_again(&self, record: &[u8]) -> Result<Endpoint, Errno> {
        Endpoint::again(Arc::clone(&self.job), self.rank, record)
    }

    /// What the node knows of the job, for a checkpoint, and how many barriers its nodes have left. Nothing happens to
    /// names that it keeps until [`Self::runs_again`].
    ///
    /// # Errors
    /// `ENOMEM`; `ESRCH`: the job is over.
    pub(crate) fn record_job(&self) -> Result<(Vec<u8>, u64), Errno> {
        self.job.record()
    }

    /// The rank runs again after that, as the others do or soon will.
    pub(crate) fn runs_again(&self) {
        self.job.ranks_run();
    }

    /// Has the node know of the job what was written down.
    ///
    /// # Errors
    /// `EINVAL`: that is of another one, or the job has gone on already. `ESRCH`: it is over.
    pub(crate) fn restore_job(&self, record: &[u8]) -> Result<(), Errno> {
        self.job.restore(record)
    }

    /// The environment of the rank: what its user wants, and how to find PMI. The variables that say which interface
    /// MPICH is to use are the user's if he has set them.
    pub(crate) fn environment(&self, wanted: &[ByteString]) -> Vec<ByteString> {
        let (address, rank, size) = (self.job.here().address(), self.rank, self.job.size());
        let pmix_uri = format!("{SERVER_SPACE}.{};tcp4://127.0.0.1:{PMIX_PORT}", self.job.here().0);
        let ours = [
            ("PMI_FD", format!("{PMI_DESCRIPTOR}")),
            ("PMI_RANK", format!("{rank}")),
            ("PMI_SIZE", format!("{size}")),
            ("PMI_PORT", format!("{address}:{PMI_PORT}")),
            ("PMI_ID", format!("{rank}")),
            ("PMIX_NAMESPACE", self.job.space_name()),
            ("PMIX_RANK", format!("{rank}")),
            ("PMIX_SERVER_URI41", pmix_uri.clone()),
            ("PMIX_SERVER_URI4", pmix_uri.clone()),
            ("PMIX_SERVER_URI3", pmix_uri.clone()),
            ("PMIX_SERVER_URI21", pmix_uri),
            ("PMIX_SECURITY_MODE", String::from("native,none")),
            ("PMIX_BFROP_BUFFER_TYPE", String::from("PMIX_BFROP_BUFFER_NON_DESC")),
            ("PMIX_GDS_MODULE", String::from("hash")),
            ("PMIX_HOSTNAME", format!("node{}", self.job.here().0)),
            // Open MPI 4 takes who has a PMIx server for a process of its own starter's, or for one that was started
            // alone, unless it finds one of the starters that it knows to have such servers.
            ("JSM_JSRUN_PORT", format!("{PMIX_PORT}")),
        ];
        let defaults = ["MPICH_INTERFACE_HOSTNAME", "MPIR_CVAR_CH3_INTERFACE_HOSTNAME"];
        let sets = |variable: &[u8], name: &str| variable.split(|byte| *byte == b'=').next() == Some(name.as_bytes());
        let mut environment: Vec<ByteString> = wanted.to_vec();
        let is_ours = |variable: &[u8]| sets(variable, SPAWNED) || ours.iter().any(|(name, _)| sets(variable, name));
        environment.retain(|variable| !is_ours(variable));
        for name in defaults {
            if !environment.iter().any(|variable| sets(variable, name)) {
                environment.push(format!("{name}={address}").into());
            }
        }
        environment.extend(ours.map(|(name, value)| format!("{name}={value}").into()));
        if self.job.was_spawned() {
            environment.push(format!("{SPAWNED}=1").into());
        }
        environment
    }

    /// The rank's process has ended.
    pub(crate) fn ended(&self, exit: Exit) {
        self.job.rank_ended(self.rank, exit);
    }

    /// Barriers that the rank has left, when it has ended.
    pub(crate) fn barriers(&self) -> u64 {
        self.job.barriers()
    }

    /// Gives the place up, after [`Self::ended`] and when nothing is left of the process. With the last rank's, all
    /// there is of the job goes, unless others may want it.
    pub(crate) async fn leave(mut self) {
        self.has_left = true;
        if self.job.leave() && !self.job.is_wanted() {
            self.pmi.forget(&self.job);
            self.job.vacated().await;
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if !self.has_left {
            self.ended(Exit::NotStarted);
            if self.job.leave() {
                self.pmi.forget(&self.job);
            }
        }
    }
}
