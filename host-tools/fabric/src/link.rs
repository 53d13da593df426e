//! One link's switch side: its sockets, the queue of frames its station has not taken yet, its shape and its counters.
//!
//! Two sockets, for the reason given in [`crate::station`]: `receiver` is bound and takes frames from whoever is the
//! station now; `sender` is connected to the station, so that the system can say when it has room again. A station
//! whose one socket is connected to us takes nothing from `sender`; it is sent to from `receiver` by name, and as
//! nothing tells when it has room, it is tried again after [`RETRY_NS`] and whenever a frame comes from it.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use coppice_protocol::ids::MacAddress;
use coppice_protocol::text::Shown;
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};

use crate::buffers::Buffers;
use crate::command::{DirectionCounters, LinkCounters};
use crate::limits::{OUT_QUEUE_BYTES_MAX, OUT_QUEUE_FRAMES_MAX};
use crate::names::{LinkName, NameError};
use crate::recording::Recording;
use crate::shaper::Shaper;

/// When a station that cannot be waited for is tried again, ns.
pub(crate) const RETRY_NS: u64 = 50_000;

/// Why a link could not be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    /// A path is too long.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Another switch is alive on this socket.
    #[error(
        "{} belongs to a switch that is running: use another directory, or end that one",
        Shown(.0.as_os_str().as_encoded_bytes())
    )]
    InUse(PathBuf),
    /// As many files are open as may be.
    #[error(
        "cannot open the socket {}: too many files are open; raise the limit of open files (as root: ulimit -Hn; or \
         LimitNOFILE of the service)",
        Shown(.0.as_os_str().as_encoded_bytes())
    )]
    TooManyFiles(PathBuf),
    /// The system refused.
    #[error("cannot open the socket {}: {error}", Shown(path.as_os_str().as_encoded_bytes()))]
    Socket {
        /// The socket's path.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// How the station is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// Not, as far as known.
    Absent,
    /// Through the connected socket.
    Connected,
    /// From the bound socket, by name.
    ByName,
}

/// What became of a frame for the station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// The station has it, or it was dropped and counted.
    Done,
    /// It waits, and [`Link::flush`] is to be called when the sender is writable.
    WaitForRoom,
    /// It waits, and [`Link::flush`] is to be called after [`RETRY_NS`].
    RetryLater,
}

/// One link.
pub(crate) struct Link {
    pub(crate) name: LinkName,
    pub(crate) mac: MacAddress,
    pub(crate) receiver: OwnedFd,
    pub(crate) sender: OwnedFd,
    path: PathBuf,
    station: SocketAddrUnix,
    reach: Reach,
    queue: VecDeque<Vec<u8>>,
    queue_bytes: usize,
    /// Something waits, and somebody will call [`Link::flush`].
    pub(crate) waiting: bool,
    /// One of those is the timer.
    pub(crate) retrying: bool,
    pub(crate) inbound: Shaper,
    pub(crate) outbound: Shaper,
    pub(crate) from_station: DirectionCounters,
    pub(crate) to_station: DirectionCounters,
    pub(crate) recording: Option<Recording>,
}

impl Link {
    /// Makes the sockets. A socket file that no process has any more is replaced.
    pub(crate) fn open(
        directory: &Path,
        name: LinkName,
        mac: MacAddress,
        shapers: [Shaper; 2],
    ) -> Result<Self, LinkError> {
        let path = name.switch_socket(directory)?;
        let station_path = name.station_socket(directory)?;
        let failed = |errno: Errno| match errno {
            Errno::MFILE | Errno::NFILE => LinkError::TooManyFiles(path.clone()),
            errno => LinkError::Socket { path: path.clone(), error: errno.into() },
        };
        let address = SocketAddrUnix::new(&path).map_err(failed)?;
        let station = SocketAddrUnix::new(&station_path).map_err(failed)?;
        let (receiver, sender) = (socket().map_err(failed)?, socket().map_err(failed)?);
        match net::bind(&receiver, &address) {
            Err(Errno::ADDRINUSE) => {
                match net::connect(&sender, &address) {
                    Err(Errno::CONNREFUSED) => rustix::fs::unlink(&path).map_err(failed)?,
                    _ => return Err(LinkError::InUse(path)),
                }
                net::bind(&receiver, &address).map_err(failed)?;
            }
            result => result.map_err(failed)?,
        }
        let link = Self {
            name,
            mac,
            receiver,
            sender,
            path: path.clone(),
            station,
            reach: Reach::Absent,
            queue: VecDeque::new(),
            queue_bytes: 0,
            waiting: false,
            retrying: false,
            inbound: Shaper::clone(&shapers[0]),
            outbound: Shaper::clone(&shapers[1]),
            from_station: DirectionCounters::default(),
            to_station: DirectionCounters::default(),
            recording: None,
        };
        // From here on `link` removes the file. Nobody but its owner may send to it.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))
            .map_err(|error| LinkError::Socket { path, error })?;
        Ok(link)
    }

