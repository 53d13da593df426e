//! Programs on sockets: tasks that wait as a kernel does, by watching first and then trying again.

#![expect(clippy::unwrap_used, reason = "helpers of a test fail as tests do")]

use std::future::poll_fn;
use std::net::Ipv4Addr;
use std::task::Poll;

use coppice_endpoint::testing::End;
use coppice_endpoint::{Readiness, SocketError, Stack, TcpSocket};

pub(crate) const SECOND_NS: u64 = 1_000_000_000;
pub(crate) const ANY: Ipv4Addr = Ipv4Addr::UNSPECIFIED;

/// A program's socket.
pub(crate) type Socket = TcpSocket<End>;

/// Tries again whenever the socket's watcher is woken, until it need not wait.
pub(crate) async fn wait<R>(
    socket: &Socket,
    mut attempt: impl FnMut(&Socket) -> Result<R, SocketError>,
) -> Result<R, SocketError> {
    poll_fn(|context| {
        socket.register(context.waker());
        match attempt(socket) {
            Err(SocketError::WouldBlock | SocketError::InProgress | SocketError::AlreadyInProgress) => Poll::Pending,
            outcome => Poll::Ready(outcome),
        }
    })
    .await
}

/// Waits until the socket's readiness is as wanted.
pub(crate) async fn until(socket: &Socket, wanted: impl Fn(Readiness) -> bool) {
    poll_fn(|context| {
        socket.register(context.waker());
        if wanted(socket.readiness()) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

pub(crate) fn socket(stack: &Stack<End>) -> Socket {
    TcpSocket::new(stack).unwrap()
}

/// A socket that listens on `port` at all addresses.
pub(crate) fn listener(stack: &Stack<End>, port: u16, backlog: usize) -> Socket {
    let socket = socket(stack);
    socket.bind(ANY, port, false).unwrap();
    socket.listen(backlog).unwrap();
    socket
}

pub(crate) async fn connect(stack: &Stack<End>, address: Ipv4Addr, port: u16) -> Result<Socket, SocketError> {
    let socket = socket(stack);
    wait(&socket, |socket| socket.connect(address, port)).await?;
    Ok(socket)
}

pub(crate) async fn accept(listener: &Socket) -> Socket {
    wait(listener, TcpSocket::accept).await.unwrap()
}

/// The bytes a sender sends, which a receiver can check anywhere in the stream.
pub(crate) fn pattern(position: usize) -> u8 {
    (position / 251 + position) as u8
}

/// Sends the pattern's bytes `from..to`, at most `chunk` at a time.
pub(crate) async fn send(socket: &Socket, from: usize, to: usize, chunk: usize) -> Result<(), SocketError> {
    let mut sent = from;
    while sent < to {
        let bytes: Vec<u8> = (sent..to.min(sent + chunk)).map(pattern).collect();
        sent += wait(socket, |socket| socket.send(&bytes)).await?;
    }
    Ok(())
}

/// Receives until the end, at most `chunk` at a time, and returns how many of the pattern's bytes came.
pub(crate) async fn receive(socket: &Socket, chunk: usize) -> Result<usize, SocketError> {
    let mut buffer = vec![0; chunk];
    let mut received = 0;
    loop {
        let count = wait(socket, |socket| socket.receive(&mut buffer, false)).await?;
        if count == 0 {
            return Ok(received);
        }
        assert!(buffer[..count].iter().enumerate().all(|(index, byte)| *byte == pattern(received + index)));
        received += count;
    }
}

/// Receives as long as `wanted` bytes are not there.
pub(crate) async fn receive_exactly(socket: &Socket, wanted: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < wanted {
        let mut buffer = vec![0; wanted - bytes.len()];
        let count = wait(socket, |socket| socket.receive(&mut buffer, false)).await.unwrap();
        assert!(count > 0, "the end after {} bytes of {wanted}", bytes.len());
        bytes.extend_from_slice(&buffer[..count]);
    }
    bytes
}
