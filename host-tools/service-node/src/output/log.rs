//! One log that is written, and what an earlier service node left of one.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use coppice_api::output::OutputCut;
use coppice_protocol::ids::JobId;
use coppice_protocol::ship::Stream;

use super::Summary;
use super::format::{
    END_BYTES, HEADER_BYTES, LAST_WORDS_BYTES, Next, Record, START_BYTES, next, put_cut, put_end, put_output, put_start,
};
use crate::store::plain;

/// The log of a job under way. There is a file once there is output.
#[derive(Debug)]
pub struct Log {
    job: JobId,
    path: PathBuf,
    file: Option<File>,
    limit: u64,
    /// Bytes of whole records.
    length: u64,
    summary: Summary,
}

impl Log {
    /// A log with nothing in it.
    #[must_use]
    pub fn new(job: JobId, path: PathBuf, limit: u64) -> Self {
        Self { job, path, file: None, limit, length: 0, summary: Summary::default() }
    }

    /// What is kept so far.
    #[must_use]
    pub fn summary(&self) -> Summary {
        self.summary
    }

    /// Bytes of the log that are written.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Whether there is a file.
    #[must_use]
    pub fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// How much of so many bytes of output the log takes, and by how much it grows then with all that may be behind
    /// them.
    #[must_use]
    pub fn takes(&self, bytes: usize) -> (usize, u64) {
        if self.summary.cut.is_some() {
            return (0, 0);
        }
        let start = if self.length == 0 { START_BYTES } else { 0 };
        let besides = start + HEADER_BYTES as u64 + LAST_WORDS_BYTES;
        let room = self.limit.saturating_sub(self.length).saturating_sub(besides);
        let taken = usize::try_from(room).unwrap_or(usize::MAX).min(bytes);
        (taken, if taken == 0 { 0 } else { besides + taken as u64 })
    }

    /// Puts output into the log, as much as it takes. If it does not take all, it is cut, and this says why.
    pub fn append(&mut self, rank: u32, stream: Stream, bytes: &[u8]) -> Option<(OutputCut, String)> {
        if self.summary.cut.is_some() {
            self.summary.dropped += bytes.len() as u64;
            return None;
        }
        let (taken, _) = self.takes(bytes.len());
        let (kept, rest) = bytes.split_at(taken);
        if !kept.is_empty()
            && let Err(error) = self.put_output(rank, stream, kept)
        {
            self.summary.dropped += bytes.len() as u64;
            return Some(self.cut(OutputCut::Disk, plain(&error)));
        }
        self.summary.bytes += kept.len() as u64;
        self.summary.dropped += rest.len() as u64;
        (!rest.is_empty()).then(|| self.cut(OutputCut::Limit, OutputCut::Limit.to_string()))
    }

    fn put_output(&mut self, rank: u32, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        let mut records = Vec::with_capacity(bytes.len() + START_BYTES as usize + HEADER_BYTES);
        if self.file.is_none() {
            // Whatever has that name is of a job in a history that was moved away.
            let options = OpenOptions::new().create(true).append(true).mode(0o600).clone();
            let file = options.open(&self.path)?;
            file.set_len(0)?;
            self.file = Some(file);
        }
        if self.length == 0 {
            put_start(&mut records, self.job);
        }
        put_output(&mut records, rank, stream, bytes);
        self.put(&records)
    }

    /// Appends whole records, or nothing.
    fn put(&mut self, records: &[u8]) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        match file.write_all(records) {
            Ok(()) => {
                self.length += records.len() as u64;
                Ok(())
            }
            Err(error) => {
                // What there is of them would be in the way of what may still be written. If it stays nobody reads it.
                let _ = file.set_len(self.length);
                Err(error)
            }
        }
    }

    /// Keeps nothing from here on. That stands in the job's record; in the log, too, if it can be written.
    pub fn cut(&mut self, cut: OutputCut, why: String) -> (OutputCut, String) {
        self.summary.cut = Some(cut);
        let mut record = Vec::new();
        put_cut(&mut record, cut);
        let _ = self.put(&record);
        (cut, why)
    }

    /// The job has ended. Gives what is kept, and the length of the log.
    pub fn close(mut self) -> (Summary, u64) {
        let mut record = Vec::new();
        put_end(&mut record, &self.summary);
        let _ = self.put(&record);
        (self.summary, self.length)
    }
}

