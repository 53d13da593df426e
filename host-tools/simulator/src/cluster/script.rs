//! What a scripted process does, as the arguments of its job say it.

use coppice_api::job::{OnRankFailure, Submission};
use coppice_protocol::text::ByteString;

use super::pmix::{COURSE_NUMBERS, Course};
use super::sharing::{LOG_BYTES_MAX, SHARING_NUMBERS, Sharing};
use super::words::{TALK_NUMBERS, Talk};

/// See this module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Script {
    /// Number of the program that it thinks it is.
    pub program: u64,
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
    /// Pages of its variables that it writes beyond those that the file has.
    pub touches: u64,
    /// It also writes to its instructions.
    pub spoils: bool,
    /// What it says to PMI first.
    pub talk: Talk,
    /// What it does with PMIx first.
    pub course: Course,
    /// What it does first to files that all ranks use.
    pub sharing: Sharing,
}

/// Numbers that say all of it.
pub(super) const SCRIPT_NUMBERS: usize = 9 + TALK_NUMBERS + COURSE_NUMBERS + SHARING_NUMBERS;

impl Script {
    fn numbers(&self) -> [u64; SCRIPT_NUMBERS] {
        let (appends, spoils) = (self.appends.into(), self.spoils.into());
        let Self { program, lines, fewer, pause_ns, line_bytes, status, touches, .. } = *self;
        let mut numbers = [0; SCRIPT_NUMBERS];
        let (own, others) = numbers.split_at_mut(SCRIPT_NUMBERS - TALK_NUMBERS - COURSE_NUMBERS - SHARING_NUMBERS);
        let (of_talk, others) = others.split_at_mut(TALK_NUMBERS);
        let (of_course, of_sharing) = others.split_at_mut(COURSE_NUMBERS);
        own.copy_from_slice(&[program, lines, pause_ns, line_bytes, appends, status.into(), touches, spoils, fewer]);
        of_talk.copy_from_slice(&self.talk.numbers());
        of_course.copy_from_slice(&self.course.numbers());
        of_sharing.copy_from_slice(&self.sharing.numbers());
        numbers
    }

    pub(super) fn arguments(&self) -> Vec<ByteString> {
        self.numbers().map(|number| number.to_string().into()).into()
    }

    /// A job of one rank that does this, on retained pages if there are any and it may have them.
    pub(super) fn submission(&self, is_warm: bool) -> Submission {
        Submission {
            arguments: self.arguments(),
            retain: is_warm,
            on_rank_failure: if self.course.outlives { OnRankFailure::Continue } else { OnRankFailure::End },
            ..Submission::plain(format!("/bin/script{}", self.program).into(), "script".into(), 1)
        }
    }

    /// What a program's arguments say.
    pub(super) fn of(numbers: [u64; SCRIPT_NUMBERS]) -> Self {
        let [program, lines, pause_ns, line_bytes, appends, status, touches, spoils, fewer, others @ ..] = numbers;
        let (mut of_talk, mut of_course, mut of_sharing) =
            ([0; TALK_NUMBERS], [0; COURSE_NUMBERS], [0; SHARING_NUMBERS]);
        let (talk, others) = others.split_at(TALK_NUMBERS);
        let (course, sharing) = others.split_at(COURSE_NUMBERS);
        of_talk.copy_from_slice(talk);
        of_course.copy_from_slice(course);
        of_sharing.copy_from_slice(sharing);
        Self {
            program,
            lines,
            fewer,
            pause_ns,
            line_bytes,
            appends: appends > 0,
            status: u8::try_from(status).unwrap_or(0),
            touches,
            spoils: spoils > 0,
            talk: Talk::of(of_talk),
            course: Course::of(of_course),
            sharing: Sharing::of(of_sharing),
        }
    }

    /// Pages of memory that it may come to have at most, page tables and stack included.
    pub(super) fn pages(&self, of_file: u64) -> u64 {
        /// Page tables, stack and notes.
        const OTHER_PAGES: u64 = 12;
        // What it says to PMI lies where its lines do, and what PMIx answers behind that.
        let of_course = if self.course.rounds > 0 { self.course.message_bytes() / 2048 + 2 } else { 0 };
        let of_talk = u64::from(self.talk.rounds > 0);
        // A page for what it writes, and what it reads of a log.
        let of_sharing = if self.sharing.rounds > 0 { 2 + LOG_BYTES_MAX / 4096 } else { 0 };
        of_file * 2 + of_talk + of_course + of_sharing + self.touches + self.line_bytes.div_ceil(4096) + OTHER_PAGES
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
