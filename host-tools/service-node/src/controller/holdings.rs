//! What a node remembers of programs in its present boot, and which files it keeps, as far as is known.

use std::collections::BTreeSet;

use coppice_api::retain::{LastProgram, RetainedView};
use coppice_protocol::ids::{NodeId, ProgramId};
use coppice_protocol::limits::{KEPT_FILES_MAX, RETAINED_PROGRAMS_MAX};
use coppice_protocol::program::PAGE_BYTES;
use coppice_protocol::retain::{HeldAs, RetainedProgram, RetentionPolicy};

use crate::limits::DISCARDS_OWED_MAX;
use crate::scheduler::placement::Candidate;

/// A node's memory of programs. Gone with its machine.
#[derive(Debug, Default)]
pub(super) struct Holdings {
    /// The program it ran last.
    pub(super) last: Option<LastProgram>,
    /// The programs whose pages it holds, the one that ran last first, the files that it keeps, and what it holds of
    /// files that programs have read.
    held: Vec<RetainedProgram>,
    /// Orders to give pages back that it has not answered yet.
    owed: BTreeSet<u64>,
}

impl Holdings {
    pub(super) fn new(last: Option<LastProgram>, held: Vec<RetainedProgram>) -> Self {
        Self { last, held, owed: BTreeSet::new() }
    }

    /// All that it holds.
    pub(super) fn held(&self) -> &[RetainedProgram] {
        &self.held
    }

    /// The node said that it holds exactly this. A program or file that is named twice counts once, and no more than a
    /// node can hold. Returns whether that is something new.
    pub(super) fn set_held(&mut self, said: &[RetainedProgram]) -> bool {
        let mut held: Vec<RetainedProgram> = Vec::new();
        for kind in [HeldAs::Table, HeldAs::File, HeldAs::Read] {
            let most = held.len() + if kind == HeldAs::File { KEPT_FILES_MAX } else { RETAINED_PROGRAMS_MAX };
            for one in said.iter().filter(|one| one.held_as == kind) {
                let is_new = held.iter().all(|known| (known.program, known.held_as) != (one.program, kind));
                if is_new && held.len() < most {
                    held.push(*one);
                }
            }
        }
        std::mem::replace(&mut self.held, held) != self.held
    }

    /// The node said that it holds this program and now used it; and no other, if one is all that it keeps. What memory
    /// that takes it said when the program ended.
    pub(super) fn keep(&mut self, policy: RetentionPolicy, program: ProgramId, pages: u64) -> bool {
        let known = self.table_of(program).filter(|known| known.pages == pages);
        let bytes = known.map_or(pages.saturating_mul(PAGE_BYTES), |known| known.bytes);
        let mut held = vec![RetainedProgram { program, pages, bytes, held_as: HeldAs::Table }];
        let stays = |other: &&RetainedProgram| match other.held_as {
            HeldAs::File => true,
            HeldAs::Table => policy == RetentionPolicy::Many,
            HeldAs::Read => policy == RetentionPolicy::Many || other.program == program,
        };
        held.extend(self.held.iter().filter(stays));
        self.set_held(&held)
    }

    fn table_of(&self, program: ProgramId) -> Option<&RetainedProgram> {
        self.held.iter().find(|known| known.program == program && known.held_as == HeldAs::Table)
    }

    /// The node holds no pages of this program that it ran.
    pub(super) fn drop_program(&mut self, program: ProgramId) -> bool {
        let before = self.held.len();
        self.held.retain(|known| known.program != program || known.held_as != HeldAs::Table);
        self.held.len() != before
    }

    /// Pages of a program that it holds.
    pub(super) fn pages(&self, program: ProgramId) -> u64 {
        self.table_of(program).map_or(0, |known| known.pages)
    }

    /// The node as a candidate for a job of this program.
    pub(super) fn candidate(&self, node: NodeId, program: ProgramId) -> Candidate {
        Candidate {
            node,
            pages: self.pages(program),
            clean: self.held.iter().all(|known| known.held_as != HeldAs::Table),
            used_at_ns: self.last.as_ref().map_or(0, |last| last.at_ns),
        }
    }

    /// It was told to give pages back.
    pub(super) fn owes(&mut self, request: u64) {
        while self.owed.len() >= DISCARDS_OWED_MAX {
            self.owed.pop_first();
        }
        self.owed.insert(request);
    }

    /// It answered an order to give pages back. Returns whether it had been given one.
    pub(super) fn answered(&mut self, request: u64) -> bool {
        self.owed.remove(&request)
    }

