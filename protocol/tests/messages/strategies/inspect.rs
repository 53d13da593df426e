//! Questions about ranks, and the answers.

use core::net::Ipv4Addr;

use coppice_protocol::checkpoint::{Keeping, ObjectId, Part, PartOf, Saving};
use coppice_protocol::inspect::cut::Step;
use coppice_protocol::inspect::debug::{BREAKPOINTS, BreakAt, BreakOn, Go, SetThread, Stop, Why};
use coppice_protocol::inspect::held::{
    EndedBy, HeldProcess, HeldThread, MappedArea, MemoryPart, NotTold, REGISTERS, Shows,
};
use coppice_protocol::inspect::{Answer, Inspect, Inspected, OpenObject, PairKind, Query, Question, What};
use coppice_protocol::region::SlotKey;
use proptest::array;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::select;

use super::{bytes, job, rank};

pub(super) fn inspect() -> impl Strategy<Value = Inspect> {
    (any::<(u64, u64)>(), job(), rank(), question()).prop_map(|((request, by), job, rank, question)| Inspect {
        request,
        job,
        rank,
        query: Query { by, question },
    })
}

fn question() -> impl Strategy<Value = Question> {
    prop_oneof![
        any::<u32>().prop_map(|from| Question::Objects { from }),
        Just(Question::Hold),
        any::<u32>().prop_map(|from| Question::Threads { from }),
        any::<u64>().prop_map(|from| Question::Areas { from }),
        any::<(u64, u64)>().prop_map(|(address, length)| Question::Memory { address, length }),
        Just(Question::Release),
        (any::<u64>(), bytes()).prop_map(|(address, bytes)| Question::Write { address, bytes }),
        set_thread().prop_map(Question::Set),
        go().prop_map(Question::Go),
        Just(Question::Stop),
        select(STEPS.to_vec()).prop_map(Question::Cut),
        Just(Question::Saving),
    ]
}

fn set_thread() -> impl Strategy<Value = SetThread> {
    (any::<(u32, bool)>(), any::<[u64; REGISTERS]>(), bytes())
        .prop_map(|((tid, in_call), registers, vector)| SetThread { tid, registers, in_call, vector })
}

fn break_at() -> impl Strategy<Value = BreakAt> {
    let kinds = select(vec![BreakOn::Execute, BreakOn::Write, BreakOn::Access]);
    (any::<(u64, u8)>(), kinds).prop_map(|((address, length), on)| BreakAt { address, on, length })
}

fn go() -> impl Strategy<Value = Go> {
    let threads = any::<(Option<u32>, Option<u32>, Option<u32>)>();
    let breakpoints = array::uniform::<_, BREAKPOINTS>(option::of(break_at()));
    (threads, breakpoints, vec(any::<u64>(), 0..5)).prop_map(|((only, step, signal), breakpoints, planted)| Go {
        only,
        step,
        signal,
        breakpoints,
        planted,
    })
}

