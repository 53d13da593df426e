//! Our standard input on its way to the job.
//!
//! It is read by a thread, because reading a terminal cannot be given up half-way; the thread ends with the process.
//! How far it reads ahead is bounded by the pieces that wait for the connection.

use std::io::{ErrorKind, Read};

use coppice_api::Client;

/// Bytes read at a time.
const READ_BYTES: usize = 64 * 1024;

/// Starts sending standard input to a job.
pub(super) fn send(client: Client, job: u64) {
    let (pieces, feed) = Client::input_feed();
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        let mut bytes = vec![0; READ_BYTES];
        loop {
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
