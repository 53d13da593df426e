//! The MPICHs that there can be: one source, with the clients of different PMIs. Each has a place of its own.

use clap::ValueEnum;

/// Which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Flavour {
    /// Speaks PMI version 1, as MPICH does if it is not told otherwise
    Pmi1,
    /// Speaks PMI version 2
    Pmi2,
    /// Speaks PMIx, with OpenPMIx's client; messages go through libfabric, as it does so with this device only
    Pmix,
}

impl Flavour {
    /// Its directory below `target`, and what names of files that have to do with it begin with.
    pub(crate) const fn directory(self) -> &'static str {
        match self {
            Self::Pmi1 => "mpich",
            Self::Pmi2 => "mpich-pmi2",
            Self::Pmix => "mpich-pmix",
        }
    }

    /// What it is configured with beyond what all are, and beyond where OpenPMIx is. One starter is enough, that of the
    /// first: it serves both versions, and on nodes it is not needed.
    pub(super) const fn options(self) -> &'static [&'static str] {
        match self {
            Self::Pmi1 => &["--with-device=ch3:sock"],
            Self::Pmi2 => &["--with-device=ch3:sock", "--with-pmi=pmi2/simple", "--with-pm=no"],
            Self::Pmix => &[
                "--with-device=ch4:ofi:sockets",
                "--with-libfabric=embedded",
                "--without-ch4-shmmods",
                // What the other device has, too; this one's own takes longer to build than all else.
                "--with-datatype-engine=dataloop",
                "--disable-dependency-tracking",
                "LIBS=-lpmix -levent_pthreads -levent_core -lhwloc -lm -lpthread",
            ],
        }
    }
}
