//! A switch process and stations of it.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command as Process, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use coppice_fabric::command::{Command, Event, LinkCounters, Message, Outcome, Request, Shape};
use coppice_fabric::limits::FRAME_BYTES_MAX;
use coppice_fabric::names::LinkName;
use coppice_fabric::station::Station;
use coppice_protocol::ids::MacAddress;
use tempfile::TempDir;

/// Longest anything here may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// How long a frame that must not come is waited for.
pub(crate) const SILENCE: Duration = Duration::from_millis(80);

/// Held while a process is made: until it runs its program it has all sockets of this one, and they stay open.
static SPAWNING: Mutex<()> = Mutex::new(());

/// A switch process, ended when dropped.
pub(crate) struct Fabric {
    pub(crate) directory: TempDir,
    pub(crate) process: Child,
    pub(crate) input: Option<ChildStdin>,
    messages: Receiver<Message>,
    pub(crate) events: Vec<Event>,
    last_id: u64,
}

impl Fabric {
    pub(crate) fn start() -> Self {
        Self::start_in(TempDir::new().expect("directory"), 0)
    }

    pub(crate) fn start_in(directory: TempDir, seed: u64) -> Self {
        let spawning = SPAWNING.lock().unwrap_or_else(PoisonError::into_inner);
        let mut process = Process::new(env!("CARGO_BIN_EXE_coppice-fabric"))
            .arg("--directory")
            .arg(directory.path())
            .arg("--seed")
            .arg(seed.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start");
        drop(spawning);
        let (sender, messages) = channel();
        let output = BufReader::new(process.stdout.take().expect("piped"));
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let message = serde_json::from_str(&line).expect("a message");
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let input = process.stdin.take();
        let mut fabric = Self { directory, process, input, messages, events: Vec::new(), last_id: 0 };
        fabric.wait_event(|event| *event == Event::Ready);
        fabric
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn send(&mut self, command: Command) -> u64 {
        self.last_id += 1;
        let request = serde_json::to_string(&Request { id: self.last_id, command }).expect("json");
        writeln!(self.input.as_mut().expect("open"), "{request}").expect("written");
        self.last_id
    }

    fn message(&mut self) -> Message {
        self.messages.recv_timeout(PATIENCE).expect("a message in time")
    }

    pub(crate) fn execute(&mut self, command: Command) -> Outcome {
        let id = self.send(command);
        loop {
            match self.message() {
                Message::Reply(reply) => {
                    assert_eq!(reply.id, Some(id));
                    return reply.outcome;
                }
                Message::Event(event) => self.events.push(event),
            }
        }
    }

    pub(crate) fn raw_line(&mut self, line: &str) -> Message {
        writeln!(self.input.as_mut().expect("open"), "{line}").expect("written");
        self.message()
    }

    pub(crate) fn done(&mut self, command: Command) {
        assert_eq!(self.execute(command), Outcome::Done);
    }

    pub(crate) fn failed(&mut self, command: Command) -> String {
        match self.execute(command) {
            Outcome::Failed { reason } => reason,
            outcome => panic!("{outcome:?}"),
        }
    }

    pub(crate) fn wait_event(&mut self, wanted: impl Fn(&Event) -> bool) {
        loop {
            if let Some(at) = self.events.iter().position(&wanted) {
                self.events.remove(at);
                return;
            }
            match self.message() {
                Message::Event(event) => self.events.push(event),
                Message::Reply(reply) => panic!("{reply:?}"),
            }
        }
    }

    /// Adds a link whose station is not there yet.
    pub(crate) fn add(&mut self, number: u8) {
        self.done(Command::AddPort { link: link(number), mac: mac(number) });
    }

    /// Opens the station first, then adds its link.
    pub(crate) fn station(&mut self, number: u8) -> Station {
        let station = self.open(number);
        self.add(number);
        station
    }

    pub(crate) fn open(&self, number: u8) -> Station {
        Station::open(self.path(), &link(number)).expect("station")
    }

    pub(crate) fn shape(&mut self, number: u8, direction: coppice_fabric::command::Direction, shape: Shape) {
        self.done(Command::Shape { link: Some(link(number)), direction, shape });
    }

    pub(crate) fn counters(&mut self, number: u8) -> LinkCounters {
        match self.execute(Command::Counters { link: Some(link(number)) }) {
            Outcome::Counters { mut links, .. } => links.remove(0),
            outcome => panic!("{outcome:?}"),
        }
    }

    pub(crate) fn socket(&self, number: u8) -> PathBuf {
        link(number).switch_socket(self.path()).expect("path")
    }

    /// Waits until the process has ended by itself.
    pub(crate) fn wait_end(&mut self) -> std::process::ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().expect("status") {
                return status;
            }
            assert!(start.elapsed() < PATIENCE, "the switch goes on");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        let _ended = self.process.kill();
        let _status = self.process.wait();
    }
}

pub(crate) fn link(number: u8) -> LinkName {
    LinkName::new(format!("n{number}")).expect("name")
}

pub(crate) fn mac(number: u8) -> MacAddress {
    MacAddress([2, 0, 10, 0, 0, number])
}

/// A frame of `bytes` from one station to another (255: to all), filled with a pattern that `tag` changes.
pub(crate) fn frame(to: u8, from: u8, bytes: usize, tag: u32) -> Vec<u8> {
    let destination = if to == 255 { [255; 6] } else { mac(to).0 };
    let mut frame = [destination, mac(from).0].concat();
    frame.extend_from_slice(&[0x88, 0xb5]);
    frame.extend_from_slice(&tag.to_le_bytes());
    while frame.len() < bytes {
        frame.push((frame.len() as u32 ^ tag) as u8);
    }
    frame
}

pub(crate) fn tag(frame: &[u8]) -> u32 {
    u32::from_le_bytes(*frame[14..].first_chunk().expect("a frame of ours"))
}

/// Closes a station, so that nobody has its sockets any more.
pub(crate) fn close<S>(station: S) {
    let _spawning = SPAWNING.lock().unwrap_or_else(PoisonError::into_inner);
    drop(station);
}

/// Sends, waiting for room.
pub(crate) fn send(station: &Station, frame: &[u8]) {
    let start = Instant::now();
    while let Err(error) = station.send(frame) {
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "{error}");
        assert!(start.elapsed() < PATIENCE, "no room");
        wait(station.sender(), rustix::event::PollFlags::OUT, PATIENCE);
    }
}

/// The next frame, if one comes within `limit`.
pub(crate) fn receive(station: &Station, limit: Duration) -> Option<Vec<u8>> {
    let mut buffer = vec![0; FRAME_BYTES_MAX + 1];
    if !wait(station.receiver(), rustix::event::PollFlags::IN, limit) {
        return None;
    }
    let bytes = station.receive(&mut buffer).expect("a frame");
    buffer.truncate(bytes);
    Some(buffer)
}

pub(crate) fn wait(socket: std::os::fd::BorrowedFd<'_>, flags: rustix::event::PollFlags, limit: Duration) -> bool {
    let mut fds = [rustix::event::PollFd::from_borrowed_fd(socket, flags)];
    let limit = rustix::event::Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
    rustix::event::poll(&mut fds, Some(&limit)).expect("poll") > 0
}
