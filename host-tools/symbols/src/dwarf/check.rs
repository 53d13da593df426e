//! Whether reading debug information takes no more than it is long.
//!
//! Its parts refer to each other: a few bytes that name a table may have it read once more, and a short file may stand
//! for work and memory without end. In what compilers and linkers write each part is used as often as it is there. What
//! is used far more often is refused before anything is kept of it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use gimli::{AbbreviationsCacheStrategy, DW_AT_ranges, Dwarf, Reader, Section, Unit, UnitRef, UnitType};

use super::Slice;
use crate::limits::{DEBUG_DEPTH_MAX, DEBUG_USES_MAX};

/// What remains of the work that a section is good for.
struct Budget(u64);

impl Budget {
    /// Of a section, or several, so many bytes long.
    fn of(bytes: usize) -> Self {
        // What is not aligned or begins in the middle of a table is not worth being precise about.
        Self((bytes as u64).saturating_mul(DEBUG_USES_MAX).saturating_add(4096))
    }

    /// Nothing, if it is used up.
    fn spend(&mut self, bytes: usize) -> Option<()> {
        self.0 = self.0.checked_sub(bytes as u64)?;
        Some(())
    }
}

/// Nothing, if it takes more, or entries lie deeper in each other than their reader may call itself, or there is no
/// more time.
pub(super) fn check(dwarf: &mut Dwarf<Slice<'_>>, is_over: &AtomicBool) -> Option<()> {
    check_abbreviations(dwarf, is_over)?;
    // Tables that several units have are read once.
    dwarf.populate_abbreviations_cache(AbbreviationsCacheStrategy::Duplicates);
    let mut lines = Budget::of(dwarf.debug_line.reader().len());
    let mut ranges =
        Budget::of(dwarf.ranges.debug_ranges().reader().len() + dwarf.ranges.debug_rnglists().reader().len());
    let mut headers = dwarf.units();
    while let Ok(Some(header)) = headers.next() {
        if is_over.load(Ordering::Relaxed) {
            return None;
        }
        let is_type = matches!(header.type_(), UnitType::Type { .. } | UnitType::SplitType { .. });
        // What cannot be read here cannot be read there.
        let Ok(unit) = dwarf.unit(header) else { continue };
        if let Some(program) = unit.line_program.as_ref().filter(|_| !is_type) {
            lines.spend(program.header().header_length())?;
            lines.spend(program.header().raw_program_buf().len())?;
        }
        check_unit(dwarf, &unit, &mut ranges)?;
    }
    Some(())
}

fn check_abbreviations(dwarf: &Dwarf<Slice<'_>>, is_over: &AtomicBool) -> Option<()> {
    let section = *dwarf.debug_abbrev.reader();
    let mut budget = Budget::of(section.len());
    let mut seen = BTreeSet::new();
    let mut headers = dwarf.units();
    while let Ok(Some(header)) = headers.next() {
        if is_over.load(Ordering::Relaxed) {
            return None;
        }
        let offset = header.debug_abbrev_offset().0;
        if seen.insert(offset) {
            let mut table = section;
            if table.skip(offset).is_ok() {
                budget.spend(table_bytes(table))?;
            }
        }
    }
    Some(())
}

/// How long the table of abbreviations is with which this begins, as far as it is one.
fn table_bytes(table: Slice<'_>) -> usize {
    let mut rest = table;
    let mut skip_one = || -> gimli::Result<bool> {
        if rest.read_uleb128()? == 0 {
            return Ok(false);
        }
        rest.read_uleb128()?;
        rest.read_u8()?;
        loop {
            let (name, form) = (rest.read_uleb128()?, rest.read_uleb128()?);
            if form == u64::from(gimli::DW_FORM_implicit_const.0) {
                rest.read_sleb128()?;
            }
            if (name, form) == (0, 0) {
                return Ok(true);
            }
        }
    };
    while let Ok(true) = skip_one() {}
    table.len() - rest.len()
}

fn check_unit(dwarf: &Dwarf<Slice<'_>>, unit: &Unit<Slice<'_>>, ranges: &mut Budget) -> Option<()> {
    let unit = UnitRef::new(dwarf, unit);
    let Ok(mut entries) = unit.entries_raw(None) else { return Some(()) };
    while !entries.is_empty() {
        if entries.next_depth() > DEBUG_DEPTH_MAX {
            return None;
        }
        let Ok(kind) = entries.read_abbreviation() else { break };
        for attribute in kind.map_or(&[][..], |kind| kind.attributes()) {
            if attribute.name() != DW_AT_ranges {
                if entries.skip_attributes(std::slice::from_ref(attribute)).is_err() {
                    return Some(());
                }
                continue;
            }
            let Ok(attribute) = entries.read_attribute(*attribute) else { return Some(()) };
            let Ok(Some(offset)) = unit.attr_ranges_offset(attribute.value()) else { continue };
            let Ok(mut list) = unit.raw_ranges(offset) else { continue };
            // Each takes a byte at least, but for what `spend` leaves to everybody.
            while let Ok(Some(_)) = list.next() {
                ranges.spend(1)?;
            }
        }
    }
    Some(())
}
