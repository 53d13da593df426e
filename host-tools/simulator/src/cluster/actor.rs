//! What stands for the instructions of programs: from the registers and the memory that a kernel gave a thread it finds
//! out where the thread is in its script, and does what comes next, until the kernel is wanted.
//!
//! All it knows is where a real program would have it: in registers and in memory of the process. So what the kernel
//! does wrong with these shows. It also says what no real program would: that memory holds what it must not.

use coppice_hal::addr::PAGE_BYTES as PAGE;
use coppice_hal::paging::{Access, TableHandle};
use coppice_hal::user::simulated::touch;
use coppice_hal::user::{Registers, UserExit};
use coppice_protocol::ids::Rank;
use coppice_protocol::syscalls as nr;

use super::process::Observed;
use super::programs::{self, ENTRY, Program, TEXT};
use super::script::Script;

mod conversation;
mod memory;
mod pmix;
mod sharing;

/// What a process exits with whose call failed.
pub(super) const CALL_FAILED: u8 = 98;
/// What a process exits with that goes away.
pub(super) const DESERTED: u8 = 97;

/// `O_WRONLY | O_CREAT | O_APPEND`.
const TO_APPEND: u64 = 0o2101;
/// `AT_FDCWD`.
const HERE: u64 = -100_i64 as u64;
/// `SEEK_CUR`.
const WHERE_IT_IS: u64 = 1;
/// `PROT_READ | PROT_WRITE | PROT_EXEC`.
const ALL_RIGHTS: u64 = 7;

/// Bytes between the first instructions of two steps. A call is the two bytes before a step.
const STEP_BYTES: u64 = 16;
/// Length of the instruction that makes a call.
const CALL_BYTES: u64 = 2;

/// Where a thread is. Registers: `rbx` the line, `r12` its length, `rbp` the file's descriptor or the socket's, `r13`
/// bytes appended, `r14` how far the step is, `r15` what it has done at PMI, with PMIx or to shared files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
enum Step {
    /// It reads its arguments.
    Start,
    /// It looks whether its memory is as the file says.
    Look,
    /// It writes to its variables.
    Write,
    /// It may write to its instructions now.
    Spoil,
    /// It does the next thing at PMI.
    Talk,
    /// A part of what it says was said.
    Said,
    /// A part of the answer has come.
    Heard,
    /// It does the next thing with PMIx.
    Turn,
    /// It has a socket.
    HasSocket,
    /// The socket is connected.
    Connected,
    /// A part of a call was written.
    Called,
    /// A part of what comes has come.
    Came,
    /// It does the next thing to a file that its job's ranks share.
    Share,
    /// It has done it.
    Shared,
    /// It has opened its file.
    Opened,
    /// The next line is due, after a pause.
    Line,
    /// After the pause.
    Compose,
    /// A part of the line was appended.
    Appended,
    /// Where the file ends.
    Sought,
    /// The line is to be printed.
    Print,
    /// A part of it was.
    Printed,
    /// It looks whether what it wrote is there, and ends.
    Last,
}

const STEPS: [Step; 22] = [
    Step::Start,
    Step::Look,
    Step::Write,
    Step::Spoil,
    Step::Talk,
    Step::Said,
    Step::Heard,
    Step::Turn,
    Step::HasSocket,
    Step::Connected,
    Step::Called,
    Step::Came,
    Step::Share,
    Step::Shared,
    Step::Opened,
    Step::Line,
    Step::Compose,
    Step::Appended,
    Step::Sought,
    Step::Print,
    Step::Printed,
    Step::Last,
];

impl Step {
    fn at(self) -> u64 {
        ENTRY + STEP_BYTES * self as u64
    }
}

/// What the arguments say, as the program keeps it in its memory.
#[derive(Clone, Copy)]
struct Facts {
    rank: u32,
    /// Ranks of its job.
    size: u32,
    script: Script,
    program: &'static Program,
}

/// A thread that is played.
struct Actor<'a> {
    regs: &'a mut Registers,
    table: &'a TableHandle,
    observed: &'a Observed,
}

