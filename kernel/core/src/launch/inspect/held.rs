//! What is told of a process that is held to be looked at ([`coppice_protocol::inspect::held`]).

use alloc::format;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;

use coppice_hal::paging::Access;
use coppice_hal::user::extended;
use coppice_protocol::inspect::held::{
    ARGUMENT_BYTES_TOLD, ENTRY_BYTES, HeldProcess, HeldThread, LIST_BYTES_MAX, MEMORY_BYTES_MAX, MappedArea,
    MemoryPart, NotTold, Shows,
};
use coppice_protocol::inspect::{Answer, PATH_BYTES_TOLD, Query, Question};
use coppice_protocol::text::ByteString;

use super::debug;
use crate::abi::signal_set::SignalSet;
use crate::executor;
use crate::files::{Object, OpenFile};
use crate::memory::{FileSource, Peeked, Seen};
use crate::process::hold::{NotHeld, Position, ThreadImage};
use crate::process::{Failure, Identity, Process, ThreadState};

/// Pages that one answer looks at before others have their turn.
const PAGES_AT_ONCE: usize = 8;

/// Answers a question about a process that is held, or is to be.
pub(super) async fn answer(process: &Arc<Process>, query: &Query, deadline_ns: u64) -> Result<Answer, NotTold> {
    let question = &query.question;
    if matches!(question, Question::Hold) {
        process.lease(query.by)?;
    } else {
        let is_held = process.renew_lease(query.by)?;
        if matches!(question, Question::Stop) {
            return Ok(Answer::Stopped(process.threads.hold.debugger.stop()));
        }
        if !is_held {
            return Err(NotTold::NotHeld);
        }
    }
    process.settled(deadline_ns).await.map_err(not_told)?;
    process.unplant();
    let told = answer_held(process, question, deadline_ns).await?;
    // Somebody else may have it by now, and may have let it go on.
    if !matches!(question, Question::Go(_)) {
        process.renew_lease(query.by)?;
    }
    Ok(told)
}

async fn answer_held(process: &Arc<Process>, question: &Question, deadline_ns: u64) -> Result<Answer, NotTold> {
    match question {
        Question::Threads { from } => threads(process, *from),
        Question::Areas { from } => Ok(areas(process, *from)),
        Question::Memory { address, length } => memory(process, *address, *length, deadline_ns).await,
        Question::Write { address, bytes } => debug::write(process, *address, bytes, deadline_ns).await,
        Question::Set(set) => debug::set(process, set),
        Question::Go(go) => debug::go(process, go, deadline_ns).await,
        Question::Hold
        | Question::Objects { .. }
        | Question::Release
        | Question::Stop
        | Question::Cut(_)
        | Question::Saving => {
            // What was being changed when the threads were held is to be seen as changed.
            process.after_change().await;
            Ok(Answer::Held(who(process)))
        }
    }
}

fn not_told(error: NotHeld) -> NotTold {
    match error {
        NotHeld::Ending => NotTold::Ending,
        waits @ NotHeld::Waits { .. } => NotTold::Late(waits.to_string()),
    }
}

/// As much of something as is told.
fn cut(bytes: &[u8], most: usize) -> ByteString {
    bytes[..bytes.len().min(most)].into()
}

fn who(process: &Process) -> HeldProcess {
    let identity = &process.identity;
    let name = process.name();
    let auxiliary = process.space.lock().start().auxiliary.as_slice().into();
    let mut arguments = Vec::new();
    for argument in &identity.arguments {
        if arguments.len() >= ARGUMENT_BYTES_TOLD {
            break;
        }
        if !arguments.is_empty() {
            arguments.push(b' ');
        }
        arguments.extend_from_slice(&cut(argument, ARGUMENT_BYTES_TOLD));
    }
    HeldProcess {
        pid: identity.pid,
        parent: Identity::PARENT,
        user: identity.user,
        group: identity.group,
        name: name.split(|byte| *byte == 0).next().unwrap_or_default().into(),
        program: cut(&identity.executable, PATH_BYTES_TOLD),
        arguments: cut(&arguments, ARGUMENT_BYTES_TOLD),
        auxiliary,
        components: extended::components(),
        threads: process.threads.count() as u32,
        ends: process.threads.hold.dying.told(),
    }
}

/// What a list of one answer still has room for.
struct Room(usize);

impl Room {
    fn new() -> Self {
        Self(LIST_BYTES_MAX)
    }

    /// Whether one more, with so many bytes, has a place. The first always has.
    fn take(&mut self, is_first: bool, bytes: usize) -> bool {
        let rest = self.0.checked_sub(ENTRY_BYTES + bytes);
        self.0 = rest.unwrap_or(0);
        is_first || rest.is_some()
    }
}

