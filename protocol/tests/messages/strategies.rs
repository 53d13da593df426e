//! Strategies for every message type, by hand: what the derive would make of them is what the limits allow, no less.

mod broadcast;
mod control;
mod inspect;
mod keep;
mod overlay;
mod pset;
mod retain;
mod ship;
mod spawn;

use core::net::Ipv4Addr;

use coppice_protocol::ids::{Generation, JobId, MacAddress, NodeId, ProgramId, PsetId, Rank};
use coppice_protocol::personality::{NodeKey, Personality};
use coppice_protocol::retain::RetentionPolicy;
use coppice_protocol::text::ByteString;
use proptest::prelude::{Strategy, any, prop_oneof};

pub(crate) use self::control::{to_io_node, to_node};
pub(crate) use self::pset::{from_pset, to_pset};
pub(crate) use self::ship::{notice, reply, request};

fn node() -> impl Strategy<Value = NodeId> {
    any::<u32>().prop_map(NodeId)
}

fn generation() -> impl Strategy<Value = Generation> {
    any::<u32>().prop_map(Generation)
}

fn job() -> impl Strategy<Value = JobId> {
    any::<u64>().prop_map(JobId)
}

fn rank() -> impl Strategy<Value = Rank> {
    any::<u32>().prop_map(Rank)
}

/// Text that may be anything, and often is UTF-8.
fn bytes() -> impl Strategy<Value = ByteString> {
    prop_oneof![any::<String>().prop_map(ByteString::from), any::<Vec<u8>>().prop_map(ByteString::from)]
}

fn program() -> impl Strategy<Value = ProgramId> {
    any::<[u8; 32]>().prop_map(ProgramId)
}

fn key() -> impl Strategy<Value = NodeKey> {
    any::<[u8; 32]>().prop_map(NodeKey)
}

/// Personalities that a node takes.
pub(crate) fn personality() -> impl Strategy<Value = Personality> {
    let numbers = (0..0x00bf_fffe_u32, any::<u32>(), 0..0x003f_ffff_u32, 576..=u16::MAX, 1..=32_u8);
    (numbers, any::<[u8; 32]>(), any::<[u8; 32]>(), any::<u64>(), any::<u8>(), any::<bool>()).prop_map(
        |((node, generation, pset, mtu, prefix), key, seed, realtime_ns, log_level, one)| {
            let address = NodeId(node).address();
            Personality {
                node: NodeId(node),
                generation: Generation(generation),
                pset: PsetId(pset),
                address,
                prefix,
                mac: MacAddress::of(address),
                mtu,
                io_node: PsetId(pset).address(),
                key: NodeKey(key),
                seed,
                realtime_ns,
                log_level,
                retention: if one { RetentionPolicy::One } else { RetentionPolicy::Many },
                freeze_every_ns: realtime_ns / 3,
            }
        },
    )
}

/// One personality, the same each time.
pub(crate) fn example_personality() -> Personality {
    Personality {
        node: NodeId(5),
        generation: Generation(2),
        pset: PsetId(1),
        address: Ipv4Addr::new(10, 64, 0, 6),
        prefix: 8,
        mac: MacAddress([2, 0, 10, 64, 0, 6]),
        mtu: 9000,
        io_node: Ipv4Addr::new(10, 0, 0, 2),
        key: NodeKey([0xaa; 32]),
        seed: [0xbb; 32],
        realtime_ns: 1_700_000_000_000_000_000,
        log_level: 3,
        retention: RetentionPolicy::One,
        freeze_every_ns: 20_000_000,
    }
}
