//! A communication process: brings together what comes from below, and hands it up.

use alloc::vec::Vec;

use super::gathering::{Gathering, Taken};
use super::message::{Above, Child, Generation, Source, Up};
use super::part::Part;
use super::sending::Sending;
use super::stacks::Stacks;

/// See this module. Bytes and time go in, messages for the one above come out.
#[derive(Debug)]
pub struct Process {
    generation: Generation,
    index: u32,
    gathering: Gathering,
    sending: Sending,
    /// How many messages about stacks it has said.
    stacks_said: u64,
}

impl Process {
    /// As [`super::Down::Begin`] says.
    #[must_use]
    pub fn new(generation: Generation, index: u32, above: Above, height: u32, children: Vec<Child>) -> Self {
        Self {
            generation,
            index,
            gathering: Gathering::new(children, height),
            sending: Sending::new(generation, Source::Process(index), above),
            stacks_said: 0,
        }
    }

    /// Who is above it.
    #[must_use]
    pub fn above(&self) -> Above {
        self.sending.above()
    }

    /// Parts and stacks that it did not take, because they were not as they must be, and parts for which it had no
    /// room.
    #[must_use]
    pub fn refused_and_lost(&self) -> (u64, u64) {
        (self.gathering.refused, self.sending.lost)
    }

    /// A part comes from one below: from the node on which that is, as whoever hands it over has made sure.
    pub fn handle_part(&mut self, source: Source, is_apart: bool, part: Part, now_ns: u64) {
        if let Taken::Apart(part) = self.gathering.take(source, is_apart, part, now_ns) {
            self.sending.send(true, part);
        }
        self.pass_on();
    }

    /// Stacks come from one below, likewise, as the message of that number of its. They go up with the next epoch that
    /// comes together: what it has of them when it dies is lost. Those of whom it does not know that they are below are
    /// refused.
    pub fn handle_stacks(&mut self, source: Source, number: u64, stacks: &Stacks) {
        if self.gathering.hears_stacks(source, number) {
            self.sending.add_stacks(stacks);
        }
    }

    /// Others are below it, as [`super::Down::Below`] says.
    pub fn change(&mut self, without: Option<Source>, with: Vec<Child>, now_ns: u64) {
        for part in self.gathering.change(without, with, now_ns) {
            self.sending.send(true, part);
        }
        self.pass_on();
    }

    /// Somebody else is above it, as [`super::Down::Move`] says.
    pub fn turn_to(&mut self, above: Above) {
        self.sending.turn_to(above);
    }

    fn pass_on(&mut self) {
        while let Some(part) = self.gathering.poll() {
            self.sending.send(false, part);
            self.sending.send_stacks();
        }
    }

    /// The next message, and for whom it is.
    pub fn poll_transmit(&mut self) -> Option<(Above, Up)> {
        if let Some((above, stacks)) = self.sending.poll_stacks() {
            self.stacks_said += 1;
            let (source, number) = (Source::Process(self.index), self.stacks_said);
            return Some((above, Up::Stacks { generation: self.generation, source, number, stacks }));
        }
        self.sending.poll()
    }

    /// When [`Self::handle_timeout`] wants to be called, ns.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<u64> {
        self.gathering.poll_timeout()
    }

    /// Says what time it is.
    pub fn handle_timeout(&mut self, now_ns: u64) {
        self.gathering.handle_timeout(now_ns);
        self.pass_on();
    }
}
