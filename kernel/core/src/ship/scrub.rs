//! Leaving nothing of a program behind: what is done once a job's last process on the node is gone, and before its end
//! is reported.
//!
//! A program's memory is frames of the pool, which are zeroed when they are given back. But its bytes also pass through
//! the kernel, and stay in whatever they went through until something else takes their place. Where, and when they are
//! wiped:
//!
//! | where | what | wiped |
//! | --- | --- | --- |
//! | heap, small blocks | paths, arguments, environment, messages | when freed |
//! | heap, large blocks | file data, long messages, vector registers | here, if they wait for others to use them (A) |
//! | session | requests that are queued, replies that are half there | as the heap, of whose blocks it is made |
//! | connections, receive buffers | launch orders, replies | when the session takes them (B) |
//! | connections, transmit buffers | requests | here (C) |
//! | programs' connections, received | what others sent them | when read, and when closed |
//! | programs' connections, sent | what they sent | here, closed ones as large blocks of the heap (C, A) |
//! | programs' datagrams | the same | when read, sent, or closed; what has not gone here (C) |
//! | network card's buffers | all of these as frames | here (D) |
//! | kernel stack | pieces of all of these | here (A) |
//! | core | registers on the way in, vector registers | here (A) |
//!
//! By A [`hal::scrub::core`] (on every core) and [`hal::scrub::heap`], B [`crate::net::Wire::take`],
//! C [`crate::net::Dial::scrub_connections`], D [`crate::net::Dial::scrub_card`].
//!
//! What stays is what the node itself says of the process: its report and its RAS events, with the program's path.
//!
//! **What a process sent to others** and is not there yet when it ends is theirs: it is delivered first, as Linux would
//! after the process's end. Its end is reported later for that, which keeps nobody waiting who would not wait anyway:
//! the peers are ranks of the same job. One that has ended refuses what comes, so only one that lives and does not read
//! is waited for, for [`DELIVER_NS_MAX`]; the user is told that it is. If a job is ended from outside, its connections
//! are broken off instead.
//!
//! **Calls that were under way** when the process was killed are at the I/O node, or queued: they cannot be taken back,
//! and their replies bring a program's bytes. So [`Ship::scrub`] first waits for these replies, which nobody else does.
//! No call waits for people at the I/O node, so that takes no longer than its disk does. If they do not come within
//! [`SCRUB_WAIT_NS_MAX`], the connection is broken off, with what is queued for it and all it still might bring.

use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_hal as hal;

use super::Ship;
use crate::executor::{self, oneshot};
use crate::limits::{
    DELIVER_NS_MAX, DELIVER_PAUSE_NS_MAX, DELIVER_SAID_NS, SCRUB_PAUSE_NS, SCRUB_WAIT_NS_MAX, SHRINK_PAGES,
};

#[cfg(test)]
mod tests;

/// What became of what ended processes had sent to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It is there, or nobody wants it.
    Done,
    /// A peer that lives has not read it in [`DELIVER_NS_MAX`]; it hears that something is missing.
    BrokenOff,
}

impl Ship {
    /// Wipes what ended processes left in the kernel's memory; see this module. To be called when the last process of a
    /// job is gone, all their calls are given up ([`super::Client::release`]) and no other begins before it is done.
    /// Takes at most [`DELIVER_NS_MAX`] and a few times [`SCRUB_WAIT_NS_MAX`], whatever the network does.
    ///
    /// `late` is called once if delivering takes longer than [`DELIVER_SAID_NS`].
    pub async fn scrub(&self, late: &(dyn Fn() + Send + Sync)) -> Delivery {
        let delivery = self.deliver(late).await;
        self.quiesce().await;
        if let Some(dial) = self.shared.dial.get() {
            dial.scrub_connections();
            let deadline_ns = executor::now_ns().saturating_add(SCRUB_WAIT_NS_MAX);
            while !dial.scrub_card(executor::now_ns() >= deadline_ns) {
                executor::sleep(SCRUB_PAUSE_NS).await;
            }
        }
        let others = (0..executor::cores()).filter(|core| *core != hal::cpu::index());
        let mut asked = Vec::new();
        for core in others {
            asked.push(ask(core, hal::scrub::core).await);
        }
        for wiped in asked.into_iter().flatten() {
            // It never goes away without an answer.
            let _ = wiped.await;
        }
        // Last of all, since what cores still held has gone to the heap now.
        if let Some(wiped) = ask(hal::cpu::index(), wipe_here_and_heap).await {
            let _ = wiped.await;
        }
        shrink_heap().await;
        delivery
    }

