//! The task that drives the stack: frames in, poll, frames out, then wait for whichever comes first of a frame, room in
//! the fabric's socket, work from a connection, and the time the stack asked for. Idle, it waits for a frame alone.
//!
//! A Unix datagram socket takes only a handful of frames (`net.unix.max_dgram_qlen`) before it is full, which is the
//! rule here and not the exception: frames then stay queued until the socket is writable.

use std::future::{pending, poll_fn};
use std::io::ErrorKind;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::task::Poll;

use coppice_endpoint::Stack;
use coppice_fabric::limits::FRAME_BYTES_MAX;
use coppice_fabric::station::{Station, is_cut};
use tokio::io::Interest;
use tokio::net::UnixDatagram;
use tokio::time::Instant;

use super::Device;
use crate::clock::Clock;
use crate::limits::FRAMES_QUEUED_MAX;

/// The I/O node's station, and its sockets once more for the runtime, which says when they can be read and written.
#[derive(Debug)]
pub struct Port {
    station: Station,
    receiver: UnixDatagram,
    sender: UnixDatagram,
}

impl Port {
    /// Binds `own`; the fabric's socket may not be there yet. A path left over from an I/O node that was killed is
    /// taken: the service node gives each to one of us only.
    ///
    /// # Errors
    /// If `own` cannot be bound.
    pub fn bind(own: &Path, fabric: &Path) -> anyhow::Result<Self> {
        let station = Station::at(own.into(), fabric.into())?;
        let watched = |socket: BorrowedFd<'_>| UnixDatagram::from_std(socket.try_clone_to_owned()?.into());
        let (receiver, sender) = (watched(station.receiver())?, watched(station.sender())?);
        Ok(Self { station, receiver, sender })
    }

    /// Moves received frames into the device, as many as it has room for.
    fn receive(&self, device: &mut Device, buffer: &mut [u8]) {
        while device.has_room() {
            match self.receiver.try_io(Interest::READABLE, || self.station.receive(buffer)) {
                Ok(length) => device.push_received(&buffer[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => tracing::debug!(%error, "receive from fabric"),
            }
        }
    }

    /// Sends queued frames until there are none or the socket is full; gives whether some are left.
    fn send(&self, device: &mut Device) -> bool {
        let queued = device.queued();
        while let Some(frame) = queued.front() {
            match self.sender.try_io(Interest::WRITABLE, || self.station.send(frame)) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) => {
                    tracing::debug!(%error, "send to fabric");
                    // Without a fabric, frames are lost as on any cut cable; their senders repeat them.
                    if is_cut(&error) {
                        queued.clear();
                    }
                }
            }
            queued.pop_front();
        }
        false
    }
}

/// Drives `stack` for ever.
pub async fn drive(stack: Stack<Device>, port: Port, clock: Clock) {
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
            _ = port.receiver.readable(), if has_room => {}
            _ = port.sender.writable(), if blocked => {}
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

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use smoltcp::phy;

    use super::{Device, FRAME_BYTES_MAX, Port};

    /// Sends what is queued, waiting for room.
    async fn flush(port: &Port, device: &mut Device) {
        while port.send(device) {
            port.sender.writable().await.expect("a socket");
        }
    }

    #[tokio::test]
    async fn a_fabric_that_is_started_anew_is_heard_and_spoken_to() {
        let directory = tempfile::tempdir().expect("directory");
        let (own, fabric) = (directory.path().join("p0.sock"), directory.path().join("p0.sw"));
        let port = Port::bind(&own, &fabric).expect("bound");
        let mut device = Device::new(1500);
        // Without a fabric nothing waits.
        device.queued().extend([vec![1; 60], vec![2; 60]]);
        flush(&port, &mut device).await;
        assert!(device.queued().is_empty());
        let mut buffer = vec![0; FRAME_BYTES_MAX];
        for life in 1..4 {
            let switch = UnixDatagram::bind(&fabric).expect("bound");
            // The new one speaks first, before it has heard anything.
            switch.send_to(&[life; 60], &own).expect("somebody listens");
            let mut received = Device::new(1500);
            let frame = loop {
                port.receiver.readable().await.expect("a socket");
                port.receive(&mut received, &mut buffer);
                if let Some((frame, _)) = phy::Device::receive(&mut received, smoltcp::time::Instant::ZERO) {
                    break frame;
                }
            };
            assert!(phy::RxToken::consume(frame, |frame| frame == [life; 60]));
            device.queued().push_back(vec![life; 60]);
            flush(&port, &mut device).await;
            let bytes = switch.recv(&mut buffer).expect("a frame");
            assert_eq!(buffer[..bytes], [life; 60]);
            drop(switch);
            std::fs::remove_file(&fabric).expect("removed");
        }
        drop(port);
        assert!(!own.exists());
    }
}
