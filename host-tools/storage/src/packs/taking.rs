//! How objects are taken out of packs: what they were is wiped, and its room is the host's again.

use std::fs::File;
use std::os::unix::fs::FileExt;

use coppice_protocol::checkpoint::ObjectId;
use rustix::fs::{AtFlags, FallocateFlags, OFlags, fallocate, unlinkat};
use rustix::io::Errno;

use super::entry::{self, Contents, Entry};
use super::{is_name, path};
use crate::directory::{errno, names};
use crate::limits::PACKS_OPEN_MAX;
use crate::{Collected, Result, Storage};

/// What is to be taken out of a pack that stays.
struct Taking {
    name: String,
    file: File,
    entries_at: u64,
    gone: Vec<(u32, Entry)>,
}

impl Storage {
    /// Takes all objects out of packs that are not to stay, and removes packs that have none left. Damaged ones, of
    /// which nobody knows what they hold, go if there is no checkpoint any more. Nobody may put objects meanwhile.
    ///
    /// Whoever is killed in the middle, or whose host crashes, leaves none that seems to be there and is not: first
    /// all say that they are going, on stable storage.
    pub(crate) fn take_out(
        &self,
        stays: impl Fn(&ObjectId) -> bool,
        is_any: bool,
        collected: &mut Collected,
    ) -> Result<()> {
        let all = names(&self.packs.directory).map_err(|error| self.failed("read", "packs", error))?;
        let all: Vec<String> = all.into_iter().filter(|name| is_name(name)).collect();
        for some in all.chunks(PACKS_OPEN_MAX) {
            let mut takings = Vec::new();
            for name in some {
                takings.extend(self.begin_to_take(name.clone(), &stays, is_any, collected)?);
            }
            if !takings.is_empty() {
                self.settle()?;
            }
            for taking in takings {
                taking.finish().map_err(|error| self.failed("wipe objects in", &path(&taking.name), error))?;
            }
        }
        Ok(())
    }

    /// Says of those that do not stay that they are going. `None`: all stay, or the pack is gone.
    fn begin_to_take(
        &self,
        name: String,
        stays: impl Fn(&ObjectId) -> bool,
        is_any: bool,
        collected: &mut Collected,
    ) -> Result<Option<Taking>> {
        let failed = |what, error| self.failed(what, &path(&name), error);
        let Some(file) = self.packs.open(&name, OFlags::RDWR).map_err(|error| failed("open", error))? else {
            return Ok(None);
        };
        let read = entry::read_all(&file).map_err(|error| failed("read", errno(&error)))?;
        if read.is_none() && is_any {
            return Ok(None);
        }
        let Contents { entries_at, entries } = read.unwrap_or_default();
        let all = entries.len();
        let gone: Vec<_> = entries.into_iter().filter(|(_, entry)| entry.is_going || !stays(&entry.id)).collect();
        let is_new = |(_, entry): &&(u32, Entry)| !entry.is_going;
        collected.objects += gone.iter().filter(is_new).count() as u64;
        collected.bytes += gone.iter().filter(is_new).map(|(_, entry)| u64::from(entry.length)).sum::<u64>();
        if gone.len() == all {
            unlinkat(&self.packs.directory, &name, AtFlags::empty()).map_err(|error| failed("remove", error))?;
            return Ok(None);
        }
        let taking = Taking { name, file, entries_at, gone };
        for (number, entry) in &taking.gone {
            let said = taking.write(*number, &Entry { is_going: true, ..*entry }.bytes());
            said.map_err(|error| self.failed("write", &path(&taking.name), error))?;
        }
        Ok((!taking.gone.is_empty()).then_some(taking))
    }
}

impl Taking {
    fn write(&self, number: u32, bytes: &[u8]) -> rustix::io::Result<()> {
        let at = self.entries_at + u64::from(number) * Entry::BYTES as u64;
        self.file.write_all_at(bytes, at).map_err(|error| errno(&error))
    }

    /// Wipes what is going.
    fn finish(&self) -> rustix::io::Result<()> {
        for (number, entry) in &self.gone {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            match fallocate(&self.file, flags, entry.offset, entry.length.into()) {
                // It keeps the room until the pack goes.
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                    let zeros = vec![0; entry.length as usize];
                    self.file.write_all_at(&zeros, entry.offset).map_err(|error| errno(&error))?;
                }
                punched => punched?,
            }
            self.write(*number, &Entry::NONE)?;
        }
        Ok(())
    }
}
