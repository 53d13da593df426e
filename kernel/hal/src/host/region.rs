//! A region that plays the machine's: memory, and an engine that has done what it was given when it is asked for that.
//! Its host may be as full, and its writes as torn, as a test wants.

use alloc::vec::Vec;
use std::boxed::Box;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::addr::PAGE_BYTES;
use crate::frames::Frame;

/// Pages of a request.
pub const PAGES_MAX: usize = 32;

/// Requests under way.
const REQUESTS: usize = 7;

/// See this module.
pub struct Region(Mutex<State>);

struct State {
    memory: Vec<u8>,
    requests: [Request; REQUESTS],
    /// Writes that still go well; `None`: all.
    writes_left: Option<usize>,
    /// It answers nothing.
    is_silent: bool,
    /// Requests that are under way, of which nobody wants to know.
    is_forgotten: [bool; REQUESTS],
}

enum Request {
    Free,
    Write(u64, Vec<Frame>),
    Zero(u64, u64),
    Flush,
    Done(bool),
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
    /// Does all that is under way.
    fn work(&mut self) {
        if self.is_silent {
            return;
        }
        for (request, is_forgotten) in self.requests.iter_mut().zip(&mut self.is_forgotten) {
            let well = match request {
                Request::Write(offset, frames) => {
                    let may = self.writes_left.is_none_or(|left| left > 0);
                    self.writes_left = self.writes_left.map(|left| left.saturating_sub(1));
                    let pages = self.memory[*offset as usize..].chunks_mut(PAGE_BYTES);
                    if may {
                        pages.zip(frames).for_each(|(page, frame)| frame.read(0, page));
                    }
                    may
                }
                Request::Zero(offset, bytes) => {
                    self.memory[*offset as usize..][..*bytes as usize].fill(0);
                    true
                }
                Request::Flush => true,
                Request::Free | Request::Done(_) => continue,
            };
            *request = if core::mem::take(is_forgotten) { Request::Free } else { Request::Done(well) };
        }
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
        let requests = [const { Request::Free }; REQUESTS];
        let state = State {
            memory: alloc::vec![0; bytes],
            requests,
            writes_left: None,
            is_silent: false,
            is_forgotten: [false; REQUESTS],
        };
        Box::leak(Box::new(Self(Mutex::new(state))))
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
        self.state().memory[offset as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    /// Its length, bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.state().memory.len() as u64
    }

    /// There is an engine.
    #[must_use]
    pub fn has_engine(&self) -> bool {
        true
    }

    /// Copies bytes out of it. False, and nothing is copied, if it has no such bytes.
    #[must_use]
    pub fn read(&self, offset: u64, out: &mut [u8]) -> bool {
        let state = self.state();
        let end = (offset as usize).checked_add(out.len());
        let bytes = end.and_then(|end| state.memory.get(offset as usize..end));
        bytes.map(|bytes| out.copy_from_slice(bytes)).is_some()
    }

    /// Copies a page there, by the processor. False, and nothing is copied, if there is no room.
    #[must_use]
    pub fn copy(&self, offset: u64, frame: &Frame) -> bool {
        let mut state = self.state();
        let page = state.memory.get_mut(offset as usize..).and_then(|rest| rest.get_mut(..PAGE_BYTES));
        page.map(|page| frame.read(0, page)).is_some()
    }

    /// Has the engine write these pages.
    ///
    /// # Errors
    /// [`Full`].
    pub fn write(&'static self, offset: u64, frames: Vec<Frame>) -> Result<Ticket, Full> {
        let mut state = self.state();
        let end = offset.saturating_add((frames.len() * PAGE_BYTES) as u64);
        if frames.is_empty() || frames.len() > PAGES_MAX || end > state.memory.len() as u64 {
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

    /// Has the engine have zeros there, in at most [`PAGES_MAX`] pages; gives in how many bytes. `None`: as [`Full`].
    pub fn zero(&'static self, offset: u64, bytes: u64) -> Option<(Ticket, u64)> {
        let mut state = self.state();
        let zeroed = bytes.min((PAGES_MAX * PAGE_BYTES) as u64);
        let end = offset.checked_add(bytes).filter(|end| *end <= state.memory.len() as u64);
        let slot = end.and_then(|_| state.begin(Request::Zero(offset, zeroed)).ok())?;
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
        state.requests.iter().all(|slot| matches!(slot, Request::Free | Request::Done(_)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
