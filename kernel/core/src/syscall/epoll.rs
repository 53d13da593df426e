//! epoll_create(2), epoll_ctl(2), epoll_wait(2).

use alloc::sync::Arc;
use core::pin::pin;

use super::Arguments;
use super::pipe::install;
use super::signal::read_mask;
use crate::abi::io::{EPOLL_EVENT_BYTES, epoll_event, parse_epoll_event};
use crate::abi::time::parse_timespec;
use crate::clock;
use crate::errno::Errno;
use crate::executor::{self, Phase};
use crate::files::poller::{Poller, ask};
use crate::files::readiness::until_or;
use crate::files::{Object, OpenFile, Ready, flags};
use crate::limits::WATCH_AGAIN_NS;
use crate::memory::{AddressSpace, CopyError};
use crate::process::signals::Patience;
use crate::process::{Awaited, Caller, Immediate, Trouble};
use coppice_hal::paging::Access;

/// Most events that one call tells. There are more as soon as they are asked for.
const EVENTS_MAX: usize = 256;

/// epoll_create(2). The size is a relic, but must be one.
pub(super) fn create(caller: Caller<'_>, a: &Arguments) -> Immediate {
    if a.int(0) <= 0 { Err(Errno::EINVAL.into()) } else { make(caller, 0) }
}

/// epoll_create1(2).
pub(super) fn create1(caller: Caller<'_>, a: &Arguments) -> Immediate {
    if a.uint(0) & !flags::O_CLOEXEC != 0 { Err(Errno::EINVAL.into()) } else { make(caller, a.uint(0)) }
}

fn make(caller: Caller<'_>, how: u32) -> Immediate {
    let poller = Poller::new(&caller.process.node.quota)?;
    Ok(install(caller, Object::Poller(poller), how | flags::O_RDWR)?.cast_unsigned().into())
}

/// The poller behind an open file.
///
/// # Errors
/// `EINVAL`: it is none.
fn poller(file: &OpenFile) -> Result<&Poller, Errno> {
    match &file.object {
        Object::Poller(poller) => Ok(poller),
        _ => Err(Errno::EINVAL),
    }
}

/// epoll_ctl(2).
pub(super) fn control(caller: Caller<'_>, a: &Arguments) -> Immediate {
    const EPOLL_CTL_ADD: u32 = 1;
    const EPOLL_CTL_DEL: u32 = 2;
    const EPOLL_CTL_MOD: u32 = 3;
    /// What may be asked for together with `EPOLLEXCLUSIVE`.
    const WITH_EXCLUSIVE: u32 = Ready::READ.union(Ready::WRITE).union(Ready::ALWAYS_TOLD).bits() as u32
        | ask::WAKE_UP
        | ask::EDGE
        | ask::EXCLUSIVE;
    let (operation, number) = (a.uint(1), a.int(2));
    let asked = match operation {
        EPOLL_CTL_DEL => (0, 0),
        _ => parse_epoll_event(&caller.get::<EPOLL_EVENT_BYTES>(a.get(3))?),
    };
    let (file, watched) = {
        let files = caller.process.files.lock();
        (files.get(a.int(0))?, files.get(number)?)
    };
    if watched.is_path() {
        return Err(Errno::EBADF.into());
    }
    if !watched.makes_wait() {
        return Err(Errno::EPERM.into());
    }
    let epoll = poller(&file)?;
    if Arc::ptr_eq(&file, &watched) {
        return Err(Errno::EINVAL.into());
    }
    match operation {
        EPOLL_CTL_MOD if asked.0 & ask::EXCLUSIVE != 0 => Err(Errno::EINVAL)?,
        EPOLL_CTL_ADD if asked.0 & ask::EXCLUSIVE != 0 && asked.0 & !WITH_EXCLUSIVE != 0 => Err(Errno::EINVAL)?,
        EPOLL_CTL_ADD if asked.0 & ask::EXCLUSIVE != 0 && poller(&watched).is_ok() => Err(Errno::EINVAL)?,
        EPOLL_CTL_ADD => epoll.add(number, &watched, asked, &caller.process.node.quota)?,
        EPOLL_CTL_DEL => epoll.remove(number, &watched)?,
        EPOLL_CTL_MOD => epoll.change(number, &watched, asked)?,
        _ => return Err(Errno::EINVAL.into()),
    }
    Ok(0)
}

/// What a wait is about.
struct Wait {
    file: Arc<OpenFile>,
    /// Where the events go.
    address: u64,
    /// How many there is room for.
    count: usize,
}

