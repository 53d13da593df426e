//! MPICH's lists of its test programs, and ours of those that are known to fail.
//!
//! A line of theirs is `PROGRAM RANKS [arg=… | env=NAME=VALUE | timeLimit=SECONDS | xfail=… | …]…`; a line of ours is
//! `DIRECTORY/PROGRAM RANKS [WORD…]: REASON`, and stands for all lines of theirs that have all of these words.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result};

/// How long a program may take for which the list says nothing, as in MPICH's own runner.
const TIME_DEFAULT: Duration = Duration::from_secs(180);

/// One run of one program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Case {
    /// `DIRECTORY/PROGRAM`.
    pub(super) program: String,
    pub(super) ranks: u32,
    pub(super) arguments: Vec<String>,
    /// `NAME=VALUE` each.
    pub(super) environment: Vec<String>,
    pub(super) time_max: Duration,
    /// MPICH's own reason why it is not expected to work anywhere.
    pub(super) expected_failure: Option<String>,
    /// The words of the line after the number of ranks.
    words: Vec<String>,
}

impl Case {
    /// The line without its directory's name.
    pub(super) fn title(&self) -> String {
        let words: String = self.words.iter().map(|word| format!(" {word}")).collect();
        format!("{} {}{words}", self.program, self.ranks)
    }

    /// Whether it is in that directory.
    pub(super) fn is_in(&self, directory: &str) -> bool {
        self.program.strip_prefix(directory).is_some_and(|behind| behind.starts_with('/'))
    }
}

/// The cases of one directory's list.
///
/// # Errors
/// If a line cannot be read.
pub(super) fn parse(directory: &str, list: &str) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for line in list.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        let program = words.next().unwrap_or_default();
        let words: Vec<String> = words.map(str::to_owned).collect();
        let ranks = words.first().and_then(|word| word.parse().ok());
        let ranks = ranks.with_context(|| format!("no number of ranks in {directory}/testlist: {line}"))?;
        let words = words.get(1..).unwrap_or_default().to_vec();
        let values = |name: &str| -> Vec<String> {
            let value = |word: &String| word.strip_prefix(name)?.strip_prefix('=').map(str::to_owned);
            words.iter().filter_map(value).collect()
        };
        let seconds = values("timeLimit").first().and_then(|text| text.parse().ok());
        cases.push(Case {
            program: format!("{directory}/{program}"),
            ranks,
            arguments: values("arg"),
            environment: values("env"),
            time_max: seconds.map_or(TIME_DEFAULT, Duration::from_secs),
            expected_failure: values("xfail").first().cloned(),
            words,
        });
    }
    Ok(cases)
}

/// Programs known to fail on nodes, and why.
pub(super) struct Known {
    entries: Vec<Entry>,
}

struct Entry {
    program: String,
    ranks: u32,
    words: BTreeSet<String>,
    reason: String,
}

impl Known {
    /// Reads the list.
    ///
    /// # Errors
    /// If a line cannot be read, or has no reason.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut entries = Vec::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let entry = || {
                let (what, reason) = line.split_once(": ")?;
                let mut words = what.split_whitespace();
                let (program, ranks) = (words.next()?.to_owned(), words.next()?.parse().ok()?);
                let words = words.map(str::to_owned).collect();
                (!reason.trim().is_empty()).then(|| Entry { program, ranks, words, reason: reason.trim().into() })
            };
            entries.push(entry().with_context(|| format!("not “PROGRAM RANKS [WORD…]: REASON”: {line}"))?);
        }
        Ok(Self { entries })
    }

    /// Why this one is known to fail.
    pub(super) fn reason(&self, case: &Case) -> Option<&str> {
        let stands_for = |entry: &&Entry| {
            entry.program == case.program
                && entry.ranks == case.ranks
                && entry.words.iter().all(|word| case.words.contains(word))
        };
        self.entries.iter().find(stands_for).map(|entry| entry.reason.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Known, parse};

    const LIST: &str = "\
        # a remark\n\
        \n\
        allred 4 arg=-count=10\n\
        sendrecv2 2 env=MPIR_CVAR_ASYNC_PROGRESS=1 env=B=2\n\
        ibarrier 2 timeLimit=30 xfail=ticket2266\n";

    #[test]
    fn reads_the_words_of_a_line() {
        let cases = parse("coll", LIST).expect("a list");
        assert_eq!(cases.len(), 3);
        assert_eq!((cases[0].program.as_str(), cases[0].ranks), ("coll/allred", 4));
        assert_eq!(cases[0].arguments, ["-count=10"]);
        assert_eq!(cases[0].time_max, Duration::from_secs(180));
        assert_eq!(cases[1].environment, ["MPIR_CVAR_ASYNC_PROGRESS=1", "B=2"]);
        assert_eq!(cases[2].time_max, Duration::from_secs(30));
        assert_eq!(cases[2].expected_failure.as_deref(), Some("ticket2266"));
        assert_eq!(cases[0].title(), "coll/allred 4 arg=-count=10");
        assert!(parse("coll", "allred four").is_err());
    }

    #[test]
    fn knows_failures_by_all_their_words() {
        let cases = parse("coll", LIST).expect("a list");
        let known = Known::parse("# why\ncoll/sendrecv2 2 env=B=2: has no: threads\n").expect("a list");
        assert_eq!(known.reason(&cases[1]), Some("has no: threads"));
        assert_eq!(known.reason(&cases[0]), None);
        assert!(Known::parse("coll/sendrecv2 2\n").is_err());
    }

    #[test]
    fn the_checked_in_list_can_be_read() {
        let text = include_str!("../../../../tests/guests/mpi/known-failures.txt");
        assert!(Known::parse(text).is_ok());
    }
}
