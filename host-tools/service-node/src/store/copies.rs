//! What is known of the store's copies: who needs which, and what each was when its bytes were hashed.
//!
//! One lock is held for every look at this and for every file that gets or loses its name, so that a copy is never
//! removed between the look whether somebody needs it and its removal, nor a good one in place of a bad one.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::ops::Deref;
use std::path::Path;
use std::sync::{Arc, MutexGuard, PoisonError};

use coppice_protocol::ids::ProgramId;

use super::{Partial, ProgramStore, key_of, read_tree};
use crate::database::{FileKey, ProgramRow};

/// The copies that somebody needs, or that were hashed.
#[derive(Debug, Default)]
pub(super) struct Copies(BTreeMap<ProgramId, Copy>);

#[derive(Debug, Default)]
struct Copy {
    /// How many need it.
    holders: usize,
    /// The database knows of it, and decides when it goes.
    is_recorded: bool,
    /// What the file and that of its tree were when their bytes were what their names say.
    hashed: Option<[FileKey; 2]>,
}

/// What became of looking at a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// It is what its name says.
    Sound,
    /// It was not, and is removed.
    Altered,
    /// It was not there.
    Absent,
}

/// A program whose copy somebody needs: it stays until all of these are dropped.
#[derive(Clone, Debug)]
pub struct Held(Arc<Hold>);

#[derive(Debug)]
struct Hold {
    program: ProgramRow,
    store: ProgramStore,
}

impl Deref for Held {
    type Target = ProgramRow;

    fn deref(&self) -> &ProgramRow {
        &self.0.program
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut copies = self.store.copies();
        let Some(copy) = copies.0.get_mut(&self.program.id) else { return };
        copy.holders = copy.holders.saturating_sub(1);
        if copy.holders > 0 || (copy.is_recorded && copy.hashed.is_some()) {
            return;
        }
        // Its submission came to nothing; nobody else would ever remove it.
        if !copy.is_recorded
            && let Err(error) = self.store.remove_file(self.program.id)
        {
            tracing::warn!(%error, program = %self.program.id, "cannot remove from the store");
        }
        copies.0.remove(&self.program.id);
    }
}

impl ProgramStore {
    /// Keeps the copy of a program that is recorded as stored from being removed. It may have gone before.
    #[must_use]
    pub fn hold(&self, program: ProgramRow) -> Held {
        let mut copies = self.copies();
        let copy = copies.0.entry(program.id).or_default();
        copy.holders += 1;
        copy.is_recorded = true;
        drop(copies);
        Held(Arc::new(Hold { program, store: self.clone() }))
    }

    /// The program's copy is recorded as stored.
    pub fn recorded(&self, held: &Held) {
        if let Some(copy) = self.copies().0.get_mut(&held.id) {
            copy.is_recorded = true;
        }
    }

    /// Removes a program's bytes, if they are there, and says whether that was done: not if somebody needs them.
    ///
    /// # Errors
    /// What the system says.
    pub fn remove(&self, id: ProgramId) -> io::Result<bool> {
        let mut copies = self.copies();
        if copies.0.get(&id).is_some_and(|copy| copy.holders > 0) {
            return Ok(false);
        }
        self.remove_file(id)?;
        copies.0.remove(&id);
        Ok(true)
    }

    /// Whether nobody has touched the copy since its bytes were hashed. Reads nothing of it.
    #[must_use]
    pub fn is_unaltered(&self, id: ProgramId) -> bool {
        let hashed = self.copies().0.get(&id).and_then(|copy| copy.hashed);
        hashed.is_some() && hashed == self.present(id)
    }

    /// Hashes the copy unless nobody has touched it since that was done. A bad one is removed.
    ///
    /// # Errors
    /// It cannot be looked at.
    pub fn check(&self, held: &Held) -> io::Result<Found> {
        let id = held.id;
        if self.is_unaltered(id) {
            return Ok(Found::Sound);
        }
        let file = match File::open(self.path(id)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Absent),
            file => file?,
        };
        let before = self.present(id);
        let is_sound = self.is_what_it_is_called(&file, held);
        let mut copies = self.copies();
        let present = self.present(id);
        let copy = copies.0.entry(id).or_default();
        if copy.hashed.is_some() && copy.hashed == present {
            // Somebody has just stored it anew.
            return Ok(Found::Sound);
        }
        if is_sound && present.is_some() && present == before {
            copy.hashed = present;
            return Ok(Found::Sound);
        }
        copy.hashed = None;
        tracing::warn!(program = %id, "the stored copy was damaged or changed and is removed");
        self.remove_file(id)?;
        Ok(Found::Altered)
    }

    /// Gives a copy that was just written and hashed its name.
    pub(super) fn place(&self, partial: Partial, tree: Partial, program: ProgramRow) -> io::Result<Held> {
        let path = self.path(program.id);
        let mut copies = self.copies();
        // One that is there and that nobody fetched just now has been recorded at some time.
        let was_there = path.exists();
        // The program last: if it has its name, its tree is there.
        let tree = tree.finish(&self.tree_path(program.id))?;
        let hashed = [partial.finish(&path)?, tree];
        let copy = copies.0.entry(program.id).or_insert_with(|| Copy { is_recorded: was_there, ..Copy::default() });
        copy.holders += 1;
        copy.hashed = Some(hashed);
        drop(copies);
        Ok(Held(Arc::new(Hold { program, store: self.clone() })))
    }

    fn copies(&self) -> MutexGuard<'_, Copies> {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the copy's file and that of its tree are known by now.
    fn present(&self, id: ProgramId) -> Option<[FileKey; 2]> {
        let key = |path: &Path| fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file).map(|file| key_of(&file));
        Some([key(&self.path(id))?, key(&self.tree_path(id))?])
    }

    fn remove_file(&self, id: ProgramId) -> io::Result<()> {
        for path in [self.path(id), self.tree_path(id)] {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether a file's bytes are those of the program, and its tree is theirs. What cannot be read is not.
    fn is_what_it_is_called(&self, file: &File, program: &ProgramRow) -> bool {
        let read = read_tree(file, program.bytes, |error| error, |_| Ok(()));
        let read = read.and_then(|nodes| {
            let path = self.tree_path(program.id);
            // One that is longer is not even read.
            let is_as_long = fs::metadata(&path)?.len() == nodes.as_flattened().len() as u64;
            Ok((nodes, if is_as_long { fs::read(path)? } else { Vec::new() }))
        });
        match read {
            Ok((nodes, stored)) => nodes.first() == Some(&program.id.0) && nodes.as_flattened() == stored,
            Err(error) => {
                tracing::warn!(%error, program = %program.id, "cannot read from the store");
                false
            }
        }
    }
}
