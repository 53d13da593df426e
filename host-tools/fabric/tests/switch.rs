//! The switch process as its users see it.

mod support;

use std::path::Path;
use std::time::{Duration, Instant};

use coppice_fabric::command::{Command, Direction, Event, Message, Outcome, Shape};
use coppice_fabric::limits::{FRAME_BYTES_MAX, OUT_QUEUE_FRAMES_MAX};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use support::{Fabric, PATIENCE, SILENCE, close, frame, link, mac, receive, send, tag};

#[test]
fn forwards_by_address_and_floods_the_rest() {
    let mut fabric = Fabric::start();
    let stations = [1, 2, 3].map(|number| fabric.station(number));
    for bytes in [60, 1514, 9014, FRAME_BYTES_MAX] {
        let sent = frame(2, 1, bytes, bytes as u32);
        send(&stations[0], &sent);
        assert_eq!(receive(&stations[1], PATIENCE), Some(sent));
    }
    // To all, and to an address nobody was heard of.
    for to in [255, 77] {
        let sent = frame(to, 1, 60, 1);
        send(&stations[0], &sent);
        assert_eq!(receive(&stations[1], PATIENCE).as_ref(), Some(&sent));
        assert_eq!(receive(&stations[2], PATIENCE).as_ref(), Some(&sent));
    }
    // Once it was heard of, to its link alone.
    let mut from_77 = frame(1, 3, 60, 2);
    from_77[6..12].copy_from_slice(&mac(77).0);
    send(&stations[2], &from_77);
    assert_eq!(receive(&stations[0], PATIENCE), Some(from_77));
    send(&stations[0], &frame(77, 1, 60, 3));
    assert_eq!(receive(&stations[2], PATIENCE).map(|frame| tag(&frame)), Some(3));
    // Nothing went astray or came back.
    for station in &stations {
        assert_eq!(receive(station, SILENCE), None);
    }
    let counters = fabric.counters(1);
    assert_eq!((counters.from_station.frames, counters.to_station.frames), (7, 1));
    assert_eq!(counters.from_station.bytes, 60 * 4 + 1514 + 9014 + FRAME_BYTES_MAX as u64);
    assert_eq!((counters.from_station.dropped.total(), counters.queued_frames, counters.up), (0, 0, true));
}

#[test]
fn refuses_what_is_no_frame_or_a_lie() {
    let mut fabric = Fabric::start();
    let (one, two) = (fabric.station(1), fabric.station(2));
    send(&one, &frame(2, 1, FRAME_BYTES_MAX + 1, 0));
    send(&one, &frame(2, 1, 60000, 0));
    send(&one, &frame(2, 1, 60, 0)[..13]);
    send(&one, &[]);
    send(
        &one,
        &frame(2, 255, 60, 0).iter().enumerate().map(|(at, byte)| if at == 6 { 1 } else { *byte }).collect::<Vec<_>>(),
    );
    send(&one, &frame(1, 2, 60, 0));
    send(&one, &frame(1, 1, 60, 0));
    assert_eq!(receive(&two, SILENCE), None);
    let dropped = fabric.counters(1).from_station.dropped;
    assert_eq!((dropped.oversize, dropped.malformed, dropped.spoofed), (2, 3, 1));
}

#[test]
fn commands_that_cannot_be_done_say_why() {
    let mut fabric = Fabric::start();
    fabric.add(1);
    let no_link = fabric.failed(Command::RemovePort { link: link(9) });
    assert_eq!(no_link, "there is no link n9");
    assert!(fabric.failed(Command::AddPort { link: link(1), mac: mac(2) }).contains("already"));
    assert!(fabric.failed(Command::AddPort { link: link(2), mac: mac(1) }).contains("has the address"));
    assert!(!fabric.socket(2).exists());
    let group = coppice_protocol::ids::MacAddress([1, 0, 0, 0, 0, 1]);
    assert!(fabric.failed(Command::AddPort { link: link(2), mac: group }).contains("group"));
    let shape = Shape { loss_ppm: 2_000_000, ..Shape::default() };
    assert!(fabric.failed(Command::Shape { link: None, direction: Direction::Both, shape }).contains("loss_ppm"));
    assert!(fabric.failed(Command::PcapStop { link: link(5) }).contains("no link"));
    let file = "relative.pcap".into();
    assert!(fabric.failed(Command::PcapStart { link: link(1), file, bytes_max: None }).contains("absolute"));
    for line in ["what?", "{}", "[]", "\u{0}"] {
        match fabric.raw_line(line) {
            Message::Reply(reply) => {
                assert!(reply.id.is_none() && matches!(reply.outcome, Outcome::Failed { .. }), "{reply:?}");
            }
            other => panic!("{other:?}"),
        }
    }
    // An address is free again with its link, and a link's slot too.
    fabric.done(Command::RemovePort { link: link(1) });
    assert!(!fabric.socket(1).exists());
    fabric.done(Command::AddPort { link: link(3), mac: mac(1) });
}

