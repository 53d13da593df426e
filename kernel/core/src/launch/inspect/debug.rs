//! What a debugger has done to a process that is held ([`coppice_protocol::inspect::debug`]).

use coppice_hal::user::{Registers, extended};
use coppice_protocol::inspect::Answer;
use coppice_protocol::inspect::debug::{Go, PLANTED_MAX, SetThread};
use coppice_protocol::inspect::held::{MEMORY_BYTES_MAX, NotTold};
use coppice_protocol::text::ByteString;

use crate::abi::INSTRUCTION_BYTES;
use crate::executor;
use crate::memory::CopyError;
use crate::process::hold::{Position, ThreadImage};
use crate::process::lease::BREAKPOINT;
use crate::process::{Failure, Process};

/// Writes all of it, where the process might, or where it has a copy of its own.
pub(super) async fn write(
    process: &Process,
    address: u64,
    bytes: &ByteString,
    deadline_ns: u64,
) -> Result<Answer, NotTold> {
    if bytes.len() > MEMORY_BYTES_MAX {
        return Err(NotTold::Refused);
    }
    let mut written = 0;
    loop {
        let copied = process.space.lock().poke(address.wrapping_add(written as u64), &bytes[written..]);
        match copied {
            Ok(()) => return Ok(Answer::Changed),
            Err(error) => written += bring(process, error, deadline_ns).await?,
        }
    }
}

/// Brings what a copy needs to go on. Gives how much it has done.
async fn bring(process: &Process, error: CopyError, deadline_ns: u64) -> Result<usize, NotTold> {
    let (done, fetch) = match error {
        CopyError::Fetch { done, fetch } => (done, fetch),
        CopyError::Fault { .. } => return Err(NotTold::Refused),
        CopyError::OutOfMemory => return Err(NotTold::NoMemory),
    };
    match executor::timeout_at(deadline_ns, process.fetch_for_copy(&fetch)).await {
        Ok(Ok(())) => Ok(done),
        Ok(Err(Failure::OutOfMemory)) => Err(NotTold::NoMemory),
        Ok(Err(_)) => Err(NotTold::Refused),
        Err(executor::Elapsed) => Err(NotTold::Late("a page did not come from the I/O node".into())),
    }
}

/// Lets the process go on, with the instructions planted that it is to stop at.
pub(super) async fn go(process: &Process, go: &Go, deadline_ns: u64) -> Result<Answer, NotTold> {
    if go.planted.len() > PLANTED_MAX {
        return Err(NotTold::Refused);
    }
    let debugger = &process.threads.hold.debugger;
    for at in &go.planted {
        loop {
            let exchanged = process.space.lock().exchange(*at, BREAKPOINT, |byte| byte != BREAKPOINT);
            match exchanged {
                // One that the program has itself stays.
                Ok(BREAKPOINT) => break,
                Ok(began) => {
                    debugger.planted(*at, began);
                    break;
                }
                Err(error) => drop(bring(process, error, deadline_ns).await.inspect_err(|_| process.unplant())?),
            }
        }
    }
    process.go(go).inspect_err(|_| process.unplant())?;
    Ok(Answer::Goes)
}

/// Makes a thread what a debugger wants it to be.
pub(super) fn set(process: &Process, set: &SetThread) -> Result<Answer, NotTold> {
    if extended::could_be(&set.vector).is_err() {
        return Err(NotTold::Refused);
    }
    let thread = process.threads.find(set.tid).ok_or(NotTold::Refused)?;
    let debugger = &process.threads.hold.debugger;
    let mut registers = Registers::of(set.registers);
    // Nothing but this changes a thread that is held.
    let before = thread.with_image(|image| image.position).ok_or(NotTold::NotHeld)?;
    let position = match (before, set.in_call) {
        // Whoever calls a function has the thread leave its call, and gives it back to it then.
        (Position::Call(call), false) => {
            debugger.set_aside(set.tid, Some(call));
            Position::Program
        }
        (Position::Asleep { .. }, false) => Position::Program,
        (Position::Program, true) => match debugger.set_aside(set.tid, None) {
            Some(call) => Position::Call(call),
            None => {
                // It makes it again.
                registers.rip = registers.rip.wrapping_sub(INSTRUCTION_BYTES);
                Position::Program
            }
        },
        (same, _) => same,
    };
    let change = |image: &mut ThreadImage| {
        (image.registers, image.position) = (registers, position);
        image.vector.copy_from_slice(&set.vector);
    };
    thread.change_image(change).ok_or(NotTold::NotHeld)?;
    Ok(Answer::Changed)
}
