//! What is found.

use coppice_api::show::harmless;
use serde::{Deserialize, Serialize};

/// What a job's time went to, or what ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// A rank was ended by a fault of its own.
    Crash,
    /// A node had no memory left, or nearly none.
    MemoryShort,
    /// A node, or the I/O node of one, was lost.
    NodeLost,
    /// A rank could not be started.
    NotStarted,
    /// A rank exited with a status that is not 0.
    Failed,
    /// The job was ended from outside: by a signal, a time limit, whoever ran it.
    Ended,
    /// It waited for nodes.
    Queue,
    /// It was loaded.
    ColdStart,
    /// Pages and files came that could have been there.
    Loaded,
    /// One rank has more to do than the others, or does it more slowly, and they wait for it.
    SlowRank,
    /// The ranks have unequally much to do, and wait for each other.
    Imbalance,
    /// A link delays, loses or limits what passes.
    SlowLink,
    /// Ranks wait for the network, and no link is known to be slow.
    Network,
    /// Ranks wait for files.
    SlowDisk,
    /// Ranks wait for pages, again and again.
    PageStorm,
    /// Ranks wait for standard input.
    Input,
    /// Threads wait for locks of each other.
    LockContention,
    /// There are more threads than cores.
    TooFewCores,
    /// Where the time went in all.
    Shares,
    /// Nothing stands out.
    Nothing,
    /// What ranks did was not gathered.
    NotGathered,
}

/// What to try.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advice {
    /// What for, the beginning of a line.
    pub text: String,
    /// The command. `…` stands for what the user gave, or is to give.
    pub command: String,
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What it is.
    pub cause: Cause,
    /// What it cost, ns of the job's time; 0 if that is not known.
    pub lost_ns: u64,
    /// One sentence with its numbers, in one line and without anything that a terminal obeys. It is plain text: whoever
    /// makes a page of it escapes what means something there.
    pub text: String,
    /// What to try, if there is something.
    pub advice: Option<Advice>,
}

/// What is said of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// The job.
    pub job: u64,
    /// What was found; the first names what matters most. There is at least one.
    pub findings: Vec<Finding>,
}

impl Finding {
    /// A finding without advice.
    pub(crate) fn new(cause: Cause, lost_ns: u64, text: &str) -> Self {
        Self { cause, lost_ns, text: line(text), advice: None }
    }

    /// The same with advice.
    pub(crate) fn try_this(self, text: &str, command: impl AsRef<str>) -> Self {
        Self { advice: Some(Advice { text: line(text), command: line(command.as_ref()) }), ..self }
    }
}

/// Text in one line that no terminal obeys: some of it is what programs and users said.
fn line(text: &str) -> String {
    harmless(text).replace('\n', "\\n")
}
