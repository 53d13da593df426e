//! The other end of a link, for programs that are a station of the switch.
//!
//! Two sockets, not one: a datagram socket that is connected takes datagrams from its peer alone, and would refuse a
//! switch that was started anew. So one bound socket receives from whoever is there, and one unnamed socket, connected
//! to the switch, sends; being connected it can be waited on until the switch has room.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use coppice_protocol::text::Shown;

use crate::names::{LinkName, NameError};

/// A station's pair of sockets, both non-blocking. Its socket file is removed when it is dropped.
#[derive(Debug)]
pub struct Station {
    receiver: UnixDatagram,
    sender: UnixDatagram,
    station_path: PathBuf,
    switch_path: PathBuf,
}

/// Why a station could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum StationError {
    /// A path is too long.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The system refused.
    #[error("cannot open the socket {}: {source}", Shown(path.as_os_str().as_encoded_bytes()))]
    Socket {
        /// The socket's path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Station {
    /// Opens the station's end of `link` in `directory`. A socket file that is there already is replaced, as QEMU does.
    /// The switch may be started later: [`Station::send`] connects when it can.
    ///
    /// # Errors
    /// A path too long, or what the system says against it.
    pub fn open(directory: &Path, link: &LinkName) -> Result<Self, StationError> {
        Self::at(link.station_socket(directory)?, link.switch_socket(directory)?)
    }

    /// The same for somebody who was told the paths of the two sockets, the station's own first.
    ///
    /// # Errors
    /// What the system says against it.
    pub fn at(station_path: PathBuf, switch_path: PathBuf) -> Result<Self, StationError> {
        let failed = |source| StationError::Socket { path: station_path.clone(), source };
        match std::fs::remove_file(&station_path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let receiver = UnixDatagram::bind(&station_path).map_err(failed)?;
        let sender = UnixDatagram::unbound().map_err(failed)?;
        receiver.set_nonblocking(true).and_then(|()| sender.set_nonblocking(true)).map_err(failed)?;
        let station = Self { receiver, sender, station_path, switch_path };
        // The switch may not be there yet.
        let _later = station.sender.connect(&station.switch_path);
        Ok(station)
    }

    /// What becomes readable when a frame has come.
    #[must_use]
    pub fn receiver(&self) -> BorrowedFd<'_> {
        self.receiver.as_fd()
    }

    /// What becomes writable when the switch has room again.
    #[must_use]
    pub fn sender(&self) -> BorrowedFd<'_> {
        self.sender.as_fd()
    }

    /// Takes the next frame into `buffer` (use [`crate::limits::FRAME_BYTES_MAX`] bytes) and returns its length.
    ///
    /// # Errors
    /// `WouldBlock` if there is none.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.receiver.recv(buffer)
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// `WouldBlock` if the switch has no room now; [`is_cut`] says of others whether there is no switch.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        match self.sender.send(frame) {
            Err(error) if is_cut(&error) => {
                self.sender.connect(&self.switch_path)?;
                self.sender.send(frame).map(drop)
            }
            result => result.map(drop),
        }
    }
}

/// Whether a frame could not be sent because there is no switch. It may come back.
#[must_use]
pub fn is_cut(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, ConnectionReset, NotConnected, NotFound};
    matches!(error.kind(), ConnectionRefused | ConnectionReset | NotConnected | NotFound)
}

impl Drop for Station {
    fn drop(&mut self) {
        // Nothing is lost if it stays: whoever opens the link next replaces it.
        let _left = std::fs::remove_file(&self.station_path);
    }
}
