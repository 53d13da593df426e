//! select(2), pselect6(2).

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::future::poll_fn;
use core::pin::pin;
use core::task::Poll;

use super::Arguments;
use super::activity::AnyOf;
use super::signal::read_mask;
use crate::abi::time::{parse_timespec, parse_timeval, timespec, timeval};
use crate::abi::u64_at;
use crate::clock;
use crate::errno::Errno;
use crate::executor::{self, Phase};
use crate::files::{DESCRIPTORS_MAX, Input, Object, Ready, Standard};
use crate::process::signals::Patience;
use crate::process::{Awaited, Caller, Failure};

/// select(2).
pub(super) async fn select(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let deadline_ns = match a.get(4) {
        0 => u64::MAX,
        address => deadline_ns(caller, parse_timeval(&caller.read_array(address).await?)?),
    };
    let ready = select_until(caller, a, deadline_ns).await;
    if a.get(4) != 0 && !matches!(ready, Err(Failure::Held)) {
        let left_ns = deadline_ns.saturating_sub(clock::monotonic_ns());
        // Linux, too, does not mind if this cannot be written.
        let _ = caller.write(a.get(4), timeval(left_ns).bytes()).await;
    }
    ready
}

/// pselect6(2).
pub(super) async fn pselect6(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let deadline_ns = match a.get(4) {
        0 => u64::MAX,
        address => deadline_ns(caller, parse_timespec(&caller.read_array(address).await?)?),
    };
    let mask = match a.get(5) {
        0 => None,
        // The mask's address and length.
        address => {
            let place: [u8; 16] = caller.read_array(address).await?;
            read_mask(caller, u64_at(&place, 0), u64_at(&place, 8)).await?
        }
    };
    let ready = caller.with_mask(mask, pin!(select_until(caller, a, deadline_ns))).await;
    if a.get(4) != 0 && !matches!(ready, Err(Failure::Held)) {
        let left_ns = deadline_ns.saturating_sub(clock::monotonic_ns());
        let _ = caller.write(a.get(4), timespec(left_ns).bytes()).await;
    }
    ready
}

fn deadline_ns(caller: Caller<'_>, timeout_ns: u64) -> u64 {
    caller.deadline_ns(|| clock::monotonic_ns().saturating_add(timeout_ns))
}

/// Length of the longest set, bytes.
const SET_BYTES_MAX: usize = DESCRIPTORS_MAX / 8;

/// A set of descriptors, a bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Set([u8; SET_BYTES_MAX]);

impl Set {
    const EMPTY: Self = Self([0; SET_BYTES_MAX]);

    fn has(&self, number: usize) -> bool {
        self.0.get(number / 8).is_some_and(|byte| byte >> (number % 8) & 1 != 0)
    }

    fn add(&mut self, number: usize) {
        if let Some(byte) = self.0.get_mut(number / 8) {
            *byte |= 1 << (number % 8);
        }
    }
}

/// What each of the three sets asks for.
const KINDS: [Ready; 3] = [Ready::READ.union(Ready::ALWAYS_TOLD), Ready::WRITE.union(Ready::ERROR), Ready::PRIORITY];

/// What is asked for: the sets, and how many descriptors they are about.
struct Asked {
    sets: [Set; 3],
    count: usize,
}

/// What a look at all descriptors has found.
struct Found {
    sets: [Set; 3],
    /// Bits in the sets.
    ready: u64,
    /// Standard input that was asked for, if it is not known whether there is any.
    unknown: Option<Arc<Input>>,
}

impl Found {
    const NOTHING: Self = Self { sets: [Set::EMPTY; 3], ready: 0, unknown: None };
}

impl Asked {
    /// The descriptors that are in any set.
    fn numbers(&self) -> impl Iterator<Item = usize> {
        (0..self.count).filter(|number| self.sets.iter().any(|set| set.has(*number)))
    }

