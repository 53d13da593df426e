//! The switch itself: links, forwarding, and what is under way. The loop that calls it is in [`crate::server`].
//!
//! The usual path of a frame is one receive and one send: no copy, no allocation, no clock. A frame is copied when it
//! must wait: for a station without room, or on a link with a shape.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::{ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};

use crate::addresses::{Address, Addresses};
use crate::buffers::Buffers;
use crate::command::{DirectionCounters, Event, Outcome, Shape};
use crate::limits::{BURST_FRAMES, FRAME_BYTES_MAX, FRAME_BYTES_MIN};
use crate::link::{Delivery, Link, RETRY_NS};
use crate::names::LinkName;
use crate::recordings::{News, Recordings};
use crate::shaper::Fate;
use crate::under_way::{Arrival, UnderWay};

/// First epoll token of links; a link has two, see [`Token`]. Those below belong to [`crate::server`].
const LINK_TOKENS: u64 = 16;

/// Epoll token of the timer.
const TIMER_TOKEN: u64 = 2;

/// Epoll token of what recordings have to say.
const RECORDINGS_TOKEN: u64 = 3;

const NS_PER_S: u64 = 1_000_000_000;

/// Links, forwarding, and what is under way.
pub(crate) struct Switch {
    pub(crate) directory: PathBuf,
    pub(crate) seed: u64,
    /// What new links are like: from the station, to the station.
    pub(crate) shapes: [Shape; 2],
    pub(crate) links: Vec<Option<Link>>,
    pub(crate) names: BTreeMap<LinkName, usize>,
    pub(crate) addresses: Addresses,
    pub(crate) under_way: UnderWay,
    /// What happened and was not told yet.
    pub(crate) events: Vec<Event>,
    /// Answers to requests that had to wait for a disk, not told yet.
    pub(crate) answers: Vec<(u64, Outcome)>,
    pub(crate) recordings: Recordings,
    epoll: OwnedFd,
    timer: OwnedFd,
    /// What the timer is set to.
    timer_ns: Option<u64>,
    buffers: Buffers,
    buffer: Vec<u8>,
}

/// Whose readiness epoll reports.
enum Token {
    Timer,
    Recordings,
    Receiver(usize),
    Sender(usize),
}

impl Token {
    fn data(&self) -> EventData {
        EventData::new_u64(match self {
            Self::Timer => TIMER_TOKEN,
            Self::Recordings => RECORDINGS_TOKEN,
            Self::Receiver(link) => LINK_TOKENS + 2 * *link as u64,
            Self::Sender(link) => LINK_TOKENS + 2 * *link as u64 + 1,
        })
    }

    fn read(data: EventData) -> Option<Self> {
        match data.u64() {
            TIMER_TOKEN => Some(Self::Timer),
            RECORDINGS_TOKEN => Some(Self::Recordings),
            token @ LINK_TOKENS.. => {
                let link = usize::try_from((token - LINK_TOKENS) / 2).ok()?;
                Some(if token % 2 == 0 { Self::Receiver(link) } else { Self::Sender(link) })
            }
            _ => None,
        }
    }
}

