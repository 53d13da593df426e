//! poll(2), ppoll(2).
//!
//! Programs poll without a time limit when they wait and with one of 0 when they do not, millions of times. So a poll
//! that need not wait is an immediate call: it takes no memory, looks at each descriptor once, and is done.

use alloc::sync::Arc;
use core::future::poll_fn;
use core::pin::pin;
use core::sync::atomic::Ordering;
use core::task::{Poll, Waker};

use coppice_hal::addr::UserPage;
use coppice_hal::paging::Access;
use coppice_hal::user::Registers;

use super::Arguments;
use super::activity::AnyOf;
use super::signal::read_mask;
use crate::abi::io::{POLLFD_BYTES, PollEntry};
use crate::abi::time::{parse_timespec, timespec};
use crate::clock;
use crate::errno::Errno;
use crate::executor::{self, Phase};
use crate::files::readiness::{Level, Ready};
use crate::files::{Descriptors, Input, Object, Standard};
use crate::memory::AddressSpace;
use crate::process::signals::Patience;
use crate::process::{Awaited, Caller, Failure, Immediate, Trouble};

/// What is told of an entry whether it was asked for or not.
const ALWAYS_TOLD: u32 = Ready::ALWAYS_TOLD.bits() as u32 | Level::INVALID as u32;

/// Entries that are looked at together: they lie on the stack meanwhile.
const CHUNK_ENTRIES: usize = 32;

/// The `struct pollfd`s of a call.
#[derive(Clone, Copy)]
struct Entries {
    address: u64,
    count: usize,
}

/// What a look at all entries has found.
struct Found {
    /// Entries of which something is to be told.
    ready: u64,
    /// Standard input that was asked for, if it is not known whether there is any.
    unknown: Option<Arc<Input>>,
}

impl Entries {
    /// # Errors
    /// `EINVAL`: more than a process can have descriptors.
    fn of(caller: Caller<'_>, a: &Arguments) -> Result<Self, Errno> {
        let is_possible = |count: &u32| u64::from(*count) <= caller.process.limits.descriptors();
        let count = Some(a.uint(1)).filter(is_possible).ok_or(Errno::EINVAL)? as usize;
        if !AddressSpace::is_user_range(a.get(0), (count * POLLFD_BYTES) as u64) {
            return Err(Errno::EFAULT);
        }
        Ok(Self { address: a.get(0), count })
    }

    /// Calls `each` with the bytes of some entries after the other, which go back to the program changed.
    fn for_each_chunk(self, caller: Caller<'_>, mut each: impl FnMut(&mut [u8])) -> Immediate<()> {
        let mut bytes = [0; CHUNK_ENTRIES * POLLFD_BYTES];
        let mut done = 0;
        while done < self.count {
            let count = (self.count - done).min(CHUNK_ENTRIES);
            let chunk = &mut bytes[..count * POLLFD_BYTES];
            let address = self.address.wrapping_add((done * POLLFD_BYTES) as u64);
            caller.process.space.lock().read_bytes(address, chunk)?;
            each(chunk);
            caller.process.space.lock().write_bytes(address, chunk)?;
            done += count;
        }
        Ok(())
    }

    /// Looks at all descriptors and writes down what is the case.
    fn look(self, caller: Caller<'_>) -> Immediate<Found> {
        let mut found = Found { ready: 0, unknown: None };
        self.for_each_chunk(caller, |chunk| {
            let files = caller.process.files.lock();
            for bytes in chunk.as_chunks_mut::<POLLFD_BYTES>().0 {
                let happened = look_at(&files, &PollEntry::parse(bytes), &mut found.unknown);
                found.ready += u64::from(happened != 0);
                PollEntry::tell(bytes, happened);
            }
        })?;
        Ok(found)
    }

    /// As [`Self::look`], of entries that lie in one page which is there: looks at all of them where they are. Gives
    /// nothing if they do not, or if a descriptor needs a closer look; then it has said nothing wrong.
    #[inline]
    fn glance(self, caller: Caller<'_>) -> Option<u64> {
        let page = UserPage::containing(self.address)?;
        let files = caller.process.files.lock();
        let levels = files.levels();
        let space = caller.process.space.lock();
        let mapped = space.table().lookup(page).filter(|mapped| mapped.access().contains(Access::WRITE))?;
        let words = mapped.words((self.address - page.address()) as usize, self.count * 2)?;
        let (mut ready, mut all) = (0, 0);
        for [descriptor, rest] in words.as_chunks::<2>().0 {
            let number = descriptor.load(Ordering::Relaxed);
            let level = match levels.get(number as usize) {
                Some(level) => level.bits().into(),
                // Negative ones are skipped.
                None if number.cast_signed() < 0 => 0,
                None => Level::INVALID.into(),
            };
            let said = rest.load(Ordering::Relaxed);
            let happened = (said | ALWAYS_TOLD) & level;
            all |= level;
            if happened | said >> 16 != 0 {
                rest.store(said & 0xffff | happened << 16, Ordering::Relaxed);
                ready += u64::from(happened != 0);
            }
        }
        (all & u32::from(Level::LOOK_CLOSER) == 0).then_some(ready)
    }

