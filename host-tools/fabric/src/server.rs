//! The loop: one thread that waits for frames, time, commands and readers, and never for anything else. What may wait
//! for a disk, recordings, has threads of its own.

use std::io::{self, stdin, stdout};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use coppice_protocol::text::Shown;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::Timespec;

use crate::command::{Command, Event, Outcome};
use crate::lines::{CommandLines, Output};
use crate::switch::Switch;

const STDIN_TOKEN: u64 = 0;
const STDOUT_TOKEN: u64 = 1;

/// Events taken from the system at once.
const EVENTS_MAX: usize = 256;

/// Bytes read from standard input at once.
const READ_BYTES: usize = 16 * 1024;

/// Bytes a pipe that is writable takes without blocking (POSIX's `PIPE_BUF` on Linux).
const WRITE_BYTES: usize = 4096;

/// How long the last replies may wait for a reader when the switch ends, and recordings for their disks.
const END_TIME_MAX: Duration = Duration::from_secs(1);

/// Why the switch could not go on.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The system refused something the switch lives on.
    #[error("the switch cannot go on: {0}")]
    System(#[from] Errno),
    /// Standard input cannot be waited on.
    #[error("standard input is a file: give a pipe, a socket or a terminal")]
    Input,
    /// The directory cannot hold sockets.
    #[error("{} is no directory: {error}", Shown(path.as_os_str().as_encoded_bytes()))]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// Serves commands on standard input until it ends or `shutdown` is asked for. The sockets in `directory` are removed
/// then. `seed` decides which frames are lost where loss is asked for.
///
/// # Errors
/// The switch could not start or go on. Commands that fail are answered and are none.
pub fn serve(directory: PathBuf, seed: u64) -> Result<(), ServerError> {
    let directory = std::fs::canonicalize(&directory)
        .and_then(|path| if path.is_dir() { Ok(path) } else { Err(io::ErrorKind::NotADirectory.into()) })
        .map_err(|error| ServerError::Directory { path: directory, error })?;
    let switch = Switch::new(directory, seed)?;
    match epoll::add(switch.epoll(), stdin(), EventData::new_u64(STDIN_TOKEN), EventFlags::IN) {
        Err(Errno::PERM) => return Err(ServerError::Input),
        result => result?,
    }
    let mut server = Server {
        switch,
        lines: CommandLines::default(),
        output: Output::default(),
        reading: true,
        writing: false,
        ended: None,
    };
    server.output.event(Event::Ready);
    server.run()
}

struct Server {
    switch: Switch,
    lines: CommandLines,
    output: Output,
    /// Standard input is being waited on.
    reading: bool,
    /// Standard output is being waited on.
    writing: bool,
    /// It is to end, at this time at the latest.
    ended: Option<Instant>,
}

impl Server {
    fn run(&mut self) -> Result<(), ServerError> {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        loop {
            for event in self.switch.events.drain(..) {
                self.output.event(event);
            }
            for (request, outcome) in self.switch.answers.drain(..) {
                self.output.reply(Some(request), outcome);
            }
            self.listen()?;
            let left = self.ended.map(|end| end.saturating_duration_since(Instant::now()));
            let is_done = self.output.pending().is_empty() && self.switch.recordings.is_empty();
            if left.is_some_and(|left| is_done || left.is_zero()) {
                return Ok(());
            }
            self.switch.arm()?;
            events.clear();
            // What is left is at most a second.
            let limit = left.map(|left| Timespec { tv_sec: 0, tv_nsec: left.as_nanos().min(999_999_999) as i64 });
            match epoll::wait(self.switch.epoll(), spare_capacity(&mut events), limit.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            for event in &events {
                let data = event.data;
                match data.u64() {
                    STDIN_TOKEN => self.read()?,
                    STDOUT_TOKEN => self.write()?,
                    _ => self.switch.ready(data)?,
                }
            }
        }
    }

    /// Waits on standard input only while replies have room, and on standard output only while there is something to
    /// say.
    fn listen(&mut self) -> Result<(), Errno> {
        let (read, write) = (self.ended.is_none() && !self.output.is_full(), !self.output.pending().is_empty());
        if read != self.reading {
            self.reading = read;
            if read {
                epoll::add(self.switch.epoll(), stdin(), EventData::new_u64(STDIN_TOKEN), EventFlags::IN)?;
            } else {
                epoll::delete(self.switch.epoll(), stdin())?;
            }
        }
        if write != self.writing {
            self.writing = write;
            if !write {
                return epoll::delete(self.switch.epoll(), stdout());
            }
            match epoll::add(self.switch.epoll(), stdout(), EventData::new_u64(STDOUT_TOKEN), EventFlags::OUT) {
                // A file, which never makes anyone wait.
                Err(Errno::PERM) => {
                    self.writing = false;
                    while !self.output.pending().is_empty() {
                        self.write()?;
                    }
                }
                result => result?,
            }
        }
        Ok(())
    }

    fn read(&mut self) -> Result<(), Errno> {
        let mut bytes = [0; READ_BYTES];
        let count = match rustix::io::read(stdin(), &mut bytes) {
            Ok(count) => count,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
            Err(errno) => return Err(errno),
        };
        let Self { switch, lines, output, ended, .. } = self;
        if count == 0 {
            switch.end_recordings();
            *ended = Some(Instant::now() + END_TIME_MAX);
        }
        lines.take(&bytes[..count], |request| {
            if ended.is_some() {
                return;
            }
            match request {
                Ok(request) => {
                    if request.command == Command::Shutdown {
                        *ended = Some(Instant::now() + END_TIME_MAX);
                    }
                    if let Some(outcome) = switch.execute(request.id, request.command) {
                        output.reply(Some(request.id), outcome);
                    }
                }
                Err(error) => output.reply(None, Outcome::Failed { reason: error.to_string() }),
            }
        });
        Ok(())
    }

    fn write(&mut self) -> Result<(), Errno> {
        let pending = self.output.pending();
        match rustix::io::write(stdout(), &pending[..pending.len().min(WRITE_BYTES)]) {
            Ok(count) => self.output.written(count),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        Ok(())
    }
}
