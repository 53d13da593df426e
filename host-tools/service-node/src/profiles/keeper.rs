//! The thread that records what overlays have gathered.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::SystemTime;

use tokio::sync::oneshot;

use super::{ProfileError, ProfileOrder, Profiles};
use crate::limits::{PROFILE_AGE_MAX, PROFILE_ORDERS_MAX, PROFILE_TOGETHER_MAX};

/// The keeper as others have it. Its thread ends when this is dropped and all is written.
#[derive(Clone, Debug)]
pub struct Keeper(SyncSender<Item>);

/// What its thread is told.
#[derive(Debug)]
enum Item {
    Record(ProfileOrder),
    /// Say that all before it is written.
    Tell(oneshot::Sender<()>),
}

impl Keeper {
    /// Starts the thread, for the database in this file, which is made when there is something to be recorded.
    #[must_use]
    pub fn start(path: PathBuf) -> Self {
        let (orders, queue) = sync_channel::<Item>(PROFILE_ORDERS_MAX);
        std::thread::spawn(move || {
            let mut profiles = None;
            while let Ok(first) = queue.recv() {
                let (mut all, mut told) = (Vec::new(), Vec::new());
                // What has come meanwhile is written together.
                for item in [first].into_iter().chain(queue.try_iter().take(PROFILE_TOGETHER_MAX)) {
                    match item {
                        Item::Record(order) => all.push(order),
                        Item::Tell(whom) => told.push(whom),
                    }
                }
                if let Err(error) = write(&mut profiles, &path, &all) {
                    tracing::warn!(%error, orders = all.len(), "cannot record what overlays have gathered");
                    // It may be another file by then, or a disk with room.
                    profiles = None;
                }
                // Who asked may be gone.
                for whom in told {
                    let _ = whom.send(());
                }
            }
        });
        Self(orders)
    }

    /// Gives an order. False: too much waits, and it is not done.
    pub fn order(&self, order: ProfileOrder) -> bool {
        self.0.try_send(Item::Record(order)).is_ok()
    }

    /// Is told when all that was ordered before is written, or at once if too much waits.
    #[must_use]
    pub fn written(&self) -> oneshot::Receiver<()> {
        let (tell, told) = oneshot::channel();
        // If it is not taken it is dropped, which is as good as an answer.
        let _ = self.0.try_send(Item::Tell(tell));
        told
    }
}

fn write(profiles: &mut Option<Profiles>, path: &Path, orders: &[ProfileOrder]) -> Result<(), ProfileError> {
    if orders.is_empty() {
        return Ok(());
    }
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
