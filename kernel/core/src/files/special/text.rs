//! The texts in `/proc` and `/sys`, and those in `/etc` that the kernel makes: which there are.

/// Which text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Text {
    /// `/proc/sys/vm/max_map_count`.
    AreasMax,
    /// `/proc/self/auxv`.
    Auxiliary,
    /// `/proc/sys/kernel/version`.
    Build,
    /// `/proc/self/cmdline`.
    CommandLine,
    /// A core as a set of cores (`core_cpus`), or all of them (`package_cpus`, `cpumap`).
    CoreMask(Option<u32>),
    /// The same as a list. Those of `/sys/devices/system/cpu/online` and its like are the node's, as on Linux, of which
    /// the rank may have a part.
    Cores(Option<u32>),
    /// One that is always the same.
    Fixed(&'static str),
    /// `/proc/sys/kernel/hostname`, `/etc/hostname`.
    HostName,
    /// `/etc/hosts`.
    Hosts,
    /// `/proc/self/limits`.
    Limits,
    /// `/proc/loadavg`.
    Load,
    /// `/proc/stat`.
    Machine,
    /// `/proc/self/maps`.
    Maps,
    /// `/proc/meminfo`.
    Memory,
    /// `/proc/mounts`.
    Mounts,
    /// `/proc/self/mountinfo`.
    MountInformation,
    /// `/proc/self/comm`, or a thread's.
    Name(Option<u32>),
    /// `/sys/devices/system/node/node0/meminfo`.
    NodeMemory,
    /// One that is a number: ids of cores and packages.
    Number(u32),
    /// `/proc/self/statm`.
    Pages,
    /// `/proc/cpuinfo`.
    Processors,
    /// `/proc/sys/kernel/osrelease`.
    Release,
    /// `/proc/sections`, which Linux does not have: the longest section of each core since the text was last read.
    Sections,
    /// `/proc/self/stat`, or a thread's.
    Stat(Option<u32>),
    /// `/proc/self/status`, or a thread's.
    Status(Option<u32>),
    /// `/proc/sys/kernel/ostype`.
    System,
    /// `/proc/uptime`.
    Uptime,
    /// `/proc/version`.
    Version,
}
