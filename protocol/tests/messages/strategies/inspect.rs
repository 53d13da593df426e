//! Questions about ranks, and the answers.

use core::net::Ipv4Addr;

use coppice_protocol::inspect::{Answer, Inspect, Inspected, OpenObject, PairKind, Question, What};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::select;

use super::{bytes, job, rank};

pub(super) fn inspect() -> impl Strategy<Value = Inspect> {
    (any::<u64>(), job(), rank(), any::<u32>()).prop_map(|(request, job, rank, from)| Inspect {
        request,
        job,
        rank,
        question: Question::Objects { from },
    })
}

fn name() -> impl Strategy<Value = (Ipv4Addr, u16)> {
    any::<(u32, u16)>().prop_map(|(address, port)| (Ipv4Addr::from(address), port))
}

fn what() -> impl Strategy<Value = What> {
    let kinds = select(vec![PairKind::Stream, PairKind::Sequence, PairKind::Datagrams]);
    let file = (bytes(), any::<(u32, u64, u64, u64)>());
    let socket = (any::<(bool, bool)>(), name(), option::of(name()), any::<(u64, u64)>());
    prop_oneof![
        file.prop_map(|(path, (mode, device, inode, size))| What::File { path, mode, device, inode, size }),
        any::<u8>().prop_map(What::Standard),
        bytes().prop_map(|path| What::Kernel { path }),
        any::<(u64, u64)>().prop_map(|(inode, size)| What::Shared { inode, size }),
        any::<(u64, u64)>().prop_map(|(pipe, held)| What::Pipe { pipe, held }),
        (any::<(u64, u64)>(), kinds).prop_map(|((end, held), kind)| What::Pair { end, kind, held }),
        socket.prop_map(|((stream, listening), local, peer, (held, unsent))| What::Socket {
            stream,
            listening,
            local,
            peer,
            held,
            unsent
        }),
        any::<u64>().prop_map(|value| What::Event { value }),
        any::<(u64, u64)>().prop_map(|(left_ns, interval_ns)| What::Timer { left_ns, interval_ns }),
        any::<u64>().prop_map(|wanted| What::Signals { wanted }),
        (vec(any::<(i32, u64, u32)>(), 0..5), any::<u32>())
            .prop_map(|(watched, count)| What::Poller { watched, count }),
        any::<u64>().prop_map(|held| What::Service { held }),
    ]
}

fn object() -> impl Strategy<Value = OpenObject> {
    (any::<(u32, bool, u64, u32, u64)>(), what()).prop_map(|((descriptor, close_on_exec, id, flags, offset), what)| {
        OpenObject { descriptor, close_on_exec, id, flags, offset, what }
    })
}

pub(super) fn inspected() -> impl Strategy<Value = Inspected> {
    let objects =
        (vec(object(), 0..6), option::of(any::<u32>())).prop_map(|(objects, next)| Answer::Objects { objects, next });
    (any::<u64>(), prop_oneof![Just(Answer::NotHere), objects])
        .prop_map(|(request, answer)| Inspected { request, answer })
}
