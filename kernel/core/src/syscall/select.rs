//! select(2), pselect6(2).

use alloc::vec;
use alloc::vec::Vec;

use super::Arguments;
use super::abi::time::{parse_timespec, parse_timeval, timespec, timeval};
use super::poll::{Readiness, input_until, readiness};
use crate::clock;
use crate::errno::Errno;
use crate::executor;
use crate::files::DESCRIPTORS_MAX;
use crate::process::{Awaited, Caller};

/// select(2).
pub(super) async fn select(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let deadline_ns = match a.get(4) {
        0 => u64::MAX,
        address => deadline(parse_timeval(&caller.read_array(address).await?)?),
    };
    let ready = select_until(caller, a, deadline_ns).await?;
    if a.get(4) != 0 {
        let left_ns = deadline_ns.saturating_sub(clock::monotonic_ns());
        // Linux, too, does not mind if this cannot be written.
        let _ = caller.write(a.get(4), timeval(left_ns).bytes()).await;
    }
    Ok(ready)
}

/// pselect6(2). Nothing is sent to a process that waits, so its signal mask does not matter.
pub(super) async fn pselect6(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let deadline_ns = match a.get(4) {
        0 => u64::MAX,
        address => deadline(parse_timespec(&caller.read_array(address).await?)?),
    };
    let ready = select_until(caller, a, deadline_ns).await?;
    if a.get(4) != 0 {
        let left_ns = deadline_ns.saturating_sub(clock::monotonic_ns());
        let _ = caller.write(a.get(4), timespec(left_ns).bytes()).await;
    }
    Ok(ready)
}

fn deadline(timeout_ns: u64) -> u64 {
    clock::monotonic_ns().saturating_add(timeout_ns)
}

/// A set of descriptors, a bit each.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Set(Vec<u8>);

impl Set {
    fn has(&self, number: usize) -> bool {
        self.0.get(number / 8).is_some_and(|byte| byte >> (number % 8) & 1 != 0)
    }

    fn add(&mut self, number: usize) {
        if let Some(byte) = self.0.get_mut(number / 8) {
            *byte |= 1 << (number % 8);
        }
    }
}

async fn select_until(caller: Caller<'_>, a: &Arguments, deadline_ns: u64) -> Awaited {
    let count = usize::try_from(a.int(0)).map_err(|_| Errno::EINVAL)?.min(DESCRIPTORS_MAX);
    let set_bytes = count.div_ceil(64) * 8;
    let addresses = [a.get(1), a.get(2), a.get(3)];
    let mut asked = [const { Set(Vec::new()) }; 3];
    for (set, address) in asked.iter_mut().zip(addresses).filter(|(_, address)| *address != 0) {
        set.0 = vec![0; set_bytes];
        caller.read(address, &mut set.0).await?;
    }
    let empty = Set(vec![0; set_bytes]);
    let mut found = [empty.clone(), empty.clone(), empty];
    let [wants_read, wants_write, wants_exception] = &asked;
    let mut ready = 0;
    let mut inputs = Vec::new();
    for number in 0..count {
        let (read, write) = (wants_read.has(number), wants_write.has(number));
        if !read && !write && !wants_exception.has(number) {
            continue;
        }
        let (can_read, can_write) = match readiness(caller, number as i32) {
            Readiness::Invalid => return Err(Errno::EBADF.into()),
            Readiness::Always => (true, true),
            Readiness::Writable => (false, true),
            Readiness::Input => {
                if read {
                    inputs.push(number);
                }
                (false, false)
            }
        };
        for (index, yes) in [read && can_read, write && can_write].into_iter().enumerate() {
            if yes {
                found[index].add(number);
                ready += 1;
            }
        }
    }
    if !inputs.is_empty() {
        let deadline_ns = if ready > 0 { 0 } else { deadline_ns };
        if input_until(caller, deadline_ns).await? {
            inputs.iter().for_each(|number| found[0].add(*number));
            ready += inputs.len() as u64;
        }
    } else if ready == 0 {
        executor::sleep_until(deadline_ns).await;
    }
    for (set, address) in found.iter().zip(addresses).filter(|(_, address)| *address != 0) {
        caller.write(address, &set.0).await?;
    }
    Ok(ready)
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::Set;

    #[test]
    fn sets_are_bits_and_wild_numbers_are_not_in_them() {
        let mut set = Set(vec![0; 8]);
        set.add(0);
        set.add(9);
        set.add(64);
        assert_eq!(set.0, [1, 2, 0, 0, 0, 0, 0, 0]);
        assert!(set.has(0) && set.has(9) && !set.has(1) && !set.has(64) && !set.has(10_000));
    }
}
