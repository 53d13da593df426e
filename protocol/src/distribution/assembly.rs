//! Pieces of which some packets are there.

use alloc::vec::Vec;

use super::pieces::PacketSet;
use crate::limits::ASSEMBLIES_PER_MEMBER_MAX;

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Assembly {
    pub(super) piece: u32,
    pub(super) packets: PacketSet,
    /// Who sent the first packet, and whether all the others, too.
    pub(super) from: u32,
    pub(super) is_mixed: bool,
    /// When the last packet came, ns.
    pub(super) touched_ns: u64,
    /// All packets are there, and somebody looks whether they are right.
    pub(super) is_complete: bool,
}

/// All of them, at most [`ASSEMBLIES_PER_MEMBER_MAX`].
#[derive(Debug, Default)]
pub(super) struct Assemblies {
    all: Vec<Assembly>,
    /// Packets of different senders are no longer put together, so that it shows who sends wrong ones.
    is_wary: bool,
}

impl Assemblies {
    pub(super) fn get(&self, piece: u32) -> Option<&Assembly> {
        self.all.iter().find(|assembly| assembly.piece == piece)
    }

    /// Packets came; `whole` are all of their piece. Those of them that are taken, and whether the piece is complete by
    /// that.
    pub(super) fn add(
        &mut self,
        piece: u32,
        packets: PacketSet,
        whole: PacketSet,
        from: u32,
        now_ns: u64,
    ) -> (PacketSet, bool) {
        const NOTHING: (PacketSet, bool) = (PacketSet(0), false);
        let is_wary = self.is_wary;
        let index = match self.all.iter().position(|assembly| assembly.piece == piece) {
            Some(index) => index,
            None if !self.make_room() => return NOTHING,
            None => {
                self.all.push(Assembly {
                    piece,
                    packets: PacketSet::default(),
                    from,
                    is_mixed: false,
                    touched_ns: now_ns,
                    is_complete: false,
                });
                self.all.len() - 1
            }
        };
        let assembly = &mut self.all[index];
        if assembly.is_complete || is_wary && assembly.from != from {
            return NOTHING;
        }
        let taken = packets.within(whole).without(assembly.packets);
        assembly.is_mixed |= assembly.from != from && !taken.is_empty();
        assembly.packets = assembly.packets.with(taken);
        assembly.touched_ns = now_ns;
        assembly.is_complete = assembly.packets == whole;
        (taken, assembly.is_complete)
    }

    /// How many of these pieces something is missing of.
    pub(super) fn count(&self, of: impl Fn(u32) -> bool) -> u32 {
        self.all.iter().filter(|assembly| !assembly.is_complete && of(assembly.piece)).count() as u32
    }

    fn make_room(&mut self) -> bool {
        if self.all.len() >= ASSEMBLIES_PER_MEMBER_MAX {
            let open = self.all.iter().enumerate().filter(|(_, assembly)| !assembly.is_complete);
            let Some((oldest, _)) = open.min_by_key(|(_, assembly)| assembly.touched_ns) else { return false };
            self.all.swap_remove(oldest);
        }
        self.all.try_reserve(1).is_ok()
    }

    /// A piece is no longer put together: it is right, or begun anew.
    pub(super) fn remove(&mut self, piece: u32) -> Option<Assembly> {
        let index = self.all.iter().position(|assembly| assembly.piece == piece)?;
        Some(self.all.swap_remove(index))
    }

    /// Something was wrong, and nobody knows who sent it.
    pub(super) const fn be_wary(&mut self) {
        self.is_wary = true;
    }

    /// What was asked of a member did not come, or only some of it. What there is of the piece is kept as long as that
    /// member has sent it and goes on: else the rest has to come from another, who then has to send all.
    pub(super) fn give_up(&mut self, piece: u32, of: u32, goes_on: bool) {
        if self.is_wary {
            self.all
                .retain(|assembly| assembly.piece != piece || assembly.is_complete || goes_on && assembly.from == of);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Assemblies;
    use crate::distribution::PacketSet;

    #[test]
    fn what_one_member_sends_in_several_answers_is_put_together() {
        let whole = PacketSet(0b111);
        let mut assemblies = Assemblies::default();
        assemblies.be_wary();
        let add = |assemblies: &mut Assemblies, packet, from| assemblies.add(4, PacketSet::one(packet), whole, from, 0);
        assert!(!add(&mut assemblies, 0, 7).1);
        assemblies.give_up(4, 7, true);
        assert!(!add(&mut assemblies, 1, 7).1);
        assert_eq!(add(&mut assemblies, 2, 8), (PacketSet(0), false), "that is somebody else");
        assert!(add(&mut assemblies, 2, 7).1, "what came before its answer was late is still there");
    }

    #[test]
    fn what_does_not_go_on_another_sends_anew() {
        let whole = PacketSet(0b11);
        for (of, goes_on) in [(7, false), (8, true)] {
            let mut assemblies = Assemblies::default();
            assemblies.be_wary();
            assemblies.add(4, PacketSet::one(0), whole, 7, 0);
            assemblies.give_up(4, of, goes_on);
            assert_eq!(assemblies.add(4, whole, whole, 8, 1), (whole, true), "asked of {of}");
        }
    }
}
