//! Ranks whose programs are played step by step: what each thread does, where, and how long, is known, and so is what
//! is to be said of it.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::RefCell;

use coppice_hal::paging::{Access, TableHandle};
use coppice_hal::user::simulated::{play_with, touch};
use coppice_hal::user::{Registers, UserExit, UserThread};
use coppice_protocol::syscalls as nr;

use super::{Bench, MEMORY, MEMORY_BYTES};
use crate::abi::INSTRUCTION_BYTES;
use crate::abi::time::timespec;
use crate::executor;
use crate::memory::Backing;
use crate::process::ThreadState;
use crate::thread;

pub(crate) const MS: u64 = 1_000_000;

/// Functions of the program.
const CODE: u64 = 0x50_0000;
/// Where the call of the function at hand returns to.
pub(crate) const CALLER: u64 = CODE + 0x800;

/// Where the function of this number is.
pub(crate) const fn function_at(number: u64) -> u64 {
    CODE + 0x10 + number
}

/// What a program does.
#[derive(Clone, Copy)]
pub(crate) enum Step {
    /// It computes for so long, ns, wherever it is, and no interrupt comes.
    Compute(u64),
    /// It is in the function of this number for so long, ns, and called from another one.
    Be(u64, u64),
    /// An interrupt comes.
    Interrupted,
    Touch(u64),
    Call(u32, [u64; 6]),
}

use Step::{Be, Call, Compute, Interrupted, Touch};

/// A thread of a program.
#[derive(Default)]
struct Script {
    steps: VecDeque<Step>,
    /// Behind the call that it made last, if it has done nothing since.
    after: u64,
    /// When it last came back to the kernel, ns.
    left_ns: u64,
    /// How long it was away each time.
    away_ns: Vec<u64>,
}

impl Script {
    fn go_on(&mut self, regs: &mut Registers, table: &TableHandle) -> UserExit {
        if regs.rip < self.after {
            // The call is made again.
            regs.rip += INSTRUCTION_BYTES;
            return UserExit::Syscall;
        }
        while let Some(step) = self.steps.pop_front() {
            match step {
                Compute(ns) => executor::compute(ns),
                Be(function, ns) => {
                    (regs.rip, regs.rbp, self.after) = (function_at(function), regs.rsp, 0);
                    let left_ns = executor::compute_until_alarm(ns);
                    if left_ns > 0 {
                        self.steps.push_front(Be(function, left_ns));
                        return UserExit::Interrupt;
                    }
                }
                Interrupted => return UserExit::Interrupt,
                Touch(address) => {
                    if let Err(exit) = touch(table, address, Access::READ) {
                        self.steps.push_front(step);
                        return exit;
                    }
                }
                Call(number, arguments) => return self.call(regs, number, arguments),
            }
        }
        self.call(regs, nr::EXIT, [0; 6])
    }

    fn call(&mut self, regs: &mut Registers, number: u32, arguments: [u64; 6]) -> UserExit {
        self.after = regs.rip + INSTRUCTION_BYTES;
        [regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9] = arguments;
        (regs.rax, regs.rip) = (number.into(), self.after);
        UserExit::Syscall
    }
}

/// The threads of all programs, by where their stacks are.
#[derive(Default)]
struct Scripts(RefCell<BTreeMap<u64, Script>>);

impl Scripts {
    fn play(&self, regs: &mut Registers, table: &TableHandle) -> UserExit {
        let mut scripts = self.0.borrow_mut();
        let script = scripts.get_mut(&regs.rsp).expect("a thread that was started");
        script.away_ns.push(executor::now_ns() - script.left_ns);
        let exit = script.go_on(regs, table);
        script.left_ns = executor::now_ns();
        exit
    }
}

/// Where the stack of a thread is when it starts: at its only frame.
const fn stack_of(number: u64) -> u64 {
    MEMORY + MEMORY_BYTES - 0x1_0000 * number - 64
}

/// A rank, and what its threads do.
pub(crate) struct Rank {
    pub(crate) bench: Bench,
    scripts: Rc<Scripts>,
}

impl Rank {
    pub(crate) fn new(files: &[(&str, &[u8])]) -> Self {
        let (bench, scripts) = (Bench::new(files), Rc::<Scripts>::default());
        {
            let mut space = bench.process.space.lock();
            space.map(CODE, 4096, 3, 0x32, Backing::Zero).expect("room");
            assert!(space.write_bytes(CALLER - 2, &[0xff, 0xd0]).is_ok());
            assert!(space.protect(CODE, 4096, 5).is_ok());
        }
        let played = Rc::clone(&scripts);
        play_with(Rc::new(move |regs, table| played.play(regs, table)));
        Self { bench, scripts }
    }

    /// One that is measured from its start.
    pub(crate) fn measured(files: &[(&str, &[u8])]) -> Self {
        let rank = Self::new(files);
        rank.bench.process.measure(true);
        rank
    }

    /// Its first thread does this.
    pub(crate) fn start(&self, steps: &[Step]) {
        self.start_thread(&self.bench.state, 0, steps);
    }

    /// Another thread does this.
    pub(crate) fn start_another(&self, number: u64, steps: &[Step]) {
        let state = self.bench.process.threads.add([0; 16], 1, &self.bench.process.node.quota).expect("room");
        self.start_thread(&state, number, steps);
    }

    fn start_thread(&self, state: &Arc<ThreadState>, number: u64, steps: &[Step]) {
        let stack = stack_of(number);
        self.bench.put(stack - MEMORY, &[0_u64, CALLER].map(u64::to_le_bytes).concat());
        let steps = steps.iter().copied().collect();
        let script = Script { steps, left_ns: executor::now_ns(), ..Script::default() };
        self.scripts.0.borrow_mut().insert(stack, script);
        let user = UserThread::new(CODE, stack);
        assert_eq!(thread::start(Arc::clone(&self.bench.process), Arc::clone(state), user), Ok(()));
    }

    /// Memory that says how long something takes.
    pub(crate) fn time(&self, ns: u64) -> u64 {
        self.bench.put(0x8000, timespec(ns).bytes())
    }

    /// Sleeps for so long; whoever sleeps of this rank sleeps as long as the one that was asked for last.
    pub(crate) fn sleep(&self, ns: u64) -> Step {
        Call(nr::NANOSLEEP, [self.time(ns), 0, 0, 0, 0, 0])
    }

    /// What the first thread knows of how long it was away, ns.
    pub(crate) fn away_ns(&self) -> Vec<u64> {
        self.scripts.0.borrow()[&stack_of(0)].away_ns.clone()
    }
}

/// So much time goes by.
pub(crate) fn pass(ns: u64) {
    assert!(executor::run_to_end(executor::sleep(ns)).is_ok());
}
