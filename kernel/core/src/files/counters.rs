//! Counters that a program offers itself to the overlay of its job: `/proc/coppice/counters`. A line `name value` that
//! is written to it says what a counter is from now on; what is read are the lines of all of them, by their names.
//!
//! A line is one when its end has come. What is written takes effect as a whole or, if a line in it is none or there
//! would be too many names, not at all; then what came before it of a line that was begun is forgotten, too. At most
//! [`WRITE_BYTES_MAX`] are taken at once. What a line was begun with is kept by the open file, so that a line may come
//! in pieces, and pieces that others write through open files of their own do not get into it.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_hal::heap::block_bytes;
use coppice_protocol::limits::{OVERLAY_COUNTER_NAME_BYTES_MAX, OVERLAY_COUNTERS_MAX};
use coppice_protocol::overlay::CounterName;

use super::buffer::part;
use crate::errno::Errno;
use crate::quota::{Charge, Quota};
use crate::sync::{LockLevel, Mutex};

/// What is taken of a write at once, bytes.
pub(crate) const WRITE_BYTES_MAX: usize = 4096;

/// A line without its end, bytes at most: a name, a blank, and the largest value.
const LINE_BYTES_MAX: usize = OVERLAY_COUNTER_NAME_BYTES_MAX + 1 + 20;

/// What the counters of a process take of the heap, bytes.
const ALL_BYTES: usize = block_bytes(OVERLAY_COUNTERS_MAX * size_of::<(CounterName, u64)>());

/// The counters of a process.
pub(crate) struct Offered {
    state: Mutex<State>,
    quota: Arc<Quota>,
}

#[derive(Default)]
struct State {
    /// By their names.
    all: Vec<(CounterName, u64)>,
    /// Memory for as many as there may be, once there was one.
    charge: Option<Charge>,
}

impl Offered {
    /// None. What they take is charged to `quota`.
    pub(crate) fn none(quota: &Arc<Quota>) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(LockLevel::Fact, State::default()), quota: Arc::clone(quota) })
    }

    /// Those that were written down.
    ///
    /// # Errors
    /// `ENOSPC`: they are too many. `ENOMEM`.
    pub(crate) fn again(all: Vec<(CounterName, u64)>, quota: &Arc<Quota>) -> Result<Arc<Self>, Errno> {
        let offered = Self::none(quota);
        offered.set(&all.into_iter().collect())?;
        Ok(offered)
    }

    /// All of them, by their names.
    pub(crate) fn all(&self) -> Vec<(CounterName, u64)> {
        let count = self.state.lock().all.len();
        let mut all = Vec::with_capacity(if count > 0 { OVERLAY_COUNTERS_MAX } else { 0 });
        // Nothing is allocated under the lock: what came meanwhile may be beyond that, if there was nothing.
        all.extend(self.state.lock().all.iter().take(all.capacity()));
        all
    }

    /// These are so from now on.
    fn set(&self, values: &BTreeMap<CounterName, u64>) -> Result<(), Errno> {
        if values.is_empty() {
            return Ok(());
        }
        self.make_room()?;
        let mut state = self.state.lock();
        let find = |state: &State, name: &CounterName| state.all.binary_search_by_key(name, |(name, _)| *name);
        let new = values.keys().filter(|name| find(&state, name).is_err()).count();
        if state.all.len() + new > OVERLAY_COUNTERS_MAX {
            return Err(Errno::ENOSPC);
        }
        for (name, value) in values {
            match find(&state, name) {
                Ok(place) => state.all[place].1 = *value,
                Err(place) => state.all.insert(place, (*name, *value)),
            }
        }
        Ok(())
    }

    /// Has room for as many as there may be.
    fn make_room(&self) -> Result<(), Errno> {
        if self.state.lock().charge.is_some() {
            return Ok(());
        }
        let mut charge = Some(self.quota.charge(ALL_BYTES)?);
        let room = Vec::with_capacity(OVERLAY_COUNTERS_MAX);
        let mut state = self.state.lock();
        if state.charge.is_none() {
            (state.all, state.charge) = (room, charge.take());
        }
        Ok(())
    }

    /// Their lines.
    fn text(&self) -> Vec<u8> {
        self.all().into_iter().flat_map(|(name, value)| format!("{name} {value}\n").into_bytes()).collect()
    }
}

/// The file, opened.
pub(crate) struct CounterFile {
    offered: Arc<Offered>,
    begun: Mutex<Begun>,
}

/// What a line was begun with.
#[derive(Clone, Copy)]
struct Begun {
    bytes: [u8; LINE_BYTES_MAX],
    length: usize,
}

impl Begun {
    const NOTHING: Self = Self { bytes: [0; LINE_BYTES_MAX], length: 0 };

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// And it goes on with these.
    ///
    /// # Errors
    /// `EINVAL`: no line is that long.
    fn go_on(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        let end = self.length + bytes.len();
        self.bytes.get_mut(self.length..end).ok_or(Errno::EINVAL)?.copy_from_slice(bytes);
        self.length = end;
        Ok(())
    }
}

impl CounterFile {
    /// Of these counters.
    pub(crate) fn new(offered: &Arc<Offered>) -> Self {
        Self { offered: Arc::clone(offered), begun: Mutex::new(LockLevel::Fact, Begun::NOTHING) }
    }

    /// One in which a line was begun so.
    ///
    /// # Errors
    /// `EINVAL`: no line is that long.
    pub(super) fn again(offered: &Arc<Offered>, begun: &[u8]) -> Result<Self, Errno> {
        let file = Self::new(offered);
        file.begun.lock().go_on(begun)?;
        Ok(file)
    }

    /// What a line was begun with.
    pub(super) fn begun(&self) -> Vec<u8> {
        let begun = *self.begun.lock();
        begun.bytes().to_vec()
    }

    /// These bytes are written, [`WRITE_BYTES_MAX`] at most.
    ///
    /// # Errors
    /// `EINVAL`: a line is none. `ENOSPC`: there would be too many names. `ENOMEM`. Nothing has changed then, but for
    /// what a line was begun with.
    pub(crate) fn write(&self, bytes: &[u8]) -> Result<(), Errno> {
        let mut begun = core::mem::replace(&mut *self.begun.lock(), Begun::NOTHING);
        let (mut values, mut rest) = (BTreeMap::new(), bytes);
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            begun.go_on(&rest[..end])?;
            let (name, value) = parse(begun.bytes()).ok_or(Errno::EINVAL)?;
            values.insert(name, value);
            if values.len() > OVERLAY_COUNTERS_MAX {
                return Err(Errno::ENOSPC);
            }
            (begun, rest) = (Begun::NOTHING, &rest[end + 1..]);
        }
        begun.go_on(rest)?;
        self.offered.set(&values)?;
        *self.begun.lock() = begun;
        Ok(())
    }

    /// Up to `length` bytes of the lines from `offset` on.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>, Errno> {
        part(&self.offered.text(), offset, length)
    }

    /// Length of the lines as they are now, bytes.
    pub(crate) fn length(&self) -> u64 {
        self.offered.text().len() as u64
    }
}

/// A name, a blank, and decimal digits.
fn parse(line: &[u8]) -> Option<(CounterName, u64)> {
    let blank = line.iter().position(|byte| *byte == b' ')?;
    let digits = line.get(blank + 1..)?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = core::str::from_utf8(digits).ok()?.parse().ok()?;
    Some((CounterName::new(&line[..blank]).ok()?, value))
}

#[cfg(test)]
mod tests;
