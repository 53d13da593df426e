//! The texts in `/proc` and `/sys`, and those in `/etc` that the kernel makes: what they say.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use coppice_hal::addr::PAGE_BYTES;
use coppice_hal::heap;

use super::excerpt::Excerpt;
use super::{hosts, limits, own_texts};
use crate::abi::system::{RELEASE, SYSTEM, VERSION};
use crate::abi::time::{SECOND_NS, ticks};
use crate::clock;
use crate::errno::Errno;
use crate::executor;
use crate::files::special::Text;
use crate::memory::limits::AREAS_MAX;
use crate::process::{Process, placement};

pub(super) const PAGE_KIB: u64 = PAGE_BYTES as u64 / 1024;

/// How many nodes are in the network of the process's job: some may have come since it began.
fn nodes_of(process: &Process) -> u32 {
    let world = &process.job.world;
    let at_first = world.first_node().0.saturating_add(world.node_count());
    process.node.network.nodes().unwrap_or(at_first)
}

impl Text {
    /// Writes the text as it is now, as far as it is wanted. Those that may be long are made piece by piece.
    fn write(self, process: &Process, out: &mut Excerpt) {
        let text = match self {
            Self::AreasMax => format!("{AREAS_MAX}\n"),
            Self::Auxiliary => return out.push(&process.space.lock().start().auxiliary),
            Self::Build => format!("{VERSION}\n"),
            Self::Fixed(text) => String::from(text),
            Self::Limits => limits::text(process),
            Self::Machine => machine(),
            Self::MountInformation => String::from(
                "1 1 0:1 / / rw,nosuid,nodev - coppice coppice rw\n\
                 2 1 0:25 / /dev/shm rw,nosuid,nodev - tmpfs tmpfs rw\n",
            ),
            Self::Pages => own_texts::pages(process),
            Self::CommandLine => {
                return process.identity.arguments.iter().for_each(|text| {
                    out.push(text);
                    out.push(&[0]);
                });
            }
            Self::CoreMask(core) => format!("{}\n", bitmap(set_of(core), executor::cores())),
            Self::Cores(core) => format!("{}\n", cores(set_of(core))),
            Self::HostName => format!("{}\n", hosts::node_name(process.job.node)),
            Self::Hosts => return hosts::write(nodes_of(process), out),
            Self::Load => format!("0.00 0.00 0.00 1/{} {}\n", executor::tasks(), process.identity.pid),
            Self::Maps => return own_texts::maps(process, out),
            Self::Memory => memory(process),
            Self::NodeMemory => node_memory(process),
            Self::Number(number) => format!("{number}\n"),
            Self::Mounts => {
                String::from("coppice / coppice rw,nosuid,nodev 0 0\ntmpfs /dev/shm tmpfs rw,nosuid,nodev 0 0\n")
            }
            Self::Name(thread) => {
                out.push(&own_texts::name(process, thread));
                return out.push(b"\n");
            }
            Self::Processors => processors(executor::cores()),
            Self::Release => format!("{RELEASE}\n"),
            Self::Sections => sections(),
            Self::Stat(thread) => return own_texts::stat(process, thread, out),
            Self::Status(thread) => return own_texts::status(process, thread, out),
            Self::System => format!("{SYSTEM}\n"),
            Self::Uptime => uptime(process),
            Self::Version => format!("{SYSTEM} version {RELEASE} {VERSION}\n"),
        };
        out.push(text.as_bytes());
    }

    /// Up to `length` bytes of the text as it is now, from `offset` on.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn read(self, process: &Process, offset: u64, length: usize) -> Result<Vec<u8>, Errno> {
        let mut text = Excerpt::new(offset, length);
        self.write(process, &mut text);
        if self == Self::Sections && offset == 0 {
            executor::forget_sections();
        }
        text.finish()
    }

    /// Length of the text as it is now, bytes.
    pub(crate) fn length(self, process: &Process) -> u64 {
        let mut text = Excerpt::new(0, 0);
        self.write(process, &mut text);
        text.length()
    }
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

