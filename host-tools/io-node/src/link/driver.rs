//! The task that drives the stack: frames in, poll, frames out, then wait for whichever comes first of a frame, room in
//! the fabric's socket, work from a connection, and the time the stack asked for. Idle, it waits for a frame alone.
//!
//! A Unix datagram socket takes only a handful of frames (`net.unix.max_dgram_qlen`) before it is full, which is the
//! rule here and not the exception: frames then stay queued until the socket is writable.

use std::future::{pending, poll_fn};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::task::Poll;

use anyhow::Context;
use coppice_endpoint::Stack;
use tokio::net::UnixDatagram;
use tokio::time::Instant;

use super::Device;
use crate::clock::Clock;
use crate::limits::{FRAME_BYTES_MAX, FRAMES_QUEUED_MAX};

/// The I/O node's socket, connected to the fabric's.
#[derive(Debug)]
pub struct Port {
    socket: UnixDatagram,
    own: PathBuf,
    fabric: PathBuf,
    connected: bool,
}

impl Port {
    /// Binds `own` and connects to `fabric`, which may not be there yet.
    ///
    /// # Errors
    /// If `own` cannot be bound.
    pub fn bind(own: &Path, fabric: &Path) -> anyhow::Result<Self> {
        // A path left over from an I/O node that was killed; the service node gives each path to one of us only.
        let _ = std::fs::remove_file(own);
        let socket = UnixDatagram::bind(own).with_context(|| format!("cannot bind {}", own.display()))?;
        let mut port = Self { socket, own: own.into(), fabric: fabric.into(), connected: false };
        port.reconnect();
        Ok(port)
    }

    fn reconnect(&mut self) -> bool {
        self.connected = self.socket.connect(&self.fabric).is_ok();
        self.connected
    }

    /// Moves received frames into the device, as many as it has room for.
    fn receive(&self, device: &mut Device, buffer: &mut [u8]) {
        while device.has_room() {
            match self.socket.try_recv(buffer) {
                Ok(length) => device.push_received(&buffer[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // Left over from a fabric that went away; sending finds that out, too.
                Err(error) => tracing::debug!(%error, "receive from fabric"),
            }
        }
    }

    /// Sends queued frames until there are none or the socket is full; gives whether some are left.
    fn send(&mut self, device: &mut Device) -> bool {
        let queued = device.queued();
        if !queued.is_empty() && !self.connected && !self.reconnect() {
            // Without a fabric, frames are lost as on any cut cable; their senders repeat them.
            queued.clear();
        }
        while let Some(frame) = queued.front() {
            match self.socket.try_send(frame) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) => {
                    tracing::debug!(%error, "send to fabric");
                    // One frame is given up for each failure, so that this ends; without a fabric, all of them.
                    if !self.reconnect() {
                        queued.clear();
                    }
                }
            }
            queued.pop_front();
        }
        false
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.own);
    }
}

/// Drives `stack` for ever.
pub async fn drive(stack: Stack<Device>, mut port: Port, clock: Clock) {
    let mut buffer = vec![0; FRAME_BYTES_MAX];
    loop {
        stack.with_device(|device| port.receive(device, &mut buffer));
        let now_ns = clock.now_ns();
        let next_ns = stack.poll(now_ns);
        let (was_full, blocked, has_room) = stack.with_device(|device| {
            let was_full = device.queued().len() >= FRAMES_QUEUED_MAX;
            (was_full, port.send(device), device.has_room())
        });
        // The stack stopped for want of room that is there now, or has more frames to look at: go on, after the others.
        if (was_full && !blocked) || next_ns.is_some_and(|next_ns| next_ns <= now_ns) {
            tokio::task::yield_now().await;
            continue;
        }
        let deadline = next_ns.map(|next_ns| clock.instant(next_ns));
        tokio::select! {
            _ = port.socket.readable(), if has_room => {}
            _ = port.socket.writable(), if blocked => {}
            () = work(&stack) => {}
            () = sleep_until(deadline) => {}
        }
    }
}

/// Waits until a connection has queued something since the last poll, or any other event woke this task.
async fn work(stack: &Stack<Device>) {
    let mut registered = false;
    poll_fn(|context| {
        if registered {
            return Poll::Ready(());
        }
        registered = true;
        stack.on_work(context.waker());
        Poll::Pending
    })
    .await;
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => pending().await,
    }
}
