//! The end of a transfer, for members that want to leave it.
//!
//! Others count on a member that is whole: as long as the transfer goes on, somebody may ask it. So it stays until it
//! hears that all is over. Home says so to those below it in a tree ([flat](crate::trees::TreesOverPsets::flat)),
//! and each of them to those below it; who
//! has not heard it asks home from time to time, by saying that it is whole. If home does not answer, it is gone, and
//! the transfer with it.
//!
//! Who hears that all is over and lacks something was given up, or comes late. Others may be gone: when one does not
//! answer, home is asked, which stays.

use super::estimate::{HOME, Shape};
use super::machine::Machine;
use super::message::Message;
use super::ranges::MemberRanges;

/// How often home is asked whether all is over, ns.
const ASK_NS: u64 = 500_000_000;
/// So many questions in a row that home does not answer, and it is gone.
const UNANSWERED_MAX: u8 = 8;

/// What a member knows of the end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Farewell {
    /// All is over.
    is_over: bool,
    /// It wants to leave: when home is asked next, ns, and how often home was since it last said something.
    leaving: Option<(u64, u8)>,
}

impl Farewell {
    /// Whether the member has heard that all is over.
    pub(super) const fn is_over(&self) -> bool {
        self.is_over
    }

    /// When something is to be done, ns.
    pub(super) fn due_ns(&self) -> Option<u64> {
        self.leaving.filter(|_| !self.is_over).map(|(due_ns, _)| due_ns)
    }

    /// Home is there.
    pub(super) const fn heard_home(&mut self) {
        if let Some((_, unanswered)) = &mut self.leaving {
            *unanswered = 0;
        }
    }

    /// Whether home is to be asked now.
    fn asks(&mut self, now_ns: u64) -> bool {
        let Some((due_ns, unanswered)) = self.leaving.as_mut().filter(|_| !self.is_over) else { return false };
        if *due_ns > now_ns {
            return false;
        }
        self.is_over = *unanswered >= UNANSWERED_MAX;
        *unanswered += 1;
        *due_ns = now_ns.saturating_add(ASK_NS);
        !self.is_over
    }
}

impl Machine {
    /// The member, which is whole, wants to leave; [`Self::is_needed`] says when it may.
    pub fn withdraw(&mut self, now_ns: u64) {
        if self.me != HOME {
            self.farewell.leaving.get_or_insert((now_ns.saturating_add(ASK_NS), 0));
        }
    }

    /// Whether others may still want something of a member that is whole. One that leaves all the same is taken for
    /// dead.
    #[must_use]
    pub fn is_needed(&self) -> bool {
        !self.farewell.is_over() || !self.effects.is_empty() || !self.sender.is_idle()
    }

    /// Asks home whether all is over, if it is time for that.
    pub(super) fn ask_whether_over(&mut self, now_ns: u64) {
        if self.farewell.asks(now_ns) {
            let mut members = MemberRanges::none();
            members.add(self.me, self.me);
            self.say(HOME, Message::Whole { members });
        }
    }

    /// Somebody says that all is over. Only home and who is above may.
    pub(super) fn over(&mut self, from: u32) {
        let is_above = match &self.shape {
            Shape::Two(trees) => from == trees.flat().parent(0, self.me),
            Shape::Branches(_) => false,
        };
        if (from == HOME || is_above) && self.me != HOME && !self.farewell.is_over {
            self.farewell.is_over = true;
            self.say_over();
        }
    }

    /// Says to those below that all is over.
    pub(super) fn say_over(&mut self) {
        let trees = if let Shape::Two(trees) = &self.shape { Some(trees.flat()) } else { None };
        if let Some(trees) = trees {
            for below in trees.children(0, self.me).into_iter().flatten() {
                self.say(below, Message::Over);
            }
        }
    }
}