impl Wait {
    /// # Errors
    /// `EBADF`, `EINVAL`: no poller, or no room. `EFAULT`: the room is not the program's.
    #[inline]
    fn of(a: &Arguments, find: impl FnOnce(i32) -> Result<Arc<OpenFile>, Errno>) -> Result<Self, Errno> {
        let count = usize::try_from(a.int(2)).ok().filter(|count| *count > 0).ok_or(Errno::EINVAL)?;
        let file = find(a.int(0))?;
        if !AddressSpace::is_user_range(a.get(1), (count * EPOLL_EVENT_BYTES) as u64) {
            return Err(Errno::EFAULT);
        }
        poller(&file)?;
        Ok(Self { file, address: a.get(1), count: count.min(EVENTS_MAX) })
    }

    /// Tells what there is to tell now. Gives how many events.
    fn tell(&self, caller: Caller<'_>) -> Immediate<usize> {
        let poller = poller(&self.file)?;
        let count = poller.queued().min(self.count);
        if count == 0 {
            return Ok(0);
        }
        let bytes = count * EPOLL_EVENT_BYTES;
        // What was told is not told again, so there must be no way back.
        let touched = caller.process.space.lock().touch(self.address, bytes, Access::WRITE);
        // What was queued may have nothing to tell after all, and then nothing is written.
        if matches!(touched, Err(CopyError::Fault { .. })) && poller.ready().is_empty() {
            return Ok(0);
        }
        touched?;
        let mut address = self.address;
        let mut result = Ok(());
        let told = poller.collect(count, |ready, data| {
            let event = epoll_event(ready.bits().into(), data);
            // Another thread may have taken the memory away meanwhile.
            let written = caller.process.space.lock().write_bytes(address, event.bytes());
            result = written.map_err(Trouble::from);
            address += EPOLL_EVENT_BYTES as u64;
            result.is_ok()
        });
        if told > 0 { Ok(told) } else { result.map(|()| 0) }
    }

    /// Waits until there is something to tell, or `deadline_ns` has come.
    async fn wait(&self, caller: Caller<'_>, deadline_ns: u64) -> Awaited {
        let poller = poller(&self.file)?;
        // Who does not wait is not interrupted.
        let only_looks = clock::monotonic_ns() >= deadline_ns;
        loop {
            let any = until_or(deadline_ns, |waker| poller.watch(waker), || (poller.queued() > 0).then_some(()));
            match caller.interruptible(Phase::Network, Patience::Limited, any).await? {
                Ok(watched) => watched?,
                Err(_) if only_looks => return Ok(0),
                Err(_) => {
                    caller.unless_interrupted(Patience::Limited).await?;
                    return Ok(0);
                }
            }
            match self.tell(caller) {
                // What was queued had nothing to tell after all, and would be looked at for ever if it is queued again
                // because there is no memory for more.
                Ok(0) if poller.was_refused() => {
                    let again_ns = clock::monotonic_ns().saturating_add(WATCH_AGAIN_NS).min(deadline_ns);
                    let again = executor::sleep_until(again_ns);
                    caller.interruptible(Phase::Network, Patience::Limited, again).await?;
                    if again_ns == deadline_ns {
                        return Ok(0);
                    }
                }
                Ok(0) => {}
                Ok(told) => return Ok(told as u64),
                Err(Trouble::Fetch(fetch)) => caller.fetch_for_copy(&fetch).await?,
                Err(trouble) => return Err(trouble.into()),
            }
        }
    }
}

/// epoll_wait(2), if it need not wait.
pub(super) fn wait_now(caller: Caller<'_>, a: &Arguments) -> Option<Immediate> {
    let find = |number| caller.process.files.lock().get(number);
    let told = Wait::of(a, find).map_err(Trouble::from).and_then(|wait| wait.tell(caller));
    match told {
        Ok(0) if a.int(3) != 0 => None,
        Ok(told) => Some(Ok(told as u64)),
        Err(trouble) => Some(Err(trouble)),
    }
}

/// epoll_wait(2).
pub(super) async fn wait(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let deadline_ns = caller.deadline_ns(|| match u64::try_from(a.int(3)) {
        Ok(timeout_ms) => clock::monotonic_ns().saturating_add(timeout_ms * 1_000_000),
        Err(_) => u64::MAX,
    });
    Wait::of(a, |number| caller.file(number))?.wait(caller, deadline_ns).await
}

/// epoll_pwait(2).
pub(super) async fn pwait(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let mask = read_mask(caller, a.get(4), a.get(5)).await?;
    caller.with_mask(mask, pin!(wait(caller, a))).await
}

/// epoll_pwait2(2).
pub(super) async fn pwait2(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let wait = Wait::of(a, |number| caller.file(number))?;
    let deadline_ns = match a.get(3) {
        0 => u64::MAX,
        address => {
            let timeout_ns = parse_timespec(&caller.read_array(address).await?)?;
            caller.deadline_ns(|| clock::monotonic_ns().saturating_add(timeout_ns))
        }
    };
    let mask = read_mask(caller, a.get(4), a.get(5)).await?;
    caller.with_mask(mask, pin!(wait.wait(caller, deadline_ns))).await
}
