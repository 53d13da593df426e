//! Which epolls watch which: never one another, and no more than [`NESTED_DEPTH_MAX`] one above the other. So whoever
//! wakes or looks comes to an end soon, on a kernel's stack.
//!
//! Both ends of each watch know it ([`Links`]), for a chain may be made longer at its upper or at its lower end. One
//! lock is held while one is added, so that two threads cannot close a ring together.

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;

use coppice_hal::heap::block_bytes;

use super::Set;
use crate::errno::Errno;
use crate::limits::{NESTED_DEPTH_MAX, NESTED_MAX};
use crate::sync::{LockLevel, Mutex, MutexGuard};

/// Held while an epoll comes to be watched by another. Counts the walks.
static NESTING: Mutex<u64> = Mutex::new(LockLevel::Nesting, 0);

/// What an epoll knows of others takes so much of the heap at most, bytes. It may know many that are gone, and is
/// charged for that from the beginning.
pub(super) const LINKS_BYTES: usize = 2 * block_bytes(NESTED_MAX * size_of::<Weak<Set>>());

/// What an epoll knows of others.
#[derive(Default)]
pub(super) struct Links {
    /// Those that watch it, as often as they do.
    above: Vec<Weak<Set>>,
    /// Those that it watches.
    below: Vec<Weak<Set>>,
    /// How long the longest chains from here are, and which walk found that.
    known: [(u64, usize); 2],
}

/// A way to walk.
#[derive(Clone, Copy)]
enum Way {
    Up,
    Down,
}

/// While it is there, no other epoll comes to be watched by another.
pub(super) struct Nesting {
    walks: MutexGuard<'static, u64>,
    /// What was walked through: what goes with the last of those who know it is not to go under the lock.
    _walked: Vec<Arc<Set>>,
}

impl Nesting {
    /// Whether `outer` may watch `inner`.
    ///
    /// # Errors
    /// `ELOOP`: `inner` watches it, or there would be too many one above the other. `ENOSPC`: one of them watches, or
    /// is watched by, [`NESTED_MAX`] others. `ENOMEM`.
    pub(super) fn between(outer: &Arc<Set>, inner: &Arc<Set>) -> Result<Self, Errno> {
        let mut walked = Vec::new();
        let mut walks = NESTING.lock();
        *walks += 1;
        let walk = *walks;
        let fits = (|| {
            let below = longest(inner, Way::Down, (walk, outer), NESTED_DEPTH_MAX, &mut walked)?;
            // Not through `inner`: then `outer` would have been found below it.
            let above = longest(outer, Way::Up, (walk, inner), NESTED_DEPTH_MAX, &mut walked)?;
            if above + 1 + below > NESTED_DEPTH_MAX {
                return Err(Errno::ELOOP);
            }
            make_room(&mut outer.links.lock().below)?;
            make_room(&mut inner.links.lock().above)
        })();
        if let Err(errno) = fits {
            drop(walks);
            return Err(errno);
        }
        Ok(Self { walks, _walked: walked })
    }

    /// It does.
    pub(super) fn link(self, outer: &Arc<Set>, inner: &Arc<Set>) {
        outer.links.lock().below.push(Arc::downgrade(inner));
        inner.links.lock().above.push(Arc::downgrade(outer));
        // Before what was walked through.
        drop(self.walks);
    }
}

/// It does not any more, or once less.
pub(super) fn unlink(outer: &Arc<Set>, inner: &Arc<Set>) {
    let _nesting = NESTING.lock();
    take_out(&mut outer.links.lock().below, inner);
    take_out(&mut inner.links.lock().above, outer);
}

fn take_out(list: &mut Vec<Weak<Set>>, other: &Arc<Set>) {
    if let Some(place) = list.iter().position(|known| core::ptr::eq(known.as_ptr(), Arc::as_ptr(other))) {
        list.swap_remove(place);
    }
}

/// Room for one more, where those that are gone were if need be.
fn make_room(list: &mut Vec<Weak<Set>>) -> Result<(), Errno> {
    if list.len() == list.capacity() {
        list.retain(|known| known.strong_count() > 0);
    }
    if list.len() >= NESTED_MAX {
        return Err(Errno::ENOSPC);
    }
    list.try_reserve(1).map_err(|_| Errno::ENOMEM)
}

/// How many epolls are one above the other on the longest way from one, itself not counted. Each is looked at once in a
/// walk.
///
/// # Errors
/// `ELOOP`: more than `left`, or `end` is on the way. `ENOMEM`.
fn longest(
    set: &Arc<Set>,
    way: Way,
    (walk, end): (u64, &Arc<Set>),
    left: usize,
    walked: &mut Vec<Arc<Set>>,
) -> Result<usize, Errno> {
    if Arc::ptr_eq(set, end) {
        return Err(Errno::ELOOP);
    }
    let first = {
        let links = set.links.lock();
        let (of, length) = links.known[way as usize];
        if of == walk {
            return if length <= left { Ok(length) } else { Err(Errno::ELOOP) };
        }
        let next = match way {
            Way::Up => &links.above,
            Way::Down => &links.below,
        };
        let first = walked.len();
        walked.try_reserve(next.len()).map_err(|_| Errno::ENOMEM)?;
        walked.extend(next.iter().filter_map(Weak::upgrade));
        first
    };
    let mut length = 0;
    for place in first..walked.len() {
        let Some(next) = walked.get(place).cloned() else { break };
        let left = left.checked_sub(1).ok_or(Errno::ELOOP)?;
        length = length.max(1 + longest(&next, way, (walk, end), left, walked)?);
    }
    set.links.lock().known[way as usize] = (walk, length);
    Ok(length)
}