#[test]
fn ends_with_its_input_and_leaves_no_socket() {
    let mut fabric = Fabric::start();
    fabric.add(1);
    assert!(fabric.socket(1).exists());
    fabric.input = None;
    assert!(fabric.wait_end().success());
    assert!(!fabric.socket(1).exists());

    let mut fabric = Fabric::start();
    fabric.add(1);
    fabric.done(Command::Shutdown);
    assert!(fabric.wait_end().success());
    assert!(!fabric.socket(1).exists());
}

#[test]
fn a_killed_switch_is_replaced_and_a_living_one_is_not() {
    let mut first = Fabric::start();
    let (one, two) = (first.station(1), first.station(2));
    let directory = tempfile::TempDir::new().unwrap();
    std::os::unix::fs::symlink(first.path(), directory.path().join("same")).unwrap();
    first.process.kill().unwrap();
    first.process.wait().unwrap();
    assert!(first.socket(1).exists());
    assert!(one.send(&frame(2, 1, 60, 0)).is_err());

    let place = std::mem::replace(&mut first.directory, directory);
    let mut second = Fabric::start_in(place, 0);
    second.add(1);
    second.add(2);
    send(&one, &frame(2, 1, 60, 7));
    assert_eq!(receive(&two, PATIENCE).map(|frame| tag(&frame)), Some(7));

    let mut third = Fabric::start();
    std::os::unix::fs::symlink(second.socket(1), third.socket(1)).unwrap();
    assert!(third.failed(Command::AddPort { link: link(1), mac: mac(1) }).contains("is running"));
}

#[test]
fn stations_come_go_and_come_again() {
    let mut fabric = Fabric::start();
    let one = fabric.station(1);
    fabric.wait_event(|event| *event == Event::StationUp { link: link(1) });
    fabric.add(2);
    send(&one, &frame(2, 1, 60, 1));
    assert!(!fabric.counters(2).up);
    assert_eq!(fabric.counters(2).to_station.dropped.absent, 1);
    for round in 0..3 {
        let two = fabric.open(2);
        send(&one, &frame(2, 1, 60, round));
        assert_eq!(receive(&two, PATIENCE).map(|frame| tag(&frame)), Some(round));
        fabric.wait_event(|event| *event == Event::StationUp { link: link(2) });
        close(two);
        send(&one, &frame(2, 1, 60, round));
        fabric.wait_event(|event| *event == Event::StationDown { link: link(2) });
    }
    // A station that was replaced without anything being sent to it in between is found at the next frame.
    let two = fabric.open(2);
    send(&one, &frame(2, 1, 60, 8));
    assert!(receive(&two, PATIENCE).is_some());
    close(two);
    let two = fabric.open(2);
    send(&two, &frame(1, 2, 60, 9));
    assert!(receive(&one, PATIENCE).is_some());
    send(&one, &frame(2, 1, 60, 10));
    assert_eq!(receive(&two, PATIENCE).map(|frame| tag(&frame)), Some(10));
}

#[test]
fn a_station_that_does_not_read_costs_only_its_own_frames() {
    let mut fabric = Fabric::start();
    let (one, two, three) = (fabric.station(1), fabric.station(2), fabric.station(3));
    let count = OUT_QUEUE_FRAMES_MAX as u32 + 500;
    for number in 0..count {
        send(&one, &frame(2, 1, 60, number));
    }
    send(&one, &frame(3, 1, 60, 1));
    assert!(receive(&three, PATIENCE).is_some());
    let counters = fabric.counters(2);
    assert_eq!(counters.queued_frames, OUT_QUEUE_FRAMES_MAX as u64);
    let taken = count - counters.to_station.dropped.queue_full as u32;
    assert!((400..500).contains(&counters.to_station.dropped.queue_full), "{counters:?}");
    for number in 0..taken {
        assert_eq!(receive(&two, PATIENCE).map(|frame| tag(&frame)), Some(number));
    }
    assert_eq!(receive(&two, SILENCE), None);
    assert_eq!(fabric.counters(2).queued_frames, 0);
}

