//! A switch that may not open as many files as its links need.

mod support;

use coppice_fabric::command::{Command, Outcome};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use support::{Fabric, PATIENCE, frame, link, mac, receive, send, tag};

#[test]
fn a_link_without_room_for_its_sockets_is_refused_with_what_to_do() {
    let mut fabric = Fabric::start();
    let stations = [1, 2].map(|number| fabric.station(number));
    let process = Pid::from_child(&fabric.process);
    let limit = Rlimit { current: Some(24), maximum: Some(24) };
    prlimit(Some(process), Resource::Nofile, limit).expect("limited");
    let mut added = 2;
    let reason = loop {
        let number = added + 1;
        match fabric.execute(Command::AddPort { link: link(number), mac: mac(number) }) {
            Outcome::Done => added = number,
            Outcome::Failed { reason } => break reason,
            outcome => panic!("{outcome:?}"),
        }
        assert!(added < 24);
    };
    assert!(reason.contains("raise the limit of open files (as root: ulimit -Hn"), "{reason}");
    assert!(!reason.contains('\n') && added > 2);
    // Those that are there go on.
    send(&stations[0], &frame(2, 1, 60, 5));
    assert_eq!(receive(&stations[1], PATIENCE).map(|frame| tag(&frame)), Some(5));
    fabric.done(Command::RemovePort { link: link(added) });
    fabric.done(Command::AddPort { link: link(added), mac: mac(added) });
}
