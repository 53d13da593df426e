//! The log of a job, as it is followed: the last lines, of which the last ones are on the screen.

use std::collections::{BTreeMap, VecDeque};

use coppice_api::Client;
use coppice_api::output::LogQuery;
use coppice_api::stream::{JobEvent, StreamFrame};
use tokio::sync::mpsc;

use crate::show::harmless;

/// Lines that are kept.
const LINES_MAX: usize = 2000;

/// Of a longer one the rest is left out, bytes.
const LINE_BYTES_MAX: usize = 1024;

/// What comes of following a log.
#[derive(Debug)]
pub(super) enum Told {
    /// A rank has written something.
    Wrote { rank: u32, bytes: Vec<u8> },
    /// There is no more, for this reason.
    Over(String),
}

/// See this module.
#[derive(Debug, Default)]
pub(super) struct Log {
    lines: VecDeque<String>,
    /// Lines that ranks have not ended.
    begun: BTreeMap<u32, Vec<u8>>,
    /// Why there is no more.
    pub(super) over: Option<String>,
    /// How many lines are below the screen.
    below: usize,
}

impl Log {
    /// Takes what was told.
    pub(super) fn take(&mut self, told: Told) {
        match told {
            Told::Wrote { rank, bytes } => {
                for byte in bytes {
                    if byte == b'\n' {
                        let line = self.begun.remove(&rank).unwrap_or_default();
                        self.add(rank, &line);
                    } else {
                        if self.begun.len() >= LINES_MAX && !self.begun.contains_key(&rank) {
                            // As if it had been ended.
                            let (other, line) = self.begun.pop_first().unwrap_or_default();
                            self.add(other, &line);
                        }
                        let line = self.begun.entry(rank).or_default();
                        if line.len() < LINE_BYTES_MAX {
                            line.push(byte);
                        }
                    }
                }
            }
            Told::Over(why) => {
                for (rank, line) in std::mem::take(&mut self.begun) {
                    self.add(rank, &line);
                }
                self.over = Some(why);
            }
        }
    }

    fn add(&mut self, rank: u32, line: &[u8]) {
        // Nothing that a program writes is obeyed by the terminal; tabs have a width there that nobody here knows.
        let line = String::from_utf8_lossy(line).replace('\t', "    ");
        self.lines.push_back(format!("{rank}: {}", harmless(&line)));
        if self.below > 0 {
            self.below += 1;
        }
        if self.lines.len() > LINES_MAX {
            self.lines.pop_front();
        }
        self.below = self.below.min(self.lines.len().saturating_sub(1));
    }

    /// Goes so many lines down, or up.
    pub(super) fn scroll(&mut self, by: isize) {
        let lines = by.unsigned_abs();
        let below = if by < 0 { self.below.saturating_add(lines) } else { self.below.saturating_sub(lines) };
        self.below = below.min(self.lines.len().saturating_sub(1));
    }

    /// The lines on a screen of this height, and how many are below them.
    pub(super) fn page(&self, height: usize) -> (Vec<&str>, usize) {
        let below = self.below.min(self.lines.len().saturating_sub(height));
        let end = self.lines.len() - below;
        let lines = self.lines.range(end.saturating_sub(height)..end).map(String::as_str);
        (lines.collect(), below)
    }
}

/// Follows the log of a job, until it is over or nobody wants to know any more.
pub(super) async fn follow(client: Client, job: u64, told: mpsc::Sender<Told>) {
    let query = LogQuery { follow: true, rank: None, stream: None };
    let over = match client.log(job, &query).await {
        Err(error) => error.to_string(),
        Ok(mut stream) => loop {
            let wrote = match stream.next_frame().await {
                Ok(Some(StreamFrame::Output { rank, bytes } | StreamFrame::Error { rank, bytes })) => {
                    Told::Wrote { rank, bytes: bytes.to_vec() }
                }
                Ok(Some(StreamFrame::Event(JobEvent::Kept(_)))) => break "the job has ended".to_owned(),
                Ok(Some(StreamFrame::Event(JobEvent::Unreadable { reason }))) => break reason,
                Ok(Some(StreamFrame::Event(_) | StreamFrame::Trace { .. })) => continue,
                Ok(None) => break "the cluster ended before the log did".to_owned(),
                Err(error) => break error.to_string(),
            };
            if told.send(wrote).await.is_err() {
                return;
            }
        },
    };
    // Who does not want to know any more has left.
    let _ = told.send(Told::Over(over)).await;
}

#[cfg(test)]
mod tests {
    use super::{LINE_BYTES_MAX, LINES_MAX, Log, Told};

    fn wrote(log: &mut Log, rank: u32, text: &str) {
        log.take(Told::Wrote { rank, bytes: text.as_bytes().to_vec() });
    }

    #[test]
    fn lines_of_ranks_stay_whole_and_are_harmless() {
        let mut log = Log::default();
        wrote(&mut log, 0, "one, ");
        wrote(&mut log, 1, "two\n\x1b[31mred\ttab");
        wrote(&mut log, 0, "three\n");
        assert_eq!(log.page(9), (vec!["1: two", "0: one, three"], 0));
        log.take(Told::Over("the job has ended".into()));
        assert_eq!(log.page(9).0[2], "1: \\u{1b}[31mred    tab");
        wrote(&mut log, 2, &format!("{}\n", "x".repeat(5 * LINE_BYTES_MAX)));
        assert_eq!(log.page(1).0[0].len(), 3 + LINE_BYTES_MAX);
    }

    #[test]
    fn what_is_looked_at_stays_while_more_comes() {
        let mut log = Log::default();
        (0..10).for_each(|number| wrote(&mut log, 0, &format!("{number}\n")));
        assert_eq!(log.page(3), (vec!["0: 7", "0: 8", "0: 9"], 0));
        log.scroll(-4);
        assert_eq!(log.page(3), (vec!["0: 3", "0: 4", "0: 5"], 4));
        wrote(&mut log, 0, "10\n");
        assert_eq!(log.page(3), (vec!["0: 3", "0: 4", "0: 5"], 5));
        log.scroll(isize::MIN);
        assert_eq!(log.page(3).0, ["0: 0", "0: 1", "0: 2"]);
        log.scroll(isize::MAX);
        (0..2 * LINES_MAX).for_each(|_| wrote(&mut log, 0, "more\n"));
        assert_eq!((log.lines.len(), log.page(2).0[1]), (LINES_MAX, "0: more"));
    }
}
