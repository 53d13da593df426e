//! The machine and what a process may use of it: `struct utsname`, `sysinfo`, `rusage`, `rlimit`.

use super::{Record, time};

/// uname(2)'s name of the system: whose ABI this is.
pub(crate) const SYSTEM: &str = "Linux";
/// The release of Linux whose ABI this is; C libraries refuse to run on old ones.
pub(crate) const RELEASE: &str = "6.1.0-coppice";
/// What it really is.
pub(crate) const VERSION: &str = concat!("Coppice ", env!("CARGO_PKG_VERSION"));

/// Length of a field of `struct utsname`, bytes, terminating zero included.
const UTSNAME_FIELD_BYTES: usize = 65;
/// Length of `struct utsname`, bytes.
pub(crate) const UTSNAME_BYTES: usize = 6 * UTSNAME_FIELD_BYTES;
/// Length of `struct sysinfo`, bytes.
pub(crate) const SYSINFO_BYTES: usize = 112;
/// Length of `struct rusage`, bytes.
pub(crate) const RUSAGE_BYTES: usize = 144;
/// Length of `struct rlimit`, bytes.
pub(crate) const RLIMIT_BYTES: usize = 16;

/// `struct utsname` of the six names in their order; longer ones are cut.
pub(crate) fn utsname(names: [&str; 6]) -> Record<UTSNAME_BYTES> {
    names.iter().enumerate().fold(Record::new(), |record, (index, name)| {
        let bytes = name.as_bytes();
        record.raw(index * UTSNAME_FIELD_BYTES, &bytes[..bytes.len().min(UTSNAME_FIELD_BYTES - 1)])
    })
}

/// What sysinfo(2) says.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SystemInformation {
    /// Since boot, seconds.
    pub(crate) uptime_seconds: u64,
    /// Memory in all, bytes.
    pub(crate) total_bytes: u64,
    /// Memory nobody uses, bytes.
    pub(crate) free_bytes: u64,
    /// Memory that is used but given back when it is wanted, bytes.
    pub(crate) buffer_bytes: u64,
    /// Processes.
    pub(crate) processes: u16,
}

/// `struct sysinfo`.
pub(crate) fn sysinfo(information: &SystemInformation) -> Record<SYSINFO_BYTES> {
    Record::new()
        .u64(0, information.uptime_seconds)
        .u64(32, information.total_bytes)
        .u64(40, information.free_bytes)
        .u64(56, information.buffer_bytes)
        .u16(80, information.processes)
        .u32(104, 1)
}

/// What getrusage(2) says.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// Time on the processor, ns; all of it counts as user mode.
    pub(crate) cpu_ns: u64,
    /// Most memory it had, KiB.
    pub(crate) resident_kib_max: u64,
    /// Faults that needed no I/O.
    pub(crate) minor_faults: u64,
    /// Faults that did.
    pub(crate) major_faults: u64,
}

/// `struct rusage`.
pub(crate) fn rusage(usage: &Usage) -> Record<RUSAGE_BYTES> {
    Record::new()
        .raw(0, time::timeval(usage.cpu_ns).bytes())
        .u64(32, usage.resident_kib_max)
        .u64(64, usage.minor_faults)
        .u64(72, usage.major_faults)
}

/// `struct rlimit`.
pub(crate) fn rlimit(soft: u64, hard: u64) -> Record<RLIMIT_BYTES> {
    Record::new().u64(0, soft).u64(8, hard)
}

#[cfg(test)]
mod tests {
    use core::mem::{offset_of, size_of};

    use super::super::{u16_at, u32_at, u64_at};
    use super::{
        RLIMIT_BYTES, RUSAGE_BYTES, SYSINFO_BYTES, SystemInformation, UTSNAME_BYTES, Usage, rlimit, rusage, sysinfo,
        utsname,
    };

    #[test]
    fn utsname_has_the_hosts_layout_and_cuts() {
        assert_eq!(UTSNAME_BYTES, size_of::<libc::utsname>());
        let long = "x".repeat(100);
        let b = utsname(["Linux", "node1", &long, "v", "x86_64", "d"]).into_bytes();
        let field = |offset: usize| {
            let end = b[offset..].iter().position(|byte| *byte == 0).expect("a terminating zero");
            core::str::from_utf8(&b[offset..offset + end]).expect("UTF-8")
        };
        assert_eq!(field(offset_of!(libc::utsname, sysname)), "Linux");
        assert_eq!(field(offset_of!(libc::utsname, nodename)), "node1");
        assert_eq!(field(offset_of!(libc::utsname, release)).len(), 64);
        assert_eq!(field(offset_of!(libc::utsname, version)), "v");
        assert_eq!(field(offset_of!(libc::utsname, machine)), "x86_64");
        assert_eq!(field(offset_of!(libc::utsname, domainname)), "d");
    }

    #[test]
    fn sysinfo_has_the_hosts_layout() {
        assert_eq!(SYSINFO_BYTES, size_of::<libc::sysinfo>());
        let information =
            SystemInformation { uptime_seconds: 1, total_bytes: 2, free_bytes: 3, buffer_bytes: 5, processes: 4 };
        let b = sysinfo(&information).into_bytes();
        assert_eq!(u64_at(&b, offset_of!(libc::sysinfo, uptime)), 1);
        assert_eq!(u64_at(&b, offset_of!(libc::sysinfo, totalram)), 2);
        assert_eq!(u64_at(&b, offset_of!(libc::sysinfo, freeram)), 3);
        assert_eq!(u64_at(&b, offset_of!(libc::sysinfo, bufferram)), 5);
        assert_eq!(u16_at(&b, offset_of!(libc::sysinfo, procs)), 4);
        assert_eq!(u32_at(&b, offset_of!(libc::sysinfo, mem_unit)), 1);
    }

    #[test]
    fn rusage_and_rlimit_have_the_hosts_layout() {
        assert_eq!(RUSAGE_BYTES, size_of::<libc::rusage>());
        let usage = Usage { cpu_ns: 2_000_003_000, resident_kib_max: 4, minor_faults: 5, major_faults: 6 };
        let b = rusage(&usage).into_bytes();
        assert_eq!(u64_at(&b, offset_of!(libc::rusage, ru_utime)), 2);
        assert_eq!(u64_at(&b, offset_of!(libc::rusage, ru_utime) + 8), 3);
        assert_eq!(u64_at(&b, offset_of!(libc::rusage, ru_maxrss)), 4);
        assert_eq!(u64_at(&b, offset_of!(libc::rusage, ru_minflt)), 5);
        assert_eq!(u64_at(&b, offset_of!(libc::rusage, ru_majflt)), 6);
        assert_eq!(RLIMIT_BYTES, size_of::<libc::rlimit>());
        let b = rlimit(7, 8).into_bytes();
        assert_eq!(u64_at(&b, offset_of!(libc::rlimit, rlim_cur)), 7);
        assert_eq!(u64_at(&b, offset_of!(libc::rlimit, rlim_max)), 8);
    }
}