/// Finishes a log that an earlier service node may have left in the middle of something: it ends behind the last record
/// that is whole. Gives its length, and what is in it.
///
/// # Errors
/// It cannot be read or written.
pub fn finish(path: &Path) -> io::Result<(u64, Summary)> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    let length = file.metadata()?.len();
    if let Some(summary) = end_of(&mut file, length)? {
        return Ok((length, summary));
    }
    file.seek(SeekFrom::Start(0))?;
    let (mut summary, mut whole) = (Summary::default(), 0);
    let mut reader = BufReader::new(&file);
    while let Next::Record(record, bytes) = next(&mut reader, length - whole)? {
        whole += bytes;
        match record {
            Record::Start(_) => {}
            Record::Output { bytes, .. } => summary.bytes += bytes.len() as u64,
            Record::Cut(cut) => summary.cut = Some(cut),
            Record::End(found) => summary = found,
        }
    }
    file.set_len(whole)?;
    let mut words = Vec::new();
    if summary.cut.is_none() {
        put_cut(&mut words, OutputCut::ServiceNode);
        summary.cut = Some(OutputCut::ServiceNode);
    }
    put_end(&mut words, &summary);
    file.seek(SeekFrom::Start(whole))?;
    // If there is no room for it the next service node looks again.
    if file.write_all(&words).is_err() {
        file.set_len(whole)?;
        return Ok((whole, summary));
    }
    Ok((whole + words.len() as u64, summary))
}

/// What a log that is whole says at its end.
fn end_of(file: &mut File, length: u64) -> io::Result<Option<Summary>> {
    let Some(end) = length.checked_sub(END_BYTES) else { return Ok(None) };
    file.seek(SeekFrom::Start(end))?;
    Ok(match next(file, END_BYTES)? {
        Next::Record(Record::End(summary), END_BYTES) => Some(summary),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use coppice_api::output::OutputCut;
    use coppice_protocol::ids::JobId;
    use coppice_protocol::ship::Stream;

    use super::{Log, Summary, finish};
    use crate::output::read::{Position, Wanted, read_all};

    fn written(limit: u64, pieces: &[&[u8]]) -> (tempfile::TempDir, Log, Vec<OutputCut>) {
        let home = tempfile::tempdir().expect("directory");
        let mut log = Log::new(JobId(1), home.path().join("1.log"), limit);
        let cuts = pieces.iter().filter_map(|piece| log.append(0, Stream::Output, piece));
        let cuts = cuts.map(|(cut, _)| cut).collect();
        (home, log, cuts)
    }

    fn output(home: &tempfile::TempDir) -> Vec<u8> {
        let (bytes, _) = read_all(&home.path().join("1.log"), Position::default(), Wanted::default()).expect("sound");
        bytes
    }

    #[test]
    fn a_log_takes_what_its_limit_allows_and_not_a_byte_more() {
        let pieces: [&[u8]; 3] = [&[b'a'; 1500], &[b'b'; 3000], b"c"];
        for limit in (100..5000).step_by(97) {
            let (home, log, cuts) = written(limit, &pieces);
            let (summary, length) = log.close();
            assert_eq!(summary.bytes + summary.dropped, 4501);
            let is_whole = summary.dropped == 0;
            assert_eq!(
                (cuts.as_slice(), summary.cut.is_none()),
                (&[OutputCut::Limit][usize::from(is_whole)..], is_whole)
            );
            let size = fs::metadata(home.path().join("1.log")).map_or(0, |file| file.len());
            assert!(size == length && length <= limit, "{size} {length} {limit}");
            if size > 0 {
                assert_eq!(output(&home), pieces.concat()[..summary.bytes as usize]);
                assert!(is_whole || limit - length < 20, "{limit} {length}: there was room");
                assert_eq!(finish(&home.path().join("1.log")).expect("sound"), (length, summary));
            }
        }
    }

    #[test]
    fn a_log_without_output_has_no_file() {
        let (home, log, _) = written(4096, &[]);
        assert_eq!(log.close(), (Summary::default(), 0));
        assert!(!home.path().join("1.log").exists());
    }

    #[test]
    fn what_is_left_in_the_middle_of_a_record_ends_before_it() {
        let (home, log, _) = written(1 << 20, &[b"abc", b"defgh"]);
        let path = home.path().join("1.log");
        let whole = fs::read(&path).expect("a file");
        assert_eq!(whole.len() as u64, log.length());
        drop(log);
        for torn in 0..=whole.len() {
            fs::write(&path, &whole[..torn]).expect("written");
            let found = finish(&path).expect("done");
            let kept = output(&home);
            assert!(b"abcdefgh".starts_with(&kept[..]));
            let cut = Some(OutputCut::ServiceNode);
            assert_eq!(found.1, Summary { bytes: kept.len() as u64, dropped: 0, cut });
            assert_eq!(finish(&path).expect("done"), found, "it has its end now");
        }
        assert_eq!(output(&home), b"abcdefgh");
    }

    #[test]
    fn a_full_disk_cuts_the_log_behind_a_whole_record() {
        // The system's own full disk takes nothing at all.
        let mut log = Log::new(JobId(1), "/dev/full".into(), 1 << 20);
        let (cut, why) = log.append(0, Stream::Output, b"abc").expect("cut");
        assert!(cut == OutputCut::Disk && !why.is_empty(), "{why}");
        assert_eq!(log.append(0, Stream::Output, b"defg"), None, "said once");
        assert_eq!(log.close().0, Summary { bytes: 0, dropped: 7, cut: Some(OutputCut::Disk) });
    }
}
