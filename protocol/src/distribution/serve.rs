//! What a member does for others: it passes pieces on to those below it, and answers who asks.

use super::effect::Effect;
use super::estimate::{HOME, Shape};
use super::machine::Machine;
use super::message::Message;
use super::pieces::{PacketSet, PieceSet};
use super::sender::Burst;

impl Machine {
    /// Somebody asks for packets of a piece.
    pub(super) fn asked(&mut self, from: u32, piece: u32, packets: PacketSet) {
        let has_begun = self.me != HOME || self.begun_ns.is_some();
        self.remind(from, piece);
        if has_begun && self.have.has(piece) && self.may_serve() {
            self.answer(from, piece, packets.within(self.plan.packets(piece)), Some(piece));
        } else if has_begun && self.have.has(piece) {
            self.say(from, Message::Busy { piece: Some(piece) });
        } else {
            self.say(from, Message::NotHere { piece: Some(piece) });
        }
    }

    fn answer(&mut self, to: u32, piece: u32, packets: PacketSet, asked: Option<u32>) {
        if packets.is_empty() {
            return;
        }
        if !self.sender.answer(Burst { to, piece, packets }) {
            self.say(to, Message::Busy { piece: asked });
        } else if packets == self.plan.packets(piece) {
            self.sender.lanes.answered(to, piece);
        }
    }

    fn may_serve(&self) -> bool {
        match self.shape {
            Shape::Two(_) => true,
            Shape::Branches(_) => self.is_branch_served(),
        }
    }

    /// Somebody asks for any piece that it does not have: one is chosen at random.
    pub(super) fn asked_for_any(&mut self, from: u32, has: &PieceSet) {
        let pieces = self.plan.pieces();
        let first = self.choose(pieces);
        let wanted = |piece: &u32| !has.has(*piece) && self.have.has(*piece);
        let found = (0..pieces).map(|step| (first + step) % pieces).find(wanted);
        match found.filter(|_| self.may_serve()) {
            Some(piece) => self.answer(from, piece, self.plan.packets(piece), None),
            None => self.say(from, Message::NotHere { piece: None }),
        }
    }

    /// Whether there is anybody below it that gets a piece from it.
    pub(super) fn passes_on(&self, piece: u32) -> bool {
        match self.shape {
            // The lanes know, as they may be for others than those of the shape.
            Shape::Two(_) => true,
            Shape::Branches(tree) => {
                self.shape.parent(self.me, piece).is_some() && tree.children(self.me).next().is_some()
            }
        }
    }

    /// Sends whatever its link has room for now.
    pub(super) fn send(&mut self, now_ns: u64) {
        let me = self.me;
        let tree = if let Shape::Branches(tree) = self.shape { Some(tree) } else { None };
        let below = |piece, number| match tree? {
            tree if me == HOME => (number == 0).then_some(piece % tree.branches() + 1),
            tree => tree.children(me).nth(number as usize),
        };
        while let Some(burst) = self.sender.next(&self.plan, me == HOME, now_ns, below) {
            let Burst { to, piece, packets } = burst;
            self.effects.push_back(Effect::Send { to, piece, packets });
        }
        if self.me == HOME && self.begun_ns.is_some() && self.sender.is_idle() {
            // All is sent: whoever has not got it by then is asked.
            let patience_ns = 16 * self.asks.patience_ns();
            if let Some(roll) = self.roll.as_mut().filter(|roll| roll.quiet_until_ns == u64::MAX) {
                roll.quiet_until_ns = now_ns.saturating_add(patience_ns);
            }
        }
    }
}
