//! What members of a transfer send each other. Each datagram comes behind the time since the one before, in pieces'
//! times, and its length; it gets the MAC that it should have, so that what it says is looked at. The first byte
//! chooses who hears it.

use coppice_protocol::distribution::packet::{Content, Envelope, TransferKey, decode, encode, seal};
use coppice_protocol::distribution::{
    AskVariant, HOME, Link, Machine, MemberRanges, Message, PacketSet, PieceSet, Plan, Scheme, TransferId,
};
use coppice_protocol::ids::Generation;
use coppice_protocol::trees::Topology;

use super::shape;

fn key() -> TransferKey {
    TransferKey::new([7; 32])
}
const PIECES: u32 = 12;
const MEMBERS: u32 = 6;
/// What a machine wants done after each datagram, at most: a question or an answer for each piece, and some more.
const EFFECTS_MAX: usize = 200;
/// The bytes before a datagram.
const FRONT_BYTES: usize = 2;

fn plan(scheme: Scheme, topology: Topology) -> Plan {
    Plan {
        transfer: TransferId { number: 1, generation: Generation(1) },
        bytes: u64::from(PIECES) * 64,
        piece_bytes: 64,
        packet_bytes: 32,
        overhead_bytes: 10,
        members: MEMBERS,
        topology,
        scheme,
        link: Link { bytes_per_second: 1_000_000_000, latency_ns: 100, stall_ns: 0 },
    }
}

pub(super) fn run(data: &[u8]) -> u64 {
    let Some((&choice, mut rest)) = data.split_first() else { return 0 };
    let scheme = match choice >> 4 & 3 {
        0 | 1 => Scheme::TwoTrees,
        2 => Scheme::Branches { branches: u32::MAX, layers: 2, ask: AskVariant::PieceFirst },
        _ => Scheme::Branches { branches: u32::MAX, layers: 3, ask: AskVariant::NodeFirst },
    };
    let topology = match choice >> 4 & 3 {
        1 => Topology::of_psets([2, 3]).expect("memory"),
        _ => Topology::one_pset(),
    };
    let (plan, me) = (plan(scheme, topology), u32::from(choice & 7) % (MEMBERS + 1));
    let mut machine = Machine::new(&plan, me, 1, 0).expect("a plan");
    machine.begin(0);
    let (mut now_ns, mut said) = (0, String::new());
    while let Some((&[pause, length], behind)) = rest.split_first_chunk::<FRONT_BYTES>() {
        let (datagram, others) = behind.split_at(behind.len().min(length.into()));
        rest = others;
        now_ns += u64::from(pause) * plan.piece_ns();
        let mut datagram = datagram.to_vec();
        seal(&key(), &mut datagram);
        match decode(&plan, &key(), me, &datagram) {
            Ok((Envelope { from, elapsed_ns, .. }, Content::Packet { piece, packet, .. })) => {
                machine.arrived(from, piece, PacketSet::one(packet), elapsed_ns, now_ns);
            }
            Ok((Envelope { from, elapsed_ns, .. }, Content::Message(message))) => {
                machine.heard(from, message, elapsed_ns, now_ns);
            }
            Err(error) => said.push_str(&error.to_string()),
        }
        machine.advance(now_ns);
        let mut effects = 0;
        while let Some(effect) = machine.take() {
            effects += 1;
            if let coppice_protocol::distribution::Effect::Check { piece } = effect {
                machine.checked(piece, piece % 5 > 0, now_ns);
            }
            said.push_str(&format!("{effect:?}"));
        }
        assert!(effects <= EFFECTS_MAX, "{effects} effects of one datagram");
        assert!(machine.due_ns().is_none_or(|due_ns| due_ns < u64::MAX));
    }
    shape(&said)
}

/// Each kind of datagram alone and all of them, to home and to members.
pub(super) fn examples() -> Vec<Vec<u8>> {
    let mut members = MemberRanges::none();
    members.add(1, 4);
    let has = PieceSet::of_words(PIECES, [5].into_iter()).expect("memory");
    let messages = [
        Message::Ask { piece: 3, packets: PacketSet(7) },
        Message::AskAny { has },
        Message::NotHere { piece: Some(3) },
        Message::NotHere { piece: None },
        Message::Busy { piece: Some(2) },
        Message::Leave { tree: 1 },
        Message::Adopt { tree: 0, instead_of: 2, first: 0, is_sure: true },
        Message::Failing { tree: 0, who: 2 },
        Message::Adopted { tree: 0 },
        Message::Whole { members },
        Message::Heard { count: 4 },
        Message::Probe,
        Message::Present { pieces: 2 },
    ];
    let packets = (0..PIECES).flat_map(|piece| (0..2).map(move |packet| (piece, packet)));
    let packets = packets.map(|(piece, packet)| Content::Packet { piece, packet, bytes: &[9; 32] });
    let contents: Vec<Content<'_>> = packets.chain(messages.into_iter().map(Content::Message)).collect();
    let plan = plan(Scheme::TwoTrees, Topology::one_pset());
    let front = |from, to, content| {
        let datagram = encode(plan.transfer, &key(), Envelope { from, to, elapsed_ns: 50 }, content).expect("memory");
        [&[1, datagram.len() as u8], datagram.as_slice()].concat()
    };
    let mut examples = Vec::new();
    for (choice, from, to) in [(HOME as u8, 3, HOME), (4, HOME, 4), (4, 2, 4), (0x24, HOME, 4), (0x34, 1, 4)] {
        let all: Vec<Vec<u8>> = contents.iter().map(|content| front(from, to, content)).collect();
        examples.push([&[choice], all.concat().as_slice()].concat());
        examples.extend(all.iter().map(|one| [&[choice], one.as_slice()].concat()));
    }
    examples
}
