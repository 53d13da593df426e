//! The texts in `/proc` and `/sys`, and those in `/etc` that the kernel makes.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use coppice_hal::addr::PAGE_BYTES;
use coppice_hal::heap;
use coppice_hal::paging::Access;

use super::hosts;
use crate::clock;
use crate::executor;
use crate::process::{Process, placement};
use crate::syscall::system::{RELEASE, SYSTEM, VERSION};

/// Which text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Text {
    /// `/proc/self/cmdline`.
    CommandLine,
    /// `/sys/devices/system/cpu/online` and its like: the node's, as on Linux, of which the rank may have a part.
    Cores,
    /// `/proc/sys/kernel/hostname`, `/etc/hostname`.
    HostName,
    /// `/etc/hosts`.
    Hosts,
    /// `/proc/loadavg`.
    Load,
    /// `/proc/self/maps`.
    Maps,
    /// `/proc/meminfo`.
    Memory,
    /// `/proc/mounts`.
    Mounts,
    /// `/proc/self/comm`.
    Name,
    /// `/proc/sys/vm/overcommit_memory`.
    Overcommit,
    /// `/proc/sys/kernel/pid_max`.
    ProcessIdMax,
    /// `/proc/cpuinfo`.
    Processors,
    /// `/proc/sys/kernel/osrelease`.
    Release,
    /// `/proc/self/status`.
    Status,
    /// `/proc/sys/kernel/ostype`.
    System,
    /// `/proc/uptime`.
    Uptime,
    /// `/proc/version`.
    Version,
}

const PAGE_KIB: u64 = PAGE_BYTES as u64 / 1024;

impl Text {
    /// The text as it is now.
    fn make(self, process: &Process) -> Vec<u8> {
        let text = match self {
            Self::CommandLine => {
                return process.identity.arguments.iter().flat_map(|text| text.bytes().chain([0])).collect();
            }
            Self::Cores => format!("{}\n", cores(placement::mask(&(0..executor::cores())))),
            Self::HostName => format!("{}\n", process.node.name),
            Self::Hosts => return hosts::read(&process.job.world, 0, usize::MAX),
            Self::Load => format!("0.00 0.00 0.00 1/{} {}\n", executor::tasks(), process.identity.pid),
            Self::Maps => maps(process),
            Self::Memory => memory(process),
            Self::Mounts => {
                String::from("coppice / coppice rw,nosuid,nodev 0 0\ntmpfs /dev/shm tmpfs rw,nosuid,nodev 0 0\n")
            }
            Self::Name => format!("{}\n", name(process)),
            Self::Overcommit => String::from("0\n"),
            Self::ProcessIdMax => String::from("4194304\n"),
            Self::Processors => processors(executor::cores()),
            Self::Release => format!("{RELEASE}\n"),
            Self::Status => status(process),
            Self::System => format!("{SYSTEM}\n"),
            Self::Uptime => uptime(process),
            Self::Version => format!("{SYSTEM} version {RELEASE} {VERSION}\n"),
        };
        text.into_bytes()
    }

    /// Up to `length` bytes of the text as it is now, from `offset` on.
    pub(crate) fn read(self, process: &Process, offset: u64, length: usize) -> Vec<u8> {
        if self == Self::Hosts {
            return hosts::read(&process.job.world, offset, length);
        }
        let text = self.make(process);
        let start = usize::try_from(offset).map_or(text.len(), |offset| offset.min(text.len()));
        text[start..text.len().min(start.saturating_add(length))].to_vec()
    }

    /// Length of the text as it is now, bytes.
    pub(crate) fn length(self, process: &Process) -> u64 {
        match self {
            Self::Hosts => hosts::length(&process.job.world),
            _ => self.make(process).len() as u64,
        }
    }
}

fn name(process: &Process) -> String {
    let name = process.name();
    let length = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..length]).into_owned()
}

fn hundredths(ns: u64) -> String {
    format!("{}.{:02}", ns / 1_000_000_000, ns / 10_000_000 % 100)
}

fn uptime(process: &Process) -> String {
    let now_ns = clock::monotonic_ns();
    let idle_ns = now_ns.saturating_sub(process.threads.cpu_ns());
    format!("{} {}\n", hundredths(now_ns), hundredths(idle_ns))
}

