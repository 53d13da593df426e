//! What a program says to PMI, at the descriptor that it inherits.
//!
//! Registers: `r15` how many things it has done there, `r14` how far it is with one, `r12` the length of what it says.

use coppice_hal::user::UserExit;
use coppice_protocol::syscalls as nr;

use super::super::checkers::Note;
use super::super::words::{Act, Answer, Speaker};
use super::memory::{ANSWER, ANSWER_BYTES, LINE};
use super::{Actor, DESERTED, Facts, Step, Stepped};

/// Where it inherits PMI.
const PMI: u64 = 255;
/// Bytes that it says, or wants to hear, at a time, if not all.
const PIECE_BYTES: u64 = 7;

impl Actor<'_> {
    fn act(&self, facts: &Facts) -> Result<Option<Act>, UserExit> {
        let name = self.read_name()?;
        let speaker = Speaker { rank: facts.rank, size: facts.size, name };
        Ok(facts.script.talk.act(&speaker, self.regs.r15))
    }

    fn note(&self, facts: &Facts, note: Note) {
        self.observed.lock().pmi.push((facts.script.talk.mark, facts.rank, note));
    }

    /// It does the next thing. Behind the last one it has what else it does.
    pub(super) fn talk(&mut self, facts: &Facts) -> Stepped {
        let act = self.act(facts)?;
        let desertion = facts.script.talk.desertion(facts.rank);
        if desertion.is_some_and(|(_, at)| at == self.regs.r15) {
            self.note(facts, Note::Deserts);
        }
        match act {
            None => self.open(facts),
            Some(Act::Pause(pause_ns)) => {
                let pause = self.put_pause(pause_ns)?;
                self.regs.r15 += 1;
                Ok(self.call(Step::Talk, nr::NANOSLEEP, [pause, 0, 0, 0]))
            }
            Some(Act::Say(line, answer)) => {
                self.put_line(&line)?;
                self.regs.r14 = 0;
                Ok(self.say(facts, &answer))
            }
            Some(Act::Close) => {
                self.regs.r15 += 1;
                Ok(self.call(Step::Talk, nr::CLOSE, [PMI, 0, 0, 0]))
            }
            Some(Act::End) => Ok(self.exit(DESERTED)),
            Some(Act::Crash) => Ok(Some(UserExit::Exception { vector: 6, error: 0 })),
        }
    }

    /// It ends by itself.
    pub(super) fn ends(&self, facts: &Facts) {
        if facts.script.talk.rounds > 0 {
            self.note(facts, Note::Ends);
        }
    }

    /// Some of what it says and hears goes in pieces.
    fn is_in_pieces(&self, facts: &Facts) -> bool {
        (u64::from(facts.rank) + self.regs.r15).is_multiple_of(4)
    }

    /// Says what is left of a line.
    fn say(&mut self, facts: &Facts, answer: &Answer) -> Option<UserExit> {
        let rest = self.regs.r12 - self.regs.r14;
        let bytes = if self.is_in_pieces(facts) { rest.min(PIECE_BYTES) } else { rest };
        if let Some(round) = answer.enters().filter(|_| bytes == rest) {
            self.note(facts, Note::Enters(round));
        }
        self.call(Step::Said, nr::WRITE, [PMI, LINE + self.regs.r14, bytes, 0])
    }

    /// A part of a line was said.
    pub(super) fn said(&mut self, facts: &Facts) -> Stepped {
        let Some(Act::Say(line, answer)) = self.act(facts)? else { return Ok(self.lost(facts)) };
        if self.has_failed() {
            let errno = self.regs.rax.cast_signed();
            self.blame(facts, &line, format_args!("could not be said: {errno}"));
            return Ok(self.exit(super::CALL_FAILED));
        }
        self.regs.r14 += self.regs.rax;
        if self.regs.r14 < self.regs.r12 {
            return Ok(self.say(facts, &answer));
        }
        if let Answer::Unheard(_) = answer {
            self.regs.r15 += 1;
            return Ok(self.go(Step::Talk));
        }
        self.regs.r14 = 0;
        Ok(self.hear(facts))
    }

    /// Hears what comes next of an answer.
    fn hear(&mut self, facts: &Facts) -> Option<UserExit> {
        let rest = ANSWER_BYTES - self.regs.r14;
        let bytes = if self.is_in_pieces(facts) { rest.min(PIECE_BYTES) } else { rest };
        self.call(Step::Heard, nr::READ, [PMI, ANSWER + self.regs.r14, bytes, 0])
    }

    /// A part of an answer has come.
    pub(super) fn heard(&mut self, facts: &Facts) -> Stepped {
        let Some(Act::Say(line, answer)) = self.act(facts)? else { return Ok(self.lost(facts)) };
        let came = self.regs.rax.cast_signed();
        if came <= 0 {
            self.blame(facts, &line, format_args!("was answered with {came}"));
            return Ok(self.exit(super::CALL_FAILED));
        }
        let bytes = self.read_answer(self.regs.r14 + self.regs.rax)?;
        if !bytes.ends_with(b"\n") {
            self.regs.r14 = bytes.len() as u64;
            return Ok(self.hear(facts));
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if !self.is_answer(facts, &answer, &text)? {
            self.blame(facts, &line, format_args!("was answered with {text:?}"));
        }
        self.regs.r15 += 1;
        Ok(self.go(Step::Talk))
    }

    /// Whether it must be told that.
    fn is_answer(&mut self, facts: &Facts, answer: &Answer, text: &str) -> Result<bool, UserExit> {
        let value = |begin: &str| text.strip_prefix(begin).and_then(|rest| rest.strip_suffix('\n'));
        let note = match answer {
            Answer::Is(expected) => return Ok(text.as_bytes() == expected),
            Answer::PutOrNot => {
                return Ok(text == "cmd=put_result rc=0 msg=success\n"
                    || text.starts_with("cmd=put_result rc=-1 msg=duplicate_key_all"));
            }
            Answer::Never | Answer::Unheard(_) => return Ok(false),
            Answer::Name => {
                let Some(name) = value("cmd=my_kvsname kvsname=") else { return Ok(false) };
                self.put_name(name)?;
                Note::Name(name.to_owned())
            }
            Answer::Shared(round) => {
                let Some(value) = value("cmd=get_result rc=0 msg=success value=") else { return Ok(false) };
                Note::Shared(*round, value.to_owned())
            }
            Answer::Out(round) if text == "cmd=barrier_out\n" => Note::Leaves(*round),
            Answer::Done if text == "cmd=finalize_ack\n" => Note::Done,
            Answer::Out(_) | Answer::Done => return Ok(false),
        };
        self.note(facts, note);
        Ok(true)
    }

    fn blame(&self, facts: &Facts, line: &[u8], what: std::fmt::Arguments<'_>) {
        let (rank, mark, said) = (facts.rank, facts.script.talk.mark, String::from_utf8_lossy(line));
        let said = said.get(..said.len().min(120)).unwrap_or_default();
        self.observed.violate(format!("rank {rank} of the job with mark {mark}: {said:?} {what}"));
    }

    fn lost(&mut self, facts: &Facts) -> Option<UserExit> {
        self.blame(facts, b"", format_args!("is where it says nothing"));
        self.exit(super::CALL_FAILED)
    }
}
