//! All memory of a node, seen from outside: QEMU writes it to a file, whatever runs in the machine.
//!
//! What is looked for is a [`Pattern`] of 32 bytes that is computed from a seed: `tests/guests/c/pattern.h` makes the
//! same one in a node. Neither the seed nor a program's file contains it, so whoever finds it has found what a program
//! wrote.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::cluster::{Cluster, wait_until};

/// Memory of a node that was brought up without saying how much, bytes.
pub const NODE_BYTES: usize = 64 * 1024 * 1024;

/// Bytes in a page.
pub const PAGE_BYTES: usize = 4096;

/// Longest that QEMU may take for a command.
pub(crate) const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);

/// How long somebody else may take to leave the one place there is at a machine's monitor.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);

/// A connection to one of a machine's sockets, as soon as it takes one. Nobody waits for ever for what comes there.
#[track_caller]
pub(crate) fn connect_when_served(socket: &Path, limit: Duration) -> UnixStream {
    let mut stream = None;
    wait_until("the machine takes a client", limit, || {
        stream = Some(UnixStream::connect(socket).map_err(|error| error.to_string())?);
        Ok(())
    });
    let stream = stream.expect("waited for");
    stream.set_read_timeout(Some(ANSWER_TIME_MAX)).expect("a time limit");
    stream
}

/// QEMU's monitor of one machine.
pub struct Monitor {
    lines: BufReader<UnixStream>,
    /// A directory that QEMU can write to.
    directory: PathBuf,
}

impl Monitor {
    /// The monitor of a cluster's node.
    ///
    /// # Panics
    /// If it does not answer.
    #[must_use]
    #[track_caller]
    pub fn of_node(cluster: &Cluster, node: u32) -> Self {
        Self::connect(&cluster.home_path().join(format!("run/default/n{node}.qmp")), &cluster.home_path())
    }

    /// Pulls the machine's network cable.
    pub fn cut_link(&mut self) {
        self.command("set_link", &json!({ "name": "wire", "up": false }));
    }

    /// The monitor at a socket, of a machine that can write to `directory`.
    ///
    /// # Panics
    /// If it does not answer.
    #[must_use]
    #[track_caller]
    pub fn connect(socket: &Path, directory: &Path) -> Self {
        let stream = connect_when_served(socket, CONNECT_TIME_MAX);
        let mut monitor = Self { lines: BufReader::new(stream), directory: directory.to_owned() };
        let greeting = monitor.line();
        assert!(greeting.get("QMP").is_some(), "{greeting}");
        monitor.command("qmp_capabilities", &json!({}));
        monitor
    }

    /// Reports an uncorrected machine check to a core: an end of the kernel from outside.
    pub fn inject_machine_check(&mut self, core: u32) {
        let line = format!("mce {core} 0 0xb200000000000000 5 0 0");
        self.say("human-monitor-command", &json!({ "command-line": line }));
        // Until it has been taken: an order of somebody who hangs up is dropped. The machine may end without an answer.
        let _ = self.lines.read_line(&mut String::new());
    }

    /// Sends the machine a non-maskable interrupt, as somebody does who wants to know whether it is alive.
    pub fn inject_nmi(&mut self) {
        self.command("inject-nmi", &json!({}));
    }

    /// For each of the machine's processors, whether it is halted.
    ///
    /// # Panics
    /// If QEMU does not say so of any.
    #[must_use]
    #[track_caller]
    pub fn halted(&mut self) -> Vec<bool> {
        let registers = self.command("human-monitor-command", &json!({ "command-line": "info registers -a" }));
        let text = registers.as_str().expect("registers");
        let flags = text.split_whitespace().filter_map(|word| word.strip_prefix("HLT="));
        let halted: Vec<bool> = flags.map(|flag| flag == "1").collect();
        assert!(!halted.is_empty(), "{text}");
        halted
    }

    fn say(&mut self, name: &str, arguments: &Value) {
        let order = json!({ "execute": name, "arguments": arguments });
        self.lines.get_mut().write_all(format!("{order}\n").as_bytes()).expect("order");
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("QEMU's answer");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// Has QEMU execute a command and waits until it has.
    ///
    /// # Panics
    /// If it refuses.
    #[track_caller]
    pub fn command(&mut self, name: &str, arguments: &Value) -> Value {
        self.say(name, arguments);
        loop {
            let mut answer = self.line();
            if let Some(value) = answer.get_mut("return") {
                return value.take();
            }
            assert!(answer.get("event").is_some(), "{name}: {answer}");
        }
    }

    /// All memory of the machine, which has that many bytes, as it is now.
    ///
    /// # Panics
    /// If QEMU refuses or there is no room for it.
    #[must_use]
    #[track_caller]
    pub fn memory(&mut self, bytes: usize) -> Memory {
        let file = tempfile::Builder::new().prefix("memory").tempfile_in(&self.directory).expect("temporary file");
        let path = file.path().to_str().expect("a path in UTF-8");
        self.command("pmemsave", &json!({ "val": 0, "size": bytes, "filename": path }));
        let memory = Memory(std::fs::read(file.path()).expect("memory"));
        assert_eq!(memory.0.len(), bytes);
        memory
    }
}

/// All memory of a cluster's node, which has the usual size.
///
/// # Panics
/// As [`Monitor::of_node`] and [`Monitor::memory`].
#[must_use]
#[track_caller]
pub fn memory_of(cluster: &Cluster, node: u32) -> Memory {
    Monitor::of_node(cluster, node).memory(NODE_BYTES)
}

/// What a machine's memory holds.
pub struct Memory(Vec<u8>);

impl Memory {
    /// One page, by its address.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn page(&self, address: usize) -> &[u8] {
        &self.0[address..address + PAGE_BYTES]
    }