    /// Looks at all descriptors, and says in `found` what it has found.
    ///
    /// # Errors
    /// `EBADF`: one is none.
    fn look(&self, caller: Caller<'_>, found: &mut Found) -> Result<(), Errno> {
        *found = Found::NOTHING;
        let files = caller.process.files.lock();
        for number in self.numbers() {
            let file = files.peek(number as i32).ok_or(Errno::EBADF)?;
            // What stands for a place only is told in every set, as on Linux.
            let ready = if file.is_path() { Ready::all() } else { file.ready() };
            if let Object::Standard(Standard::Input(input)) = &file.object
                && ready.is_empty()
                && self.sets[0].has(number)
            {
                found.unknown = Some(Arc::clone(input));
            }
            for ((asked, result), kind) in self.sets.iter().zip(&mut found.sets).zip(KINDS) {
                if asked.has(number) && ready.intersects(kind) {
                    result.add(number);
                    found.ready += 1;
                }
            }
        }
        Ok(())
    }

    /// Waits until a look finds something or `deadline_ns` has come.
    async fn wait(&self, caller: Caller<'_>, deadline_ns: u64, found: &mut Found) -> Awaited<()> {
        self.look(caller, found)?;
        // Who waits on has asked.
        if let Some(input) = &found.unknown
            && !caller.thread.pending().taken_up
        {
            caller.thread.waits_for(Phase::Input);
            input.look().await;
            caller.thread.waits_for(Phase::File);
            self.look(caller, found)?;
        }
        if found.ready > 0 {
            return Ok(());
        }
        if clock::monotonic_ns() >= deadline_ns {
            return caller.unless_interrupted(Patience::Limited).await;
        }
        let look_again = poll_fn(|context| {
            let mut watched = Ok(());
            let mut any = AnyOf::default();
            for number in self.numbers() {
                let file = caller.process.files.lock().get(number as i32);
                if let Ok(file) = file {
                    any.add(&file);
                    watched = watched.and(file.watch(context.waker()));
                }
            }
            caller.thread.waits_for(any.phase());
            let looked = watched.and_then(|()| self.look(caller, found));
            if looked.is_ok() && found.ready == 0 { Poll::Pending } else { Poll::Ready(looked) }
        });
        let waiting = executor::timeout_at(deadline_ns, look_again);
        // If the time is up, the last look has found nothing.
        Ok(caller.interruptible(Phase::Network, Patience::Limited, waiting).await?.unwrap_or(Ok(()))?)
    }
}

async fn select_until(caller: Caller<'_>, a: &Arguments, deadline_ns: u64) -> Awaited {
    let count = usize::try_from(a.int(0)).map_err(|_| Errno::EINVAL)?.min(DESCRIPTORS_MAX);
    let set_bytes = count.div_ceil(64) * 8;
    let addresses = [a.get(1), a.get(2), a.get(3)];
    // In boxes: they are not to make every thread's future as large.
    caller.thread.keep(size_of::<Asked>())?;
    caller.thread.keep(size_of::<Found>())?;
    let mut asked = Box::new(Asked { sets: [Set::EMPTY; 3], count });
    for (set, address) in asked.sets.iter_mut().zip(addresses).filter(|(_, address)| *address != 0) {
        caller.read(address, &mut set.0[..set_bytes]).await?;
    }
    let mut found = Box::new(Found::NOTHING);
    asked.wait(caller, deadline_ns, &mut found).await?;
    for (set, address) in found.sets.iter().zip(addresses).filter(|(_, address)| *address != 0) {
        caller.write(address, &set.0[..set_bytes]).await?;
    }
    Ok(found.ready)
}

#[cfg(test)]
mod tests {
    use super::Set;

    #[test]
    fn sets_are_bits_and_wild_numbers_are_not_in_them() {
        let mut set = Set::EMPTY;
        [0, 9, 64, 1024].into_iter().for_each(|number| set.add(number));
        assert_eq!(set.0[..9], [1, 2, 0, 0, 0, 0, 0, 0, 1]);
        assert!(set.0[9..].iter().all(|byte| *byte == 0));
        assert!(set.has(0) && set.has(9) && set.has(64) && !set.has(1) && !set.has(1024) && !set.has(10_000));
    }
}
