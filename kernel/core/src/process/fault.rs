//! What a program did that the processor or the memory does not allow: which signal, and the event that says where.

use alloc::format;
use alloc::string::String;
use alloc::vec;

use coppice_hal::addr::USER_END;
use coppice_hal::user::{DEBUG_STEP, Registers, UserThread, extended, vector};
use coppice_protocol::ras::{RasEvent, RasKind, Severity};
use coppice_protocol::{signal, syscalls};

use crate::abi::signal::SignalInfo;
use crate::abi::signal_set::{SIGBUS, SIGFPE, SIGILL, SIGKILL, SIGSEGV, SIGTRAP};
use crate::abi::{u16_at, u32_at};
use crate::errno::Errno;
use crate::memory::Signal;
use crate::process::signals::{FaultContext, PAGE_FAULT};
use crate::process::{End, Process};
use crate::ras;

/// The signal of an exception, and what the program did, in words.
const fn in_words(number: u8) -> (u32, &'static str) {
    match number {
        vector::DIVIDE => (SIGFPE, "division by zero or overflow"),
        vector::DEBUG => (SIGTRAP, "single step or int1"),
        vector::BREAKPOINT => (SIGTRAP, "breakpoint"),
        vector::INVALID_OPCODE => (SIGILL, "invalid instruction"),
        vector::STACK => (SIGBUS, "impossible stack address"),
        vector::GENERAL_PROTECTION => (SIGSEGV, "privileged instruction or impossible address"),
        vector::X87 | vector::SIMD => (SIGFPE, "floating-point exception"),
        vector::ALIGNMENT => (SIGBUS, "misaligned access"),
        _ => (SIGSEGV, "exception"),
    }
}

/// What a thread is told of an exception that its own handler is to run for.
pub(crate) fn explain(number: u8, error: u64, user: &mut UserThread) -> (SignalInfo, FaultContext) {
    /// `si_code`s.
    const FPE_INTDIV: i32 = 1;
    const ILL_ILLOPN: i32 = 2;
    const TRAP_BRKPT: i32 = 1;
    const TRAP_TRACE: i32 = 2;
    const BUS_ADRALN: i32 = 1;
    const SEGV_MAPERR: i32 = 1;
    let (signal, _) = in_words(number);
    let rip = user.regs.rip;
    let context = FaultContext { vector: number.into(), error, address: 0 };
    let info = match number {
        vector::GENERAL_PROTECTION if is_of_kernel(rip) => {
            let context = FaultContext { vector: PAGE_FAULT, error: INSTRUCTION_FETCH, address: rip };
            return (SignalInfo::fault(signal, SEGV_MAPERR, rip), context);
        }
        vector::DIVIDE => SignalInfo::fault(signal, FPE_INTDIV, rip),
        vector::DEBUG => {
            let code = if error & DEBUG_STEP != 0 { TRAP_TRACE } else { TRAP_BRKPT };
            let context = FaultContext { vector: number.into(), error: 0, address: 0 };
            return (SignalInfo::fault(signal, code, rip), context);
        }
        vector::INVALID_OPCODE => SignalInfo::fault(signal, ILL_ILLOPN, rip),
        vector::X87 | vector::SIMD => SignalInfo::fault(signal, floating_point_error(number, user), rip),
        vector::ALIGNMENT => SignalInfo::fault(signal, BUS_ADRALN, 0),
        _ => SignalInfo::kernel(signal),
    };
    (info, context)
}

/// Error code of fetching an instruction from the kernel: a page that is there, by a program.
const INSTRUCTION_FETCH: u64 = 0x15;

/// Whether an address is one that the kernel could have, or in the hole below [`KERNEL_START`] that no program has.
const fn is_of_kernel(address: u64) -> bool {
    const KERNEL_START: u64 = 0xffff_8000_0000_0000;
    address >= KERNEL_START || USER_END <= address && address < USER_END.next_power_of_two()
}

/// What a thread's vector registers say of its floating-point exception.
fn floating_point_error(number: u8, user: &mut UserThread) -> i32 {
    const X87_STATUS_AT: usize = 2;
    const MXCSR_AT: usize = 24;
    let mut area = vec![0; extended::bytes()];
    user.save_vector(&mut area);
    if number == vector::X87 {
        let masked = u16_at(&area, 0);
        return floating_point_code(u16_at(&area, X87_STATUS_AT) & !masked);
    }
    let mxcsr = u32_at(&area, MXCSR_AT);
    floating_point_code((mxcsr & !(mxcsr >> 7)) as u16)
}

/// The `si_code` of exceptions that happened and are not masked.
const fn floating_point_code(exceptions: u16) -> i32 {
    const FPE_FLTDIV: i32 = 3;
    const FPE_FLTOVF: i32 = 4;
    const FPE_FLTUND: i32 = 5;
    const FPE_FLTRES: i32 = 6;
    const FPE_FLTINV: i32 = 7;
    if exceptions & 0x01 != 0 {
        FPE_FLTINV
    } else if exceptions & 0x04 != 0 {
        FPE_FLTDIV
    } else if exceptions & 0x08 != 0 {
        FPE_FLTOVF
    } else if exceptions & 0x12 != 0 {
        FPE_FLTUND
    } else if exceptions & 0x20 != 0 {
        FPE_FLTRES
    } else {
        0
    }
}

impl Process {
    /// The end of the process by an exception of the processor.
    pub(crate) fn exception(&self, number: u8, regs: &Registers) -> End {
        let (signal, what) = in_words(number);
        if regs.rip >= USER_END {
            return self.fault(signal, Some(regs.rip), regs.rip, "jump out of the program's addresses");
        }
        self.fault(signal, None, regs.rip, what)
    }

    /// The end of the process by touching memory; `error` says why the page could not be had, if it exists.
    pub(crate) fn bad_touch(&self, signal: Signal, error: Option<Errno>, regs: &Registers) -> End {
        let what = match (u32::from(signal.number), signal.code, error) {
            (_, _, Some(Errno::EBADMSG)) => String::from("page could not be fetched: it is not the program's"),
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
        End::signal(number as u8).because(text)
    }

    /// The end of the process because a handler could not be entered, or not returned from.
    pub(crate) fn no_frame(&self, regs: &Registers) -> End {
        self.fault(SIGSEGV, Some(regs.rsp), regs.rip, "no frame of a signal handler there, or no room for one")
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
    use super::{floating_point_code, in_words};
    use crate::abi::signal_set::{SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGTRAP};

    #[test]
    fn exceptions_give_linuxs_signals() {
        let expected =
            [(0, SIGFPE), (1, SIGTRAP), (3, SIGTRAP), (4, SIGSEGV), (6, SIGILL), (11, SIGSEGV), (12, SIGBUS)];
        for (vector, signal) in expected.into_iter().chain([(13, SIGSEGV), (16, SIGFPE), (17, SIGBUS), (19, SIGFPE)]) {
            assert_eq!(in_words(vector).0, signal, "vector {vector}");
        }
    }

    #[test]
    fn floating_point_exceptions_give_linuxs_codes() {
        let host = [(0x01, 7), (0x04, 3), (0x08, 4), (0x10, 5), (0x02, 5), (0x20, 6), (0x21, 7), (0, 0)];
        for (exceptions, code) in host {
            assert_eq!(floating_point_code(exceptions), code, "exceptions {exceptions:#x}");
        }
    }
}
