//! Whoever keeps the snapshots of a process: of each only what is not unchanged since the one before.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use super::PAGE;
use crate::memory::{GivenUp, Snapshot, Taken, WINDOW_PAGES, Window};

/// The windows of the last snapshot that was kept as a whole, with their bytes.
#[derive(Default)]
pub(super) struct Keeper {
    number: u64,
    windows: BTreeMap<u64, (Window, Vec<u8>)>,
}

impl Keeper {
    /// Keeps one as a whole. Gives the numbers of windows of which nothing was read.
    pub(super) fn keep(&mut self, snapshot: &Snapshot) -> Result<Vec<u64>, GivenUp> {
        let follows = snapshot.follows(self.number);
        let (mut windows, mut unchanged) = (BTreeMap::new(), Vec::new());
        loop {
            let mut bytes = Vec::new();
            let known = |number| self.windows.get(&number).filter(|_| follows).map(|(window, _)| *window);
            match snapshot.take(&mut bytes, known)? {
                Some(Taken::Changed(window)) => {
                    assert_eq!(bytes.len(), window.filled.count_ones() as usize * PAGE as usize);
                    windows.insert(window.number, (window, bytes));
                }
                Some(Taken::Unchanged(window)) => {
                    assert!(bytes.is_empty(), "nothing is read");
                    let before = &self.windows[&window.number];
                    assert_eq!(before.0, window);
                    windows.insert(window.number, before.clone());
                    unchanged.push(window.number);
                }
                None => break,
            }
        }
        (self.number, self.windows) = (snapshot.number(), windows);
        Ok(unchanged)
    }

    /// What the last one has of the page at an address.
    pub(super) fn page(&self, address: u64) -> Option<Vec<u8>> {
        let (window, bytes) = self.windows.get(&(address / PAGE / WINDOW_PAGES))?;
        let bit = 1 << (address / PAGE % WINDOW_PAGES);
        if window.zeros & bit != 0 {
            return Some(vec![0; PAGE as usize]);
        }
        let before = (window.filled & (bit - 1)).count_ones() as usize * PAGE as usize;
        (window.filled & bit != 0).then(|| bytes[before..before + PAGE as usize].to_vec())
    }
}