fn memory(process: &Process) -> String {
    let frames = process.node.frames;
    let kib = |count: u32| u64::from(count) * PAGE_KIB;
    // Retained pages are what a page cache is on Linux: in use until somebody wants the memory.
    let cached = process.node.retention.bytes() / 1024;
    let heap = heap::usage();
    let (held_kib, used_kib) = (heap.held_bytes as u64 / 1024, heap.used_bytes as u64 / 1024);
    let rows = [
        ("MemTotal", kib(frames.total_frames())),
        ("MemFree", kib(frames.free_frames())),
        ("MemAvailable", kib(frames.available_frames()) + cached),
        ("Buffers", 0),
        ("Cached", cached),
        ("SwapCached", 0),
        ("SwapTotal", 0),
        ("SwapFree", 0),
        // The kernel's heap: what it holds, what it could hand out again at once, what is somebody's.
        ("Slab", held_kib),
        ("SReclaimable", held_kib - used_kib),
        ("SUnreclaim", used_kib),
    ];
    let row = |(name, kib): (&str, u64)| format!("{:<16}{kib:8} kB\n", format!("{name}:"));
    rows.into_iter().map(row).collect()
}

fn status(process: &Process) -> String {
    let identity = &process.identity;
    let stats = process.space.lock().stats();
    let (user, group) = (identity.user, identity.group);
    format!(
        "Name:\t{}\nUmask:\t{:04o}\nState:\tR (running)\nTgid:\t{pid}\nPid:\t{pid}\nPPid:\t{}\nTracerPid:\t0\n\
         Uid:\t{user}\t{user}\t{user}\t{user}\nGid:\t{group}\t{group}\t{group}\t{group}\n\
         VmHWM:\t{:8} kB\nVmRSS:\t{:8} kB\nThreads:\t{}\nCpus_allowed:\t{:x}\nCpus_allowed_list:\t{}\n",
        name(process),
        process.umask.load(core::sync::atomic::Ordering::Relaxed),
        crate::process::Identity::PARENT,
        stats.pages_peak * PAGE_KIB,
        stats.pages * PAGE_KIB,
        process.threads.count(),
        process.cores,
        cores(process.cores),
        pid = identity.pid,
    )
}

fn processors(count: usize) -> String {
    let of_one = |core| {
        format!(
            "processor\t: {core}\nvendor_id\t: Coppice\nmodel name\t: Coppice compute node\ncore id\t\t: {core}\n\
             cpu cores\t: {count}\n\n"
        )
    };
    (0..count).map(of_one).collect()
}

/// Cores, which follow one another, as a list of ranges.
fn cores(mask: u64) -> String {
    let (first, count) = (mask.trailing_zeros(), mask.count_ones());
    if count <= 1 { format!("{first}") } else { format!("{first}-{}", first + count - 1) }
}

/// As Linux lays it out, without the names of files: the kernel does not keep them.
fn maps(process: &Process) -> String {
    let mut text = String::new();
    for (start, end, access) in process.space.lock().mapped() {
        let flag = |which, letter| if access.contains(which) { letter } else { '-' };
        let (r, w, x) = (flag(Access::READ, 'r'), flag(Access::WRITE, 'w'), flag(Access::EXECUTE, 'x'));
        // Writing to a string does not fail.
        let _ = writeln!(text, "{start:08x}-{end:08x} {r}{w}{x}p 00000000 00:00 0");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{cores, processors};

    #[test]
    fn cores_are_a_range() {
        assert_eq!([1, 0b11, 0b100, 0b1_1000, u64::MAX].map(cores), ["0", "0-1", "2", "3-4", "0-63"]);
    }

    #[test]
    fn every_core_has_a_paragraph() {
        let text = processors(3);
        let numbers: alloc::vec::Vec<_> = text.lines().filter_map(|line| line.strip_prefix("processor\t: ")).collect();
        assert_eq!(numbers, ["0", "1", "2"]);
        assert!(text.ends_with("cpu cores\t: 3\n\n"));
    }
}