    /// Whether the station could be reached when last tried.
    pub(crate) fn up(&self) -> bool {
        self.reach != Reach::Absent
    }

    /// Tries to reach the station.
    pub(crate) fn connect(&mut self) -> bool {
        self.reach = match net::connect(&self.sender, &self.station) {
            Ok(()) => Reach::Connected,
            // It takes frames from one peer alone, which we are if it is connected to `receiver`.
            Err(Errno::PERM) => Reach::ByName,
            Err(_) => Reach::Absent,
        };
        self.up()
    }

    /// The next frame from the station, as long as the station made it; `buffer` may hold less.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        net::recv(&self.receiver, buffer, RecvFlags::DONTWAIT | RecvFlags::TRUNC).map(|(_, bytes)| bytes)
    }

    /// Gives `frame` to the station now or when it has room.
    pub(crate) fn deliver(&mut self, frame: &[u8], buffers: &mut Buffers) -> Delivery {
        if self.queue.is_empty() {
            match self.transmit(frame) {
                Err(Errno::AGAIN) => {}
                result => {
                    self.count(frame.len(), result);
                    return Delivery::Done;
                }
            }
        }
        if self.queue.len() >= OUT_QUEUE_FRAMES_MAX || self.queue_bytes + frame.len() > OUT_QUEUE_BYTES_MAX {
            self.to_station.dropped.queue_full += 1;
            return Delivery::Done;
        }
        self.queue_bytes += frame.len();
        self.queue.push_back(buffers.filled(frame));
        self.wait()
    }

    fn wait(&self) -> Delivery {
        if self.reach == Reach::ByName { Delivery::RetryLater } else { Delivery::WaitForRoom }
    }

    /// Gives the station what waits for it, as far as it has room.
    pub(crate) fn flush(&mut self, buffers: &mut Buffers) -> Delivery {
        while let Some(frame) = self.queue.pop_front() {
            if self.outbound.is_cut() {
                self.to_station.dropped.cut += 1;
            } else {
                match self.transmit(&frame) {
                    Err(Errno::AGAIN) => {
                        self.queue.push_front(frame);
                        return self.wait();
                    }
                    result => self.count(frame.len(), result),
                }
            }
            self.queue_bytes -= frame.len();
            buffers.give_back(frame);
        }
        Delivery::Done
    }

    /// One try, two if the station turns out to be a new one.
    fn transmit(&mut self, frame: &[u8]) -> Result<(), Errno> {
        if self.reach == Reach::Absent && !self.connect() {
            return Err(Errno::CONNREFUSED);
        }
        match self.transmit_once(frame) {
            Err(Errno::CONNREFUSED | Errno::NOTCONN | Errno::NOENT | Errno::PERM | Errno::CONNRESET) => {
                if !self.connect() {
                    return Err(Errno::CONNREFUSED);
                }
                self.transmit_once(frame)
            }
            result => result,
        }
    }

    fn transmit_once(&self, frame: &[u8]) -> Result<(), Errno> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let sent = match self.reach {
            Reach::ByName => net::sendto(&self.receiver, frame, flags, &self.station),
            Reach::Absent | Reach::Connected => net::send(&self.sender, frame, flags),
        };
        sent.map(drop)
    }

    fn count(&mut self, bytes: usize, result: Result<(), Errno>) {
        match result {
            Ok(()) => {
                self.to_station.frames += 1;
                self.to_station.bytes += bytes as u64;
            }
            Err(Errno::CONNREFUSED | Errno::NOTCONN | Errno::NOENT | Errno::PERM | Errno::CONNRESET) => {
                self.reach = Reach::Absent;
                self.to_station.dropped.absent += 1;
            }
            Err(_) => self.to_station.dropped.refused += 1,
        }
    }

    /// Everything counted so far.
    pub(crate) fn counters(&self) -> LinkCounters {
        LinkCounters {
            link: self.name.clone(),
            from_station: self.from_station,
            to_station: self.to_station,
            queued_frames: self.queue.len() as u64,
            up: self.up(),
            recording: self.recording.as_ref().map(Recording::counters),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Should it stay, the next switch finds that no process has it, and replaces it.
        let _left = std::fs::remove_file(&self.path);
    }
}

fn socket() -> Result<OwnedFd, Errno> {
    net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
}
