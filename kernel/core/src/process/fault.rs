//! What a program did that the processor or the memory does not allow: which signal, and the event that says where.

use alloc::format;
use alloc::string::String;

use coppice_hal::addr::USER_END;
use coppice_hal::user::{Registers, vector};
use coppice_protocol::ras::{RasEvent, RasKind, Severity};
use coppice_protocol::{signal, syscalls};

use crate::errno::Errno;
use crate::memory::Signal;
use crate::process::signals::{SIGBUS, SIGFPE, SIGILL, SIGKILL, SIGSEGV, SIGTRAP};
use crate::process::{End, Process};
use crate::ras;

/// The signal of an exception, and what the program did, in words.
const fn explain(number: u8) -> (u32, &'static str) {
    match number {
        vector::DIVIDE => (SIGFPE, "division by zero or overflow"),
        vector::DEBUG => (SIGTRAP, "single step"),
        vector::BREAKPOINT => (SIGTRAP, "breakpoint"),
        vector::INVALID_OPCODE => (SIGILL, "invalid instruction"),
        vector::STACK => (SIGBUS, "impossible stack address"),
        vector::GENERAL_PROTECTION => (SIGSEGV, "privileged instruction or impossible address"),
        vector::X87 | vector::SIMD => (SIGFPE, "floating-point exception"),
        vector::ALIGNMENT => (SIGBUS, "misaligned access"),
        _ => (SIGSEGV, "exception"),
    }
}

impl Process {
    /// The end of the process by an exception of the processor.
    pub(crate) fn exception(&self, number: u8, regs: &Registers) -> End {
        let (signal, what) = explain(number);
        if regs.rip >= USER_END {
            return self.fault(signal, Some(regs.rip), regs.rip, "jump out of the program's addresses");
        }
        self.fault(signal, None, regs.rip, what)
    }

    /// The end of the process by touching memory; `error` says why the page could not be had, if it exists.
    pub(crate) fn bad_touch(&self, signal: Signal, error: Option<Errno>, regs: &Registers) -> End {
        let what = match (u32::from(signal.number), signal.code, error) {
            (_, _, Some(errno)) => format!("page could not be fetched: {errno}"),
            (SIGBUS, _, None) => String::from("beyond the end of the mapped file"),
            (_, 1, None) => String::from("nothing is mapped there"),
            (_, _, None) => String::from("what is mapped there may not be used like that"),
        };
        self.fault(signal.number.into(), Some(signal.address), regs.rip, &what)
    }

    fn fault(&self, number: u32, address: Option<u64>, instruction: u64, what: &str) -> End {
        let text = match address {
            Some(address) => format!("at address {address:#x}, instruction {instruction:#x}: {what}"),
            None => format!("at instruction {instruction:#x}: {what}"),
        };
        self.report(Severity::Error, RasKind::ProgramFault, address, Some(instruction), {
            let (rank, path, name) = (self.identity.rank, &self.identity.executable, signal::name(number));
            format!("rank {rank} ({path}): {name} {text}")
        });
        let end = self.signals.lock().fault(number);
        match end.reason.clone() {
            Some(reason) => end.because(format!("{text} ({reason})")),
            None => end.because(text),
        }
    }

    /// The end of the process because there is no memory for it.
    pub(crate) fn out_of_memory(&self, instruction: u64) -> End {
        let end = End::signal(SIGKILL as u8).because("out of memory: the node has none left for the program".into());
        let text = format!("rank {} ({}): out of memory", self.identity.rank, self.identity.executable);
        self.report(Severity::Error, RasKind::OutOfMemory, None, Some(instruction), text);
        end
    }

    /// The program made a call that Coppice does not have, for the first time.
    pub(crate) fn unknown_call(&self, number: u64, instruction: u64) {
        let name = i32::try_from(number).ok().and_then(syscalls::name).unwrap_or("no call of Linux's");
        let text = format!(
            "rank {} ({}): system call {number} ({name}) is not there: ENOSYS",
            self.identity.rank, self.identity.executable
        );
        self.report(Severity::Info, RasKind::UnknownSyscall, None, Some(instruction), text);
    }

    fn report(&self, severity: Severity, kind: RasKind, address: Option<u64>, instruction: Option<u64>, text: String) {
        let (job, rank) = (Some(self.identity.job), Some(self.identity.rank));
        ras::report(RasEvent { severity, kind, job, rank, address, instruction, text });
    }
}

#[cfg(test)]
mod tests {
    use super::explain;
    use crate::process::signals::{SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGTRAP};

    #[test]
    fn exceptions_give_linuxs_signals() {
        let expected =
            [(0, SIGFPE), (1, SIGTRAP), (3, SIGTRAP), (4, SIGSEGV), (6, SIGILL), (11, SIGSEGV), (12, SIGBUS)];
        for (vector, signal) in expected.into_iter().chain([(13, SIGSEGV), (16, SIGFPE), (17, SIGBUS), (19, SIGFPE)]) {
            assert_eq!(explain(vector).0, signal, "vector {vector}");
        }
    }
}
