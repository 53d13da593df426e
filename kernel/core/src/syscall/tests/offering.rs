//! `/proc/coppice/counters`: offering counters.

use alloc::string::String;
use alloc::vec::Vec;

use coppice_protocol::syscalls as nr;

use crate::errno::Errno;
use crate::files::flags;
use crate::process::testing::{Bench, MEMORY};

const PATH: &str = "/proc/coppice/counters";

fn open(bench: &Bench, how: u32) -> u64 {
    u64::try_from(bench.open(PATH, how)).expect("it is there")
}

fn write(bench: &Bench, number: u64, text: &str) -> i64 {
    let at = bench.put(0x2000, text.as_bytes());
    bench.call(nr::WRITE, &[number, at, text.len() as u64])
}

fn lines(bench: &Bench, number: u64) -> String {
    let count = bench.call(nr::PREAD64, &[number, MEMORY + 0x1000, 1000, 0]);
    String::from_utf8(bench.get(0x1000, usize::try_from(count).expect("it is read"))).expect("text")
}

fn error(errno: Errno) -> i64 {
    -i64::from(errno.0)
}

#[test]
fn what_is_written_is_offered_and_read() {
    let bench = Bench::new(&[]);
    let (writes, reads) =
        (open(&bench, flags::O_WRONLY | flags::O_CREAT | flags::O_TRUNC), open(&bench, flags::O_RDONLY));
    assert_eq!(write(&bench, writes, "steps 3\nerrors 0\n"), 17);
    assert_eq!(lines(&bench, reads), "errors 0\nsteps 3\n");
    assert_eq!(write(&bench, writes, "steps four\n"), error(Errno::EINVAL));
    let names: Vec<String> = (0..15).map(|number| alloc::format!("n{number} 1\n")).collect();
    assert_eq!(write(&bench, writes, &names.concat()), error(Errno::ENOSPC));
    // In pieces, and with somebody else's lines between them.
    let other = open(&bench, flags::O_RDWR);
    assert_eq!(
        (write(&bench, writes, "ste"), write(&bench, other, "errors 1\n"), write(&bench, writes, "ps 5\n")),
        (3, 9, 5)
    );
    assert_eq!(lines(&bench, other), "errors 1\nsteps 5\n");
    let all: Vec<(String, u64)> =
        bench.process.offered.all().into_iter().map(|(name, value)| (name.as_str().into(), value)).collect();
    assert_eq!(all, [("errors".into(), 1), ("steps".into(), 5)]);
    assert_eq!(write(&bench, reads, "steps 1\n"), error(Errno::EBADF));
    assert_eq!(bench.call(nr::READ, &[writes, MEMORY, 1]), error(Errno::EBADF));
    // Much at once is taken in parts.
    let many: String = (0..1000).map(|value| alloc::format!("steps {value}\n")).collect();
    let taken = write(&bench, writes, &many);
    assert_eq!(taken, 4096);
    assert_eq!(write(&bench, writes, &many[4096..8192]), 4096);
    assert_eq!(write(&bench, writes, &many[8192..]), many.len() as i64 - 8192);
    assert_eq!(lines(&bench, reads), "errors 1\nsteps 999\n");
}

#[test]
fn a_process_that_is_made_again_offers_what_it_did() {
    let bench = Bench::new(&[]);
    let number = open(&bench, flags::O_RDWR);
    assert_eq!(write(&bench, number, "steps 3\nerr"), 11);
    assert_eq!(bench.call(nr::PIPE2, &[MEMORY, 0]), 0);
    let reader = u64::from(bench.get(0, 1)[0]);
    let writer = u64::from(bench.get(4, 1)[0]);
    let (bench, result) = bench.frozen_while(nr::READ, &[reader, MEMORY, 1], |bench| {
        assert_eq!(bench.call(nr::WRITE, &[writer, MEMORY, 1]), 1);
    });
    assert_eq!(result, Some(1));
    assert_eq!(write(&bench, number, "ors 7\n"), 6);
    assert_eq!(lines(&bench, number), "errors 7\nsteps 3\n");
}
