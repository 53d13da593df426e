//! What ranks of a job were at: functions, flame graphs and what other tools read.

use std::ffi::OsStr;
use std::path::Path;

use anyhow::Context;
use coppice_api::stacks::StacksView;
use coppice_api::{Client, counted, shown};
use coppice_dashboard::samples::stacks;
use coppice_symbols::limits::LOOK_UP_TIME_MAX;
use coppice_symbols::{Profile, Row, Symbols};

use crate::arguments::Samples;
use crate::failure::say;
use crate::show::{print_bytes, table};

/// Functions that are listed.
const ROWS_MAX: usize = 10;

/// Longest name in the list, characters.
const NAME_CHARACTERS_MAX: usize = 90;

/// Writes what is wanted of a job's samples; false: nothing is.
pub(crate) async fn write(client: &Client, job: u64, wanted: &Samples) -> anyhow::Result<bool> {
    let Samples { folded, flame, pprof } = wanted;
    let Some(path) = folded.as_ref().or(flame.as_ref()).or(pprof.as_ref()) else { return Ok(false) };
    let view = client.stacks(job).await?;
    if view.samples == 0 {
        anyhow::bail!(
            "ranks of job {job} were not sampled; have them with `coppice run --sample 100` or `coppice overlay {job} \
             on --sample 100`"
        );
    }
    let symbols = symbols(&view);
    let profile = Profile::new(&symbols, &stacks(&view), LOOK_UP_TIME_MAX);
    let bytes = if folded.is_some() {
        profile.folded().into_bytes()
    } else if flame.is_some() {
        let title = format!("job {job}: {}", symbols.program());
        profile.flame_graph(&title, &heading(&view)).context("cannot draw a flame graph")?
    } else {
        profile.pprof(view.sample_hz).to_file()?
    };
    put(path, &bytes)?;
    Ok(true)
}

/// The functions in which ranks of a job were most often, if they were sampled.
pub(crate) async fn top(client: &Client, job: u64) -> anyhow::Result<Option<String>> {
    let view = client.stacks(job).await?;
    if view.samples == 0 {
        return Ok(None);
    }
    let symbols = symbols(&view);
    let profile = Profile::new(&symbols, &stacks(&view), LOOK_UP_TIME_MAX);
    Ok(Some(text(&view, &profile.top(ROWS_MAX))))
}

/// The names of the job's program; it is said if there are none.
fn symbols(view: &StacksView) -> Symbols {
    let (symbols, why) = coppice_dashboard::samples::symbols(view);
    if let Some(why) = why {
        say(&format!("functions of job {} have no names: {why}", view.job));
    }
    symbols
}

fn heading(view: &StacksView) -> String {
    let samples = counted(view.samples, "sample");
    view.sample_hz.map_or_else(|| samples.clone(), |hz| format!("{samples}, {hz} a second of each rank"))
}

fn text(view: &StacksView, rows: &[Row]) -> String {
    let share = |count: u64| format!("{:.1} %", count as f64 * 100.0 / view.samples.max(1) as f64);
    let name = |function: &str| match function.char_indices().nth(NAME_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &function[..end]),
        None => function.to_owned(),
    };
    let rows = rows.iter().map(|row| vec![name(&row.function), share(row.own), share(row.all)]);
    format!("{}\n{}", heading(view), table(&["FUNCTION", "SELF", "TOTAL"], rows))
}

/// Writes a file, or standard output.
pub(super) fn put(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    if path.as_os_str() == OsStr::new("-") {
        return print_bytes(bytes);
    }
    std::fs::write(path, bytes).with_context(|| format!("cannot write '{}'", shown(path)))
}

#[cfg(test)]
mod tests {
    use coppice_api::stacks::{StackView, StacksView};
    use coppice_symbols::Row;

    use super::{put, text};

    fn view() -> StacksView {
        StacksView {
            job: 7,
            name: "./build/solve".into(),
            program: "03".repeat(32),
            program_file: None,
            sample_hz: Some(100),
            samples: 1200,
            stacks: vec![StackView { frames: vec![0x40_1136], count: 1200 }],
        }
    }

    #[test]
    fn functions_are_listed_with_their_shares() {
        let row = |function: &str, own, all| Row { function: function.into(), own, all };
        let long = "x".repeat(100);
        let rows = [row("axpy", 900, 900), row("space::solve(int, double)", 299, 1199), row(&long, 1, 1)];
        insta::assert_snapshot!(text(&view(), &rows));
        let unknown = text(&StacksView { sample_hz: None, samples: 1, ..view() }, &[]);
        assert_eq!(unknown.lines().next(), Some("1 sample"));
    }

    #[test]
    fn a_file_is_written_or_it_is_said_why_not() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("solve.svg");
        put(&path, b"<svg>").expect("written");
        assert_eq!(std::fs::read(&path).expect("a file"), b"<svg>");
        let error = put(directory.path(), b"").expect_err("a directory");
        assert!(format!("{error:#}").starts_with("cannot write '"), "{error:#}");
    }
}
