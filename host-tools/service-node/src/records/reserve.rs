//! Room on the disk that is taken when the cluster comes up, for the records that wait when the disk is full.
//!
//! A file of zeros of [`RESERVE_BYTES`]; records are written over them, one behind the other: their length in four
//! bytes and themselves in JSON. A length of zero is the end. Writing over what is there needs no more room.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use super::record::Record;
use crate::limits::RESERVE_BYTES;

/// Bytes of a record's length.
const LENGTH_BYTES: usize = 4;

/// The file.
#[derive(Debug)]
pub(super) struct Reserve {
    file: File,
    /// Where the next record goes.
    end: usize,
}

impl Reserve {
    /// Opens the file, or makes it, and gives what an earlier service node left in it.
    pub(super) fn open(path: &Path) -> io::Result<(Self, Vec<Record>)> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        let bytes = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
        if bytes < RESERVE_BYTES {
            file.write_all_at(&vec![0; RESERVE_BYTES - bytes], bytes as u64)?;
        }
        let (records, end) = parse(&file)?;
        Ok((Self { file, end }, records))
    }

    /// Adds a record, if there is room.
    pub(super) fn add(&mut self, record: &Record) -> io::Result<()> {
        let text = serde_json::to_vec(record)?;
        let length = u32::try_from(text.len()).map_err(io::Error::other)?;
        let end = self.end + LENGTH_BYTES + text.len();
        if end + LENGTH_BYTES > RESERVE_BYTES {
            return Err(io::ErrorKind::StorageFull.into());
        }
        // The length last: what ends in the middle of this was not added.
        self.file.write_all_at(&[&text[..], &[0; LENGTH_BYTES]].concat(), (self.end + LENGTH_BYTES) as u64)?;
        self.file.write_all_at(&length.to_le_bytes(), self.end as u64)?;
        self.end = end;
        Ok(())
    }

    /// All of them are in the database.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        if self.end > 0 {
            self.file.write_all_at(&[0; LENGTH_BYTES], 0)?;
            self.end = 0;
        }
        Ok(())
    }
}

/// The records in front, and where they end. Mostly there are none, and nothing more is read.
fn parse(file: &File) -> io::Result<(Vec<Record>, usize)> {
    let (mut records, mut end) = (Vec::new(), 0);
    while end + LENGTH_BYTES <= RESERVE_BYTES {
        let (mut length, at) = ([0; LENGTH_BYTES], end + LENGTH_BYTES);
        file.read_exact_at(&mut length, end as u64)?;
        let length = u32::from_le_bytes(length) as usize;
        if length == 0 || length > RESERVE_BYTES - at {
            break;
        }
        let mut text = vec![0; length];
        file.read_exact_at(&mut text, at as u64)?;
        let Ok(record) = serde_json::from_slice(&text) else { break };
        records.push(record);
        end = at + length;
    }
    Ok((records, end))
}

#[cfg(test)]
mod tests {
    use coppice_protocol::ids::{JobId, NodeId};

    use super::super::record::{Record, What};
    use super::Reserve;
    use crate::database::JobRow;
    use crate::limits::RESERVE_BYTES;

    fn ended(job: u64, reason: &str) -> Record {
        let end = JobRow {
            exit_status: 3,
            reason: Some(reason.into()),
            retention: None,
            pages_touched: None,
            continued_as: None,
        };
        Record { at_ns: job, what: What::Ended(JobId(job), end) }
    }

    #[test]
    fn what_was_added_is_there_until_it_is_cleared() {
        let home = tempfile::tempdir().expect("directory");
        let path = home.path().join("reserve");
        let records = [ended(1, "a"), Record { at_ns: 2, what: What::NodeGone(NodeId(3)) }, ended(4, "ü")];
        let (mut reserve, left) = Reserve::open(&path).expect("made");
        assert!(left.is_empty());
        records.iter().for_each(|record| reserve.add(record).expect("added"));
        drop(reserve);
        let (mut reserve, left) = Reserve::open(&path).expect("opened");
        assert_eq!(left, records);
        reserve.add(&ended(5, "b")).expect("added");
        let (mut reserve, left) = Reserve::open(&path).expect("opened");
        assert_eq!(left.len(), 4);
        reserve.clear().expect("cleared");
        reserve.add(&ended(6, "c")).expect("added");
        assert_eq!(Reserve::open(&path).expect("opened").1, [ended(6, "c")]);
        assert_eq!(std::fs::metadata(&path).expect("there").len(), RESERVE_BYTES as u64);
    }

    #[test]
    fn no_more_is_added_than_there_is_room_for_and_damage_ends_it() {
        let home = tempfile::tempdir().expect("directory");
        let path = home.path().join("reserve");
        let (mut reserve, _) = Reserve::open(&path).expect("made");
        let large = ended(1, &"x".repeat(10_000));
        let added = (0..1000).take_while(|_| reserve.add(&large).is_ok()).count();
        assert!((RESERVE_BYTES / 11_000..RESERVE_BYTES / 10_000).contains(&added), "{added}");
        assert_eq!(Reserve::open(&path).expect("opened").1.len(), added);
        assert_eq!(std::fs::metadata(&path).expect("there").len(), RESERVE_BYTES as u64);
        std::fs::write(&path, b"\x05\0\0\0nonsense").expect("written");
        assert!(Reserve::open(&path).expect("opened").1.is_empty());
    }
}