fn stop() -> impl Strategy<Value = Stop> {
    let why = prop_oneof![
        any::<u8>().prop_map(Why::Signal),
        Just(Why::Step),
        Just(Why::Breakpoint),
        break_at().prop_map(Why::Touched),
    ];
    (any::<u32>(), why).prop_map(|(tid, why)| Stop { tid, why })
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

const STEPS: &[Step] = &[
    Step::Stop,
    Step::Quiet,
    Step::Record,
    Step::Save(Keeping { since: None, copy: None, elsewhere: false }),
    Step::Save(Keeping { since: Some(0x1234_5678_9abc), copy: Some(7), elsewhere: true }),
    Step::Resume,
    Step::Make,
    Step::Connect,
    Step::Settle,
    Step::Go,
    Step::GiveUp,
];

pub(crate) fn part() -> impl Strategy<Value = Part> {
    let of = prop_oneof![rank().prop_map(PartOf::Rank), any::<u32>().prop_map(PartOf::Node)];
    (of, any::<[u8; 32]>()).prop_map(|(of, id)| Part { of, object: ObjectId(id) })
}

pub(crate) fn slot_key() -> impl Strategy<Value = SlotKey> {
    any::<(u8, u64)>().prop_map(|(slot, key)| SlotKey { slot, key })
}

fn saving() -> impl Strategy<Value = Saving> {
    (any::<((u64, u64), u64, u64)>(), option::of(vec(part(), 0..4)), option::of(".{0,40}"), option::of(slot_key()))
        .prop_map(|((pages, bytes, barriers), parts, failed, local)| Saving {
            pages,
            bytes,
            barriers,
            parts,
            local,
            failed,
        })
}

fn object() -> impl Strategy<Value = OpenObject> {
    (any::<(u32, bool, u64, u32, u64)>(), what()).prop_map(|((descriptor, close_on_exec, id, flags, offset), what)| {
        OpenObject { descriptor, close_on_exec, id, flags, offset, what }
    })
}

fn held() -> impl Strategy<Value = HeldProcess> {
    let texts = (bytes(), bytes(), bytes(), bytes());
    (any::<(u32, u32, u32, u32)>(), texts, any::<(u64, u32)>()).prop_map(|(ids, texts, (components, threads))| {
        let ((pid, parent, user, group), (name, program, arguments, auxiliary)) = (ids, texts);
        let ends = (threads > 1).then(|| EndedBy { tid: pid, signal: threads as u8, info: name.clone() });
        HeldProcess { pid, parent, user, group, name, program, arguments, auxiliary, components, threads, ends }
    })
}

fn thread() -> impl Strategy<Value = HeldThread> {
    (any::<(u32, u64, bool, u64, u64)>(), any::<[u64; REGISTERS]>(), bytes()).prop_map(
        |((tid, cpu_ns, in_call, blocked, pending), registers, vector)| HeldThread {
            tid,
            cpu_ns,
            registers,
            in_call,
            blocked,
            pending,
            vector,
        },
    )
}

fn area() -> impl Strategy<Value = MappedArea> {
    let shows = prop_oneof![
        Just(Shows::Zeros),
        any::<u64>().prop_map(|offset| Shows::Program { offset }),
        (bytes(), any::<u64>()).prop_map(|(path, offset)| Shows::File { path, offset }),
        any::<u64>().prop_map(|offset| Shows::Shared { offset }),
    ];
    (any::<(u64, u64)>(), any::<(bool, bool, bool)>(), shows).prop_map(
        |((start, end), (read, write, execute), shows)| MappedArea { start, end, read, write, execute, shows },
    )
}

fn not_told() -> impl Strategy<Value = NotTold> {
    prop_oneof![
        Just(NotTold::Busy),
        Just(NotTold::NotHeld),
        Just(NotTold::Ending),
        ".{0,40}".prop_map(NotTold::Late),
        Just(NotTold::NoMemory),
        Just(NotTold::Taken),
        Just(NotTold::Refused),
    ]
}

pub(super) fn inspected() -> impl Strategy<Value = Inspected> {
    let objects =
        (vec(object(), 0..6), option::of(any::<u32>())).prop_map(|(objects, next)| Answer::Objects { objects, next });
    let threads =
        (vec(thread(), 0..4), option::of(any::<u32>())).prop_map(|(threads, next)| Answer::Threads(threads, next));
    let areas = (vec(area(), 0..6), option::of(any::<u64>())).prop_map(|(areas, next)| Answer::Areas(areas, next));
    let memory = (any::<u64>(), bytes()).prop_map(|(zeros, bytes)| Answer::Memory(MemoryPart { zeros, bytes }));
    let answer = prop_oneof![
        Just(Answer::NotHere),
        objects,
        not_told().prop_map(Answer::NotTold),
        held().prop_map(Answer::Held),
        threads,
        areas,
        memory,
        Just(Answer::Released),
        Just(Answer::Changed),
        Just(Answer::Goes),
        option::of(stop()).prop_map(Answer::Stopped),
        Just(Answer::Cut),
        saving().prop_map(Answer::Saving),
    ];
    (any::<u64>(), answer).prop_map(|(request, answer)| Inspected { request, answer })
}
