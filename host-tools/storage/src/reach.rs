//! Which objects a checkpoint has: those of its parts' listings, and these.

use std::collections::HashSet;

use coppice_protocol::checkpoint::{Listing, ObjectId};
use rustix::fs::{AtFlags, statat, unlinkat};

use crate::directory::{names, open_directory};
use crate::{Manifest, ManifestPart, Result, Storage, StorageError};

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Objects.
    pub objects: u64,
    /// What they took on the disk, bytes.
    pub bytes: u64,
}

impl Storage {
    /// Reads all objects of a checkpoint and looks whether they are what was put. What several parts have is read once.
    ///
    /// # Errors
    /// [`StorageError::NotWhole`] for the first part that cannot be restored, with what is wrong: an object that is
    /// missing or damaged, or what the host says.
    pub fn verify(&self, manifest: &Manifest) -> Result<()> {
        let mut good = HashSet::new();
        self.follow(manifest, &mut good, |id| self.get(id).map(drop))
    }

    /// Removes all objects that no manifest reaches. Nobody may save a checkpoint meanwhile, and nobody may have put
    /// objects of one whose manifest is still to be written: they would go, too.
    ///
    /// # Errors
    /// The error of a manifest that is damaged or does not reach what it should, as nobody knows then whose objects the
    /// others are, and nothing is removed; or what the host says, and then some are.
    pub fn collect(&self) -> Result<Collected> {
        let mut reached = HashSet::new();
        for job in self.jobs()? {
            for (_, manifest) in self.manifests(job)? {
                self.follow(&manifest?, &mut reached, |_| Ok(()))?;
            }
        }
        let mut collected = Collected::default();
        self.take_out(|id| reached.contains(id), !reached.is_empty(), &mut collected)?;
        let directories = names(&self.objects).map_err(|error| self.failed("read", "objects", error))?;
        for directory in directories.iter().filter(|name| name.len() == 2) {
            let path = format!("objects/{directory}");
            let opened = open_directory(&self.objects, directory).map_err(|error| self.failed("open", &path, error))?;
            for name in names(&opened).map_err(|error| self.failed("read", &path, error))? {
                // What is no object is not ours.
                if name.parse().map_or(true, |id: ObjectId| reached.contains(&id)) {
                    continue;
                }
                let failed = |error| self.failed("remove", &format!("{path}/{name}"), error);
                let status = statat(&opened, &name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
                unlinkat(&opened, &name, AtFlags::empty()).map_err(failed)?;
                collected.objects += 1;
                collected.bytes += u64::try_from(status.st_blocks).unwrap_or(0) * 512;
            }
        }
        Ok(collected)
    }

    /// Adds all objects of a checkpoint to those that are known, and has each that was not looked at.
    fn follow(
        &self,
        manifest: &Manifest,
        known: &mut HashSet<ObjectId>,
        mut look: impl FnMut(ObjectId) -> Result<()>,
    ) -> Result<()> {
        manifest.parts.iter().try_for_each(|part| {
            self.follow_part(part, known, &mut look).map_err(|why| StorageError::NotWhole {
                job: manifest.job,
                number: manifest.number,
                part: part.to_string(),
                why: Box::new(why),
            })
        })
    }

    fn follow_part(
        &self,
        part: &ManifestPart,
        known: &mut HashSet<ObjectId>,
        mut look: impl FnMut(ObjectId) -> Result<()>,
    ) -> Result<()> {
        let (mut record_objects, mut objects) = (0, 0);
        let mut next = Some(part.object);
        // No list comes twice: it would have to have its own hash in it.
        while let Some(id) = next {
            let listing = Listing::read(&self.get(id)?).map_err(|_| StorageError::NoListing(id))?;
            known.insert(id);
            if id == part.object {
                record_objects = listing.record_objects();
            }
            objects += listing.objects.len() as u64;
            for object in listing.objects {
                if known.insert(object) {
                    look(object)?;
                }
            }
            next = listing.next;
        }
        if record_objects > objects { Err(StorageError::NoListing(part.object)) } else { Ok(()) }
    }
}
