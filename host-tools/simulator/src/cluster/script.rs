//! What a scripted process does, as the arguments of its job say it.

use coppice_api::job::Submission;
use coppice_protocol::text::ByteString;

/// See this module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Script {
    /// Lines that the first rank prints.
    pub lines: u64,
    /// How many fewer each rank prints than the one before, at most all: some end long before others.
    pub fewer: u64,
    /// Pause before each, ns.
    pub pause_ns: u64,
    /// Bytes of a line.
    pub line_bytes: u64,
    /// Whether it appends each line to a file of its own, too.
    pub appends: bool,
    /// What it exits with.
    pub status: u8,
}

impl Script {
    pub(super) fn arguments(&self) -> Vec<ByteString> {
        let (appends, status) = (u64::from(self.appends), u64::from(self.status));
        let numbers = [self.lines, self.pause_ns, self.line_bytes, appends, status, self.fewer];
        numbers.map(|number| number.to_string().into()).into()
    }

    /// A job of one rank that does this.
    pub(super) fn submission(&self) -> Submission {
        Submission {
            program: "/bin/script".into(),
            name: "script".into(),
            arguments: self.arguments(),
            environment: Vec::new(),
            root: "/".into(),
            directory: "/".into(),
            ranks: 1,
            ranks_per_node: 1,
            input_rank: None,
            timeout_ms: None,
            umask: 0o22,
            estimate_ms: None,
            retain: false,
            nodes: Vec::new(),
        }
    }

    /// What the arguments of a launch say, the program's name not included.
    pub(super) fn of(arguments: &[ByteString]) -> Self {
        let number = |at: usize| {
            let text = arguments.get(at).and_then(|argument| std::str::from_utf8(argument.as_bytes()).ok());
            text.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0)
        };
        Self {
            lines: number(0),
            pause_ns: number(1),
            line_bytes: number(2),
            appends: number(3) > 0,
            status: u8::try_from(number(4)).unwrap_or(0),
            fewer: number(5),
        }
    }

    /// Lines that a rank prints.
    pub(super) fn lines_of(&self, rank: u32) -> u64 {
        self.lines.saturating_sub(u64::from(rank) * self.fewer)
    }

    /// A rank's line of this number.
    pub(super) fn line(&self, rank: u32, number: u64) -> Vec<u8> {
        let mut line = format!("{rank} {number} ").into_bytes();
        line.resize(line.len().max(usize::try_from(self.line_bytes).unwrap_or(0)), b'.');
        line.push(b'\n');
        line
    }
}
