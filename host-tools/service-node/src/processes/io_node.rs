//! An I/O node: the pset protocol over its standard input and output.

use coppice_protocol::pset::{FromPset, MESSAGE_BYTES_MAX, decode};
use tokio::io::AsyncReadExt;
use tokio::process::ChildStdout;
use tokio::sync::mpsc;

use super::helper::Process;
use crate::controller::Event;
use crate::plant::{HelperEvent, PlantEvent};

/// Bytes read at a time.
const READ_BYTES: usize = 256 * 1024;

/// Follows an I/O node to its end.
pub(super) async fn follow(
    process: Process,
    events: mpsc::Sender<Event>,
    report: impl Fn(HelperEvent<FromPset>) -> PlantEvent,
) {
    let reason = process.follow(|output| read(output, &events, &report)).await;
    let _ = events.send(Event::Plant(report(HelperEvent::Ended(reason)))).await;
}

/// Reads messages until the end; returns why the connection is of no more use, if that is not its end.
async fn read(
    mut output: ChildStdout,
    events: &mpsc::Sender<Event>,
    report: impl Fn(HelperEvent<FromPset>) -> PlantEvent,
) -> Option<String> {
    let mut buffer: Vec<u8> = Vec::with_capacity(READ_BYTES);
    loop {
        let mut taken = 0;
        loop {
            match decode::<FromPset>(buffer.get(taken..).unwrap_or_default()) {
                Ok(Some((message, bytes))) => {
                    taken += bytes;
                    let _ = events.send(Event::Plant(report(HelperEvent::Said(message)))).await;
                }
                Ok(None) => break,
                Err(error) => return Some(format!("it broke the protocol: {error}")),
            }
        }
        buffer.drain(..taken);
        // What is left is less than one message, which is bounded by the decoder.
        buffer.reserve(READ_BYTES.min(MESSAGE_BYTES_MAX));
        match output.read_buf(&mut buffer).await {
            Ok(1..) => {}
            Ok(0) | Err(_) => return None,
        }
    }
}
