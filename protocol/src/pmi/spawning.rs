//! What ranks say when they want others to be started, and hear, in the words of both versions.
//!
//! Of several commands that belong together all have to name the same program, with the same arguments: a job runs one.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::conversation::Conversation;
use super::line::Fields;
use super::message::{Pairs, Written};
use super::server::Server;
use crate::ids::{JobId, Rank};
use crate::limits::{SPAWN_TEXT_BYTES, SPAWN_TEXTS_BYTES_MAX};
use crate::spawn::{KeyValue, Wanted};
use crate::text::ByteString;

/// The word for texts that take more than [`SPAWN_TEXTS_BYTES_MAX`].
const TOO_LONG: &str = "arguments_too_long";

/// The word for a command that is none.
const MALFORMED: &str = "malformed_spawn";

/// The word for commands that belong together and differ.
const SEVERAL: &str = "one_program_at_a_time";

/// Commands of version 1 that belong together, of which more lines are to come.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Spawning {
    /// Those that are whole.
    whole: Option<Wanted>,
    /// The one that comes.
    part: Wanted,
    /// A key whose value comes.
    key: Option<(Kind, Vec<u8>)>,
    /// What all of that takes, about, bytes.
    bytes: usize,
    /// Commands that belong together.
    total: u32,
    /// Which of them this is, counted from 1.
    so_far: u32,
    /// Why they are refused.
    wrong: Option<Wrong>,
}

/// What keys are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Kind {
    /// The key-value space of the ranks that are to be started.
    Space,
    /// The `MPI_Info` of the call.
    Info,
}

/// Why commands are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Wrong {
    TooLong,
    Malformed,
    Several,
}

impl Wrong {
    const fn word(self) -> &'static str {
        match self {
            Self::TooLong => TOO_LONG,
            Self::Malformed => MALFORMED,
            Self::Several => SEVERAL,
        }
    }
}

/// What of its info is heeded: the directory to run in. The rest is for the process manager to use or not.
fn inform(wanted: &mut Wanted, key: &[u8], value: &[u8]) {
    if key == b"wdir" || key == b"wd" {
        wanted.directory = Some(value.into());
    }
}

/// One command more of those that belong together.
fn join(whole: Option<Wanted>, part: Wanted) -> Result<Wanted, Wrong> {
    let Some(whole) = whole else { return Ok(part) };
    let same =
        (&whole.program, &whole.arguments, &whole.directory) == (&part.program, &part.arguments, &part.directory);
    let ranks = whole.ranks.checked_add(part.ranks).filter(|_| same).ok_or(Wrong::Several)?;
    // Each says all keys.
    Ok(Wanted { ranks, ..whole })
}

impl Spawning {
    /// Takes a line. What is wanted, or a word that says why that cannot be, when it was the last one.
    pub(super) fn hear(&mut self, line: &[u8]) -> Option<Result<Wanted, &'static str>> {
        if line.trim_ascii() == b"endcmd" {
            let part = core::mem::take(&mut self.part);
            if part.ranks == 0 || part.program.is_empty() || self.key.take().is_some() {
                self.wrong.get_or_insert(Wrong::Malformed);
            }
            let whole = join(self.whole.take(), part).unwrap_or_else(|wrong| {
                self.wrong.get_or_insert(wrong);
                Wanted::default()
            });
            if self.so_far < self.total {
                self.whole = Some(whole);
                return None;
            }
            return Some(self.wrong.map_or(Ok(whole), |wrong| Err(wrong.word())));
        }
        // A command more that belongs to it begins like this.
        if line != b"mcmd=spawn" && self.wrong.is_none() {
            self.wrong = self.part_of(line).err();
        }
        if self.wrong.is_some() {
            self.drop_texts();
            let fields = Fields::of(line);
            self.total = fields.number(b"totspawns").unwrap_or(self.total);
            self.so_far = fields.number(b"spawnssofar").unwrap_or(self.so_far);
        }
        None
    }

    /// A line was too long to be kept, or there is no memory for what was said.
    pub(super) fn hear_too_long(&mut self) {
        self.wrong.get_or_insert(Wrong::TooLong);
        self.drop_texts();
    }

    /// What they take, about, bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes
    }

    /// What is wrong is heard to its end and not kept.
    fn drop_texts(&mut self) {
        (self.whole, self.part, self.key, self.bytes) = (None, Wanted::default(), None, 0);
    }

    fn part_of(&mut self, line: &[u8]) -> Result<(), Wrong> {
        let equals = line.iter().position(|byte| *byte == b'=').ok_or(Wrong::Malformed)?;
        let (name, value) = (&line[..equals], &line[equals + 1..]);
        if value.contains(&0) {
            return Err(Wrong::Malformed);
        }
        let number = || core::str::from_utf8(value).ok().and_then(|text| text.trim().parse().ok());
        // Not counted anew at each line: there may be many.
        self.bytes += value.len() + SPAWN_TEXT_BYTES;
        if self.bytes > SPAWN_TEXTS_BYTES_MAX {
            return Err(Wrong::TooLong);
        }
        match (name, self.key.take()) {
            (b"nprocs", _) => self.part.ranks = number().ok_or(Wrong::Malformed)?,
            (b"execname", _) => self.part.program = value.into(),
            (b"totspawns", _) => self.total = number().ok_or(Wrong::Malformed)?,
            (b"spawnssofar", _) => self.so_far = number().ok_or(Wrong::Malformed)?,
            // How many there are is seen.
            (b"argcnt" | b"preput_num" | b"info_num", _) => {}
            (_, None) if name.starts_with(b"preput_key_") => self.key = Some((Kind::Space, value.to_vec())),
            (_, None) if name.starts_with(b"info_key_") => self.key = Some((Kind::Info, value.to_vec())),
            (_, Some((Kind::Space, key))) if name.starts_with(b"preput_val_") => {
                self.part.keys.push(KeyValue { key: key.into(), value: value.into() });
            }
            (_, Some((Kind::Info, key))) if name.starts_with(b"info_val_") => inform(&mut self.part, &key, value),
            (_, None) if name.starts_with(b"arg") => self.part.arguments.push(value.into()),
            _ => return Err(Wrong::Malformed),
        }
        Ok(())
    }
}

