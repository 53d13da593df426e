//! The thread that records what overlays have gathered.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::SystemTime;

use super::{ProfileOrder, Profiles};
use crate::limits::{PROFILE_AGE_MAX, PROFILE_ORDERS_MAX, PROFILE_TOGETHER_MAX};

/// The keeper as others have it. Its thread ends when this is dropped and all is written.
#[derive(Clone, Debug)]
pub struct Keeper {
    orders: SyncSender<ProfileOrder>,
    /// What could not be recorded.
    lost: Arc<AtomicU64>,
}

impl Keeper {
    /// Starts the thread, for the database in this file, which is made when there is something to be recorded.
    #[must_use]
    pub fn start(path: PathBuf) -> Self {
        let (orders, queue) = sync_channel::<ProfileOrder>(PROFILE_ORDERS_MAX);
        let lost = Arc::<AtomicU64>::default();
        let losing = Arc::clone(&lost);
        std::thread::spawn(move || {
            let mut profiles = None;
            while let Ok(first) = queue.recv() {
                // What has come meanwhile is written together.
                let all: Vec<_> = [first].into_iter().chain(queue.try_iter().take(PROFILE_TOGETHER_MAX)).collect();
                let count = all.len() as u64;
                if let Err(error) = write(&mut profiles, &path, &all) {
                    tracing::warn!(%error, epochs = count, "cannot record what overlays have gathered");
                    losing.fetch_add(count, Ordering::Relaxed);
                    // It may be another file by then, or a disk with room.
                    profiles = None;
                }
            }
        });
        Self { orders, lost }
    }

    /// Gives an order. False: too much waits, and it is not done.
    pub fn order(&self, order: ProfileOrder) -> bool {
        let taken = self.orders.try_send(order).is_ok();
        if !taken {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }

    /// Epochs that were not recorded.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

fn write(profiles: &mut Option<Profiles>, path: &PathBuf, orders: &[ProfileOrder]) -> Result<(), super::ProfileError> {
    let profiles = match profiles {
        Some(profiles) => profiles,
        None => {
            let opened = Profiles::open(path)?;
            opened.forget_before(SystemTime::now() - PROFILE_AGE_MAX)?;
            profiles.insert(opened)
        }
    };
    profiles.add(orders)
}
