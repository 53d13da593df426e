//! eventfd(2): a counter that can be waited for.

use alloc::sync::Arc;
use core::task::Waker;

use serde::{Deserialize, Serialize};

use super::readiness::{Level, Ready, Watchers};
use super::stream::{Shape, Sink, Source, Stream, Taken};
use crate::errno::Errno;
use crate::quota::{Charge, Quota};
use crate::sync::{LockLevel, Mutex};

/// Length of what is read and written, bytes.
const VALUE_BYTES: usize = 8;

/// Highest value of a counter.
const VALUE_MAX: u64 = u64::MAX - 1;

/// See this module.
pub(crate) struct Event {
    value: Mutex<u64>,
    /// A read takes one, not all (`EFD_SEMAPHORE`).
    is_semaphore: bool,
    /// What can be done with it.
    pub(crate) level: Level,
    watchers: Watchers,
    _charge: Charge,
}

/// A counter as data.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct EventRecord {
    value: u64,
    is_semaphore: bool,
}

impl Event {
    /// A counter with this value.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn new(value: u32, is_semaphore: bool, quota: &Arc<Quota>) -> Result<Self, Errno> {
        let charge = quota.charge(Watchers::BYTES_FREE)?;
        let (level, watchers) = (Level::new(0), Watchers::new(quota));
        let event = Self {
            value: Mutex::new(LockLevel::OpenFile, value.into()),
            is_semaphore,
            level,
            watchers,
            _charge: charge,
        };
        event.tell(value.into());
        Ok(event)
    }

    /// What it counts.
    pub(crate) fn value(&self) -> u64 {
        *self.value.lock()
    }

    /// Writes it down.
    pub(crate) fn record(&self) -> EventRecord {
        EventRecord { value: *self.value.lock(), is_semaphore: self.is_semaphore }
    }

    /// Makes it again.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(super) fn again(record: EventRecord, quota: &Arc<Quota>) -> Result<Self, Errno> {
        let event = Self::new(0, record.is_semaphore, quota)?;
        *event.value.lock() = record.value;
        event.tell(record.value);
        Ok(event)
    }

    /// Says what can be done with it at this value.
    fn tell(&self, value: u64) {
        let mut ready = Ready::empty();
        ready.set(Ready::INPUT, value > 0);
        ready.set(Ready::OUTPUT, value < VALUE_MAX);
        self.level.set(u16::MAX, ready.bits());
    }

    /// See [`super::OpenFile::watch`].
    pub(crate) fn watch(&self, waker: &Waker) -> Result<(), Errno> {
        self.watchers.watch(waker)
    }
}

impl Stream for Event {
    fn take(&self, limit: usize, _peek: bool, sink: &mut Sink<'_>) -> Result<Taken, Errno> {
        if limit < VALUE_BYTES {
            return Err(Errno::EINVAL);
        }
        let copied = {
            let mut value = self.value.lock();
            let taken = if self.is_semaphore { (*value).min(1) } else { *value };
            if taken == 0 {
                return Err(Errno::EAGAIN);
            }
            let copied = sink(&taken.to_le_bytes());
            if copied == VALUE_BYTES {
                *value -= taken;
                self.tell(*value);
            }
            copied
        };
        self.watchers.notify();
        Ok(Taken { copied, length: VALUE_BYTES })
    }

    fn put(&self, length: usize, source: &mut Source<'_>) -> Result<usize, Errno> {
        if length < VALUE_BYTES {
            return Err(Errno::EINVAL);
        }
        let mut bytes = [0; VALUE_BYTES];
        if source(&mut bytes) < VALUE_BYTES {
            return Ok(0);
        }
        let added = u64::from_le_bytes(bytes);
        if added == u64::MAX {
            return Err(Errno::EINVAL);
        }
        {
            let mut value = self.value.lock();
            *value = value.checked_add(added).filter(|sum| *sum <= VALUE_MAX).ok_or(Errno::EAGAIN)?;
            self.tell(*value);
        }
        self.watchers.notify();
        Ok(VALUE_BYTES)
    }

    fn shape(&self) -> Shape {
        Shape::Numbers
    }
}

#[cfg(test)]
mod tests {
    use super::super::stream::{Stream, copy_from};
    use super::{Event, Ready, VALUE_MAX};
    use crate::errno::Errno;
    use crate::quota::tests::quota;

    fn ready(event: &Event) -> Ready {
        Ready::from_bits(event.level.bits()).expect("nothing else")
    }

    fn put(event: &Event, bytes: &[u8]) -> Result<usize, Errno> {
        event.put(bytes.len(), &mut copy_from(bytes))
    }

    fn read(event: &Event) -> Result<u64, Errno> {
        let mut value = [0; 8];
        event.take(8, false, &mut |part| {
            value.copy_from_slice(part);
            part.len()
        })?;
        Ok(u64::from_le_bytes(value))
    }

    #[test]
    fn a_counter_adds_up_and_is_read_at_once() {
        let event = Event::new(2, false, &quota()).expect("memory");
        assert_eq!(put(&event, &5_u64.to_le_bytes()), Ok(8));
        assert_eq!(ready(&event), Ready::INPUT | Ready::OUTPUT);
        assert_eq!(read(&event), Ok(7));
        assert_eq!((read(&event), ready(&event)), (Err(Errno::EAGAIN), Ready::OUTPUT));
        assert_eq!(event.take(7, false, &mut |_| 0).err(), Some(Errno::EINVAL));
    }

    #[test]
    fn a_semaphore_gives_one_at_a_time() {
        let event = Event::new(2, true, &quota()).expect("memory");
        assert_eq!([read(&event), read(&event), read(&event)], [Ok(1), Ok(1), Err(Errno::EAGAIN)]);
    }

    #[test]
    fn a_counter_does_not_overflow() {
        let event = Event::new(0, false, &quota()).expect("memory");
        assert_eq!(put(&event, &u64::MAX.to_le_bytes()), Err(Errno::EINVAL));
        assert_eq!(put(&event, &[0; 7]), Err(Errno::EINVAL));
        assert_eq!(put(&event, &VALUE_MAX.to_le_bytes()), Ok(8));
        assert_eq!(put(&event, &1_u64.to_le_bytes()), Err(Errno::EAGAIN));
        assert_eq!(ready(&event), Ready::INPUT);
        assert_eq!(read(&event), Ok(VALUE_MAX));
    }
}
