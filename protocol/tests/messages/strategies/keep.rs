//! Orders to keep files, and the answers.

use coppice_protocol::keep::{Keep, KeepFile, KeepOutcome, Kept, KeptTransfer};
use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_oneof};

use super::control::{staging, world};
use super::retain::retained_programs;
use super::{bytes, generation, node};

fn transfer() -> impl Strategy<Value = KeptTransfer> {
    let parts = (any::<u64>(), world(), staging());
    parts.prop_map(|(request, world, staging)| KeptTransfer { request, world, staging })
}

pub(super) fn keep() -> impl Strategy<Value = Keep> {
    (generation(), node(), transfer()).prop_map(|(generation, node, transfer)| Keep { generation, node, transfer })
}

pub(super) fn keep_file() -> impl Strategy<Value = KeepFile> {
    let parts = (transfer(), vec(node(), 0..5), bytes());
    parts.prop_map(|(transfer, nodes, file)| KeepFile { transfer, nodes, file })
}

pub(super) fn kept() -> impl Strategy<Value = Kept> {
    let outcome = prop_oneof![
        any::<bool>().prop_map(|was_here| KeepOutcome::Whole { was_here }),
        any::<String>().prop_map(KeepOutcome::Refused),
        generation().prop_map(KeepOutcome::OtherBoot),
    ];
    let parts = (any::<u64>(), outcome, retained_programs());
    parts.prop_map(|(request, outcome, held)| Kept { request, outcome, held })
}
