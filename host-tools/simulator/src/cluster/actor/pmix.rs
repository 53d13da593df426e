//! What a program does with PMIx, at a socket.
//!
//! Registers: `rbp` the socket, `r15` how many things it has done, `r14` how far it is with one, `r12` the length of
//! what it says.

use coppice_hal::user::UserExit;
use coppice_protocol::limits::PMIX_PORT;
use coppice_protocol::syscalls as nr;

use super::super::checkers::PmixNote;
use super::super::pmix::{Act, Ask, Speaker, Told, bytes_of, greeting, message, read_answer, read_told};
use super::memory::{LINE, MESSAGE, MESSAGE_BYTES};
use super::{Actor, CALL_FAILED, DESERTED, Facts, Step, Stepped};

/// `AF_INET`, `SOCK_STREAM`.
const INTERNET: u64 = 2;
const STREAM: u64 = 1;
/// Bytes of a message before what it says.
const HEADER_BYTES: u64 = 16;
/// Bytes of the answer to the first words.
const GREETED_BYTES: u64 = 8;
/// Its first call has this tag: lower ones are not calls.
const FIRST_TAG: u64 = 100;
/// Bytes that it says, or wants to hear, at a time, if not all.
const PIECE_BYTES: u64 = 29;
/// Of a message that is too long to be kept the rest is read by so much, and forgotten.
const FORGOTTEN_BYTES: u64 = 0x1000;

