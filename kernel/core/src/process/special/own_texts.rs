//! The texts in `/proc/self`: what a process, and each of its threads, is doing and has.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt::Write;
use core::slice;
use core::sync::atomic::Ordering;

use coppice_hal::addr::PAGE_BYTES;
use coppice_hal::paging::Access;
use coppice_protocol::ship::FileStatus;

use super::excerpt::Excerpt;
use super::texts::{PAGE_KIB, cores};
use crate::abi::status::{major, minor};
use crate::abi::time::ticks;
use crate::files::special::Node;
use crate::files::{Object, OpenFile};
use crate::memory::{FileSource, Seen};
use crate::process::{Identity, Process, ThreadState};

fn find(process: &Process, thread: Option<u32>) -> Option<Arc<ThreadState>> {
    process.threads.find(thread.unwrap_or(process.identity.pid))
}

/// The name of a thread, or of the process.
pub(super) fn name(process: &Process, thread: Option<u32>) -> Vec<u8> {
    let name = find(process, thread).map_or_else(|| process.name(), |thread| *thread.name.lock());
    let length = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    name[..length].to_vec()
}

/// The same within a line, as Linux has it: a line break and a backslash are escaped.
fn name_in_line(process: &Process, thread: Option<u32>, text: &mut Excerpt) {
    for byte in name(process, thread) {
        match byte {
            b'\n' => text.push(b"\\n"),
            b'\\' => text.push(b"\\\\"),
            other => text.push(&[other]),
        }
    }
}

/// `/proc/self/status`.
pub(super) fn status(process: &Process, thread: Option<u32>, text: &mut Excerpt) {
    let identity = &process.identity;
    let (stats, mapped) = {
        let space = process.space.lock();
        (space.stats(), mapped_bytes(space.mapped()))
    };
    let (pid, tid) = (identity.pid, thread.unwrap_or(identity.pid));
    let (user, group) = (identity.user, identity.group);
    let (pending, shared, blocked, ignored, caught) = {
        let signals = process.signals.lock();
        let (ignored, caught) = signals.handled();
        let shared = signals.pending_shared();
        (signals.pending(tid).and(shared.others()), shared, signals.blocked(tid), ignored, caught)
    };
    let affinity = find(process, thread).map_or(process.cores, |thread| thread.affinity.load(Ordering::Relaxed));
    // Not below, where the lock would be held until all is written.
    let descriptors = process.files.lock().numbers().last().map_or(64, |last| (last + 1).next_multiple_of(64));
    text.push(b"Name:\t");
    name_in_line(process, thread, text);
    // Writing to a text does not fail; it says at its end what is missing.
    let _ = write!(
        text,
        "\nUmask:\t{:04o}\nState:\tR (running)\nTgid:\t{pid}\nNgid:\t0\nPid:\t{tid}\nPPid:\t{}\n\
         TracerPid:\t0\nUid:\t{user}\t{user}\t{user}\t{user}\nGid:\t{group}\t{group}\t{group}\t{group}\n\
         FDSize:\t{}\nGroups:\t{group} \nVmSize:\t{:8} kB\nVmHWM:\t{:8} kB\nVmRSS:\t{:8} kB\nThreads:\t{}\n\
         SigPnd:\t{:016x}\nShdPnd:\t{:016x}\nSigBlk:\t{:016x}\nSigIgn:\t{:016x}\nSigCgt:\t{:016x}\n\
         CapInh:\t{none}\nCapPrm:\t{none}\nCapEff:\t{none}\nCapBnd:\t{none}\nCapAmb:\t{none}\n\
         NoNewPrivs:\t1\nSeccomp:\t0\nCpus_allowed:\t{affinity:x}\nCpus_allowed_list:\t{}\n\
         Mems_allowed:\t1\nMems_allowed_list:\t0\n",
        process.umask.load(Ordering::Relaxed),
        Identity::PARENT,
        descriptors,
        mapped / 1024,
        stats.pages_peak * PAGE_KIB,
        stats.pages * PAGE_KIB,
        process.threads.count(),
        pending.0,
        shared.0,
        blocked.0,
        ignored.0,
        caught.0,
        cores(affinity),
        none = "0000000000000000",
    );
}