/// Plays a thread until it comes back.
pub(super) fn play(regs: &mut Registers, table: &TableHandle, observed: &Observed) -> UserExit {
    let mut actor = Actor { regs, table, observed };
    loop {
        match actor.step() {
            Ok(None) => {}
            Ok(Some(exit)) | Err(exit) => return exit,
        }
    }
}

/// The kernel is wanted, or not; or a page is.
type Stepped = Result<Option<UserExit>, UserExit>;

impl Actor<'_> {
    fn step(&mut self) -> Stepped {
        // The instruction is read.
        touch(self.table, self.regs.rip, Access::EXECUTE)?;
        let after = self.regs.rip + CALL_BYTES;
        if (after - ENTRY).is_multiple_of(STEP_BYTES) {
            // The kernel has put it back before its call.
            self.regs.rip = after;
            return Ok(Some(UserExit::Syscall));
        }
        let number = usize::try_from((self.regs.rip - ENTRY) / STEP_BYTES).unwrap_or(usize::MAX);
        let Some(step) = STEPS.get(number).filter(|step| step.at() == self.regs.rip) else {
            self.observed.violate(format!("a thread is at {:#x}, where nothing is", self.regs.rip));
            return Ok(Some(UserExit::Exception { vector: 6, error: 0 }));
        };
        if *step == Step::Start {
            self.start()?;
            return Ok(self.go(Step::Look));
        }
        let facts = self.facts()?;
        match step {
            Step::Start => Ok(None),
            Step::Look => {
                self.look(&facts)?;
                Ok(self.go(Step::Write))
            }
            Step::Write => {
                self.write_all(&facts)?;
                if facts.script.spoils {
                    return Ok(self.call(Step::Spoil, nr::MPROTECT, [TEXT, facts.program.text_bytes, ALL_RIGHTS, 0]));
                }
                self.speak_or_open(&facts)
            }
            Step::Spoil => {
                self.check_call("mprotect");
                self.spoil(&facts)?;
                self.speak_or_open(&facts)
            }
            Step::Talk => self.talk(&facts),
            Step::Said => self.said(&facts),
            Step::Heard => self.heard(&facts),
            Step::Turn => self.turn(&facts),
            Step::HasSocket => Ok(self.has_socket(&facts)),
            Step::Connected => Ok(self.connected(&facts)),
            Step::Called => self.called(&facts),
            Step::Came => self.came(&facts),
            Step::Share => self.share(&facts),
            Step::Shared => self.shared(&facts),
            Step::Opened => {
                self.regs.rbp = self.regs.rax;
                Ok(if self.has_failed() { self.exit(CALL_FAILED) } else { self.go(Step::Line) })
            }
            Step::Line if self.regs.rbx == facts.script.lines_of(facts.rank) => Ok(self.go(Step::Last)),
            Step::Line => {
                self.check_count(&facts)?;
                let pause = self.put_pause(facts.script.pause_ns)?;
                Ok(self.call(Step::Compose, nr::NANOSLEEP, [pause, 0, 0, 0]))
            }
            Step::Compose => {
                self.put_line(&facts.script.line(facts.rank, self.regs.rbx))?;
                self.check_count(&facts)?;
                // Last, as a step begins anew when it needs a page.
                self.put_count(self.regs.rbx + 1)?;
                self.regs.r14 = 0;
                Ok(if facts.script.appends { self.write(Step::Appended) } else { self.go(Step::Print) })
            }
            Step::Appended => {
                if !self.has_failed() {
                    self.regs.r13 += self.regs.rax;
                }
                self.wrote(Step::Appended, |actor| {
                    actor.call(Step::Sought, nr::LSEEK, [actor.regs.rbp, 0, WHERE_IT_IS, 0])
                })
            }
            Step::Sought => {
                if self.regs.rax != self.regs.r13 {
                    let (rank, has, is) = (facts.rank, self.regs.r13, self.regs.rax.cast_signed());
                    self.observed.violate(format!("rank {rank} has appended {has} bytes, and its file has {is}"));
                }
                Ok(self.go(Step::Print))
            }
            Step::Print => {
                self.regs.r14 = 0;
                Ok(self.write(Step::Printed))
            }
            Step::Printed => self.wrote(Step::Printed, |actor| {
                actor.regs.rbx += 1;
                actor.go(Step::Line)
            }),
            Step::Last => {
                self.look_again(&facts)?;
                self.ends(&facts);
                if facts.script.appends {
                    self.observed.has_written(Rank(facts.rank), self.regs.r13);
                }
                Ok(self.exit(facts.script.status))
            }
        }
    }

    fn speak_or_open(&mut self, facts: &Facts) -> Stepped {
        let Script { talk, course, sharing, .. } = facts.script;
        match (talk.rounds, course.rounds) {
            (0, 0) if sharing.rounds > 0 => Ok(self.go(Step::Share)),
            (0, 0) => self.open(facts),
            (0, _) => Ok(self.go(Step::Turn)),
            _ => Ok(self.go(Step::Talk)),
        }
    }

    fn open(&mut self, facts: &Facts) -> Stepped {
        if !facts.script.appends {
            return Ok(self.go(Step::Line));
        }
        let path = self.put_path(facts.rank)?;
        Ok(self.call(Step::Opened, nr::OPENAT, [HERE, path, TO_APPEND, 0o600]))
    }

    /// Writes what is left of the line, to the file or to standard output.
    fn write(&mut self, next: Step) -> Option<UserExit> {
        let descriptor = if next == Step::Appended { self.regs.rbp } else { 1 };
        let (at, rest) = (memory::LINE + self.regs.r14, self.regs.r12 - self.regs.r14);
        self.call(next, nr::WRITE, [descriptor, at, rest, 0])
    }

    /// A part of the line was written.
    fn wrote(&mut self, step: Step, whole: impl FnOnce(&mut Self) -> Option<UserExit>) -> Stepped {
        if self.has_failed() {
            return Ok(self.exit(CALL_FAILED));
        }
        self.regs.r14 += self.regs.rax;
        Ok(if self.regs.r14 < self.regs.r12 { self.write(step) } else { whole(self) })
    }

    /// Its memory and its registers are of the same moment: in both it has come to the same line.
    fn check_count(&self, facts: &Facts) -> Result<(), UserExit> {
        let count = self.read_count()?;
        if count != self.regs.rbx {
            let (rank, line) = (facts.rank, self.regs.rbx);
            self.observed.violate(format!("rank {rank} is at line {line}, and its memory at line {count}"));
        }
        Ok(())
    }

    fn has_failed(&self) -> bool {
        self.regs.rax.cast_signed() < 0
    }

    fn check_call(&self, name: &str) {
        if self.has_failed() {
            self.observed.violate(format!("{name} gave {}", self.regs.rax.cast_signed()));
        }
    }

    fn go(&mut self, step: Step) -> Option<UserExit> {
        (self.regs.rip, self.regs.r14) = (step.at(), 0);
        None
    }

    fn call(&mut self, next: Step, number: u32, [rdi, rsi, rdx, r10]: [u64; 4]) -> Option<UserExit> {
        let regs = &mut *self.regs;
        (regs.rax, regs.rdi, regs.rsi, regs.rdx, regs.r10) = (number.into(), rdi, rsi, rdx, r10);
        regs.rip = next.at();
        Some(UserExit::Syscall)
    }

    fn exit(&mut self, status: u8) -> Option<UserExit> {
        self.call(Step::Last, nr::EXIT_GROUP, [status.into(), 0, 0, 0])
    }

    fn start(&mut self) -> Result<(), UserExit> {
        let (numbers, rank, size, space) = self.read_arguments()?;
        self.put_facts(rank, size, numbers)?;
        if Script::of(numbers).course.rounds > 0 { self.put_name(&space) } else { Ok(()) }
    }

    fn facts(&self) -> Result<Facts, UserExit> {
        let (rank, size, numbers) = self.read_facts()?;
        let script = Script::of(numbers);
        let program = usize::try_from(script.program).ok().and_then(|number| programs::all().get(number));
        let Some(program) = program else {
            self.observed.violate(format!("rank {rank} finds {numbers:?} where it put its arguments"));
            return Err(UserExit::Exception { vector: 6, error: 0 });
        };
        Ok(Facts { rank, size, script, program })
    }
}

const _: () = assert!(ENTRY as usize + STEPS.len() * (STEP_BYTES as usize) < TEXT as usize + PAGE);
