//! The I/O node's one thread: it moves bytes between the network, the service node and the machine, tells the machine
//! the time and what was done, and has its effects carried out. It decides nothing.

mod accept;
mod outbox;
mod wire;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use coppice_endpoint::Stack;
use coppice_protocol::ids::PsetId;
use coppice_protocol::limits::DISTRIBUTION_PORT;
use coppice_protocol::pset::ToPset;
use coppice_protocol::session::Channel;
use tokio::io::AsyncWrite;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;

use self::wire::Wire;
use crate::clock::{Clock, realtime_ns};
use crate::descriptors::Descriptors;
use crate::disk::{Completion, Disk, Objects, Opener};
use crate::distribution::{Alarm, Homes, News, Said};
use crate::limits::DISTRIBUTION_QUEUE_BYTES;
use crate::link::Device;
use crate::machine::{Effect, LineId, Machine, Now, OrderError};

/// The machine and what it works on. No borrow of it lives across an await.
pub(crate) struct Shell {
    machine: RefCell<Machine>,
    disk: RefCell<Disk>,
    wires: RefCell<HashMap<LineId, Rc<Wire>>>,
    clock: Clock,
    /// The deadline that the timekeeper waits for, ns.
    alarm_ns: Cell<Option<u64>>,
    /// That deadline has changed.
    alarm: Notify,
    /// There are messages for the service node.
    messages: Notify,
    /// Fewer of them, or the machine is over.
    changed: Notify,
}

impl Shell {
    /// Starts all tasks. They end with `tasks`, except for those of connections.
    ///
    /// # Errors
    /// As [`Stack::listen`] and [`Stack::open_port`], or if the host has no timer.
    pub(crate) fn start(
        stack: &Stack<Device>,
        pset: PsetId,
        clock: Clock,
        (opener, objects, files_max): (Opener, Objects, usize),
        writer: impl AsyncWrite + Unpin + 'static,
        tasks: &mut JoinSet<()>,
    ) -> anyhow::Result<Rc<Self>> {
        let port = stack.open_port(DISTRIBUTION_PORT, DISTRIBUTION_QUEUE_BYTES)?;
        let (homes, staging, news) = Homes::start(pset, clock, port, Alarm::new()?);
        let (disk, completions) = Disk::new((opener, objects), Descriptors::of_limit(files_max), homes);
        let shell = Rc::new(Self {
            machine: RefCell::default(),
            disk: RefCell::new(disk),
            wires: RefCell::default(),
            clock,
            alarm_ns: Cell::new(None),
            alarm: Notify::new(),
            messages: Notify::new(),
            changed: Notify::new(),
        });
        for channel in [Channel::Control, Channel::Ship] {
            tasks.spawn_local(accept::Port::listen(stack, channel)?.accept(Rc::clone(&shell)));
        }
        tasks.spawn_local(staging.run());
        tasks.spawn_local(Rc::clone(&shell).tell_all(news));
        tasks.spawn_local(Rc::clone(&shell).complete_all(completions));
        tasks.spawn_local(Rc::clone(&shell).keep_time());
        tasks.spawn_local(Rc::clone(&shell).write_messages(writer));
        Ok(shell)
    }

    /// Says that nodes may connect from now on.
    pub(crate) fn begin(&self) {
        self.with(|machine, _| machine.begin());
    }

    /// Does what the service node orders, as soon as it takes what the I/O node has to say.
    ///
    /// # Errors
    /// [`OrderError`].
    pub(crate) async fn order(&self, order: ToPset) -> Result<(), OrderError> {
        while self.machine.borrow().is_full() {
            self.changed.notified().await;
        }
        self.with(|machine, now| machine.order(order, now))
    }

