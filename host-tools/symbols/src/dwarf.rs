//! Functions by debug information: also those that are inlined, with files and lines.

mod check;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use addr2line::Context;
use gimli::{DwarfSections, EndianSlice, LittleEndian, SectionId};
use object::{Object, ObjectSection};

use crate::limits::{DEBUG_BYTES_MAX, DEBUG_STACK_BYTES, INLINED_MAX};
use crate::names::{cut, demangled};
use crate::symbols::Frame;

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// Whether a file has any.
pub(crate) fn is_in(file: &object::File<'_>) -> bool {
    file.section_by_name(".debug_info").is_some_and(|section| section.size() > 0)
}

/// What lies at these addresses of the file, each with functions innermost first, as far as it is found in time.
pub(crate) fn look_up(bytes: &Arc<Vec<u8>>, addresses: Vec<u64>, patience: Duration) -> Vec<(u64, Vec<Frame>)> {
    let Some(end) = Instant::now().checked_add(patience) else { return Vec::new() };
    let (answers, answered) = mpsc::channel();
    let is_over = Arc::new(AtomicBool::new(false));
    let (bytes, over) = (Arc::clone(bytes), Arc::clone(&is_over));
    let thread = thread::Builder::new().name("symbols".to_owned()).stack_size(DEBUG_STACK_BYTES);
    let started = thread.spawn(move || {
        let answer = |address, frames| !over.load(Ordering::Relaxed) && answers.send((address, frames)).is_ok();
        // What is no debug information tells nothing.
        let _ = look_up_here(&bytes, &addresses, &over, answer);
    });
    let mut found = Vec::new();
    if started.is_err() {
        return found;
    }
    loop {
        match answered.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(answer) => found.push(answer),
            Err(RecvTimeoutError::Disconnected) => return found,
            Err(RecvTimeoutError::Timeout) => {
                // The thread ends with what it is at; nobody waits for it.
                is_over.store(true, Ordering::Relaxed);
                return found;
            }
        }
    }
}

/// Looks up until somebody has enough of answers.
pub(crate) fn look_up_here(
    bytes: &[u8],
    addresses: &[u64],
    is_over: &AtomicBool,
    mut answer: impl FnMut(u64, Vec<Frame>) -> bool,
) -> Option<()> {
    let file = object::File::parse(bytes).ok()?;
    let mut room = DEBUG_BYTES_MAX;
    let sections = DwarfSections::load(|id| section(&file, id, &mut room)).ok()?;
    let mut dwarf = sections.borrow(|section| EndianSlice::new(section, LittleEndian));
    check::check(&mut dwarf, is_over)?;
    let context = Context::from_dwarf(dwarf).ok()?;
    for address in addresses {
        let frames = frames(&context, *address).unwrap_or_default();
        if !answer(*address, frames) {
            break;
        }
    }
    Some(())
}

/// A section as it is when it is not compressed, if there is room for all.
fn section<'a>(file: &object::File<'a>, id: SectionId, room: &mut u64) -> Result<Cow<'a, [u8]>, ()> {
    let Some(section) = file.section_by_name(id.name()) else { return Ok(Cow::Borrowed(&[])) };
    let Ok(data) = section.compressed_data() else { return Ok(Cow::Borrowed(&[])) };
    *room = room.checked_sub(data.uncompressed_size).ok_or(())?;
    data.decompress().map_err(|_| ())
}

fn frames(context: &Context<Slice<'_>>, address: u64) -> Option<Vec<Frame>> {
    // The reader adds one.
    address.checked_add(1)?;
    let mut found = context.find_frames(address).skip_all_loads().ok()?;
    let mut frames = Vec::new();
    while let Ok(Some(frame)) = found.next()
        && frames.len() < INLINED_MAX
    {
        // Lines without a function do not say more than the symbol table.
        let name = frame.function?.name.to_string_lossy().into_owned();
        let (file, line) = frame.location.map_or((None, None), |location| (location.file, location.line));
        frames.push(Frame {
            function: demangled(&name),
            file: file.map(cut),
            line: line.unwrap_or_default(),
            linkage_name: cut(&name),
        });
    }
    Some(frames)
}
