//! Standard output and error.

use coppice_protocol::control::Exit;
use coppice_protocol::limits::BULK_BYTES_MAX;
use coppice_protocol::syscalls as nr;

use crate::abi::signal::SignalAction;
use crate::errno::Errno;
use crate::process::testing::{Bench, pattern};

#[test]
fn output_comes_in_order_and_whole() {
    let bench = Bench::new(&[]);
    let bytes = pattern(3 * BULK_BYTES_MAX + 1);
    let at = bench.put(0, &bytes);
    assert_eq!(bench.call(nr::WRITE, &[1, at, bytes.len() as u64]), bytes.len() as i64);
    assert!(bench.world.lock().output == bytes);
    assert_eq!(bench.world.lock().under_way_max, 1);
}

#[test]
fn a_reader_that_is_gone_means_sigpipe() {
    let bench = Bench::new(&[]);
    bench.world.lock().output_gone = true;
    let at = bench.put(0, b"x");
    let end = bench.try_call(nr::WRITE, &[1, at, 1]).expect_err("SIGPIPE ends it");
    assert_eq!(end.exit, Exit::Signal(13));
    let ignore = SignalAction { handler: 1, ..SignalAction::default() };
    let action = bench.put(0x1000, ignore.record().bytes());
    assert_eq!(bench.call(nr::RT_SIGACTION, &[13, action, 0, 8]), 0);
    assert_eq!(bench.call(nr::WRITE, &[2, at, 1]), -i64::from(Errno::EPIPE.0));
}
