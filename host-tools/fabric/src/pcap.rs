//! Recordings in the classic pcap format with nanoseconds, as Wireshark and tcpdump read it.
//!
//! Each record goes to the system in one write, so the file is whole whenever this process is killed.

use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Marks a file whose times are in nanoseconds.
const MAGIC_NS: u32 = 0xa1b2_3c4d;
const VERSION: [u16; 2] = [2, 4];
/// Longest frame the format's readers accept.
const SNAP_BYTES: u32 = 262_144;
const LINK_TYPE_ETHERNET: u32 = 1;
const HEADER_BYTES: usize = 24;
const RECORD_HEADER_BYTES: usize = 16;

/// A recording under way.
#[derive(Debug)]
pub(crate) struct Recording {
    file: File,
    bytes: u64,
    bytes_max: u64,
}

/// Why a recording ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PcapError {
    #[error("the recording reached its size of {0} bytes")]
    Full(u64),
    #[error("cannot write the recording: {0}")]
    Io(#[from] io::Error),
}

impl Recording {
    /// Starts a recording in `path`, which is replaced if it is a file.
    pub(crate) fn start(path: &Path, bytes_max: u64) -> Result<Self, PcapError> {
        if !path.is_absolute() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "give an absolute path").into());
        }
        // Not blocking: a pipe without reader would hold up the whole switch.
        let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let mut file =
            File::options().write(true).create(true).truncate(true).mode(0o600).custom_flags(nonblocking).open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "give a path of an ordinary file").into());
        }
        let mut header = Vec::with_capacity(HEADER_BYTES);
        header.extend_from_slice(&MAGIC_NS.to_le_bytes());
        VERSION.iter().for_each(|part| header.extend_from_slice(&part.to_le_bytes()));
        // Time zone and accuracy, which nobody sets.
        header.extend_from_slice(&[0; 8]);
        header.extend_from_slice(&SNAP_BYTES.to_le_bytes());
        header.extend_from_slice(&LINK_TYPE_ETHERNET.to_le_bytes());
        file.write_all(&header)?;
        Ok(Self { file, bytes: HEADER_BYTES as u64, bytes_max })
    }

    /// Adds `frame` with the time of day `time_ns` since 1970.
    pub(crate) fn add(&mut self, frame: &[u8], time_ns: u64) -> Result<(), PcapError> {
        let record_bytes = RECORD_HEADER_BYTES + frame.len();
        if self.bytes + record_bytes as u64 > self.bytes_max {
            return Err(PcapError::Full(self.bytes_max));
        }
        let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        // The format's seconds have 32 bits.
        let seconds = u32::try_from(time_ns / 1_000_000_000).unwrap_or(u32::MAX);
        let nanoseconds = u32::try_from(time_ns % 1_000_000_000).unwrap_or_default();
        let mut header = [0; RECORD_HEADER_BYTES];
        for (field, value) in header.chunks_exact_mut(4).zip([seconds, nanoseconds, length, length]) {
            field.copy_from_slice(&value.to_le_bytes());
        }
        let written = self.file.write_vectored(&[IoSlice::new(&header), IoSlice::new(frame)]);
        match written {
            Ok(count) if count == record_bytes => {
                self.bytes += record_bytes as u64;
                Ok(())
            }
            written => {
                // The disk is full, as a rule. Half a record would make the file unreadable.
                self.file.set_len(self.bytes)?;
                Err(written.err().unwrap_or_else(|| io::ErrorKind::StorageFull.into()).into())
            }
        }
    }
}
