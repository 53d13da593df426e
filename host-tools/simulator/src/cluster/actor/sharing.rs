//! What a program does to files that the ranks of its job share.
//!
//! Registers: `r15` how many things it has done to them, `rbp` the descriptor of the one that is open.

use coppice_hal::user::UserExit;
use coppice_protocol::syscalls as nr;

use super::super::checkers::{Found, ShareNote};
use super::super::shared_files::path_of;
use super::super::sharing::{Deed, ENTRY_BYTES, LOG_BYTES_MAX, SharedFile, length_of, word};
use super::memory::{LINE, MESSAGE};
use super::{Actor, CALL_FAILED, Facts, HERE, Step, Stepped};

const ENOENT: i64 = 2;

/// Where stat(2) puts a file's length, and how much it puts, bytes.
const LENGTH_AT: usize = 48;
const STATUS_BYTES: u64 = 144;

impl Actor<'_> {
    fn deed(&self, facts: &Facts) -> Option<Deed> {
        facts.script.sharing.deed(facts.rank, facts.size, self.regs.r15)
    }

    /// It does the next thing. Behind the last one it has what else it does.
    pub(super) fn share(&mut self, facts: &Facts) -> Stepped {
        let (sharing, rank, file) = (facts.script.sharing, facts.rank, self.regs.rbp);
        let Some(deed) = self.deed(facts) else {
            self.observed.shares(rank, facts.script.sharing, ShareNote::Over);
            self.regs.r15 = 0;
            return self.open(facts);
        };
        let (number, arguments) = match deed {
            Deed::Pause(ns) => {
                let pause = self.put_pause(ns)?;
                (nr::NANOSLEEP, [pause, 0, 0, 0])
            }
            Deed::Open(file, flags) => {
                let path = self.put_shared_path(file)?;
                (nr::OPENAT, [HERE, path, flags, 0o600])
            }
            Deed::Write(number) => {
                let (at, bytes) = sharing.record(rank);
                let record = word(rank, number).to_le_bytes().repeat(sharing.words as usize);
                self.put_line(&record)?;
                (nr::PWRITE64, [file, LINE, bytes, at])
            }
            Deed::Read(of) => {
                let (at, bytes) = sharing.record(of);
                (nr::PREAD64, [file, MESSAGE, bytes, at])
            }
            Deed::Append(number) => {
                let word = word(rank, number);
                self.put_line(&[word, !word].map(u64::to_le_bytes).concat())?;
                (nr::WRITE, [file, LINE, ENTRY_BYTES, 0])
            }
            Deed::ReadLog => (nr::PREAD64, [file, MESSAGE, LOG_BYTES_MAX, 0]),
            Deed::Cut(number) => (nr::FTRUNCATE, [file, length_of(number), 0, 0]),
            Deed::LookAtLength => (nr::FSTAT, [file, MESSAGE, 0, 0]),
            Deed::Rename(number) => {
                let from = self.put_path_text(&path_of(number - 1))?;
                self.put_line(format!("{}\0", path_of(number)).as_bytes())?;
                (nr::RENAMEAT, [HERE, from, HERE, LINE])
            }
            Deed::LookAtName(name) => {
                let path = self.put_path_text(&path_of(name))?;
                (nr::NEWFSTATAT, [HERE, path, MESSAGE, 0])
            }
            Deed::Sync => (nr::FSYNC, [file, 0, 0, 0]),
            Deed::Close => (nr::CLOSE, [file, 0, 0, 0]),
        };
        // Last, as a step begins anew when it needs a page.
        self.observed.shares(rank, facts.script.sharing, ShareNote::Begins(deed));
        Ok(self.call(Step::Shared, number, arguments))
    }

    /// It has done it, or could not.
    pub(super) fn shared(&mut self, facts: &Facts) -> Stepped {
        let (rank, gave) = (facts.rank, self.regs.rax.cast_signed());
        let Some(deed) = self.deed(facts) else { return Ok(self.exit(CALL_FAILED)) };
        let is_missing = matches!(deed, Deed::LookAtName(_)) && gave == -ENOENT;
        if self.has_failed() && !is_missing {
            self.observed.shares(rank, facts.script.sharing, ShareNote::Fails(deed, gave));
            return Ok(self.exit(CALL_FAILED));
        }
        let wanted = match deed {
            Deed::Write(_) => Some(facts.script.sharing.record(rank).1),
            Deed::Append(_) => Some(ENTRY_BYTES),
            _ => None,
        };
        if wanted.is_some_and(|wanted| wanted != self.regs.rax) {
            self.observed.violate(format!("rank {rank}: {deed:?} gave {gave}"));
        }
        let found = match deed {
            Deed::Read(_) | Deed::ReadLog => Found::Words(self.read_words(self.regs.rax)?),
            Deed::LookAtLength => {
                let status = self.read_message(STATUS_BYTES)?;
                let length = status.get(LENGTH_AT..LENGTH_AT + 8).and_then(|bytes| bytes.try_into().ok());
                Found::Length(length.map_or(u64::MAX, u64::from_le_bytes))
            }
            Deed::LookAtName(_) => Found::Name(!is_missing),
            _ => Found::Nothing,
        };
        if let Deed::Open(..) = deed {
            self.regs.rbp = self.regs.rax;
        }
        self.observed.shares(rank, facts.script.sharing, ShareNote::Ends(deed, found));
        self.regs.r15 += 1;
        Ok(self.go(Step::Share))
    }

    fn read_words(&self, length: u64) -> Result<Vec<u64>, UserExit> {
        let bytes = self.read_message(length)?;
        // Of a word that is there in part the rest is zeros, as where nothing was written.
        let word = |part: &[u8]| {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            u64::from_le_bytes(word)
        };
        Ok(bytes.chunks(8).map(word).collect())
    }

    fn put_shared_path(&self, file: SharedFile) -> Result<u64, UserExit> {
        self.put_path_text(&format!("/shared/{}", file as u64))
    }
}
