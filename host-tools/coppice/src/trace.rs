//! What traced ranks call, as text: a line for a call, as strace(1) has it.
//!
//! A call that waits is shown as soon as it does, as far as its arguments are known by then. If another thread says
//! something meanwhile its line is broken off, and taken up again later.

mod names;
mod show;

use std::collections::{BTreeMap, BTreeSet};

use coppice_api::syscalls;
use coppice_api::trace::{Event, NoRecord, Outcome, Reader, Record};

use self::show::{show, signal};

/// Which thread of which rank.
type Thread = (u32, u32);

/// Makes lines of what traced ranks say.
#[derive(Debug, Default)]
pub(crate) struct Tracer {
    ranks: BTreeMap<u32, Rank>,
    /// Say of which rank each line is.
    label: bool,
    /// Whose line is begun and not ended.
    open: Option<Thread>,
    /// How many arguments of the calls that threads wait in have been shown.
    begun: BTreeMap<Thread, usize>,
    /// Whose call was begun in a line that was broken off.
    broken_off: BTreeSet<Thread>,
}

/// A rank that is traced.
#[derive(Debug, Default)]
struct Rank {
    reader: Reader,
    /// The thread that was heard of first.
    first: Option<u32>,
}

impl Tracer {
    /// `label`: say of which rank each line is.
    pub(crate) fn new(label: bool) -> Self {
        Self { label, ..Self::default() }
    }

    /// A rank said this. Gives the text to be added.
    ///
    /// # Errors
    /// It makes no sense.
    pub(crate) fn add(&mut self, rank: u32, bytes: &[u8]) -> Result<String, NoRecord> {
        let records = self.ranks.entry(rank).or_default().reader.read(bytes)?;
        Ok(records.into_iter().map(|record| self.line(rank, &record)).collect())
    }

    fn line(&mut self, rank: u32, record: &Record) -> String {
        let thread = (rank, record.tid);
        match &record.event {
            Event::Waits(call) => {
                // What comes of it does not matter for its beginning.
                let shown = show(call, Outcome::Gone);
                let (text, arguments) = shown.begin();
                let text = self.begin(thread) + &text;
                self.open = Some(thread);
                self.begun.insert(thread, arguments);
                text
            }
            Event::Called { call, outcome, .. } => {
                let shown = show(call, *outcome);
                let end = shown.end(self.begun.remove(&thread).unwrap_or(0)) + "\n";
                if self.open == Some(thread) {
                    self.open = None;
                    return end;
                }
                let begin = self.begin(thread);
                if self.broken_off.remove(&thread) {
                    let name = syscalls::call(call.number).map_or("?", |call| call.name);
                    return format!("{begin}<... {name} resumed>{end}");
                }
                begin + &shown.whole() + "\n"
            }
            Event::Signal { signal: number, code, fields } => {
                let name = signal(*number);
                format!("{}--- {name} {{si_signo={name}, {}}} ---\n", self.begin(thread), info(*code, fields))
            }
            Event::Exited { status } => format!("{}+++ exited with {status} +++\n", self.begin(thread)),
            Event::Killed { signal: number } => {
                format!("{}+++ killed by {} +++\n", self.begin(thread), signal((*number).into()))
            }
        }
    }

    /// The beginning of a line, and the end of one that is not ended.
    fn begin(&mut self, thread: Thread) -> String {
        let mut text = String::new();
        if let Some(other) = self.open.take() {
            self.broken_off.insert(other);
            text.push_str(" <unfinished ...>\n");
        }
        let (rank, tid) = thread;
        if self.label {
            text += &format!("{rank}: ");
        }
        if *self.ranks.entry(rank).or_default().first.get_or_insert(tid) != tid {
            text += &format!("[pid {tid}] ");
        }
        text
    }

    /// The end of a line that is not ended.
    pub(crate) fn finish(&mut self) -> &'static str {
        if self.open.take().is_some() { " <unfinished ...>\n" } else { "" }
    }
}