    /// Whether the service node has said that this is the end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.machine.borrow().is_stopping()
    }

    /// Waits for that end.
    pub(crate) async fn over(&self) {
        while !self.machine.borrow().is_over() {
            self.changed.notified().await;
        }
    }

    /// Has something happen in the machine, and carries out what follows.
    fn with<R>(&self, happens: impl FnOnce(&mut Machine, Now) -> R) -> R {
        let now = Now { ns: self.clock.now_ns(), realtime_ns: realtime_ns() };
        let result = happens(&mut self.machine.borrow_mut(), now);
        loop {
            let effect = self.machine.borrow_mut().next_effect();
            let Some(effect) = effect else { break };
            self.carry_out(effect, now);
        }
        let machine = self.machine.borrow();
        if machine.has_messages() {
            self.messages.notify_one();
        }
        if machine.is_over() || !machine.is_full() {
            self.changed.notify_one();
        }
        if machine.deadline() != self.alarm_ns.get() {
            self.alarm.notify_one();
        }
        result
    }

    fn carry_out(&self, effect: Effect, now: Now) {
        match effect {
            Effect::Move(line) => self.with_wire(line, Wire::go_on),
            Effect::Listen(line) => self.machine.borrow_mut().listen(line, now),
            Effect::Flush(line) => self.with_wire(line, Wire::flush),
            Effect::End { line, last } => {
                let wire = self.wires.borrow_mut().remove(&line);
                wire.into_iter().for_each(|wire| wire.end(last.as_deref()));
            }
            Effect::Open { place, spec } => self.disk.borrow_mut().open(place, *spec),
            Effect::Drop(place) => self.disk.borrow_mut().forget(place),
            Effect::Try { id, place, rank, call, bulk } => {
                let answer = self.disk.borrow_mut().attempt(id, (place, rank), call, bulk);
                let mut machine = self.machine.borrow_mut();
                match answer {
                    Some(answer) => machine.done(id, answer, now),
                    None => machine.waits(id, now),
                }
            }
            Effect::Run(id) => self.disk.borrow_mut().run(id),
            Effect::Cancel(id) => self.disk.borrow_mut().cancel(id),
            Effect::Names { id, place, rank, call } => self.disk.borrow().names(id, (place, rank), call),
            Effect::Manifest { id, place, rank, to_check } => {
                self.disk.borrow().manifest(id, (place, rank), to_check);
            }
            Effect::Keep(order) => self.disk.borrow_mut().keep(*order),
            Effect::EndKeep(request) => self.disk.borrow_mut().end_keep(request),
            Effect::Take(order) => self.disk.borrow_mut().take_file(*order),
            Effect::Broadcast { place, number } => self.disk.borrow_mut().broadcast(place, number),
            Effect::EndBroadcast { place, number } => self.disk.borrow_mut().end_broadcast(place, number),
            Effect::Close { place, rank, .. } => self.disk.borrow_mut().close(place, rank),
            Effect::Region(order) => self.disk.borrow().region(order),
        }
    }

    fn with_wire(&self, line: LineId, f: impl FnOnce(&Wire)) {
        let wire = self.wires.borrow().get(&line).cloned();
        if let Some(wire) = wire {
            f(&wire);
        }
    }

    async fn complete_all(self: Rc<Self>, mut completions: UnboundedReceiver<Completion>) {
        while let Some(completion) = completions.recv().await {
            match completion {
                Completion::Opened(place, opened) => {
                    let opened = opened.and_then(|opened| self.disk.borrow_mut().take(*opened));
                    self.with(|machine, now| machine.opened(place, opened, now));
                }
                Completion::KeepOpened(request, opened) => {
                    let taken = opened.and_then(|opened| self.disk.borrow_mut().take_keep(*opened));
                    if let Err(reason) = taken {
                        self.with(|machine, _| machine.keep_failed(request, reason));
                    }
                }
                Completion::FileTaken((place, number), taken) => {
                    let taken = taken.map(|(taken, file)| {
                        self.disk.borrow_mut().keep_taken((place, number), taken);
                        file
                    });
                    self.with(|machine, now| machine.file_taken(place, number, taken, now));
                }
                Completion::Left(place) => self.with(|machine, _| machine.left(place)),
                Completion::Done(id, answer) => self.with(|machine, now| machine.done(id, answer, now)),
                Completion::Closed(place, rank) => self.with(|machine, now| machine.closed(place, rank, now)),
                Completion::RegionDone(node, answer) => self.with(|machine, _| machine.region_done(node, answer)),
                Completion::Pulling(node, objects, untaken) => {
                    self.with(|machine, _| machine.pulling(node, objects));
                    drop(untaken);
                }
            }
        }
    }

    /// Tells the machine what the homes of staged files have to say.
    async fn tell_all(self: Rc<Self>, mut news: News) {
        while let Some(said) = news.next().await {
            self.with(|machine, _| match said {
                Said::Ended(end) => machine.transferred(end),
                Said::GoesOn(progress) => machine.transferring(progress),
                Said::KeptGoesOn(progress) => machine.keeping(progress),
                Said::Damaged(event) => machine.damaged(event),
            });
        }
    }

    /// Tells the machine the time when something is due.
    async fn keep_time(self: Rc<Self>) {
        loop {
            let deadline_ns = self.machine.borrow().deadline();
            self.alarm_ns.set(deadline_ns);
            let due = async {
                match deadline_ns {
                    Some(at_ns) => tokio::time::sleep_until(self.clock.instant(at_ns)).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = due => self.with(Machine::advance),
                () = self.alarm.notified() => {}
            }
        }
    }
}
