//! Stacks with names.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::Stack;
use crate::symbols::{Frame, Place, Symbols};

/// What ranks were at.
#[derive(Debug)]
pub struct Profile<'a> {
    pub(crate) symbols: &'a Symbols,
    pub(crate) stacks: Vec<(Vec<Place>, u64)>,
    pub(crate) names: BTreeMap<Place, Vec<Frame>>,
    unknown: Frame,
}

/// A function in a table of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its name.
    pub function: String,
    /// Samples in which it was the innermost.
    pub own: u64,
    /// Samples in which it was under way.
    pub all: u64,
}

impl<'a> Profile<'a> {
    /// Finds names for stacks, on which so much time is spent.
    #[must_use]
    pub fn new(symbols: &'a Symbols, stacks: &[Stack], patience: Duration) -> Self {
        let stacks: Vec<_> =
            stacks.iter().map(|(addresses, count)| (Place::of_stack(addresses).collect::<Vec<_>>(), *count)).collect();
        let places: BTreeSet<Place> = stacks.iter().flat_map(|(places, _)| places.iter().copied()).collect();
        let names = symbols.look_up(&places, patience);
        Self { symbols, stacks, names, unknown: Frame::unknown() }
    }

    /// All samples.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.stacks.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// The functions at a place, innermost first.
    pub(crate) fn at(&self, place: Place) -> &[Frame] {
        self.names.get(&place).map_or(std::slice::from_ref(&self.unknown), Vec::as_slice)
    }

    /// The functions of a stack, innermost first; at least one.
    fn functions<'s>(&'s self, stack: &'s [Place]) -> Vec<&'s str> {
        let mut functions: Vec<&str> =
            stack.iter().flat_map(|place| self.at(*place)).map(|frame| frame.function.as_str()).collect();
        if functions.is_empty() {
            functions.push(&self.unknown.function);
        }
        functions
    }

    /// The functions that were the innermost most often, at most so many.
    #[must_use]
    pub fn top(&self, rows_max: usize) -> Vec<Row> {
        let mut counts = BTreeMap::<&str, (u64, u64)>::new();
        for (stack, count) in &self.stacks {
            let functions = self.functions(stack);
            if let Some(innermost) = functions.first() {
                let own = &mut counts.entry(innermost).or_default().0;
                *own = own.saturating_add(*count);
            }
            // One that calls itself is under way once.
            for function in functions.into_iter().collect::<BTreeSet<_>>() {
                let all = &mut counts.entry(function).or_default().1;
                *all = all.saturating_add(*count);
            }
        }
        let row = |(function, (own, all)): (&str, _)| Row { function: function.to_owned(), own, all };
        let mut rows: Vec<Row> = counts.into_iter().map(row).collect();
        // Those that are equal stay in the order of their names.
        rows.sort_by_key(|row| std::cmp::Reverse((row.own, row.all)));
        rows.truncate(rows_max);
        rows
    }

    /// A line for each stack, its functions outermost first with `;` between, and how often it was seen: what most
    /// tools for flame graphs read.
    #[must_use]
    pub fn folded(&self) -> String {
        let mut lines = BTreeMap::<String, u64>::new();
        for (stack, count) in &self.stacks {
            let functions: Vec<String> = self.functions(stack).into_iter().rev().map(plain).collect();
            let seen = lines.entry(functions.join(";")).or_default();
            *seen = seen.saturating_add(*count);
        }
        lines.into_iter().map(|(functions, count)| format!("{functions} {count}\n")).collect()
    }
}

/// A name that can be taken for nothing but one: neither for two, nor for a count, nor for a comment.
fn plain(name: &str) -> String {
    let text: String = name
        .chars()
        .map(|c| match c {
            ';' => ':',
            c if c.is_control() => '?',
            c => c,
        })
        .collect();
    let last = text.rsplit(' ').next().unwrap_or_default();
    let is_count = last.chars().all(|c| c.is_ascii_digit() || c == '.');
    if is_count || text.starts_with('#') { text.replace(' ', "_") } else { text }
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn names_stay_names() {
        assert_eq!(plain("<[u8; 4] as Debug>::fmt"), "<[u8: 4] as Debug>::fmt");
        assert_eq!(plain("f(int, long)"), "f(int, long)");
        assert_eq!([plain("a 1"), plain("# a"), plain("a\n2"), plain("7 ")], ["a_1", "#_a", "a?2", "7_"]);
    }
}