#[test]
fn a_station_whose_socket_is_connected_is_served_too() {
    use std::os::unix::net::UnixDatagram;
    let mut fabric = Fabric::start();
    let one = fabric.station(1);
    fabric.add(2);
    for _ in 0..2 {
        let path = link(2).station_socket(fabric.path()).unwrap();
        let two = UnixDatagram::bind(&path).unwrap();
        send(&one, &frame(2, 1, 60, 0));
        two.connect(fabric.socket(2)).unwrap();
        two.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut buffer = [0; 100];
        // More than the system's own queue holds.
        for number in 1..100 {
            send(&one, &frame(2, 1, 60, number));
        }
        for number in 0..100 {
            let bytes = two.recv(&mut buffer).unwrap();
            assert_eq!(tag(&buffer[..bytes]), number);
        }
        two.send(&frame(1, 2, 60, 5)).unwrap();
        assert_eq!(receive(&one, PATIENCE).map(|frame| tag(&frame)), Some(5));
        close(two);
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn cut_and_mended() {
    let mut fabric = Fabric::start();
    let (one, two) = (fabric.station(1), fabric.station(2));
    let cut = Shape { cut: true, ..Shape::default() };
    fabric.shape(2, Direction::ToStation, cut);
    send(&one, &frame(2, 1, 60, 1));
    send(&two, &frame(1, 2, 60, 2));
    assert_eq!(receive(&one, PATIENCE).map(|frame| tag(&frame)), Some(2));
    assert_eq!(receive(&two, SILENCE), None);
    assert_eq!(fabric.counters(2).to_station.dropped.cut, 1);
    fabric.shape(2, Direction::Both, Shape::default());
    send(&one, &frame(2, 1, 60, 3));
    assert_eq!(receive(&two, PATIENCE).map(|frame| tag(&frame)), Some(3));
    // A cut takes what is under way.
    fabric.shape(1, Direction::FromStation, Shape { latency_ns: 100_000_000, ..Shape::default() });
    send(&one, &frame(2, 1, 60, 4));
    while fabric.counters(1).from_station.frames + 1 < 3 {}
    fabric.shape(1, Direction::FromStation, cut);
    assert_eq!(receive(&two, Duration::from_millis(200)), None);
    assert_eq!(fabric.counters(1).from_station.dropped.cut, 1);
}

#[test]
fn loss_is_reproducible_from_the_seed() {
    let survivors = |seed: u64| {
        let mut fabric = Fabric::start_in(tempfile::TempDir::new().unwrap(), seed);
        let shape = Shape { loss_ppm: 300_000, ..Shape::default() };
        fabric.done(Command::Shape { link: None, direction: Direction::FromStation, shape });
        let (one, two) = (fabric.station(1), fabric.station(2));
        (0..400).for_each(|number| send(&one, &frame(2, 1, 60, number)));
        let tags: Vec<_> = std::iter::from_fn(|| receive(&two, SILENCE)).map(|frame| tag(&frame)).collect();
        assert_eq!(400 - fabric.counters(1).from_station.dropped.loss, tags.len() as u64);
        tags
    };
    let first = survivors(1);
    assert!((230..330).contains(&first.len()), "{}", first.len());
    assert_eq!(first, survivors(1));
    assert_ne!(first, survivors(2));
}

#[test]
fn latency_and_bandwidth_take_their_time_and_keep_order() {
    let mut fabric = Fabric::start();
    let (one, two) = (fabric.station(1), fabric.station(2));
    fabric.shape(1, Direction::FromStation, Shape { latency_ns: 30_000_000, ..Shape::default() });
    fabric.shape(2, Direction::ToStation, Shape { latency_ns: 20_000_000, ..Shape::default() });
    let start = Instant::now();
    (0..50).for_each(|number| send(&one, &frame(2, 1, 60, number)));
    for number in 0..50 {
        assert_eq!(receive(&two, PATIENCE).map(|frame| tag(&frame)), Some(number));
        assert!(start.elapsed() >= Duration::from_millis(50));
    }
    fabric.done(Command::Shape { link: None, direction: Direction::Both, shape: Shape::default() });
    // 100 kB at 8 Mbit/s are 100 ms.
    let shape = Shape { bandwidth_bits_per_s: Some(8_000_000), ..Shape::default() };
    fabric.shape(2, Direction::ToStation, shape);
    let start = Instant::now();
    (0..100).for_each(|number| send(&one, &frame(2, 1, 1000, number)));
    for number in 0..100 {
        assert_eq!(receive(&two, PATIENCE).map(|frame| tag(&frame)), Some(number));
    }
    assert!(start.elapsed() >= Duration::from_millis(99), "{:?}", start.elapsed());
}

#[test]
fn recordings_can_be_read_while_they_grow() {
    let mut fabric = Fabric::start();
    let (one, two) = (fabric.station(1), fabric.station(2));
    let file = fabric.path().join("n1.pcap");
    fabric.done(Command::PcapStart { link: link(1), file: file.clone(), bytes_max: Some(10_000) });
    let frames = [frame(2, 1, 60, 1), frame(1, 2, 9014, 2), frame(255, 1, 100, 3)];
    send(&one, &frames[0]);
    assert!(receive(&two, PATIENCE).is_some());
    send(&two, &frames[1]);
    assert!(receive(&one, PATIENCE).is_some());
    send(&one, &frames[2]);
    assert!(receive(&two, PATIENCE).is_some());
    wait_until_recorded(&file, &frames);
    // One more than the size that was asked for.
    send(&two, &frames[1]);
    fabric.wait_event(|event| matches!(event, Event::PcapEnded { reason, .. } if reason.contains("10000")));
    assert!(receive(&one, PATIENCE).is_some());
    assert_eq!(read_pcap(&std::fs::read(&file).unwrap()), frames);
    assert_eq!(fabric.counters(1).recording, None);
}

#[test]
fn a_recording_that_is_ended_has_everything() {
    let mut fabric = Fabric::start();
    let (one, two) = (fabric.station(1), fabric.station(2));
    let file = fabric.path().join("n1.pcap");
    std::fs::write(&file, "what was there before").unwrap();
    fabric.done(Command::PcapStart { link: link(1), file: file.clone(), bytes_max: None });
    let frames: Vec<_> = (0..200).map(|number| frame(2, 1, 1000, number)).collect();
    frames.iter().for_each(|frame| send(&one, frame));
    frames.iter().for_each(|frame| assert_eq!(receive(&two, PATIENCE).as_ref(), Some(frame)));
    let recording = fabric.counters(1).recording.expect("it is under way");
    assert_eq!((recording.frames, recording.bytes, recording.missed), (200, 24 + 200 * 1016, 0));
    fabric.done(Command::PcapStop { link: link(1) });
    assert_eq!(read_pcap(&std::fs::read(&file).unwrap()), frames);
    assert_eq!(fabric.counters(1).recording, None);
    // Nothing to end is no failure; nor is the same once more, and then the switch ends it.
    fabric.done(Command::PcapStop { link: link(1) });
    fabric.done(Command::PcapStart { link: link(1), file: file.clone(), bytes_max: None });
    send(&one, &frames[7]);
    assert!(receive(&two, PATIENCE).is_some());
    fabric.done(Command::Shutdown);
    assert!(fabric.wait_end().success());
    assert_eq!(read_pcap(&std::fs::read(&file).unwrap()), frames[7..8]);
}

#[test]
fn recordings_that_cannot_be_made_say_why_and_leave_the_link_free() {
    let mut fabric = Fabric::start();
    fabric.add(1);
    fabric.add(2);
    let (file, pipe) = (fabric.path().join("x.pcap"), fabric.path().join("pipe"));
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let start = |number, file: &Path| Command::PcapStart { link: link(number), file: file.into(), bytes_max: None };
    for (path, reason) in [
        (fabric.path().join("no/such"), "No such file"),
        (fabric.path().to_owned(), "directory"),
        (pipe, "cannot record to"),
    ] {
        let said = fabric.failed(start(1, &path));
        assert!(said.starts_with("cannot record to /") && said.contains(reason), "{said}");
        assert_eq!(fabric.counters(1).recording, None);
    }
    fabric.done(start(1, &file));
    let said = fabric.failed(start(1, &file));
    assert!(said.contains("n1 is being recorded already"), "{said}");
    let said = fabric.failed(start(2, &file));
    assert!(said.contains("another recording is being made there"), "{said}");
    fabric.done(Command::PcapStop { link: link(1) });
    fabric.done(start(2, &file));
    // A link that is removed ends its own.
    fabric.done(Command::RemovePort { link: link(2) });
    let start_time = Instant::now();
    while matches!(fabric.execute(start(1, &file)), Outcome::Failed { .. }) {
        assert!(start_time.elapsed() < PATIENCE, "its file is not closed");
    }
}

/// Waits until a file holds these frames.
fn wait_until_recorded(file: &Path, frames: &[Vec<u8>]) {
    let (start, bytes) = (Instant::now(), 24 + frames.iter().map(|frame| 16 + frame.len() as u64).sum::<u64>());
    while std::fs::metadata(file).expect("a recording").len() < bytes {
        assert!(start.elapsed() < PATIENCE, "the recording does not grow");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(read_pcap(&std::fs::read(file).expect("a recording")), frames);
}

/// An independent reader of the format.
fn read_pcap(bytes: &[u8]) -> Vec<Vec<u8>> {
    let number = |at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().expect("whole records"));
    assert_eq!((number(0), number(4), number(20)), (0xa1b2_3c4d, 0x0004_0002, 1));
    let (mut at, mut frames) = (24, Vec::new());
    while at < bytes.len() {
        let length = number(at + 8) as usize;
        assert!(number(at) > 1_600_000_000 && number(at + 4) < 1_000_000_000 && number(at + 12) as usize == length);
        frames.push(bytes[at + 16..at + 16 + length].to_vec());
        at += 16 + length;
    }
    frames
}

/// One that may not open as many files as its links need.
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