impl Switch {
    /// A switch without links whose sockets will be in `directory`.
    pub(crate) fn new(directory: PathBuf, seed: u64) -> Result<Self, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timer =
            rustix::time::timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &timer, Token::Timer.data(), EventFlags::IN)?;
        let recordings = Recordings::new()?;
        epoll::add(&epoll, recordings.bell(), Token::Recordings.data(), EventFlags::IN)?;
        Ok(Self {
            directory,
            seed,
            shapes: [Shape::default(); 2],
            links: Vec::new(),
            names: BTreeMap::new(),
            addresses: Addresses::default(),
            under_way: UnderWay::default(),
            events: Vec::new(),
            answers: Vec::new(),
            recordings,
            epoll,
            timer,
            timer_ns: None,
            buffers: Buffers::default(),
            // One byte more than may be, to tell a frame too long.
            buffer: vec![0; FRAME_BYTES_MAX + 1],
        })
    }

    /// What is waited on.
    pub(crate) fn epoll(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Puts `link` into slot `index` and listens to it.
    pub(crate) fn attach(&mut self, index: usize, mut link: Link) -> Result<(), Errno> {
        epoll::add(&self.epoll, &link.receiver, Token::Receiver(index).data(), EventFlags::IN)?;
        // One-shot: armed whenever there is something to send.
        epoll::add(&self.epoll, &link.sender, Token::Sender(index).data(), EventFlags::ONESHOT)?;
        if link.connect() {
            self.events.push(Event::StationUp { link: link.name.clone() });
        }
        self.names.insert(link.name.clone(), index);
        if self.links.len() <= index {
            self.links.resize_with(index + 1, || None);
        }
        self.links[index] = Some(link);
        Ok(())
    }

    /// Handles what epoll says of a token that is ours.
    pub(crate) fn ready(&mut self, data: EventData) -> Result<(), Errno> {
        match Token::read(data) {
            Some(Token::Receiver(index)) => self.receive(index),
            Some(Token::Sender(index)) => self.flush(index),
            Some(Token::Timer) => {
                let mut expirations = [0; 8];
                match rustix::io::read(&self.timer, &mut expirations) {
                    Ok(_) | Err(Errno::AGAIN) => {}
                    Err(errno) => return Err(errno),
                }
                self.timer_ns = None;
                self.arrivals()
            }
            Some(Token::Recordings) => {
                self.hear_recordings();
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Takes in what has become of recordings.
    fn hear_recordings(&mut self) {
        for news in self.recordings.news() {
            match news {
                News::Answer(request, outcome) => self.answers.push((request, outcome)),
                News::Ended(id, link, reason) => {
                    self.forget_recording(id);
                    self.events.push(Event::PcapEnded { link, reason });
                }
                News::NotBegun(id) => self.forget_recording(id),
            }
        }
    }

    /// Ends all recordings, of whatever link.
    pub(crate) fn end_recordings(&mut self) {
        self.links.iter_mut().flatten().for_each(|link| link.recording = None);
    }

    /// Nobody writes this recording any more.
    fn forget_recording(&mut self, id: u64) {
        for link in self.links.iter_mut().flatten() {
            link.recording.take_if(|recording| recording.id == id);
        }
    }

    /// Takes frames from a station, at most a burst: epoll will say so again if there are more.
    fn receive(&mut self, index: usize) -> Result<(), Errno> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut result = Ok(());
        for turn in 0..BURST_FRAMES {
            let Some(link) = self.links.get_mut(index).and_then(Option::as_mut) else { break };
            match link.receive(&mut buffer) {
                Ok(bytes) => {
                    if turn == 0 && !link.up() && link.connect() {
                        self.events.push(Event::StationUp { link: link.name.clone() });
                    }
                    result = self.enter_from_station(index, &buffer[..bytes.min(buffer.len())]);
                }
                // An error of the last send may be reported here; nothing was received.
                Err(_) => break,
            }
            if result.is_err() {
                break;
            }
        }
        self.buffer = buffer;
        result?;
        // A station that has just sent may have room.
        let retry = self.links.get(index).and_then(Option::as_ref).is_some_and(|link| link.waiting);
        if retry { self.flush(index) } else { Ok(()) }
    }

    /// A frame has entered the link's far end.
    fn enter_from_station(&mut self, index: usize, frame: &[u8]) -> Result<(), Errno> {
        let Some(link) = self.links.get_mut(index).and_then(Option::as_mut) else { return Ok(()) };
        let dropped = &mut link.from_station.dropped;
        if frame.len() > FRAME_BYTES_MAX {
            dropped.oversize += 1;
            return Ok(());
        }
        let source = match frame.get(6..).and_then(Address::read) {
            Some(source) if frame.len() >= FRAME_BYTES_MIN && !source.is_group() => source,
            _ => {
                dropped.malformed += 1;
                return Ok(());
            }
        };
        if Address::read(&link.mac.0) != Some(source) && !self.addresses.learn(source, index) {
            dropped.spoofed += 1;
            return Ok(());
        }
        record(link, frame, &mut self.recordings);
        match link.inbound.admit(frame.len(), now_ns) {
            Fate::Arrived => return self.reach_switch(index, frame),
            Fate::ArrivesAt(due_ns) => {
                if !self.under_way.push(due_ns, index, Arrival::AtSwitch(self.buffers.filled(frame))) {
                    link.from_station.dropped.queue_full += 1;
                }
            }
            fate => drop_by(&mut link.from_station, fate),
        }
        Ok(())
    }

    /// A frame has reached the switch.
    fn reach_switch(&mut self, from: usize, frame: &[u8]) -> Result<(), Errno> {
        if let Some(link) = self.links.get_mut(from).and_then(Option::as_mut) {
            link.from_station.frames += 1;
            link.from_station.bytes += frame.len() as u64;
        }
        let Some(destination) = Address::read(frame) else { return Ok(()) };
        let known = if destination.is_group() { None } else { self.addresses.find(destination) };
        match known {
            Some(to) if to == from => Ok(()),
            Some(to) => self.enter_to_station(to, frame),
            // To many, or to someone who has not been heard of: to all others.
            None => (0..self.links.len()).filter(|to| *to != from).try_for_each(|to| self.enter_to_station(to, frame)),
        }
    }

    /// A frame enters the link's near end.
    fn enter_to_station(&mut self, index: usize, frame: &[u8]) -> Result<(), Errno> {
        let Some(link) = self.links.get_mut(index).and_then(Option::as_mut) else { return Ok(()) };
        match link.outbound.admit(frame.len(), now_ns) {
            Fate::Arrived => return self.reach_station(index, frame),
            Fate::ArrivesAt(due_ns) => {
                if !self.under_way.push(due_ns, index, Arrival::AtStation(self.buffers.filled(frame))) {
                    link.to_station.dropped.queue_full += 1;
                }
            }
            fate => drop_by(&mut link.to_station, fate),
        }
        Ok(())
    }

    /// A frame has reached the station.
    fn reach_station(&mut self, index: usize, frame: &[u8]) -> Result<(), Errno> {
        let Some(link) = self.links.get_mut(index).and_then(Option::as_mut) else { return Ok(()) };
        record(link, frame, &mut self.recordings);
        let was_up = link.up();
        let delivery = link.deliver(frame, &mut self.buffers);
        self.wait_for(index, was_up, delivery)
    }

    fn flush(&mut self, index: usize) -> Result<(), Errno> {
        let Some(link) = self.links.get_mut(index).and_then(Option::as_mut) else { return Ok(()) };
        link.waiting = false;
        let was_up = link.up();
        let delivery = link.flush(&mut self.buffers);
        self.wait_for(index, was_up, delivery)
    }

    /// Tells of a station that came or went, and sees to it that a queue that is not empty is tried again.
    fn wait_for(&mut self, index: usize, was_up: bool, delivery: Delivery) -> Result<(), Errno> {
        let Some(link) = self.links.get_mut(index).and_then(Option::as_mut) else { return Ok(()) };
        match (was_up, link.up()) {
            (false, true) => self.events.push(Event::StationUp { link: link.name.clone() }),
            (true, false) => self.events.push(Event::StationDown { link: link.name.clone() }),
            _ => {}
        }
        if link.waiting || delivery == Delivery::Done {
            return Ok(());
        }
        link.waiting = true;
        if delivery == Delivery::WaitForRoom {
            let flags = EventFlags::OUT | EventFlags::ONESHOT;
            return epoll::modify(&self.epoll, &link.sender, Token::Sender(index).data(), flags);
        }
        // One per link at a time, and without bytes: never too many.
        if !link.retrying {
            link.retrying = self.under_way.push(now_ns() + RETRY_NS, index, Arrival::Retry);
        }
        Ok(())
    }

    /// Handles what has arrived by now.
    fn arrivals(&mut self) -> Result<(), Errno> {
        let now_ns = now_ns();
        while let Some((index, arrival)) = self.under_way.pop(now_ns) {
            let Some(link) = self.links.get_mut(index).and_then(Option::as_mut) else { continue };
            let frame = match arrival {
                Arrival::Retry => {
                    link.retrying = false;
                    self.flush(index)?;
                    continue;
                }
                // Cut while the frame was under way.
                Arrival::AtSwitch(frame) if link.inbound.is_cut() => {
                    link.from_station.dropped.cut += 1;
                    frame
                }
                Arrival::AtStation(frame) if link.outbound.is_cut() => {
                    link.to_station.dropped.cut += 1;
                    frame
                }
                Arrival::AtSwitch(frame) => {
                    self.reach_switch(index, &frame)?;
                    frame
                }
                Arrival::AtStation(frame) => {
                    self.reach_station(index, &frame)?;
                    frame
                }
            };
            self.buffers.give_back(frame);
        }
        Ok(())
    }

    /// Sets the timer to the next arrival. To be called before waiting.
    pub(crate) fn arm(&mut self) -> Result<(), Errno> {
        let next_ns = self.under_way.next_ns();
        if next_ns == self.timer_ns {
            return Ok(());
        }
        // All zeros disarms.
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let it_value = next_ns.map_or(zero, |ns| {
            let seconds = i64::try_from(ns / NS_PER_S).unwrap_or(i64::MAX);
            Timespec { tv_sec: seconds, tv_nsec: (ns % NS_PER_S).cast_signed() }
        });
        let time = Itimerspec { it_interval: zero, it_value };
        rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &time)?;
        self.timer_ns = next_ns;
        Ok(())
    }
}

fn drop_by(counters: &mut DirectionCounters, fate: Fate) {
    match fate {
        Fate::Cut => counters.dropped.cut += 1,
        Fate::Lost => counters.dropped.loss += 1,
        Fate::QueueFull => counters.dropped.queue_full += 1,
        Fate::Arrived | Fate::ArrivesAt(_) => {}
    }
}

/// Records a frame if the link is being recorded.
fn record(link: &mut Link, frame: &[u8], recordings: &mut Recordings) {
    let Some(mut recording) = link.recording.take() else { return };
    match recording.add(frame, clock_ns(ClockId::Realtime)) {
        Ok(()) => link.recording = Some(recording),
        Err(error) => recordings.give_up(recording, error),
    }
}

/// Time of the monotonic clock, ns.
pub(crate) fn now_ns() -> u64 {
    clock_ns(ClockId::Monotonic)
}

fn clock_ns(clock: ClockId) -> u64 {
    let time = rustix::time::clock_gettime(clock);
    // Neither clock is before its zero.
    time.tv_sec.unsigned_abs() * NS_PER_S + time.tv_nsec.unsigned_abs()
}