    /// Addresses of pages that hold this pattern or part of it, in order.
    #[must_use]
    pub fn pages_with(&self, pattern: &Pattern) -> Vec<usize> {
        let found = self.0.chunks_exact(PAGE_BYTES).enumerate().filter(|(_, page)| pattern.is_in(page));
        found.map(|(number, _)| number * PAGE_BYTES).collect()
    }

    /// Addresses of pages that hold these very bytes, in order.
    #[must_use]
    pub fn pages_containing(&self, bytes: &[u8; 32]) -> Vec<usize> {
        let mut pages = self.pages_with(&Pattern::of(*bytes));
        pages.retain(|at| self.page(*at).windows(32).any(|window| window == bytes));
        pages
    }

    /// Asserts that no page holds the pattern or part of it.
    ///
    /// # Panics
    /// If one does, with where and what lies around it.
    #[track_caller]
    pub fn assert_none(&self, pattern: &Pattern, after: &str) {
        let pages = self.pages_with(pattern);
        let Some(first) = pages.first() else { return };
        let at = first + pattern.position_in(self.page(*first)).unwrap_or(0);
        let around = &self.0[at.saturating_sub(64)..(at + 64).min(self.0.len())];
        let lines: Vec<String> = around.chunks(16).map(|line| format!("{line:02x?} {}", line.escape_ascii())).collect();
        panic!(
            "after {after}: found in {} pages, first at {at:#x}; there, from 64 bytes before:\n{}\npages: {:x?}",
            pages.len(),
            lines.join("\n"),
            &pages[..pages.len().min(40)]
        );
    }
}

/// 32 bytes that nobody writes by chance.
#[derive(Clone)]
pub struct Pattern {
    bytes: [u8; 32],
    /// Every eight bytes in a row, of the pattern repeated.
    windows: Vec<u64>,
    /// A bit for each value that the low 16 bits of a window have.
    filter: Vec<bool>,
}

impl Pattern {
    /// The pattern that `pattern.h` makes of a seed.
    #[must_use]
    pub fn of_seed(seed: u64) -> Self {
        let mut bytes = [0; 32];
        for (part, number) in bytes.chunks_exact_mut(8).zip(1..) {
            // Splitmix64.
            let mut word = seed.wrapping_add(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(number));
            word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            part.copy_from_slice(&(word ^ (word >> 31)).to_le_bytes());
        }
        Self::of(bytes)
    }

    /// A pattern of printable characters that differs with the seed.
    #[must_use]
    pub fn printable(seed: u64) -> Self {
        Self::of(Self::of_seed(seed).bytes.map(|byte| b'A' + byte % 26))
    }

    /// These bytes.
    #[must_use]
    pub fn of(bytes: [u8; 32]) -> Self {
        let twice = [bytes, bytes].concat();
        let windows: Vec<u64> = twice.windows(8).take(32).map(word).collect();
        let mut filter = vec![false; 1 << 16];
        windows.iter().for_each(|window| filter[(window & 0xffff) as usize] = true);
        Self { bytes, windows, filter }
    }

    /// The pattern itself.
    #[must_use]
    pub fn bytes(&self) -> &[u8; 32] {
        &self.bytes
    }

    /// The pattern again and again.
    #[must_use]
    pub fn repeated(&self, bytes: usize) -> Vec<u8> {
        self.bytes.iter().copied().cycle().take(bytes).collect()
    }

    /// Whether bytes hold eight bytes in a row of it, at a multiple of eight: 15 bytes of it at any place do.
    #[must_use]
    pub fn is_in(&self, bytes: &[u8]) -> bool {
        self.position_in(bytes).is_some()
    }

    fn position_in(&self, bytes: &[u8]) -> Option<usize> {
        let is_part = |word: u64| self.filter[(word & 0xffff) as usize] && self.windows.contains(&word);
        bytes.chunks_exact(8).position(|chunk| is_part(word(chunk))).map(|number| number * 8)
    }
}

fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::{Memory, PAGE_BYTES, Pattern};

    #[test]
    fn fifteen_bytes_are_found_wherever_they_lie() {
        let pattern = Pattern::of_seed(1);
        let repeated = pattern.repeated(64);
        for at in 0..32 {
            for from in 0..32 {
                let mut memory = vec![0; 3 * PAGE_BYTES];
                memory[PAGE_BYTES + 1000 + at..][..15].copy_from_slice(&repeated[from..from + 15]);
                assert_eq!(Memory(memory).pages_with(&pattern), [PAGE_BYTES], "{at} {from}");
            }
        }
    }

    #[test]
    fn other_bytes_are_not() {
        let memory = Memory(Pattern::of_seed(2).repeated(3 * PAGE_BYTES));
        assert!(memory.pages_with(&Pattern::of_seed(1)).is_empty());
        assert_eq!(memory.pages_containing(Pattern::of_seed(2).bytes()), [0, PAGE_BYTES, 2 * PAGE_BYTES]);
    }
}
