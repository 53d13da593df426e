//! What happened, line by line, and what was counted.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use crate::TRACE_LINES_MAX;

/// The run's diary.
#[derive(Debug)]
pub(crate) struct Trace {
    lines: VecDeque<String>,
    digest: u64,
    counts: BTreeMap<&'static str, u64>,
}

impl Trace {
    pub(crate) fn new() -> Self {
        // FNV-1a's start.
        Self { lines: VecDeque::new(), digest: 0xcbf2_9ce4_8422_2325, counts: BTreeMap::new() }
    }

    /// Notes a line and counts it under `name`.
    pub(crate) fn note(&mut self, now_ns: u64, name: &'static str, what: fmt::Arguments<'_>) {
        self.count(name, 1);
        let line = format!("{:>12.6} {name}: {what}", now_ns as f64 / 1e9);
        for byte in line.bytes() {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
        if self.lines.len() == TRACE_LINES_MAX {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    pub(crate) fn count(&mut self, name: &'static str, by: u64) {
        *self.counts.entry(name).or_default() += by;
    }

    pub(crate) fn counts(&self) -> Vec<(&'static str, u64)> {
        self.counts.iter().map(|(name, count)| (*name, *count)).collect()
    }

    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    pub(crate) fn lines(self) -> Vec<String> {
        self.lines.into()
    }
}
