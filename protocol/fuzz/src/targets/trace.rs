//! What a traced rank did, as it comes from a node. The first byte says how the rest is cut.

use coppice_protocol::syscalls;
use coppice_protocol::trace::{CallRecord, Event, Excerpt, Outcome, Reader, Record};

use super::shape;

pub(super) fn run(data: &[u8]) -> u64 {
    let Some((cut, stream)) = data.split_first() else { return 0 };
    let (mut whole, mut reader) = (Vec::new(), Reader::default());
    let cut = stream.chunks(usize::from(*cut) + 1).try_for_each(|piece| {
        whole.extend(reader.read(piece)?);
        Ok::<(), coppice_protocol::trace::NoRecord>(())
    });
    // However it is cut, the same comes out.
    let at_once = Reader::default().read(stream);
    assert_eq!(cut.is_err(), at_once.is_err());
    if let Ok(records) = at_once {
        assert_eq!(records, whole);
    }
    shape(&format!("{whole:?}"))
}

/// A call that waits, its end, a signal, and the end of the process.
pub(super) fn examples() -> Vec<Vec<u8>> {
    let excerpts = vec![Excerpt { argument: 1, bytes: b"some bytes".to_vec() }];
    let call = CallRecord { number: syscalls::READ.into(), arguments: [3, 0x1000, 10, 0, 0, 0], excerpts };
    let events = [
        Event::Waits(call.clone()),
        Event::Called { call: call.clone(), took_ns: 5, outcome: Outcome::Result(10) },
        Event::Called { call, took_ns: 5, outcome: Outcome::Interrupted { again: true } },
        Event::Signal { signal: 10, code: -6, fields: [1; 16] },
        Event::Exited { status: 3 },
        Event::Killed { signal: 9 },
    ];
    // Each alone, and all of them.
    let mut all = vec![7];
    let mut examples = Vec::new();
    for event in events {
        let mut one = vec![255];
        let record = Record { tid: 1000, at_ns: 1, event };
        record.write(&mut one);
        record.write(&mut all);
        examples.push(one);
    }
    examples.push(all);
    examples
}
