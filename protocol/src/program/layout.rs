//! Where a program's parts lie in memory, and whether they can.

use alloc::vec::Vec;

use elf::abi;

use crate::limits::PROGRAM_SEGMENTS_MAX;
use crate::program::error::ProgramError;
use crate::program::headers::{Headers, ProgramHeader};
use crate::program::{ALIGNMENT_MAX, PAGE_BYTES, Placement, Segment, ThreadLocal, USER_END, USER_START, page_ceil};

/// The segments in ascending order, where they really lie, and what was added to the addresses in the file. Those that
/// can lie anywhere lie from `base` on, which is a multiple of [`ALIGNMENT_MAX`].
pub(crate) fn segments(headers: &Headers, file_bytes: u64, base: u64) -> Result<(Vec<Segment>, u64), ProgramError> {
    // A segment without memory is nothing, whatever else it says.
    let mut loads: Vec<&ProgramHeader> =
        headers.table.iter().filter(|header| header.p_type == abi::PT_LOAD && header.p_memsz != 0).collect();
    if loads.len() > PROGRAM_SEGMENTS_MAX {
        return Err(ProgramError::TooManySegments(loads.len()));
    }
    loads.sort_by_key(|header| header.p_vaddr);
    let lowest = loads.first().ok_or(ProgramError::NoSegments)?;
    let bias = match headers.placement {
        Placement::Fixed => 0,
        Placement::PositionIndependent => {
            let alignment = loads.iter().map(|header| header.p_align).max().unwrap_or_default().max(PAGE_BYTES);
            if alignment > ALIGNMENT_MAX || !alignment.is_power_of_two() {
                return Err(ProgramError::BadSegment { address: lowest.p_vaddr, what: "alignment" });
            }
            let lowest = lowest.p_vaddr & !(alignment - 1);
            // The addresses that follow are higher, but must not come round to the base from above.
            let highest = loads.last().map_or(lowest, |header| header.p_vaddr);
            if highest - lowest > USER_END - base {
                return Err(ProgramError::KernelAddress { address: highest });
            }
            base.wrapping_sub(lowest)
        }
    };
    let mut segments: Vec<Segment> = Vec::new();
    for header in loads {
        let segment = segment(header, bias, file_bytes)?;
        add(&mut segments, segment, bias)?;
    }
    Ok((segments, bias))
}

fn segment(header: &ProgramHeader, bias: u64, file_bytes: u64) -> Result<Segment, ProgramError> {
    let address = header.p_vaddr;
    if header.p_filesz > header.p_memsz {
        return Err(ProgramError::BadSegment { address, what: "longer in the file than in memory" });
    }
    if header.p_align > ALIGNMENT_MAX || (header.p_align > 1 && !header.p_align.is_power_of_two()) {
        return Err(ProgramError::BadSegment { address, what: "alignment" });
    }
    address.checked_add(header.p_memsz).ok_or(ProgramError::KernelAddress { address })?;
    let start = address.wrapping_add(bias);
    if start.checked_add(header.p_memsz).is_none_or(|end| end > USER_END) {
        return Err(ProgramError::KernelAddress { address });
    }
    if start < USER_START {
        return Err(ProgramError::LowAddress { address });
    }
    if header.p_filesz > 0 {
        let end = header.p_offset.checked_add(header.p_filesz);
        let end = end.ok_or(ProgramError::BadSegment { address, what: "place in the file" })?;
        if end > file_bytes {
            return Err(ProgramError::Truncated { what: "segments", needed: end, file_bytes });
        }
        if address % PAGE_BYTES != header.p_offset % PAGE_BYTES {
            return Err(ProgramError::Unaligned { address });
        }
    }
    let may = |flag: u32| header.p_flags & flag != 0;
    Ok(Segment {
        address: start,
        memory_bytes: header.p_memsz,
        file_offset: if header.p_filesz > 0 { header.p_offset } else { 0 },
        file_bytes: header.p_filesz,
        read: may(abi::PF_R),
        write: may(abi::PF_W),
        execute: may(abi::PF_X),
    })
}