fn threads(process: &Process, from: u32) -> Result<Answer, NotTold> {
    let (mut told, mut room) = (Vec::new(), Room::new());
    for thread in process.threads.all().iter().filter(|thread| thread.tid >= from) {
        if !room.take(told.is_empty(), extended::bytes()) {
            return Ok(Answer::Threads(told, Some(thread.tid)));
        }
        let signals = {
            let signals = process.signals.lock();
            (signals.blocked(thread.tid), signals.own_pending(thread.tid))
        };
        told.push(thread.with_image(|image| of_thread(thread, signals, image)).ok_or(NotTold::NotHeld)?);
    }
    Ok(Answer::Threads(told, None))
}

fn of_thread(thread: &ThreadState, (blocked, pending): (SignalSet, SignalSet), image: &ThreadImage) -> HeldThread {
    HeldThread {
        tid: thread.tid,
        cpu_ns: thread.clock.ns(),
        registers: image.registers.words(),
        in_call: image.position != Position::Program,
        blocked: blocked.0,
        pending: pending.0,
        vector: image.vector.as_slice().into(),
    }
}

fn areas(process: &Process, from: u64) -> Answer {
    let (mut told, mut room) = (Vec::new(), Room::new());
    let space = process.space.lock();
    for (start, end, access, shows) in space.seen(from) {
        let shows = match shows {
            Seen::Zeros => Shows::Zeros,
            Seen::Program(offset) => Shows::Program { offset },
            Seen::File(file, offset) => Shows::File { path: path_of(file), offset },
            Seen::Shared(offset) => Shows::Shared { offset },
        };
        let path_bytes = if let Shows::File { path, .. } = &shows { path.len() } else { 0 };
        if !room.take(told.is_empty(), path_bytes) {
            return Answer::Areas(told, Some(start));
        }
        let may = |what| access.contains(what);
        let (read, write, execute) = (may(Access::READ), may(Access::WRITE), may(Access::EXECUTE));
        told.push(MappedArea { start, end, read, write, execute, shows });
    }
    Answer::Areas(told, None)
}

fn path_of(file: &dyn FileSource) -> ByteString {
    let file: &dyn Any = file;
    match file.downcast_ref::<OpenFile>().map(|file| &file.object) {
        Some(Object::Shipped(shipped)) => cut(&shipped.path, PATH_BYTES_TOLD),
        _ => ByteString::new(),
    }
}

/// What lies there: zeros, then bytes, as far as one answer goes.
async fn memory(process: &Process, address: u64, length: u64, deadline_ns: u64) -> Result<Answer, NotTold> {
    let end = address.saturating_add(length);
    let (mut at, mut zeros, mut bytes) = (address, 0, Vec::new());
    let most = MEMORY_BYTES_MAX.min(usize::try_from(length).unwrap_or(usize::MAX));
    // All of it at once, as it is not to be moved about.
    bytes.try_reserve_exact(most).map_err(|_| NotTold::NoMemory)?;
    let mut looks = 0;
    while at < end && bytes.len() < MEMORY_BYTES_MAX {
        looks += 1;
        if looks % PAGES_AT_ONCE == 0 {
            executor::yield_now().await;
        }
        let peeked = process.space.lock().peek(at, end, MEMORY_BYTES_MAX - bytes.len(), &mut bytes);
        match peeked {
            Peeked::Bytes => at = address + zeros + bytes.len() as u64,
            // They come first in the next answer.
            Peeked::Zeros(_) if !bytes.is_empty() => break,
            Peeked::Zeros(count) => (at, zeros) = (at + count, zeros + count),
            Peeked::OutOfMemory => return Err(NotTold::NoMemory),
            Peeked::Fetch(fetch) => match executor::timeout_at(deadline_ns, process.fetch_for_copy(&fetch)).await {
                Ok(Ok(())) => {}
                Ok(Err(Failure::OutOfMemory)) => return Err(NotTold::NoMemory),
                // What cannot be read counts as zeros.
                Ok(Err(_)) if bytes.is_empty() => {
                    let count = (4096 - at % 4096).min(end - at);
                    (at, zeros) = (at + count, zeros + count);
                }
                Ok(Err(_)) => break,
                Err(executor::Elapsed) if at == address => {
                    return Err(NotTold::Late(format!("the page at {at:#x} did not come from the I/O node")));
                }
                Err(executor::Elapsed) => break,
            },
        }
    }
    Ok(Answer::Memory(MemoryPart { zeros, bytes: bytes.into() }))
}