    /// Waits until what processes that are gone have sent to others is there, or breaks their connections off.
    async fn deliver(&self, late: &(dyn Fn() + Send + Sync)) -> Delivery {
        let Some(dial) = self.shared.dial.get() else { return Delivery::Done };
        let deadline_ns = executor::now_ns().saturating_add(DELIVER_NS_MAX);
        let mut late_ns = Some(executor::now_ns().saturating_add(DELIVER_SAID_NS));
        let mut pause_ns = SCRUB_PAUSE_NS;
        while dial.is_delivering() {
            if executor::now_ns() >= deadline_ns {
                log::warn!("ship: what a process sent is not taken by its peers; breaking its connections off");
                dial.stop_delivering();
                // The next look at the network sends word of it.
                executor::sleep(SCRUB_PAUSE_NS).await;
                return Delivery::BrokenOff;
            }
            if late_ns.take_if(|late_ns| *late_ns <= executor::now_ns()).is_some() {
                late();
            }
            executor::sleep(pause_ns).await;
            pause_ns = (pause_ns * 2).min(DELIVER_PAUSE_NS_MAX);
        }
        Delivery::Done
    }

    /// Gives up what processes that are gone have sent to others and is not there yet: their job was ended.
    pub fn stop_delivering(&self) {
        if let Some(dial) = self.shared.dial.get() {
            dial.stop_delivering();
        }
    }

    /// Waits until nothing is on its way for processes that are gone, or breaks the connection off.
    async fn quiesce(&self) {
        if self.wait_for(|| self.is_quiet()).await {
            return;
        }
        let Some(link) = self.shared.state.lock().link().cloned() else { return };
        log::warn!("ship: calls of a process that is gone are not answered; making a new connection");
        link.abort();
        // What it has queued goes with the last who holds it: the task that serves it, and then this one.
        let gone = Arc::downgrade(&link);
        drop(link);
        self.wait_for(|| gone.strong_count() == 0).await;
    }

    /// Waits for a condition, at most for [`SCRUB_WAIT_NS_MAX`], and says whether it came true. Acknowledgements wake
    /// nobody, so it is also looked at every [`SCRUB_PAUSE_NS`].
    async fn wait_for(&self, condition: impl Fn() -> bool) -> bool {
        let deadline_ns = executor::now_ns().saturating_add(SCRUB_WAIT_NS_MAX);
        while !condition() {
            if executor::now_ns() >= deadline_ns {
                return false;
            }
            let came = self.shared.changed.wait_until(|| condition().then_some(()));
            let _ = executor::timeout(SCRUB_PAUSE_NS, came).await;
        }
        true
    }

    /// Whether nothing is on its way for processes that are gone.
    fn is_quiet(&self) -> bool {
        self.shared.state.lock().is_quiet()
    }
}

/// Has a core, which is woken for it, do something, in a task of its own, which has little on the stack that cannot be
/// wiped.
async fn ask(core: usize, wipe: fn()) -> Option<oneshot::Receiver<()>> {
    let deadline_ns = executor::now_ns().saturating_add(SCRUB_WAIT_NS_MAX);
    loop {
        let (done, wiped) = oneshot::channel();
        let spawned = executor::spawn_on(core, async move {
            wipe();
            // The receiver waits.
            let _ = done.send(());
        });
        match spawned {
            Ok(_) => return Some(wiped),
            Err(executor::TooManyTasks) if executor::now_ns() < deadline_ns => {
                executor::sleep(SCRUB_PAUSE_NS).await;
            }
            Err(executor::TooManyTasks) => {
                log::error!("ship: core {core} has no room for the task that is to wipe it");
                return None;
            }
        }
    }
}

/// Gives the memory back that the heap has no use for any more, some pages at a time, and has all cores forget where it
/// was.
async fn shrink_heap() {
    let mut any = false;
    loop {
        let given = hal::heap::shrink(SHRINK_PAGES);
        any |= given > 0;
        if given < SHRINK_PAGES {
            break;
        }
        executor::yield_now().await;
    }
    if any {
        for core in 0..executor::cores() {
            if let Some(forgotten) = ask(core, hal::heap::forget).await {
                // As above.
                let _ = forgotten.await;
            }
        }
    }
}

fn wipe_here_and_heap() {
    hal::scrub::core();
    hal::scrub::heap();
}
