//! Our standard input on its way to the job.
//!
//! It is read by a thread, because reading a terminal cannot be given up half-way; the thread ends with the process.
//! How far it reads ahead is bounded by the pieces that wait for the connection.

use std::io::{ErrorKind, IsTerminal, Read};
use std::sync::Arc;
use std::time::Duration;

use coppice_api::Client;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;

/// Bytes read at a time.
const READ_BYTES: usize = 64 * 1024;

/// Pieces that wait for a job.
const PIECES_MAX: usize = 1;

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

/// What comes from our standard input, for one job after the other.
pub(super) struct Input {
    pieces: Arc<Mutex<mpsc::Receiver<Vec<u8>>>>,
}

impl Input {
    /// Starts reading it.
    pub(super) fn of_ours() -> Self {
        let (sender, pieces) = mpsc::channel(PIECES_MAX);
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
                        if sender.blocking_send(piece).is_err() {
                            return;
                        }
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(_) => return,
                }
            }
        });
        Self { pieces: Arc::new(Mutex::new(pieces)) }
    }

    /// Sends what comes to a job, until this is dropped. What was on its way to the job then is lost with it.
    pub(super) fn send(&self, client: &Client, job: u64) -> JoinSet<()> {
        let (feed, body) = Client::input_feed();
        let (client, pieces) = (client.clone(), Arc::clone(&self.pieces));
        let mut sending = JoinSet::new();
        // A job that ended takes no more input; that is no failure, its stream tells the rest.
        sending.spawn(async move { drop(client.input(job, body).await) });
        sending.spawn(async move {
            let mut pieces = pieces.lock().await;
            loop {
                // Nothing is taken that the job has no room for: it may be for the next.
                let Ok(room) = feed.reserve().await else { return };
                match pieces.recv().await {
                    Some(piece) => room.send(piece.into()),
                    None => return,
                }
            }
        });
        sending
    }
}
