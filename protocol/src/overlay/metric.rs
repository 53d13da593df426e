//! What is gathered of each rank.

/// One of the things that a rank's back end says in each epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// Time in its program.
    User,
    /// Time in the kernel for it.
    Kernel,
    /// Time in which it waited for a futex.
    Futex,
    /// Time in which it waited for the network.
    Network,
    /// Time in which it waited for a file.
    File,
    /// Time in which it waited for standard input.
    Input,
    /// Time in which it slept because it wanted to.
    Sleep,
    /// Time in which it waited for a page of its program.
    Page,
    /// Time in which it could have run, and others did.
    Ready,
    /// Page faults.
    Faults,
    /// Pages fetched from the I/O node.
    PagesFetched,
    /// Pages that it has.
    PagesResident,
    /// System calls.
    Calls,
    /// Bytes that went to files and came from them.
    BytesShipped,
    /// Bytes sent to other nodes.
    BytesSent,
    /// Bytes that came from them.
    BytesReceived,
    /// Times that it was given a core.
    Turns,
    /// Signals delivered to it.
    Signals,
}

/// What a value counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds within the epoch.
    Nanoseconds,
    /// Times within the epoch.
    Times,
    /// Bytes within the epoch.
    Bytes,
    /// Pages of 4 KiB within the epoch.
    Pages,
    /// Pages of 4 KiB at the epoch's end.
    PagesNow,
    /// Bytes at the epoch's end.
    BytesNow,
    /// Nanoseconds, as they are at the epoch's end.
    NanosecondsNow,
    /// As many as there are at the epoch's end.
    Now,
}

impl Unit {
    /// Whether it is what there is at the epoch's end, and nothing that came together in it.
    #[must_use]
    pub const fn is_now(self) -> bool {
        match self {
            Self::PagesNow | Self::BytesNow | Self::NanosecondsNow | Self::Now => true,
            Self::Nanoseconds | Self::Times | Self::Bytes | Self::Pages => false,
        }
    }
}

/// How many metrics there are.
pub const METRICS: usize = Metric::ALL.len();

impl Metric {
    /// All, in the order in which messages have them.
    pub const ALL: [Self; 18] = [
        Self::User,
        Self::Kernel,
        Self::Futex,
        Self::Network,
        Self::File,
        Self::Input,
        Self::Sleep,
        Self::Page,
        Self::Ready,
        Self::Faults,
        Self::PagesFetched,
        Self::PagesResident,
        Self::Calls,
        Self::BytesShipped,
        Self::BytesSent,
        Self::BytesReceived,
        Self::Turns,
        Self::Signals,
    ];

    /// What it is called by users and on disk.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Kernel => "kernel",
            Self::Futex => "futex",
            Self::Network => "network",
            Self::File => "file",
            Self::Input => "input",
            Self::Sleep => "sleep",
            Self::Page => "page",
            Self::Ready => "ready",
            Self::Faults => "faults",
            Self::PagesFetched => "pages-fetched",
            Self::PagesResident => "pages-resident",
            Self::Calls => "calls",
            Self::BytesShipped => "bytes-shipped",
            Self::BytesSent => "bytes-sent",
            Self::BytesReceived => "bytes-received",
            Self::Turns => "turns",
            Self::Signals => "signals",
        }
    }

    /// What its values count.
    #[must_use]
    pub const fn unit(self) -> Unit {
        match self {
            Self::User
            | Self::Kernel
            | Self::Futex
            | Self::Network
            | Self::File
            | Self::Input
            | Self::Sleep
            | Self::Page
            | Self::Ready => Unit::Nanoseconds,
            Self::PagesFetched => Unit::Pages,
            Self::PagesResident => Unit::PagesNow,
            Self::BytesShipped | Self::BytesSent | Self::BytesReceived => Unit::Bytes,
            Self::Faults | Self::Calls | Self::Turns | Self::Signals => Unit::Times,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use super::Metric;

    #[test]
    fn they_are_in_order_and_have_names_of_their_own() {
        for (place, metric) in Metric::ALL.into_iter().enumerate() {
            assert_eq!(metric as usize, place);
        }
        let names: BTreeSet<&str> = Metric::ALL.into_iter().map(Metric::name).collect();
        assert_eq!(names.len(), Metric::ALL.len());
    }
}