/// `/proc/self/stat`: what is not known here is 0.
pub(super) fn stat(process: &Process, thread: Option<u32>, text: &mut Excerpt) {
    let identity = &process.identity;
    let pid = identity.pid;
    let tid = thread.unwrap_or(pid);
    let ([code, data], heap, start, stats, mapped) = {
        let space = process.space.lock();
        (space.program_bounds(), space.heap(), space.start().stack, space.stats(), mapped_bytes(space.mapped()))
    };
    let major = process.account.major_faults.load(Ordering::Relaxed);
    let minor = stats.faults.saturating_sub(major);
    let (cpu_ns, core) = match find(process, thread) {
        Some(of) if thread.is_some() => (of.clock.ns(), of.core()),
        of => (process.threads.cpu_ns(), of.map_or(0, |of| of.core())),
    };
    let (pending, blocked, ignored, caught) = {
        let signals = process.signals.lock();
        let (ignored, caught) = signals.handled();
        (signals.pending(tid), signals.blocked(tid), ignored, caught)
    };
    // Signals beyond 31 are left out, as on Linux.
    let low = |set: u64| set & 0x7fff_ffff;
    // Writing to a text does not fail; it says at its end what is missing.
    let _ = write!(text, "{tid} (");
    name_in_line(process, thread, text);
    let _ = write!(text, ") R {} {pid} {pid} 0 -1 0", Identity::PARENT);
    let times = (minor, major, ticks(cpu_ns), process.threads.count(), ticks(process.account.started_ns()));
    let _ = write!(text, " {} 0 {} 0 {} 0 0 0 20 0 {} 0 {}", times.0, times.1, times.2, times.3, times.4);
    let _ = write!(text, " {mapped} {} {} {} {} {start} 0 0", stats.pages, u64::MAX, code.0, code.1);
    let [pending, blocked, ignored, caught] = [pending.0, blocked.0, ignored.0, caught.0].map(low);
    let _ = write!(text, " {pending} {blocked} {ignored} {caught} 0 0 0 17 {core} 0 0 0 0 0");
    let _ = writeln!(text, " {} {} {} 0 0 0 0 0", data.0, data.1, heap.0);
}

/// `/proc/self/statm`, in pages. What is shared is not told from what is not.
pub(super) fn pages(process: &Process) -> String {
    let (stats, mapped, [code, _]) = {
        let space = process.space.lock();
        (space.stats(), mapped_bytes(space.mapped()), space.program_bounds())
    };
    let whole = |bytes: u64| bytes.div_ceil(PAGE_BYTES as u64);
    let (all, text) = (whole(mapped), whole(code.1 - code.0));
    format!("{all} {} 0 {text} 0 {} 0\n", stats.pages, all - text.min(all))
}

fn mapped_bytes(areas: impl Iterator<Item = (u64, u64, Access)>) -> u64 {
    areas.map(|(start, end, _)| end - start).sum()
}

/// Column of names in `/proc/self/maps`, as on Linux.
const NAME_COLUMN: usize = 73;

/// As Linux lays it out. What lies in the program's segments behind their bytes of the file is not told from these.
pub(super) fn maps(process: &Process, text: &mut Excerpt) {
    let space = process.space.lock();
    let (heap, stack) = (space.heap(), space.start().stack);
    for (start, end, access, seen) in space.seen(0) {
        let flag = |which, letter| if access.contains(which) { letter } else { '-' };
        let (r, w, x) = (flag(Access::READ, 'r'), flag(Access::WRITE, 'w'), flag(Access::EXECUTE, 'x'));
        let p = if space.shows_shared(start) { 's' } else { 'p' };
        let (offset, status, name) = match seen {
            Seen::Program(offset) => (offset, program_status(process), &process.identity.executable[..]),
            Seen::File(file, offset) => file_seen(process, file, offset),
            Seen::Zeros if (start..end).contains(&stack) => (0, FileStatus::default(), &b"[stack]"[..]),
            Seen::Zeros if start >= heap.0 && end <= heap.1 => (0, FileStatus::default(), &b"[heap]"[..]),
            Seen::Zeros | Seen::Shared(_) => (0, FileStatus::default(), &b""[..]),
        };
        let (major, minor, inode) = (major(status.device), minor(status.device), status.inode);
        let line = format!("{start:08x}-{end:08x} {r}{w}{x}{p} {offset:08x} {major:02x}:{minor:02x} {inode}");
        // Writing to a text does not fail; it says at its end what is missing.
        let _ = if name.is_empty() { write!(text, "{line}") } else { write!(text, "{line:<NAME_COLUMN$}") };
        for byte in name {
            text.push(if *byte == b'\n' { b"\\012" } else { slice::from_ref(byte) });
        }
        text.push(b"\n");
    }
}

/// What the program's own file is.
fn program_status(process: &Process) -> FileStatus {
    Node::of_program().status(process)
}

/// Of a file that is mapped: where, what it is, and its path.
fn file_seen<'a>(process: &'a Process, file: &'a dyn FileSource, offset: u64) -> (u64, FileStatus, &'a [u8]) {
    let file: &dyn Any = file;
    match file.downcast_ref::<OpenFile>().map(|file| &file.object) {
        Some(Object::Shipped(shipped)) => (offset, shipped.status, &shipped.path),
        Some(Object::Program(_)) => (offset, program_status(process), &process.identity.executable),
        _ => (offset, FileStatus::default(), b""),
    }
}