/// Who sent a signal, or what happened.
fn info(code: i32, fields: &[u8; 16]) -> String {
    let word =
        |at: usize| fields.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| i32::from_le_bytes(*word));
    let name = match code {
        0 => "SI_USER".to_owned(),
        -1 => "SI_QUEUE".to_owned(),
        -2 => "SI_TIMER".to_owned(),
        -6 => "SI_TKILL".to_owned(),
        0x80 => "SI_KERNEL".to_owned(),
        other => other.to_string(),
    };
    match code {
        0 | -1 | -6 => format!("si_code={name}, si_pid={}, si_uid={}", word(0), word(4)),
        1..=0x7f => {
            format!("si_code={name}, si_addr={:#x}", u64::from_le_bytes(*fields.first_chunk().unwrap_or(&[0; 8])))
        }
        _ => format!("si_code={name}"),
    }
}

#[cfg(test)]
mod tests {
    use coppice_api::syscalls as nr;
    use coppice_api::trace::{CallRecord, Event, Outcome, Record};

    use super::Tracer;

    fn call(number: u32) -> CallRecord {
        CallRecord { number: number.into(), arguments: [3, 0, 8, 0, 0, 0], excerpts: Vec::new() }
    }

    fn said(tracer: &mut Tracer, rank: u32, tid: u32, event: Event) -> String {
        let mut bytes = Vec::new();
        Record { tid, at_ns: 0, event }.write(&mut bytes);
        tracer.add(rank, &bytes).expect("a record")
    }

    fn over(number: u32) -> Event {
        Event::Called { call: call(number), took_ns: 0, outcome: Outcome::Result(0) }
    }

    #[test]
    fn a_call_that_waits_is_one_line_unless_somebody_speaks_in_between() {
        let mut tracer = Tracer::new(false);
        assert_eq!(said(&mut tracer, 0, 7, over(nr::GETPID)), "getpid() = 0\n");
        assert_eq!(said(&mut tracer, 0, 7, Event::Waits(call(nr::READ))), "read(3, ");
        assert_eq!(said(&mut tracer, 0, 7, over(nr::READ)), "NULL, 8) = 0\n");
        assert_eq!(said(&mut tracer, 0, 7, Event::Waits(call(nr::READ))), "read(3, ");
        let other = said(&mut tracer, 0, 9, over(nr::GETPID));
        assert_eq!(other, " <unfinished ...>\n[pid 9] getpid() = 0\n");
        assert_eq!(said(&mut tracer, 0, 7, over(nr::READ)), "<... read resumed>NULL, 8) = 0\n");
        assert_eq!(said(&mut tracer, 0, 9, Event::Waits(call(nr::PAUSE))), "[pid 9] pause(");
        assert_eq!((tracer.finish(), tracer.finish()), (" <unfinished ...>\n", ""));
    }

    #[test]
    fn lines_say_whose_they_are() {
        let mut tracer = Tracer::new(true);
        assert_eq!(said(&mut tracer, 1, 7, over(nr::GETPID)), "1: getpid() = 0\n");
        assert_eq!(said(&mut tracer, 2, 9, Event::Exited { status: 3 }), "2: +++ exited with 3 +++\n");
        let fields = [232, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let line = said(&mut tracer, 1, 8, Event::Signal { signal: 10, code: 0, fields });
        assert_eq!(line, "1: [pid 8] --- SIGUSR1 {si_signo=SIGUSR1, si_code=SI_USER, si_pid=1000, si_uid=0} ---\n");
        let line = said(&mut tracer, 1, 8, Event::Signal { signal: 40, code: -6, fields });
        assert_eq!(line, "1: [pid 8] --- SIGRT_8 {si_signo=SIGRT_8, si_code=SI_TKILL, si_pid=1000, si_uid=0} ---\n");
        assert_eq!(said(&mut tracer, 1, 7, Event::Killed { signal: 9 }), "1: +++ killed by SIGKILL +++\n");
    }
}
