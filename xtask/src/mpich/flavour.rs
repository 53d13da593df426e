//! The MPICHs that there can be: one source, with the clients of different PMIs. Each has a place of its own.

use clap::ValueEnum;

/// Which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Flavour {
    /// Speaks PMI version 1, as MPICH does if it is not told otherwise
    Pmi1,
    /// Speaks PMI version 2
    Pmi2,
}

impl Flavour {
    /// Its directory below `target`, and what names of files that have to do with it begin with.
    pub(crate) const fn directory(self) -> &'static str {
        match self {
            Self::Pmi1 => "mpich",
            Self::Pmi2 => "mpich-pmi2",
        }
    }

    /// What is said behind its version.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Pmi1 => "",
            Self::Pmi2 => " for PMI-2",
        }
    }

    /// What it is configured with beyond what all are. One starter is enough, that of the first: it serves both
    /// versions, and on nodes it is not needed.
    pub(super) const fn options(self) -> &'static [&'static str] {
        match self {
            Self::Pmi1 => &[],
            Self::Pmi2 => &["--with-pmi=pmi2/simple", "--with-pm=no"],
        }
    }
}
