//! The kernel's own files as data: an entry by its place, and what a core or a thread has by its number.

use serde::{Deserialize, Serialize};

use super::cores::of_core;
use super::entries::ENTRIES;
use super::{Kind, Node, OF_THREAD, Text, of_thread};
use crate::files::device::Device;

/// See this module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum NodeRecord {
    /// One of the table's.
    Entry(u32),
    /// A device by whatever path.
    Device(u32),
    /// A descriptor.
    Descriptor(i32),
    /// The directory of a thread.
    Thread(u32),
    /// What a thread has: its id, and which.
    OfThread(u32, u8),
    /// What a core has: its number, and which.
    OfCore(u32, u32),
}

impl Node {
    /// Writes it down.
    pub(crate) fn record(self) -> NodeRecord {
        if let Some((core, which)) = self.core() {
            return NodeRecord::OfCore(core, which);
        }
        match self.kind {
            Kind::Thread(id) => NodeRecord::Thread(id),
            Kind::Text(Text::Name(Some(id))) => NodeRecord::OfThread(id, 0),
            Kind::Text(Text::Stat(Some(id))) => NodeRecord::OfThread(id, 1),
            Kind::Text(Text::Status(Some(id))) => NodeRecord::OfThread(id, 2),
            Kind::Descriptor(number) if self.index as usize >= ENTRIES.len() => NodeRecord::Descriptor(number),
            Kind::Device(device) if self == Self::of_device(device) => NodeRecord::Device(device.minor()),
            _ => NodeRecord::Entry(self.index),
        }
    }

    /// The one that was written down; `None`: there is no such.
    pub(crate) fn again(record: &NodeRecord) -> Option<Self> {
        match *record {
            NodeRecord::Entry(index) => Some(Self { index, kind: ENTRIES.get(index as usize)?.1 }),
            NodeRecord::Device(minor) => Device::of_minor(minor).map(Self::of_device),
            NodeRecord::Descriptor(number) => {
                let index = ENTRIES.len() as u32 + u32::from(u16::try_from(number).ok()?);
                Some(Self { index, kind: Kind::Descriptor(number) })
            }
            NodeRecord::Thread(id) => Some(Self::of_thread(id)),
            NodeRecord::OfThread(id, which) => of_thread(id, &[OF_THREAD.get(usize::from(which))?.as_bytes()]).ok(),
            // Whether there are as many here or not: it is open, and says what it said.
            NodeRecord::OfCore(core, which) => of_core(core, which),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::borrow::ToOwned;
    use alloc::string::String;

    use super::{Node, NodeRecord};
    use crate::files::special::entries::ENTRIES;
    use crate::files::special::{Place, locate};

    #[test]
    fn every_entry_is_found_again() {
        let of_threads = ["/proc/self/task/7", "/proc/self/task/7/comm", "/proc/self/task/7/stat", "/proc/self/fd/5"];
        let of_cores =
            ["cpu0", "cpu0/topology", "cpu0/topology/core_id"].map(|name| "/sys/devices/system/cpu/".to_owned() + name);
        let more = of_threads.into_iter().chain(of_cores.iter().map(String::as_str));
        for path in ENTRIES.iter().map(|(path, _)| *path).chain(more) {
            let Ok(Place::Special(node)) = locate(b"/", path.as_bytes(), 1) else { panic!("{path}") };
            assert_eq!(Node::again(&node.record()), Some(node), "{path}");
        }
        for none in [NodeRecord::OfCore(u32::MAX, 0), NodeRecord::OfCore(0, u32::MAX), NodeRecord::Entry(u32::MAX)] {
            assert_eq!(Node::again(&none), None);
        }
    }
}
