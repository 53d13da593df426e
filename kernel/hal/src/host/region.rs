//! A region that plays the machine's: memory, and an engine that has done what it was given when it is asked for that.
//! Its host may be as full, and its writes as torn, as a test wants.
//!
//! Or it is a file of the host, as that of a real machine is, and the engine does what it was given in steps that are
//! somebody else's to take ([`Region::step`]).

use alloc::vec::Vec;
use std::boxed::Box;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::addr::PAGE_BYTES;
use crate::frames::Frame;

/// Pages of a request.
pub const PAGES_MAX: usize = 32;

/// Bytes that become zeros with one request.
const ZEROED_MAX: u64 = 1 << 20;

/// Requests under way.
const REQUESTS: usize = 7;

/// See this module.
pub struct Region(Mutex<State>);

struct State {
    memory: Memory,
    requests: [Request; REQUESTS],
    /// Writes that still go well; `None`: all.
    writes_left: Option<usize>,
    /// The engine does nothing by itself.
    has_steps: bool,
    /// It answers nothing.
    is_silent: bool,
    /// Requests that are under way, of which nobody wants to know.
    is_forgotten: [bool; REQUESTS],
}

/// What is in it.
enum Memory {
    Here(Vec<u8>),
    /// So many bytes of a file.
    File(File, u64),
    /// The machine is gone.
    Gone,
}

enum Request {
    Free,
    Write(u64, Vec<Frame>),
    Zero(u64, u64),
    Flush,
    Done(bool),
}

impl Memory {
    fn bytes(&self) -> u64 {
        match self {
            Self::Here(memory) => memory.len() as u64,
            Self::File(_, bytes) => *bytes,
            Self::Gone => 0,
        }
    }

    fn has(&self, offset: u64, bytes: usize) -> bool {
        offset.checked_add(bytes as u64).is_some_and(|end| end <= self.bytes())
    }

    /// False, and nothing is read, if it has no such bytes.
    fn read(&self, offset: u64, out: &mut [u8]) -> bool {
        match self {
            _ if !self.has(offset, out.len()) => false,
            Self::Here(memory) => {
                out.copy_from_slice(&memory[offset as usize..][..out.len()]);
                true
            }
            Self::File(file, _) => file.read_exact_at(out, offset).is_ok(),
            Self::Gone => false,
        }
    }

    /// The same of bytes that are written.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> bool {
        match self {
            _ if !self.has(offset, bytes.len()) => false,
            Self::Here(memory) => {
                memory[offset as usize..][..bytes.len()].copy_from_slice(bytes);
                true
            }
            Self::File(file, _) => file.write_all_at(bytes, offset).is_ok(),
            Self::Gone => false,
        }
    }

    fn write_frame(&mut self, offset: u64, frame: &Frame) -> bool {
        let mut page = [0; PAGE_BYTES];
        frame.read(0, &mut page);
        self.write(offset, &page)
    }
}

/// Something the engine does. When it goes, what becomes of that is not told.
pub struct Ticket {
    region: &'static Region,
    slot: usize,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut state = self.region.state();
        state.work();
        if matches!(state.requests[self.slot], Request::Done(_)) {
            state.requests[self.slot] = Request::Free;
        } else {
            state.is_forgotten[self.slot] = true;
        }
    }
}

/// The engine takes no more at this moment. Gives back what it was to write.
#[derive(Debug)]
pub struct Full(pub Vec<Frame>);

impl State {
    /// Does all that is under way, unless that is somebody else's to say.
    fn work(&mut self) {
        if !self.has_steps && !self.is_silent {
            (0..REQUESTS).for_each(|slot| self.step(slot));
        }
    }

    /// Does what is in a slot, if anything is.
    fn step(&mut self, slot: usize) {
        let well = match core::mem::replace(&mut self.requests[slot], Request::Free) {
            Request::Write(offset, frames) => self.write(offset, &frames),
            Request::Zero(offset, bytes) => self.memory.write(offset, &alloc::vec![0; bytes as usize]),
            Request::Flush => true,
            other => {
                self.requests[slot] = other;
                return;
            }
        };
        if !core::mem::take(&mut self.is_forgotten[slot]) {
            self.requests[slot] = Request::Done(well);
        }
    }

    fn write(&mut self, offset: u64, frames: &[Frame]) -> bool {
        let may = self.writes_left.is_none_or(|left| left > 0);
        self.writes_left = self.writes_left.map(|left| left.saturating_sub(1));
        let mut pages = frames.iter().zip((offset..).step_by(PAGE_BYTES));
        may && pages.all(|(frame, offset)| self.memory.write_frame(offset, frame))
    }

    fn begin(&mut self, request: Request) -> Result<usize, Request> {
        match self.requests.iter_mut().position(|slot| matches!(slot, Request::Free)) {
            Some(slot) => {
                self.requests[slot] = request;
                Ok(slot)
            }
            None => Err(request),
        }
    }
}

