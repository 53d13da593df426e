//! Numbers with their units, as figures have them: `3.52 s`, `1 234 567`, `5.1 % of a core`, `45 ms, 600 bytes`.

/// What numbers are of that have an axis in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Time,
    Rate,
    Bytes,
    Share,
    Instructions,
    Pages,
    Ratio,
    /// Nobody says.
    Unknown,
}

/// How units are written, and how many of those of the axis one is.
const UNITS: &[(&str, Unit, f64)] = &[
    ("s", Unit::Time, 1e3),
    ("ms", Unit::Time, 1.0),
    ("µs", Unit::Time, 1e-3),
    ("ns", Unit::Time, 1e-6),
    ("MiB/s", Unit::Rate, 1.0),
    ("bytes", Unit::Bytes, 1.0),
    ("KiB", Unit::Bytes, 1024.0),
    ("%", Unit::Share, 1.0),
    ("instructions", Unit::Instructions, 1.0),
    ("pages", Unit::Pages, 1.0),
    ("×", Unit::Ratio, 1.0),
];

impl Unit {
    /// What an axis of it is called.
    pub(super) fn axis(self) -> &'static str {
        match self {
            Self::Time => "time, ms",
            Self::Rate => "MiB/s",
            Self::Bytes => "bytes",
            Self::Share => "share, %",
            Self::Instructions => "instructions",
            Self::Pages => "pages",
            Self::Ratio => "times",
            Self::Unknown => "number",
        }
    }

    fn written(word: &str) -> Option<(Self, f64)> {
        UNITS.iter().find(|(written, ..)| *written == word).map(|(_, unit, times)| (*unit, *times))
    }
}

/// A number in units of its axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Quantity {
    pub(super) value: f64,
    pub(super) unit: Unit,
}

impl Quantity {
    /// What a text begins with, in the unit that it says or else in that which a name says last (`…, instructions`);
    /// nothing if it begins with no number. What is called a number and is none is not finite.
    pub(super) fn of(text: &str, name: &str) -> Option<Self> {
        let (digits, rest) = number(text);
        let value: f64 = match digits.parse() {
            Ok(value) => value,
            // As Rust prints what is none.
            Err(_) => rest.split_whitespace().next()?.parse().ok()?,
        };
        let first = |text: &str| {
            let end = text.find([' ', ',', ';', ')']).unwrap_or(text.len());
            Unit::written(&text[..end])
        };
        let said = first(rest.trim_start()).or_else(|| first(name.rsplit(", ").next().unwrap_or_default()));
        let (unit, times) = said.unwrap_or((Unit::Unknown, 1.0));
        Some(Self { value: value * times, unit })
    }
}

/// The digits that a text begins with, without the gaps between groups of three, and what is behind them.
fn number(text: &str) -> (String, &str) {
    let text = text.trim_start();
    let mut digits = String::new();
    let mut end = 0;
    for (at, character) in text.char_indices() {
        let group = || text.get(at + 1..at + 4).is_some_and(|group| group.bytes().all(|byte| byte.is_ascii_digit()));
        let goes_on = match character {
            '0'..='9' | '.' | 'e' => true,
            '-' => at == 0,
            ' ' => !digits.contains('.') && digits.ends_with(|last: char| last.is_ascii_digit()) && group(),
            _ => false,
        };
        if !goes_on {
            break;
        }
        if character != ' ' {
            digits.push(character);
        }
        end = at + character.len_utf8();
    }
    (digits, &text[end..])
}

#[cfg(test)]
mod tests {
    use super::{Quantity, Unit};

    #[test]
    fn what_figures_say_is_read() {
        let read = |text, name| Quantity::of(text, name).map(|quantity| (quantity.value, quantity.unit));
        assert_eq!(read("3.52 s", ""), Some((3520.0, Unit::Time)));
        assert_eq!(read("45 ms, 12 345 bytes", ""), Some((45.0, Unit::Time)));
        assert_eq!(read("1 234 567", "a call, instructions it used"), Some((1_234_567.0, Unit::Instructions)));
        assert_eq!(read("12 345 bytes", "x, ms"), Some((12_345.0, Unit::Bytes)));
        assert_eq!(read("0.0 % of a core", ""), Some((0.0, Unit::Share)));
        assert_eq!(read("-0.1 %", ""), Some((-0.1, Unit::Share)));
        assert_eq!(read("0.52 (12.3 s)", "staged ÷ fetched"), Some((0.52, Unit::Unknown)));
        assert_eq!(read("1.05 × the program", ""), Some((1.05, Unit::Ratio)));
        assert_eq!(read("256 + state", "pages that are in it"), Some((256.0, Unit::Pages)));
        assert_eq!([read("–", ""), read("absent", ""), read("", ""), read("no 5 ms", "")], [None; 4]);
        assert!(read("NaN ms", "").is_some_and(|(value, _)| value.is_nan()));
    }
}
