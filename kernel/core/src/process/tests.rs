//! Being dropped while waiting, faults, and pages that several want.

use alloc::sync::Arc;

use coppice_hal::paging::Access;
use coppice_hal::user::Registers;
use coppice_protocol::control::Exit;
use coppice_protocol::limits::BULK_BYTES_MAX;
use coppice_protocol::ship::Call;
use coppice_protocol::{program, syscalls as nr};

use super::Process;
use super::fetch::Fetched;
use super::testing::{Bench, MEMORY, pattern};
use crate::executor;
use crate::files::flags;
use crate::memory::Resolution;

#[test]
fn a_dropped_read_has_had_no_effect() {
    let bench = Bench::new(&[("/a", b"hello")]);
    let file = bench.open("/a", flags::O_RDONLY) as u64;
    bench.world.lock().stuck_from = Some(0);
    let arguments = [file, MEMORY + 0x1000, 5];
    assert_eq!(bench.drop_call(nr::READ, &arguments), (nr::READ.into(), true, 0));
    assert_eq!(bench.call(nr::LSEEK, &[file, 0, 1]), 0);
    assert_eq!(bench.get(0x1000, 5), [0; 5]);
    bench.world.lock().stuck_from = None;
    assert_eq!(bench.call(nr::READ, &arguments), 5);
    assert_eq!(bench.get(0x1000, 5), b"hello");
}

#[test]
fn a_dropped_long_write_says_how_far_it_was() {
    const DONE: u64 = 3 * BULK_BYTES_MAX as u64;
    let bench = Bench::new(&[("/a", b"")]);
    let file = bench.open("/a", flags::O_WRONLY) as u64;
    let at = bench.put(0x1000, &pattern(8 * BULK_BYTES_MAX));
    bench.world.lock().stuck_from = Some(DONE);
    let dropped = bench.drop_call(nr::WRITE, &[file, at, 8 * BULK_BYTES_MAX as u64]);
    assert_eq!(dropped, (nr::WRITE.into(), true, DONE));
    assert_eq!(bench.call(nr::LSEEK, &[file, 0, 1]), DONE as i64);
    assert_eq!(bench.file("/a").len() as u64, DONE);
}

#[test]
fn ranks_that_want_a_page_at_the_same_time_fetch_it_once() {
    let first = Bench::new(&[]);
    let second = first.sibling(None);
    let file = first.world.lock().program.clone();
    let image = program::parse(&file, 4096).expect("a program");
    let processes = [&first, &second].map(|bench| Arc::clone(&bench.process));
    for process in &processes {
        process.space.lock().load_image(&image, process.identity.program).expect("room");
    }
    let touch = |process: &Arc<Process>| {
        let touched = process.space.lock().fault(0x40_0000, Access::EXECUTE);
        let Resolution::Fetch(fetch) = touched else { panic!("it is not there") };
        let process = Arc::clone(process);
        async move { assert!(matches!(process.fetch(&fetch).await, Fetched::Ready)) }
    };
    let touches = processes.each_ref().map(touch);
    let done = executor::run_to_end(async move {
        let [one, two] = touches;
        let (sender, other) = executor::oneshot::channel();
        let spawned = executor::spawn(async move {
            one.await;
            let _ = sender.send(true);
        });
        assert!(spawned.is_ok());
        two.await;
        other.await == Ok(true)
    });
    assert_eq!(done, Ok(true));
    let asked = first.world.lock().calls.iter().filter(|call| matches!(call, Call::Pages { .. })).count();
    assert_eq!(asked, 1);
    let frame = |process: &Process| {
        let mut space = process.space.lock();
        let Resolution::Ready = space.resolve(0x40_0000, Access::EXECUTE) else { panic!("it is there") };
        let page = coppice_hal::addr::UserPage::containing(0x40_0000).expect("a user address");
        space.table().frame(page).expect("mapped").address()
    };
    assert_eq!(frame(&processes[0]), frame(&processes[1]));
}

#[test]
fn a_fault_says_where_it_was() {
    let bench = Bench::new(&[]);
    let regs = Registers { rip: 0x40_1234, ..Registers::default() };
    let touched = bench.process.space.lock().fault(0x10, Access::WRITE);
    let Resolution::Signal(signal) = touched else { panic!("nothing is mapped there") };
    let end = bench.process.bad_touch(signal, None, &regs);
    let expected = "at address 0x10, instruction 0x401234: nothing is mapped there";
    assert_eq!((end.exit, end.reason.as_deref()), (Exit::Signal(11), Some(expected)));
    let end = bench.process.exception(6, &regs);
    let expected = "at instruction 0x401234: invalid instruction";
    assert_eq!((end.exit, end.reason.as_deref()), (Exit::Signal(4), Some(expected)));
    let regs = Registers { rip: 0xffff_8000_0000_0000, ..regs };
    let end = bench.process.exception(13, &regs);
    assert_eq!(end.exit, Exit::Signal(11));
    assert!(end.reason.is_some_and(|reason| reason.contains("0xffff800000000000")));
}
