//! A rank as gdb's remote protocol has it: [`target`] is what the protocol asks of a machine, done by questions to the
//! rank's node; [`registers`] is how gdb lays registers out; [`connection`] is what gdb is at the other end of.
//!
//! The protocol's state machine is not asynchronous. It has a thread of its own, which waits for what the others do.

mod connection;
mod registers;
mod signals;
mod target;

use std::time::Duration;

use anyhow::anyhow;
use gdbstub::stub::state_machine::GdbStubStateMachine;
use gdbstub::stub::{DisconnectReason, GdbStub, GdbStubError};
use tokio::runtime::Handle;

use self::connection::{Came, Connection};
use self::target::{Happened, Target};
use crate::held::HeldRank;

/// How often a rank that stands is asked for, so that it goes on standing.
const KEEP_TIME: Duration = Duration::from_millis(500);

/// Why the protocol came to its end.
pub(crate) type End = DisconnectReason;

/// Debugs a rank that is held, as the gdb at standard input and output says, until that lets go of it. On a thread that
/// may block.
///
/// # Errors
/// If the rank cannot be asked any more, or gdb does not keep to the protocol.
pub(crate) fn debug(rank: HeldRank, runtime: &Handle) -> anyhow::Result<End> {
    let mut target = Target::attach(rank, runtime.clone())?;
    let connection = Connection::standard(runtime.clone());
    let told = |error: GdbStubError<anyhow::Error, std::io::Error>| {
        let what = error.to_string();
        error.into_target_error().unwrap_or_else(|| anyhow!("gdb: {what}"))
    };
    let mut machine = GdbStub::new(connection).run_state_machine(&mut target).map_err(told)?;
    loop {
        machine = match machine {
            GdbStubStateMachine::Idle(mut idle) => match idle.borrow_conn().next_within(KEEP_TIME)? {
                Some(Came::End) => return Ok(DisconnectReason::Disconnect),
                Some(Came::Byte(byte)) => idle.incoming_data(&mut target, byte).map_err(told)?,
                None => {
                    target.keep()?;
                    GdbStubStateMachine::Idle(idle)
                }
            },
            GdbStubStateMachine::Running(mut running) => match target.happens(running.borrow_conn())? {
                Happened::Came(Came::End) => return Ok(DisconnectReason::Disconnect),
                Happened::Came(Came::Byte(byte)) => running.incoming_data(&mut target, byte).map_err(told)?,
                Happened::Stop(stop) => running.report_stop(&mut target, stop).map_err(told)?,
            },
            GdbStubStateMachine::CtrlCInterrupt(interrupted) => {
                let stop = target.interrupt()?;
                interrupted.interrupt_handled(&mut target, Some(stop)).map_err(told)?
            }
            GdbStubStateMachine::Disconnected(disconnected) => {
                let reason = disconnected.get_reason();
                target.let_go(&reason)?;
                return Ok(reason);
            }
        }
    }
}