    pub(super) fn views(&self) -> Vec<RetainedView> {
        let view = |RetainedProgram { program, pages, bytes, held_as }: &RetainedProgram| RetainedView {
            program: program.to_string(),
            pages: *pages,
            bytes: *bytes,
            is_file: *held_as == HeldAs::File,
            is_read: *held_as == HeldAs::Read,
        };
        self.held.iter().map(view).collect()
    }
}

#[cfg(test)]
mod tests {
    use coppice_protocol::ids::{NodeId, ProgramId};
    use coppice_protocol::limits::{KEPT_FILES_MAX, RETAINED_PROGRAMS_MAX};
    use coppice_protocol::retain::{HeldAs, RetainedProgram, RetentionPolicy};

    use super::Holdings;
    use crate::limits::DISCARDS_OWED_MAX;
    use crate::scheduler::placement::Candidate;

    fn held(program: u8, pages: u64, bytes: u64) -> RetainedProgram {
        RetainedProgram { program: ProgramId([program; 32]), pages, bytes, held_as: HeldAs::Table }
    }

    #[test]
    fn what_a_node_says_is_bounded_and_each_program_counts_once() {
        let mut holdings = Holdings::default();
        let twice = [held(1, 5, 50), held(2, 6, 60), held(1, 7, 70)];
        assert!(holdings.set_held(&twice));
        assert_eq!(holdings.held(), &twice[..2]);
        assert!(!holdings.set_held(&twice), "nothing new");
        let many: Vec<_> = (0..=RETAINED_PROGRAMS_MAX).map(|n| held(u8::try_from(n).expect("few"), 1, 1)).collect();
        assert!(holdings.set_held(&many));
        assert_eq!(holdings.held(), &many[..RETAINED_PROGRAMS_MAX]);
    }

    #[test]
    fn keeping_one_program_discards_the_others_if_one_is_all_there_is_to_be() {
        let mut holdings = Holdings::new(None, vec![held(1, 5, 50), held(2, 6, 60)]);
        assert!(holdings.keep(RetentionPolicy::Many, ProgramId([2; 32]), 6));
        assert_eq!(holdings.held(), [held(2, 6, 60), held(1, 5, 50)], "the one that was used comes first");
        assert!(holdings.keep(RetentionPolicy::One, ProgramId([2; 32]), 6));
        assert_eq!(holdings.held(), [held(2, 6, 60)], "the memory it takes is known");
        assert!(holdings.keep(RetentionPolicy::One, ProgramId([2; 32]), 4));
        assert_eq!(holdings.held(), [held(2, 4, 4 * 4096)]);
        assert!(!holdings.drop_program(ProgramId([1; 32])) && holdings.drop_program(ProgramId([2; 32])));
        let clean = Candidate { node: NodeId(3), pages: 0, clean: true, used_at_ns: 0 };
        assert_eq!(holdings.candidate(NodeId(3), ProgramId([2; 32])), clean);
    }

    #[test]
    fn files_are_kept_beside_programs_and_make_no_node_warm_or_unclean() {
        let file = |content, pages| RetainedProgram { held_as: HeldAs::File, ..held(content, pages, 9) };
        let mut holdings = Holdings::default();
        // One and the same content as both.
        assert!(holdings.set_held(&[file(1, 4), held(1, 5, 50), file(1, 4), file(2, 3)]));
        assert_eq!(holdings.held(), [held(1, 5, 50), file(1, 4), file(2, 3)]);
        assert_eq!(holdings.pages(ProgramId([1; 32])), 5);
        assert!(holdings.keep(RetentionPolicy::One, ProgramId([3; 32]), 6));
        assert_eq!(holdings.held()[1..], [file(1, 4), file(2, 3)], "they are no programs");
        assert!(holdings.drop_program(ProgramId([3; 32])) && !holdings.drop_program(ProgramId([1; 32])));
        let candidate = holdings.candidate(NodeId(3), ProgramId([1; 32]));
        assert_eq!((candidate.pages, candidate.clean), (0, true));
        let many: Vec<_> = (0..=KEPT_FILES_MAX).map(|n| file(u8::try_from(n).expect("few"), 1)).collect();
        assert!(holdings.set_held(&many));
        assert_eq!(holdings.held(), &many[..KEPT_FILES_MAX]);
    }

    #[test]
    fn only_orders_that_were_given_are_answered() {
        let mut holdings = Holdings::default();
        let last = DISCARDS_OWED_MAX as u64;
        (0..=last).for_each(|request| holdings.owes(request));
        assert!(!holdings.answered(0), "too long ago");
        assert!(holdings.answered(last) && !holdings.answered(last), "once");
        assert!(!holdings.answered(last + 1));
    }
}
