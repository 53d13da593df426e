//! The MPIs that the programs can be built with.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::ValueEnum;

use crate::mpich::{Flavour, Mpich, ready, ready_with};

/// Which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Library {
    /// MPICH as everything here uses it
    Mpich,
    /// MPICH with the client of PMI version 2
    MpichPmi2,
    /// MPICH with OpenPMIx's client
    MpichPmix,
}

impl Library {
    /// Builds it, unless it is there.
    ///
    /// # Errors
    /// If it does not build.
    pub(super) fn ready(self) -> Result<Mpich> {
        match self {
            Self::Mpich => ready(),
            Self::MpichPmi2 => ready_with(Flavour::Pmi2),
            Self::MpichPmix => ready_with(Flavour::Pmix),
        }
    }

    /// What starts its programs on this host.
    ///
    /// # Errors
    /// If it does not build.
    pub(super) fn starter(self) -> Result<PathBuf> {
        match self {
            // It has none of its own.
            Self::Mpich | Self::MpichPmi2 => Ok(ready()?.prefix.join("bin/mpiexec")),
            Self::MpichPmix => bail!("nothing that is built here starts programs that speak PMIx: leave out --native"),
        }
    }
}
