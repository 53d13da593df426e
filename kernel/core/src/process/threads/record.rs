//! The threads of a process as data, while they are held.

use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_hal::user::{Registers, UserThread};
use serde::{Deserialize, Serialize};

use super::{Table, Threads};
use crate::errno::Errno;
use crate::files::OpenFile;
use crate::process::ThreadState;
use crate::process::call_files::CALL_FILES_MAX;
use crate::process::futexes::{Futexes, Place};
use crate::process::hold::{Position, ThreadImage};
use crate::process::remembered::OfThread;
use crate::quota::Quota;
use crate::sync::atomic::Ordering;

/// The number of a file in its record ([`crate::files::record`]).
type FileNumber = u32;

/// See this module.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ThreadsRecord {
    threads: Vec<ThreadRecord>,
    /// Those that sleep at words of memory, by their places in this list, in the order they lie there.
    asleep: Vec<(u32, Place)>,
    next: u32,
    last_core: u32,
    gone_cpu_ns: u64,
    told_cpu_ns: u64,
}

/// A thread.
#[derive(Debug, Serialize, Deserialize)]
struct ThreadRecord {
    tid: u32,
    name: [u8; 16],
    clear_tid: u64,
    affinity: u64,
    core: u32,
    robust_list: u64,
    cpu_ns: u64,
    remembered: [u64; OfThread::FIELDS],
    registers: [u64; Registers::COUNT],
    vector: Vec<u8>,
    position: Position,
    /// What its call is about: the numbers that those files had when it began, and the files.
    call_files: Vec<(i32, FileNumber)>,
}

/// A thread that is made again, with what it goes on as.
pub(crate) struct MadeThread {
    pub(crate) state: Arc<ThreadState>,
    pub(crate) user: UserThread,
    pub(crate) position: Position,
}

impl ThreadsRecord {
    /// Has the threads be on these cores only, a bit each: they were on a node with others.
    pub(crate) fn keep_to(&mut self, cores: u64) {
        for thread in &mut self.threads {
            if thread.affinity & cores == 0 {
                thread.affinity = cores;
            }
            let allowed = thread.affinity & cores;
            if allowed & 1_u64.checked_shl(thread.core).unwrap_or(0) == 0 {
                thread.core = allowed.trailing_zeros();
            }
        }
        if cores & 1_u64.checked_shl(self.last_core).unwrap_or(0) == 0 {
            self.last_core = cores.trailing_zeros();
        }
    }
}

impl Threads {
    /// Writes down what is held of a process whose threads these were. Those that sleep do so no more. `number` gives
    /// the number of a file.
    pub(crate) fn record(
        &self,
        threads: &[Arc<ThreadState>],
        futexes: &Futexes,
        mut number: impl FnMut(&Arc<OpenFile>) -> FileNumber,
    ) -> Option<ThreadsRecord> {
        let mut thread = |state: &Arc<ThreadState>| {
            let image = state.take_image()?;
            let call_files = state.call_files().take().into_iter().flatten();
            let call_files = call_files.map(|(of, file)| (of, number(&file))).collect();
            Some(ThreadRecord {
                tid: state.tid,
                name: *state.name.lock(),
                clear_tid: state.clear_tid.load(Ordering::Relaxed),
                affinity: state.affinity.load(Ordering::Relaxed),
                core: state.core() as u32,
                robust_list: state.robust_list.load(Ordering::Relaxed),
                cpu_ns: state.clock.ns(),
                remembered: state.remembered.values(),
                registers: image.registers.words(),
                vector: image.vector,
                position: image.position,
                call_files,
            })
        };
        let records = threads.iter().map(&mut thread).collect::<Option<Vec<_>>>()?;
        let sleepers: Vec<_> = threads.iter().map(|thread| Arc::clone(&thread.sleeper)).collect();
        let asleep = futexes.take_places(&sleepers);
        let table = self.table.lock();
        Some(ThreadsRecord {
            threads: records,
            asleep,
            next: table.next,
            last_core: table.last_core as u32,
            // What those that are held used was counted when they were taken down.
            gone_cpu_ns: table.gone_cpu_ns - threads.iter().map(|thread| thread.clock.ns()).sum::<u64>(),
            told_cpu_ns: table.told_cpu_ns,
        })
    }

    /// Makes the threads again, none of which runs yet. They sleep where they slept. `files` have these numbers.
    ///
    /// # Errors
    /// `EINVAL`: no processor has such registers, or no process such threads. `ENOMEM`.
    pub(crate) fn make(
        &self,
        record: ThreadsRecord,
        files: &[Arc<OpenFile>],
        futexes: &Futexes,
        quota: &Arc<Quota>,
    ) -> Result<Vec<MadeThread>, Errno> {
        let mut made = Vec::new();
        {
            let mut table = self.table.lock();
            (table.next, table.last_core) = (record.next, record.last_core as usize);
            (table.gone_cpu_ns, table.told_cpu_ns) = (record.gone_cpu_ns, record.told_cpu_ns);
        }
        for of in record.threads {
            let charge = quota.charge(self.thread_bytes())?;
            let core = of.core as usize;
            let state = Arc::new(ThreadState::new(of.tid, of.name, core, of.affinity, charge));
            state.clear_tid.store(of.clear_tid, Ordering::Relaxed);
            state.robust_list.store(of.robust_list, Ordering::Relaxed);
            state.clock.go_on_from(of.cpu_ns);
            state.remembered.set(of.remembered);
            for (of, number) in of.call_files.into_iter().take(CALL_FILES_MAX) {
                let file = files.get(number as usize).ok_or(Errno::EINVAL)?;
                state.call_files().keep(of, file);
                // Another thread was there when the call began, though it may be gone by now.
                self.several.store(true, Ordering::Relaxed);
            }
            // It may have to go to another core, or into a handler.
            state.leave_attention();
            let registers = Registers::of(of.registers);
            let mut user = UserThread::with_registers(registers);
            let image = ThreadImage { registers, vector: of.vector, position: of.position };
            image.apply(&mut user).map_err(|_| Errno::EINVAL)?;
            if self.table.lock().insert(&state).is_err() {
                return Err(Errno::EINVAL);
            }
            self.several.fetch_or(!made.is_empty(), Ordering::Relaxed);
            made.push(MadeThread { state, user, position: of.position });
        }
        // Whoever does not lie anywhere was woken.
        let lies = |index: usize| record.asleep.iter().any(|(thread, _)| *thread as usize == index);
        for (index, thread) in made.iter().enumerate() {
            if matches!(thread.position, Position::Asleep { .. }) && !lies(index) {
                thread.state.sleeper.wake();
            }
        }
        for (thread, place) in record.asleep {
            let thread = made.get(thread as usize).ok_or(Errno::EINVAL)?;
            futexes.lie_down_again(&thread.state.sleeper, place);
        }
        Ok(made)
    }
}

impl Table {
    fn insert(&mut self, state: &Arc<ThreadState>) -> Result<(), ()> {
        if self.alive.len() >= crate::limits::THREADS_MAX || self.alive.contains_key(&state.tid) {
            return Err(());
        }
        state.clock.measure(self.activity.is_measured);
        self.alive.insert(state.tid, Arc::clone(state));
        Ok(())
    }
}
