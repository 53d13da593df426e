//! What is said of ranks that ranks start.

use coppice_protocol::ids::NodeId;
use coppice_protocol::spawn::{Joined, KeyValue, Origin, Spawn, Spawned, Wanted};
use coppice_protocol::world::{Kin, NetworkTag, NodeRange};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Strategy, any, prop_oneof};

use super::control::texts;
use super::{bytes, job, rank};

pub(super) fn ranges() -> impl Strategy<Value = Vec<NodeRange>> {
    vec(any::<(u32, u32)>().prop_map(|(first, count)| NodeRange { first: NodeId(first), count }), 0..4)
}

pub(super) fn kin() -> impl Strategy<Value = Box<Kin>> {
    (any::<[u8; 8]>(), ranges()).prop_map(|(tag, before)| Box::new(Kin { tag: NetworkTag(tag), before }))
}

fn keys() -> impl Strategy<Value = Vec<KeyValue>> {
    vec((bytes(), bytes()).prop_map(|(key, value)| KeyValue { key, value }), 0..3)
}

pub(super) fn origin() -> impl Strategy<Value = Box<Origin>> {
    (job(), keys()).prop_map(|(job, keys)| Box::new(Origin { job, keys }))
}

pub(super) fn spawn() -> impl Strategy<Value = Spawn> {
    let wanted = (bytes(), texts(), option::of(bytes()), any::<u32>(), keys());
    let wanted = wanted.prop_map(|(program, arguments, directory, ranks, keys)| Wanted {
        program,
        arguments,
        directory,
        ranks,
        keys,
    });
    (job(), rank(), any::<u64>(), wanted).prop_map(|(job, rank, number, wanted)| Spawn { job, rank, number, wanted })
}

pub(super) fn spawned() -> impl Strategy<Value = Spawned> {
    let outcome = prop_oneof![job().prop_map(Ok), any::<String>().prop_map(Err)];
    let spawned = (job(), rank(), any::<u64>(), outcome);
    spawned.prop_map(|(job, rank, number, outcome)| Spawned { job, rank, number, outcome })
}

pub(super) fn joined() -> impl Strategy<Value = Joined> {
    (job(), any::<u32>(), ranges()).prop_map(|(job, first, nodes)| Joined { job, first, nodes })
}