/// What a message of version 2 wants, or a word that says why that cannot be.
pub(super) fn wanted(pairs: &Pairs) -> Result<Wanted, &'static str> {
    let all = pairs.iter().skip(1).filter(|(key, _)| *key != b"thrid");
    let mut parts: Vec<Wanted> = Vec::new();
    let (mut keys, mut key): (Vec<KeyValue>, Option<&[u8]>) = (Vec::new(), None);
    let mut bytes = 0;
    for (name, value) in all {
        bytes += value.len() + SPAWN_TEXT_BYTES;
        if bytes > SPAWN_TEXTS_BYTES_MAX {
            return Err(TOO_LONG);
        }
        let number = || core::str::from_utf8(value).ok().and_then(|text| text.parse().ok()).ok_or(MALFORMED);
        let part = parts.last_mut();
        match (name, part) {
            (b"subcmd", _) => parts.push(Wanted { program: value.into(), ..Wanted::default() }),
            (b"maxprocs", Some(part)) => part.ranks = number()?,
            (_, Some(part)) if name.starts_with(b"argv") => part.arguments.push(value.into()),
            (_, Some(_)) if name.starts_with(b"infokey") && name != b"infokeycount" => key = Some(value),
            (_, Some(part)) if name.starts_with(b"infoval") => inform(part, key.take().ok_or(MALFORMED)?, value),
            (_, None) if name.starts_with(b"ppkey") => key = Some(value),
            (_, None) if name.starts_with(b"ppval") => {
                let key: ByteString = key.take().ok_or(MALFORMED)?.into();
                keys.push(KeyValue { key, value: value.into() });
            }
            // How many there are is seen.
            _ => {}
        }
    }
    if parts.iter().any(|part| part.ranks == 0 || part.program.is_empty()) {
        return Err(MALFORMED);
    }
    let whole = parts.into_iter().try_fold(None, |whole, part| join(whole, part).map(Some));
    let whole = whole.map_err(Wrong::word)?.ok_or(MALFORMED)?;
    Ok(Wanted { keys, ..whole })
}

/// Goes on with what came of it, in version 2. MPICH's client takes any `rc` for success, so a refusal has none.
pub(super) fn write(message: Written, outcome: Result<JobId, &str>) -> Written {
    match outcome {
        Ok(job) => message.shown("rc", 0).pair("jobid", super::server::space_name(job).as_bytes()).shown("nerrs", 0),
        Err(why) => message.shown("errmsg", why),
    }
}

impl Conversation {
    /// A line of a command of several lines. The rank hears one answer to all commands that belong together.
    pub(super) fn hear_spawning(&mut self, mut spawning: Spawning, line: &[u8], server: &mut Server) {
        let Some(wanted) = spawning.hear(line) else { return self.spawning = Some(spawning) };
        let Some(rank) = self.rank() else { return };
        match wanted.and_then(|wanted| server.spawn(rank, wanted)) {
            Ok(number) => {
                self.spawned = Some((rank, number));
                self.poll_spawned(server);
            }
            Err(why) => self.refuse_spawn(why),
        }
    }

    /// Has a rank of version 1 told what came of it, if anything has.
    pub(super) fn poll_spawned(&mut self, server: &mut Server) {
        let Some(outcome) = self.spawned.and_then(|(rank, number)| server.take_spawned(rank, number)) else { return };
        self.spawned = None;
        match outcome {
            Ok(_) => self.say("cmd=spawn_result rc=0"),
            Err(_) => self.refuse_spawn("not_started"),
        }
    }

    fn refuse_spawn(&mut self, why: &str) {
        self.say(format_args!("cmd=spawn_result rc=-1 msg={why}"));
    }
}

/// A rank waits for what comes of its wish: the number of that.
pub(super) type Awaited = (Rank, u64);
