//! Which address is behind which link: configured ones, which nothing overrides, and bounded learning for the rest.

use std::collections::BTreeMap;

use crate::limits::LEARNED_ADDRESSES_MAX;

/// An Ethernet address as a number, quicker to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Address(u64);

impl Address {
    /// Reads the six bytes at the start of `bytes`; none if there are fewer.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let six = bytes.first_chunk::<6>()?;
        Some(Self(six.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))))
    }

    /// Meant for many stations: broadcast or multicast.
    pub(crate) fn is_group(self) -> bool {
        self.0 & 1 << 40 != 0
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    link: usize,
    configured: bool,
}

/// The table.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    entries: BTreeMap<Address, Entry>,
    learned: usize,
}

impl Addresses {
    /// Gives `address` to `link` for good; false if another link has it that way.
    pub(crate) fn configure(&mut self, address: Address, link: usize) -> bool {
        match self.entries.insert(address, Entry { link, configured: true }) {
            Some(entry) if entry.configured => {
                self.entries.insert(address, entry);
                false
            }
            Some(_) => {
                self.learned -= 1;
                true
            }
            None => true,
        }
    }

    /// Notes that a frame from `address` came by `link`; false if the address belongs to another one.
    pub(crate) fn learn(&mut self, address: Address, link: usize) -> bool {
        match self.entries.get_mut(&address) {
            Some(entry) if entry.configured => entry.link == link,
            // A station that moved.
            Some(entry) => {
                entry.link = link;
                true
            }
            None => {
                if self.learned < LEARNED_ADDRESSES_MAX {
                    self.learned += 1;
                    self.entries.insert(address, Entry { link, configured: false });
                }
                true
            }
        }
    }

    /// The link behind which `address` is.
    pub(crate) fn find(&self, address: Address) -> Option<usize> {
        self.entries.get(&address).map(|entry| entry.link)
    }

    /// Forgets everything behind `link`.
    pub(crate) fn forget(&mut self, link: usize) {
        self.entries.retain(|_, entry| entry.link != link);
        self.learned = self.entries.values().filter(|entry| !entry.configured).count();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> Address {
        let [a, b, c, d] = number.to_be_bytes();
        Address::read(&[2, 0, a, b, c, d]).unwrap()
    }

    #[test]
    fn configured_addresses_stay() {
        let mut table = Addresses::default();
        assert!(table.learn(address(1), 5));
        assert!(table.configure(address(1), 0));
        assert!(!table.configure(address(1), 1));
        assert!(!table.learn(address(1), 1));
        assert!(table.learn(address(1), 0));
        assert_eq!(table.find(address(1)), Some(0));
        table.forget(0);
        assert_eq!(table.find(address(1)), None);
    }

    #[test]
    fn learning_is_bounded() {
        let mut table = Addresses::default();
        for number in 0..2 * LEARNED_ADDRESSES_MAX as u32 {
            assert!(table.learn(address(number), 3));
        }
        assert_eq!(table.entries.len(), LEARNED_ADDRESSES_MAX);
        assert!(table.learn(address(0), 4));
        assert_eq!(table.find(address(0)), Some(4));
        table.forget(3);
        assert_eq!((table.learned, table.entries.len()), (1, 1));
    }

    #[test]
    fn group_addresses() {
        assert!(Address::read(&[0xff; 6]).unwrap().is_group());
        assert!(Address::read(&[1, 0, 0x5e, 0, 0, 1]).unwrap().is_group());
        assert!(!address(1).is_group());
        assert_eq!(Address::read(&[0; 5]), None);
    }
}
