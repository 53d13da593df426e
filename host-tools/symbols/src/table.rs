//! The symbol table of a program: which function lies where.

use std::cmp::Reverse;
use std::ops::Range;

use object::{Object, ObjectSymbol, SymbolKind};

use crate::limits::{SIZELESS_BYTES_MAX, SYMBOLS_BACK_MAX};

/// Symbols of code, sorted by where they begin, no two at the same address.
#[derive(Debug, Default)]
pub(crate) struct Table(Vec<Symbol>);

#[derive(Debug)]
struct Symbol {
    addresses: Range<u64>,
    /// As it is in the file.
    name: String,
}

impl Table {
    /// That of a file whose code lies there, addresses as in the file.
    pub(crate) fn of(file: &object::File<'_>, code: &[Range<u64>]) -> Self {
        let mut found = Vec::new();
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            let address = symbol.address();
            // What is written in assembly often has no type.
            let is_code = matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Unknown | SymbolKind::Label);
            if !is_code || !symbol.is_definition() || !code.iter().any(|range| range.contains(&address)) {
                continue;
            }
            let name = symbol.name_bytes().unwrap_or_default();
            if name.is_empty() {
                continue;
            }
            // Of names for the same code the one goes that people are likelier to have written.
            let underscores = name.iter().take_while(|byte| **byte == b'_').count();
            let rank = (symbol.size() == 0, symbol.is_local(), underscores, symbol.is_weak());
            found.push((address, rank, Reverse(symbol.size()), name));
        }
        found.sort_unstable();
        found.dedup_by_key(|(address, ..)| *address);
        // A label within a function is no function.
        let mut sized_end = 0;
        found.retain(|(address, _, Reverse(size), _)| {
            let is_label = *size == 0 && *address < sized_end;
            sized_end = sized_end.max(address.saturating_add(*size));
            !is_label
        });
        let starts: Vec<u64> = found.iter().map(|(address, ..)| *address).collect();
        let symbol = |(index, (start, _, Reverse(size), name)): (usize, (u64, _, Reverse<u64>, &[u8]))| {
            let end = match size {
                0 => sizeless_end(start, starts.get(index + 1).copied(), code),
                size => start.saturating_add(size),
            };
            Symbol { addresses: start..end, name: String::from_utf8_lossy(name).into_owned() }
        };
        Self(found.into_iter().enumerate().map(symbol).collect())
    }

    /// The name of the function at an address: that of the nearest symbol at or below it that reaches so far.
    pub(crate) fn at(&self, address: u64) -> Option<&str> {
        let behind = self.0.partition_point(|symbol| symbol.addresses.start <= address);
        let before = self.0[..behind].iter().rev().take(SYMBOLS_BACK_MAX);
        before.filter(|symbol| symbol.addresses.contains(&address)).map(|symbol| symbol.name.as_str()).next()
    }
}

/// Where a symbol ends that does not say.
fn sizeless_end(start: u64, next: Option<u64>, code: &[Range<u64>]) -> u64 {
    let end = code.iter().find(|range| range.contains(&start)).map_or(start, |range| range.end);
    end.min(next.unwrap_or(u64::MAX)).min(start.saturating_add(SIZELESS_BYTES_MAX))
}
