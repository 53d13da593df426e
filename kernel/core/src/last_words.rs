//! What a dying kernel still says to its I/O node: one RAS event with the cause.
//!
//! The panic may have come anywhere, so nothing is waited for that the panicking code may hold: what is in use is left
//! alone, and the event is not sent then. The console has the cause in any case.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::{Arc, Weak};

use coppice_hal as hal;
use coppice_protocol::control::ToIoNode;
use coppice_protocol::limits::RAS_TEXT_BYTES_MAX;
use coppice_protocol::ras::{RasEvent, RasKind, Severity};
use spin::Once;

use crate::executor;
use crate::limits::LAST_WORDS_NS_MAX;
use crate::net::Link;
use crate::ras::cut;
use crate::sync::{LockLevel, Mutex};

/// The control link, while there is one.
static LINK: Mutex<Weak<Link>> = Mutex::new(LockLevel::Fact, Weak::new());

/// Moves the network on, unless it is in use.
type MoveNetwork = Box<dyn Fn() -> bool + Send + Sync>;

static NETWORK: Once<MoveNetwork> = Once::new();

/// Has panics reported. `network` moves the network on and returns true, or returns false because it is in use.
pub(crate) fn prepare(network: impl Fn() -> bool + Send + Sync + 'static) {
    NETWORK.call_once(|| Box::new(network));
    hal::panic::set_hook(say);
}

/// The control link to use is this one now.
pub(crate) fn connected(link: &Arc<Link>) {
    *LINK.lock() = Arc::downgrade(link);
}

fn say(cause: &str) {
    let deadline_ns = executor::now_ns() + LAST_WORDS_NS_MAX;
    // Another core may use either for a moment; this one may have done so, and then the time passes in vain.
    let in_time = || executor::now_ns() < deadline_ns;
    let link = loop {
        match LINK.try_lock() {
            Some(link) => break link.upgrade(),
            None if in_time() => core::hint::spin_loop(),
            None => return,
        }
    };
    // A network that can be moved on holds none of the locks that sending takes.
    let (Some(link), Some(move_network)) = (link, NETWORK.get()) else { return };
    while !move_network() {
        if !in_time() {
            return;
        }
        core::hint::spin_loop();
    }
    let mut text = String::from(cause);
    cut(&mut text, RAS_TEXT_BYTES_MAX);
    let event = RasEvent {
        severity: Severity::Fatal,
        kind: RasKind::KernelPanic,
        job: None,
        rank: None,
        address: None,
        instruction: None,
        text,
    };
    if !link.try_send(&ToIoNode::Ras(event)) {
        return;
    }
    while !link.is_drained() && in_time() {
        move_network();
    }
}