/// Adds the next higher segment. Two that meet within a page can only both be right if that page is one page of the
/// file; then it belongs to the upper one, as on Linux.
fn add(segments: &mut Vec<Segment>, mut next: Segment, bias: u64) -> Result<(), ProgramError> {
    if let Some(last) = segments.last_mut() {
        let overlap =
            ProgramError::Overlap { first: last.address.wrapping_sub(bias), second: next.address.wrapping_sub(bias) };
        if last.end() > next.address {
            return Err(overlap);
        }
        let page = next.first_page();
        if last.end_page() > page {
            let all_in_file = last.file_bytes == last.memory_bytes && next.file_bytes > 0;
            let same_page = all_in_file
                && next.address.wrapping_sub(next.file_offset) == last.address.wrapping_sub(last.file_offset);
            if !same_page {
                return Err(overlap);
            }
            let start = page.max(last.address);
            let grow = next.address - start;
            next.address = start;
            next.file_offset -= grow;
            next.file_bytes += grow;
            next.memory_bytes += grow;
            last.memory_bytes = start - last.address;
            last.file_bytes = last.memory_bytes;
            if last.memory_bytes == 0 {
                segments.pop();
            }
        }
    }
    segments.push(next);
    Ok(())
}

/// Where the program headers lie in memory: where `PT_PHDR` says, else wherever their bytes of the file are loaded.
pub(crate) fn headers_address(headers: &Headers, segments: &[Segment], bias: u64) -> Result<Option<u64>, ProgramError> {
    let bytes = headers.table_bytes();
    if let Some(header) = headers.find(abi::PT_PHDR) {
        let address = header.p_vaddr.wrapping_add(bias);
        let loaded = segments.iter().any(|segment| segment.holds(address, bytes));
        return if loaded { Ok(Some(address)) } else { Err(ProgramError::Damaged("address of program headers")) };
    }
    let offset = headers.table_offset;
    let holder = segments
        .iter()
        .find(|segment| segment.file_offset <= offset && offset + bytes <= segment.file_offset + segment.file_bytes);
    Ok(holder.map(|segment| segment.address + (offset - segment.file_offset)))
}

/// What becomes read-only after relocation. Its end may be rounded up to the page beyond the segment's last byte.
pub(crate) fn relro(headers: &Headers, segments: &[Segment], bias: u64) -> Result<Option<(u64, u64)>, ProgramError> {
    let Some(header) = headers.find(abi::PT_GNU_RELRO).filter(|header| header.p_memsz != 0) else {
        return Ok(None);
    };
    let address = header.p_vaddr.wrapping_add(bias);
    let end = address.checked_add(header.p_memsz).filter(|end| *end <= USER_END);
    let inside = end.is_some_and(|end| {
        segments.iter().any(|segment| segment.address <= address && page_ceil(end) <= segment.end_page())
    });
    if inside {
        Ok(Some((address, header.p_memsz)))
    } else {
        Err(ProgramError::Damaged("read-only-after-relocation part outside of all segments"))
    }
}

/// The initial thread-local storage, whose image must be loaded.
pub(crate) fn thread_local(
    headers: &Headers,
    segments: &[Segment],
    bias: u64,
) -> Result<Option<ThreadLocal>, ProgramError> {
    let Some(header) = headers.find(abi::PT_TLS).filter(|header| header.p_memsz != 0) else {
        return Ok(None);
    };
    let address = header.p_vaddr.wrapping_add(bias);
    let alignment = header.p_align.max(1);
    let loaded = header.p_filesz == 0 || segments.iter().any(|segment| segment.holds(address, header.p_filesz));
    let sane = header.p_filesz <= header.p_memsz && alignment.is_power_of_two() && header.p_memsz < USER_END;
    if loaded && sane {
        let (file_bytes, memory_bytes) = (header.p_filesz, header.p_memsz);
        Ok(Some(ThreadLocal { address, file_bytes, memory_bytes, alignment }))
    } else {
        Err(ProgramError::Damaged("thread-local storage"))
    }
}