impl Region {
    /// One of so many bytes, all zeros, for good.
    #[must_use]
    pub fn new(bytes: usize) -> &'static Self {
        Self::of(Memory::Here(alloc::vec![0; bytes]), false)
    }

    /// One that is a file of so many bytes, until its machine is gone ([`Self::end`]), with an engine that does
    /// nothing before it is to take a step.
    #[must_use]
    pub fn of_file(file: File, bytes: u64) -> &'static Self {
        Self::of(Memory::File(file, bytes), true)
    }

    fn of(memory: Memory, has_steps: bool) -> &'static Self {
        let requests = [const { Request::Free }; REQUESTS];
        let (writes_left, is_silent, is_forgotten) = (None, false, [false; REQUESTS]);
        let state = State { memory, requests, writes_left, has_steps, is_silent, is_forgotten };
        Box::leak(Box::new(Self(Mutex::new(state))))
    }

    /// How many things the engine has to do.
    #[must_use]
    pub fn under_way(&self) -> usize {
        let is_one = |request: &&Request| !matches!(request, Request::Free | Request::Done(_));
        self.state().requests.iter().filter(is_one).count()
    }

    /// The engine does one of them, the one with that number: it does not keep the order. Then it interrupts.
    pub fn step(&self, number: usize) {
        let mut state = self.state();
        let mut slots = (0..REQUESTS).filter(|slot| !matches!(state.requests[*slot], Request::Free | Request::Done(_)));
        if let Some(slot) = slots.nth(number) {
            state.step(slot);
        }
    }

    /// The machine is gone: what was under way was not done.
    pub fn end(&self) {
        let mut state = self.state();
        state.memory = Memory::Gone;
        let requests = core::mem::replace(&mut state.requests, [const { Request::Free }; REQUESTS]);
        drop(state);
        drop(requests);
    }

    /// Has writes go wrong after so many.
    pub fn fail_after(&self, writes: Option<usize>) {
        self.state().writes_left = writes;
    }

    /// Has the engine answer nothing, or what it was given meanwhile, too.
    pub fn be_silent(&self, is_silent: bool) {
        self.state().is_silent = is_silent;
    }

    /// Writes as the host does.
    ///
    /// # Panics
    /// If it has no such bytes.
    pub fn host_write(&self, offset: u64, bytes: &[u8]) {
        assert!(self.state().memory.write(offset, bytes), "there are no such bytes");
    }

    /// Its length, bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.state().memory.bytes()
    }

    /// There is an engine.
    #[must_use]
    pub fn has_engine(&self) -> bool {
        true
    }

    /// Copies bytes out of it. False, and nothing is copied, if it has no such bytes.
    #[must_use]
    pub fn read(&self, offset: u64, out: &mut [u8]) -> bool {
        self.state().memory.read(offset, out)
    }

    /// Copies a page there, by the processor. False, and nothing is copied, if there is no room.
    #[must_use]
    pub fn copy(&self, offset: u64, frame: &Frame) -> bool {
        self.state().memory.write_frame(offset, frame)
    }

    /// Has the engine write these pages.
    ///
    /// # Errors
    /// [`Full`].
    pub fn write(&'static self, offset: u64, frames: Vec<Frame>) -> Result<Ticket, Full> {
        let mut state = self.state();
        if frames.is_empty() || frames.len() > PAGES_MAX || !state.memory.has(offset, frames.len() * PAGE_BYTES) {
            return Err(Full(frames));
        }
        match state.begin(Request::Write(offset, frames)) {
            Ok(slot) => Ok(Ticket { region: self, slot }),
            Err(Request::Write(_, frames)) => Err(Full(frames)),
            Err(_) => Err(Full(Vec::new())),
        }
    }

    /// Has all be on stable storage that was written before. `None`: as [`Full`].
    pub fn flush(&'static self) -> Option<Ticket> {
        let slot = self.state().begin(Request::Flush).ok()?;
        Some(Ticket { region: self, slot })
    }

    /// Has the engine have zeros there, in at most [`ZEROED_MAX`] bytes; gives in how many. `None`: as [`Full`].
    pub fn zero(&'static self, offset: u64, bytes: u64) -> Option<(Ticket, u64)> {
        let mut state = self.state();
        let zeroed = bytes.min(ZEROED_MAX);
        if !state.memory.has(offset, bytes as usize) {
            return None;
        }
        let slot = state.begin(Request::Zero(offset, zeroed)).ok()?;
        Some((Ticket { region: self, slot }, zeroed))
    }

    /// Whether that was done, well or not; `None`: not yet.
    pub fn is_done(&self, ticket: &Ticket) -> Option<bool> {
        let mut state = self.state();
        state.work();
        match state.requests[ticket.slot] {
            Request::Done(well) => Some(well),
            _ => None,
        }
    }

    /// Whether the engine would take something.
    pub fn has_room(&self) -> bool {
        let mut state = self.state();
        state.work();
        state.requests.iter().any(|slot| matches!(slot, Request::Free))
    }

    /// Whether the engine has nothing to do, be it for nobody any more.
    pub fn is_idle(&self) -> bool {
        let mut state = self.state();
        state.work();
        state.requests.iter().all(|request| matches!(request, Request::Free | Request::Done(_)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