    /// Has `waker` woken when another look may find more. Says what the thread waits for then.
    fn watch(self, caller: Caller<'_>, waker: &Waker) -> Immediate<()> {
        let mut watched = Ok(());
        let mut any = AnyOf::default();
        self.for_each_chunk(caller, |chunk| {
            for bytes in chunk.as_chunks::<POLLFD_BYTES>().0 {
                let file = caller.process.files.lock().get(PollEntry::parse(bytes).descriptor);
                if let Ok(file) = file {
                    any.add(&file);
                    watched = watched.and(file.watch(waker));
                }
            }
        })?;
        caller.thread.waits_for(any.phase());
        Ok(watched?)
    }

    /// Waits until a look finds something or `deadline_ns` has come. Gives what it found.
    async fn wait(self, caller: Caller<'_>, deadline_ns: u64) -> Awaited {
        // Who waits on has asked.
        let mut asked = caller.thread.pending().taken_up;
        loop {
            let looked = match self.look(caller) {
                Ok(Found { unknown: Some(input), .. }) if !asked => {
                    asked = true;
                    caller.thread.waits_for(Phase::Input);
                    input.look().await;
                    caller.thread.waits_for(Phase::File);
                    continue;
                }
                Ok(Found { ready: 0, .. }) if clock::monotonic_ns() < deadline_ns => {
                    let look_again = poll_fn(|context| {
                        let looked = self.watch(caller, context.waker()).and_then(|()| self.look(caller));
                        if let Ok(Found { ready: 0, .. }) = looked { Poll::Pending } else { Poll::Ready(looked) }
                    });
                    let nothing = Found { ready: 0, unknown: None };
                    let waiting = executor::timeout_at(deadline_ns, look_again);
                    caller.interruptible(Phase::Network, Patience::Limited, waiting).await?.unwrap_or(Ok(nothing))
                }
                looked => looked,
            };
            match looked {
                Ok(found) => {
                    if found.ready == 0 {
                        caller.unless_interrupted(Patience::Limited).await?;
                    }
                    return Ok(found.ready);
                }
                Err(Trouble::Fetch(fetch)) => caller.fetch_for_copy(&fetch).await?,
                Err(trouble) => return Err(Failure::from(trouble)),
            }
        }
    }
}

/// What is to be told of one entry.
#[inline]
fn look_at(files: &Descriptors, entry: &PollEntry, unknown: &mut Option<Arc<Input>>) -> u16 {
    if entry.descriptor < 0 {
        return 0;
    }
    let Some(file) = files.peek(entry.descriptor).filter(|file| !file.is_path()) else { return Level::INVALID };
    let ready = file.ready();
    if let Object::Standard(Standard::Input(input)) = &file.object
        && ready.is_empty()
        && entry.events & Ready::READ.bits() != 0
    {
        *unknown = Some(Arc::clone(input));
    }
    ready.bits() & (entry.events | Ready::ALWAYS_TOLD.bits())
}

/// poll(2), if it need not wait and is nothing out of the ordinary: the shortest way there is.
pub(crate) fn poll_at_once(caller: Caller<'_>, regs: &Registers) -> Option<u64> {
    let a = &Arguments::of(regs);
    Entries::of(caller, a).ok()?.glance(caller).filter(|ready| *ready > 0 || a.int(2) == 0)
}

/// poll(2), if it need not wait.
pub(super) fn poll_now(caller: Caller<'_>, a: &Arguments) -> Option<Immediate> {
    let entries = match Entries::of(caller, a) {
        Ok(entries) => entries,
        Err(errno) => return Some(Err(errno.into())),
    };
    match entries.look(caller) {
        Ok(Found { unknown: Some(_), .. }) => None,
        Ok(Found { ready: 0, .. }) if a.int(2) != 0 => None,
        Ok(found) => Some(Ok(found.ready)),
        Err(trouble) => Some(Err(trouble)),
    }
}

/// poll(2).
pub(super) async fn poll(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let deadline_ns = caller.deadline_ns(|| match u64::try_from(a.int(2)) {
        Ok(timeout_ms) => clock::monotonic_ns().saturating_add(timeout_ms * 1_000_000),
        Err(_) => u64::MAX,
    });
    Entries::of(caller, a)?.wait(caller, deadline_ns).await
}

/// ppoll(2). The time left is written back, as Linux does.
pub(super) async fn ppoll(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let deadline_ns = match a.get(2) {
        0 => u64::MAX,
        address => {
            let timeout_ns = parse_timespec(&caller.read_array(address).await?)?;
            caller.deadline_ns(|| clock::monotonic_ns().saturating_add(timeout_ns))
        }
    };
    let mask = read_mask(caller, a.get(3), a.get(4)).await?;
    let entries = Entries::of(caller, a)?;
    let ready = caller.with_mask(mask, pin!(entries.wait(caller, deadline_ns))).await;
    if a.get(2) != 0 && !matches!(ready, Err(Failure::Held)) {
        let left_ns = deadline_ns.saturating_sub(clock::monotonic_ns());
        // Linux, too, does not mind if this cannot be written.
        let _ = caller.write(a.get(2), timespec(left_ns).bytes()).await;
    }
    ready
}