impl Actor<'_> {
    fn next_act(&self, facts: &Facts) -> Result<(String, Option<Act>), UserExit> {
        let space = self.read_name()?;
        let speaker = Speaker { rank: facts.rank, size: facts.size, space: &space };
        let act = facts.script.course.act(&speaker, self.regs.r15);
        Ok((space, act))
    }

    /// The call that it makes, and whether it waits for the answer and says all of it.
    fn ask(&self, facts: &Facts) -> Result<Option<(Ask, bool, bool)>, UserExit> {
        Ok(match self.next_act(facts)? {
            (_, Some(Act::Ask(ask))) => Some((ask, true, true)),
            (_, Some(Act::AskAndEnd(ask, is_whole))) => Some((ask, false, is_whole)),
            _ => None,
        })
    }

    fn tag(&self) -> u32 {
        u32::try_from(FIRST_TAG + self.regs.r15).unwrap_or(u32::MAX)
    }

    fn note_pmix(&self, facts: &Facts, note: PmixNote) {
        let mut seen = self.observed.lock();
        let node = seen.running.map(|life| life.node);
        seen.pmix.push((facts.script.course.mark, facts.rank, node, note));
    }

    /// It does the next thing. Behind the last one it has what else it does.
    pub(super) fn turn(&mut self, facts: &Facts) -> Stepped {
        let course = facts.script.course;
        if let Some(behind) = course.skips_to(facts.rank, self.regs.r15)
            && self.has_heard_all(facts)?
        {
            self.regs.r15 = behind;
        }
        let (space, act) = self.next_act(facts)?;
        if self.regs.r15 == 0 {
            self.note_pmix(facts, PmixNote::Begins);
        }
        if course.loss(facts.rank).is_some_and(|(_, at)| at == self.regs.r15) {
            self.note_pmix(facts, PmixNote::Loses);
        }
        match act {
            None => self.open(facts),
            Some(Act::Skip) => {
                self.regs.r15 += 1;
                Ok(self.go(Step::Turn))
            }
            Some(Act::Tally) => {
                if !self.has_heard_all(facts)? {
                    self.note_pmix(facts, PmixNote::GivesUp);
                }
                self.regs.r15 += 1;
                Ok(self.go(Step::Turn))
            }
            Some(Act::Pause(pause_ns)) => {
                let pause = self.put_pause(pause_ns)?;
                self.regs.r15 += 1;
                Ok(self.call(Step::Turn, nr::NANOSLEEP, [pause, 0, 0, 0]))
            }
            Some(Act::Socket) => Ok(self.call(Step::HasSocket, nr::SOCKET, [INTERNET, STREAM, 0, 0])),
            Some(Act::Connect) => {
                let (address, length) = self.put_address(PMIX_PORT)?;
                Ok(self.call(Step::Connected, nr::CONNECT, [self.regs.rbp, address, length, 0]))
            }
            Some(Act::Ask(ask)) => {
                self.put_call(facts, ask, &space, true)?;
                Ok(self.say_call(facts, ask, true))
            }
            Some(Act::AskAndEnd(ask, is_whole)) => {
                self.put_call(facts, ask, &space, is_whole)?;
                Ok(self.say_call(facts, ask, is_whole))
            }
            Some(Act::Close) => {
                self.regs.r15 += 1;
                Ok(self.call(Step::Turn, nr::CLOSE, [self.regs.rbp, 0, 0, 0]))
            }
            Some(Act::End) => Ok(self.exit(DESERTED)),
            Some(Act::Crash) => Ok(Some(UserExit::Exception { vector: 6, error: 0 })),
        }
    }

    fn has_heard_all(&self, facts: &Facts) -> Result<bool, UserExit> {
        let (events, ends) = facts.script.course.awaits(facts.rank);
        let (heard, ended) = self.read_told()?;
        Ok(heard >= events && ended >= ends)
    }

    /// It was given a socket.
    pub(super) fn has_socket(&mut self, facts: &Facts) -> Option<UserExit> {
        if self.has_failed() {
            return self.refused(facts, "has no socket");
        }
        self.regs.rbp = self.regs.rax;
        self.regs.r15 += 1;
        self.go(Step::Turn)
    }

    /// It is connected with its node's server.
    pub(super) fn connected(&mut self, facts: &Facts) -> Option<UserExit> {
        if self.has_failed() {
            return self.refused(facts, "cannot connect");
        }
        self.regs.r15 += 1;
        self.go(Step::Turn)
    }

    /// A call has failed that only fails where there is no memory.
    fn refused(&mut self, facts: &Facts, what: &str) -> Option<UserExit> {
        /// `ENOMEM` and `ENOBUFS`.
        const NO_MEMORY: [i64; 2] = [-12, -105];
        let errno = self.regs.rax.cast_signed();
        if !NO_MEMORY.contains(&errno) {
            self.accuse(facts, format_args!("{what}: {errno}"));
        }
        self.exit(CALL_FAILED)
    }

    fn put_call(&mut self, facts: &Facts, ask: Ask, space: &str, is_whole: bool) -> Result<(), UserExit> {
        let course = &facts.script.course;
        let speaker = Speaker { rank: facts.rank, size: facts.size, space };
        let mut bytes = match ask {
            Ask::Greet => greeting(course, &speaker),
            _ => message(self.tag(), &bytes_of(course, &speaker, ask)),
        };
        if !is_whole {
            bytes.truncate(bytes.len() / 2);
        }
        self.put_line(&bytes)?;
        self.regs.r14 = 0;
        Ok(())
    }

    /// Some of what it says and hears goes in pieces.
    fn is_piecemeal(&self, facts: &Facts) -> bool {
        (u64::from(facts.rank) + self.regs.r15).is_multiple_of(5)
    }

    fn piece(&self, facts: &Facts, rest: u64) -> u64 {
        if self.is_piecemeal(facts) { rest.min(PIECE_BYTES.max(rest / 8)) } else { rest }
    }

    /// Says what is left of a call.
    fn say_call(&mut self, facts: &Facts, ask: Ask, is_whole: bool) -> Option<UserExit> {
        let rest = self.regs.r12 - self.regs.r14;
        let bytes = self.piece(facts, rest);
        if is_whole && bytes == rest {
            self.note_pmix(facts, PmixNote::Asks(ask));
        }
        self.call(Step::Called, nr::WRITE, [self.regs.rbp, LINE + self.regs.r14, bytes, 0])
    }

    /// A part of a call was said.
    pub(super) fn called(&mut self, facts: &Facts) -> Stepped {
        let Some((ask, waits, is_whole)) = self.ask(facts)? else { return Ok(self.stray(facts)) };
        if self.has_failed() {
            return Ok(self.refused(facts, &format!("{ask:?} could not be said")));
        }
        self.regs.r14 += self.regs.rax;
        if self.regs.r14 < self.regs.r12 {
            return Ok(self.say_call(facts, ask, is_whole));
        }
        self.regs.r14 = 0;
        if !waits {
            self.regs.r15 += 1;
            return Ok(self.go(Step::Turn));
        }
        Ok(self.listen(facts, if ask == Ask::Greet { GREETED_BYTES } else { HEADER_BYTES }))
    }

    /// Hears what comes next of a message of so many bytes.
    fn listen(&mut self, facts: &Facts, length: u64) -> Option<UserExit> {
        let bytes = self.piece(facts, length - self.regs.r14);
        // What does not fit comes where the last of what was kept would be.
        let at = self.regs.r14.min(MESSAGE_BYTES - FORGOTTEN_BYTES);
        let bytes = bytes.min(MESSAGE_BYTES - at);
        self.call(Step::Came, nr::READ, [self.regs.rbp, MESSAGE + at, bytes, 0])
    }

    /// A part of a message has come.
    pub(super) fn came(&mut self, facts: &Facts) -> Stepped {
        let Some((ask, ..)) = self.ask(facts)? else { return Ok(self.stray(facts)) };
        if self.regs.rax == 0 {
            self.accuse(facts, format_args!("{ask:?} was answered with nothing"));
            return Ok(self.exit(CALL_FAILED));
        }
        if self.has_failed() {
            return Ok(self.refused(facts, &format!("{ask:?} was not answered")));
        }
        let came = self.regs.r14 + self.regs.rax;
        if ask == Ask::Greet {
            return self.greeted(facts, came);
        }
        let length = if came < HEADER_BYTES { HEADER_BYTES } else { HEADER_BYTES + self.body_bytes()? };
        if came < length {
            self.regs.r14 = came;
            return Ok(self.listen(facts, length));
        }
        let bytes = self.read_message(length)?;
        let (header, body) = bytes.split_at(HEADER_BYTES as usize);
        let tag = header.get(4..8).and_then(|tag| tag.try_into().ok()).map_or(u32::MAX, u32::from_be_bytes);
        if tag == 0 {
            self.is_told(facts, body)?;
            self.regs.r14 = 0;
            return Ok(self.listen(facts, HEADER_BYTES));
        }
        let space = self.read_name()?;
        let speaker = Speaker { rank: facts.rank, size: facts.size, space: &space };
        match read_answer(&facts.script.course, &speaker, ask, body) {
            Ok(reply) if tag == self.tag() => self.note_pmix(facts, PmixNote::Hears(ask, reply)),
            Ok(reply) => self.accuse(facts, format_args!("{ask:?} was answered under tag {tag}: {reply:?}")),
            Err(what) => self.accuse(facts, format_args!("the answer to {ask:?} {what}")),
        }
        self.regs.r15 += 1;
        Ok(self.go(Step::Turn))
    }

    fn body_bytes(&self) -> Result<u64, UserExit> {
        let header = self.read_message(HEADER_BYTES)?;
        Ok(header.get(8..12).and_then(|length| length.try_into().ok()).map_or(0, u32::from_be_bytes).into())
    }

    /// It is told whether the server takes it for who it says it is.
    fn greeted(&mut self, facts: &Facts, came: u64) -> Stepped {
        if came < GREETED_BYTES {
            self.regs.r14 = came;
            return Ok(self.listen(facts, GREETED_BYTES));
        }
        let bytes = self.read_message(GREETED_BYTES)?;
        let mut words = bytes.chunks_exact(4).map(|word| word.try_into().map_or(u32::MAX, u32::from_be_bytes));
        let (status, index) = (words.next(), words.next().map(u64::from));
        let own = u64::from(facts.rank) % facts.script.course.per_node.max(1);
        if (status, index) != (Some(0), Some(own)) {
            self.accuse(facts, format_args!("was greeted with {status:?}, as number {index:?} and not {own}"));
        }
        self.note_pmix(facts, PmixNote::Greeted);
        self.regs.r15 += 1;
        Ok(self.go(Step::Turn))
    }

    /// It is told something that it has not asked for.
    fn is_told(&mut self, facts: &Facts, body: &[u8]) -> Result<(), UserExit> {
        let space = self.read_name()?;
        let speaker = Speaker { rank: facts.rank, size: facts.size, space: &space };
        let (events, ends) = self.read_told()?;
        match read_told(&facts.script.course, &speaker, body) {
            Ok(told) => {
                self.put_told(match told {
                    Told::Event(..) => (events + 1, ends),
                    Told::End(..) => (events, ends + 1),
                })?;
                self.note_pmix(facts, PmixNote::Told(told));
            }
            Err(what) => self.accuse(facts, format_args!("what it was told {what}")),
        }
        Ok(())
    }

    fn accuse(&self, facts: &Facts, what: std::fmt::Arguments<'_>) {
        let (rank, mark, index) = (facts.rank, facts.script.course.mark, self.regs.r15);
        let what = format!("rank {rank} of the job with PMIx's mark {mark}, at {index}: {what}");
        self.observed.violate(what);
    }

    fn stray(&mut self, facts: &Facts) -> Option<UserExit> {
        self.accuse(facts, format_args!("is where it says nothing"));
        self.exit(CALL_FAILED)
    }
}
