//! Orders to retain and to discard page tables, and the answers.

use coppice_protocol::limits::{KEPT_FILES_MAX, RETAINED_PROGRAMS_MAX};
use coppice_protocol::retain::{
    Discard, Discarded, HeldAs, RankRetention, Retain, RetainOutcome, Retained, RetainedProgram, WalkCounts,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop_oneof};

use super::{generation, job, program};

fn walk_counts() -> impl Strategy<Value = WalkCounts> {
    any::<[u64; 5]>().prop_map(|[kept, dropped, zeroed, discarded, walk_ns]| WalkCounts {
        kept,
        dropped,
        zeroed,
        discarded,
        walk_ns,
    })
}

pub(super) fn retained_programs() -> impl Strategy<Value = Vec<RetainedProgram>> {
    let one = (program(), any::<(u64, u64, bool)>()).prop_map(|(program, (pages, bytes, is_file))| RetainedProgram {
        program,
        pages,
        bytes,
        held_as: if is_file { HeldAs::File } else { HeldAs::Table },
    });
    vec(one, 0..=RETAINED_PROGRAMS_MAX + KEPT_FILES_MAX)
}

pub(super) fn retain() -> impl Strategy<Value = Retain> {
    (job(), generation(), program()).prop_map(|(job, generation, program)| Retain { job, generation, program })
}

pub(super) fn retained() -> impl Strategy<Value = Retained> {
    let outcome = prop_oneof![
        walk_counts().prop_map(RetainOutcome::Kept),
        Just(RetainOutcome::Absent),
        job().prop_map(RetainOutcome::Busy),
        generation().prop_map(RetainOutcome::OtherBoot),
    ];
    (job(), program(), outcome).prop_map(|(job, program, outcome)| Retained { job, program, outcome })
}

pub(super) fn discard() -> impl Strategy<Value = Discard> {
    (any::<u64>(), option::of(program())).prop_map(|(request, program)| Discard { request, program })
}

pub(super) fn discarded() -> impl Strategy<Value = Discarded> {
    (any::<u64>(), retained_programs(), retained_programs()).prop_map(|(request, given_back, still_held)| Discarded {
        request,
        given_back,
        still_held,
    })
}

pub(super) fn rank_retention() -> impl Strategy<Value = RankRetention> {
    (any::<u64>(), walk_counts()).prop_map(|(found, walk)| RankRetention { found, walk })
}
