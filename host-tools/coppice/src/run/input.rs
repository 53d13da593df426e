//! Our standard input on its way to the job.
//!
//! It is read by a thread, because reading a terminal cannot be given up half-way; the thread ends with the process.
//! How far it reads ahead is bounded by the pieces that wait for the connection.

use std::io::{ErrorKind, IsTerminal, Read};
use std::time::Duration;

use coppice_api::Client;

/// Bytes read at a time.
const READ_BYTES: usize = 64 * 1024;

/// How often to look whether a shell has put us into the foreground.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Waits as long as standard input is a terminal at which somebody else is in front: reading it would stop us, and with
/// us all output of a job that may need no input at all.
fn wait_for_the_foreground() {
    let input = std::io::stdin();
    let is_behind = || rustix::termios::tcgetpgrp(&input).is_ok_and(|group| group != rustix::process::getpgrp());
    while input.is_terminal() && is_behind() {
        std::thread::sleep(LOOK_INTERVAL);
    }
}

/// Starts sending standard input to a job.
pub(super) fn send(client: Client, job: u64) {
    let (pieces, feed) = Client::input_feed();
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        let mut bytes = vec![0; READ_BYTES];
        loop {
            wait_for_the_foreground();
            match input.read(&mut bytes) {
                // An input that cannot be read has ended: closed, a directory, …
                Ok(0) => return,
                Ok(count) => {
                    let piece = bytes.get(..count).unwrap_or_default().to_vec();
                    if pieces.blocking_send(piece.into()).is_err() {
                        return;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    });
    // A job that ended takes no more input; that is no failure, its stream tells the rest.
    tokio::spawn(async move { client.input(job, feed).await });
}