/// The same of the one node there is, as far as Linux has it there, too.
fn node_memory(process: &Process) -> String {
    let frames = process.node.frames;
    let (total, free) = (frames.total_frames(), frames.free_frames());
    let cached = process.node.retention.bytes() / 1024;
    let slab = heap::usage().held_bytes as u64 / 1024;
    let kib = |count: u32| u64::from(count) * PAGE_KIB;
    let rows = [
        ("MemTotal", kib(total)),
        ("MemFree", kib(free)),
        ("MemUsed", kib(total.saturating_sub(free))),
        ("FilePages", cached),
        ("Slab", slab),
    ];
    let row = |(name, kib): (&str, u64)| format!("Node 0 {:<15}{kib:8} kB\n", format!("{name}:"));
    rows.into_iter().map(row).collect()
}

/// Lines of one length, so that a text that is read in parts is one.
fn sections() -> String {
    let line = |core| format!("core {core:2} {:20} ns\n", executor::longest_section_ns(core));
    (0..executor::cores()).map(line).collect()
}

fn processors(count: usize) -> String {
    let of_one = |core| {
        format!(
            "processor\t: {core}\nvendor_id\t: Coppice\nmodel name\t: Coppice compute node\nphysical id\t: 0\n\
             siblings\t: {count}\ncore id\t\t: {core}\ncpu cores\t: {count}\n\n"
        )
    };
    (0..count).map(of_one).collect()
}

/// What the cores did since boot. The kernel's own work is not told from programs'.
fn machine() -> String {
    let now_ns = clock::monotonic_ns();
    let times = |core| {
        let idle_ns = executor::idle_ns_until(core, now_ns).min(now_ns);
        (ticks(now_ns - idle_ns), ticks(idle_ns))
    };
    let all: Vec<(u64, u64)> = (0..executor::cores()).map(times).collect();
    let sum = all.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let row = |name: String, (busy, idle): (u64, u64)| format!("{name} {busy} 0 0 {idle} 0 0 0 0 0 0\n");
    let mut text = row(String::from("cpu "), sum);
    text.extend(all.into_iter().enumerate().map(|(core, times)| row(format!("cpu{core}"), times)));
    let boot_s = clock::realtime_ns().saturating_sub(now_ns) / SECOND_NS;
    // Writing to a string does not fail.
    let _ = write!(text, "btime {boot_s}\nprocesses 1\nprocs_running 1\nprocs_blocked 0\n");
    text
}

/// A core, or all of the node.
fn set_of(core: Option<u32>) -> u64 {
    core.map_or_else(|| placement::mask(&(0..executor::cores())), |core| 1_u64.checked_shl(core).unwrap_or_default())
}

/// A set of so many cores as Linux writes it: digits for all of them, those of 32 cores at a time.
fn bitmap(set: u64, count: usize) -> String {
    let width = |count: usize| count.div_ceil(4);
    match count.checked_sub(32) {
        Some(more @ 1..) => format!("{:0width$x},{:08x}", set >> 32, set & 0xffff_ffff, width = width(more)),
        _ => format!("{set:0width$x}", width = width(count)),
    }
}

/// Cores, which follow one another, as a list of ranges.
pub(super) fn cores(mask: u64) -> String {
    let (first, count) = (mask.trailing_zeros(), mask.count_ones());
    if count <= 1 { format!("{first}") } else { format!("{first}-{}", first + count - 1) }
}

#[cfg(test)]
mod tests {
    use super::{bitmap, cores, processors};

    #[test]
    fn cores_are_a_range() {
        assert_eq!([1, 0b11, 0b100, 0b1_1000, u64::MAX].map(cores), ["0", "0-1", "2", "3-4", "0-63"]);
    }

    #[test]
    fn sets_have_digits_for_all_cores() {
        assert_eq!([1, 4, 5, 32].map(|count| bitmap(1, count)), ["1", "1", "01", "00000001"]);
        assert_eq!([bitmap(0xf, 4), bitmap(1 << 31, 32)], ["f", "80000000"]);
        assert_eq!([bitmap(1, 33), bitmap(1 << 32, 33)], ["0,00000001", "1,00000000"]);
        assert_eq!(bitmap(u64::MAX, 64), "ffffffff,ffffffff");
    }

    #[test]
    fn every_core_has_a_paragraph() {
        let text = processors(3);
        let numbers: alloc::vec::Vec<_> = text.lines().filter_map(|line| line.strip_prefix("processor\t: ")).collect();
        assert_eq!(numbers, ["0", "1", "2"]);
        assert!(text.ends_with("cpu cores\t: 3\n\n"));
    }
}
