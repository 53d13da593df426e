//! Printing tables and JSON.

use std::io::{self, Write};

use anyhow::Context;
pub(crate) use coppice_api::show::harmless;
use serde::Serialize;
use tabled::builder::Builder;
use tabled::settings::Style;

/// Prints text on standard output; a reader that has seen enough is no failure.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    print_bytes(text.as_bytes())
}

/// The same with what other programs read.
pub(crate) fn print_bytes(bytes: &[u8]) -> anyhow::Result<()> {
    let mut output = io::stdout().lock();
    match output.write_all(bytes).and_then(|()| output.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error).context("cannot write standard output"),
        _ => Ok(()),
    }
}

/// Prints a value as JSON.
pub(crate) fn print_json<T: Serialize>(value: &T) -> anyhow::Result<()> {
    print(&format!("{}\n", serde_json::to_string_pretty(value)?))
}

/// Prints rows under a heading.
pub(crate) fn print_table(heading: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> anyhow::Result<()> {
    print(&table(heading, rows))
}

/// Rows under a heading, columns aligned.
pub(crate) fn table(heading: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut builder = Builder::default();
    builder.push_record(heading.iter().copied());
    for row in rows {
        // A row is a line, whatever is in it.
        builder.push_record(row.iter().map(|cell| harmless(cell).replace('\n', "\\n")));
    }
    let mut table = builder.build();
    let lines = table.with(Style::blank()).to_string();
    lines.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// A value that may be missing.
pub(crate) fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::table;

    #[test]
    fn a_row_is_a_line_that_a_terminal_does_not_obey() {
        let text = table(&["A"], [vec!["x\ny\x07".into()]]);
        assert_eq!(text, " A\n x\\ny\\u{7}\n");
    }

    #[test]
    fn columns_are_aligned_and_lines_have_no_tail() {
        let text = table(&["A", "LONG"], [vec!["xyz".into(), "1".into()], vec!["".into(), "22".into()]]);
        assert_eq!(text, " A     LONG\n xyz   1\n       22\n");
    }
}
