//! What a terminal shows of the quick start, as it really went: commands are run one after the other, and what they
//! print is kept with the time.

use std::fmt::Write;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::build::Built;
use crate::guard::Guard;

/// The terminal, characters.
const COLUMNS: usize = 120;

/// What is typed, in order.
const TYPED: [&str; 8] = [
    "coppice up --nodes 4",
    "coppice run -n 4 --label /bin/busybox uname -srnm",
    "coppice run -n 4 /bin/busybox sha256sum input.txt",
    "coppice run -n 4 /bin/busybox sha256sum input.txt",
    "coppice programs",
    "coppice run --overlay=5 -n 4 /bin/busybox sleep 2",
    "coppice explain 4",
    "coppice down",
];

/// From one character that is typed to the next, and before and after a command.
const KEY: Duration = Duration::from_millis(35);
const PAUSE: Duration = Duration::from_millis(900);

/// How long the picture stands at its end before it begins again.
const END: Duration = Duration::from_secs(6);

/// Sizes in the picture.
const FONT: usize = 14;
const LINE: usize = 19;
const WIDTH_OF_TEN: usize = 85;
const MARGIN: usize = 16;

/// What was shown when.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    /// Time since the beginning, and what came then.
    events: Vec<(Duration, String)>,
    at: Duration,
}

/// Runs the commands on a cluster of their own.
pub(super) fn record(built: &Built) -> Result<Recorded> {
    let files = tempfile::Builder::new().prefix("cop").tempdir_in("/tmp")?;
    let (home, work) = (files.path().join("h"), files.path().join("work"));
    for directory in [&home, &work] {
        std::fs::create_dir(directory)?;
    }
    let text: String = (1..=20_000).map(|line| format!("line {line} of a file on the host\n")).collect();
    std::fs::write(work.join("input.txt"), text)?;
    let tools = built.coppice.parent().context("the tool lies in a directory")?;
    let path = std::env::var("PATH").unwrap_or_default();
    let shell = |line: &str| {
        let mut command = Command::new("/bin/sh");
        // As on a terminal, what is said and what goes wrong are in one order.
        command.args(["-c", &format!("exec 2>&1; {line}")]).current_dir(&work).env("COPPICE_HOME", &home);
        command.env("PATH", format!("{}:{path}", tools.display()));
        command
    };
    let _guard = Guard::new(&shell("coppice down"), files.path())?;
    let mut recorded = Recorded::default();
    for line in TYPED {
        recorded.type_in(line);
        recorded.run(&mut shell(line)).with_context(|| line.to_owned())?;
    }
    recorded.show("$ ");
    Ok(recorded)
}

impl Recorded {
    fn show(&mut self, text: &str) {
        self.events.push((self.at, text.to_owned()));
    }

    fn type_in(&mut self, line: &str) {
        self.show("$ ");
        self.at += PAUSE;
        for key in line.chars() {
            self.show(key.encode_utf8(&mut [0; 4]));
            self.at += KEY;
        }
        self.show("\n");
    }

    fn run(&mut self, command: &mut Command) -> Result<()> {
        let (begin, before) = (Instant::now(), self.at);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut stdout = child.stdout.take().context("it has an output")?;
        let mut bytes = [0; 4096];
        let mut rest = Vec::new();
        loop {
            let read = stdout.read(&mut bytes)?;
            self.at = before + begin.elapsed();
            rest.extend_from_slice(&bytes[..read]);
            // Whole lines: a character may come in two parts.
            let whole = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
            if whole > 0 {
                let text: Vec<u8> = rest.drain(..whole).collect();
                self.show(&String::from_utf8_lossy(&text));
            }
            if read == 0 {
                break;
            }
        }
        let status = child.wait()?;
        if !status.success() {
            bail!("{status}");
        }
        Ok(())
    }

    /// For a player of terminal sessions (asciicast, version 2).
    pub(super) fn cast(&self) -> Result<String> {
        let lines = self.lines().len();
        let head = json!({ "version": 2, "width": COLUMNS, "height": lines.min(50), "title": "Coppice: quick start" });
        let mut text = format!("{head}\n");
        for (at, shown) in &self.events {
            let event = json!([at.as_secs_f64(), "o", shown.replace('\n', "\r\n")]);
            writeln!(text, "{event}")?;
        }
        Ok(text)
    }

    /// Lines of the terminal, each with the pieces that make it and when they came.
    fn lines(&self) -> Vec<Vec<(Duration, String)>> {
        let mut lines = vec![Vec::new()];
        for (at, shown) in &self.events {
            for (number, part) in shown.split('\n').enumerate() {
                if number > 0 {
                    lines.push(Vec::new());
                }
                let mut rest: Vec<char> = part.chars().collect();
                while let Some(line) = lines.last_mut().filter(|_| !rest.is_empty()) {
                    let used: usize = line.iter().map(|(_, piece): &(Duration, String)| piece.chars().count()).sum();
                    let fits = COLUMNS.saturating_sub(used).min(rest.len());
                    line.push((*at, rest.drain(..fits).collect()));
                    if !rest.is_empty() {
                        lines.push(Vec::new());
                    }
                }
            }
        }
        lines
    }

    /// A picture on which what was shown appears when it did, again and again.
    pub(super) fn svg(&self) -> String {
        let lines = self.lines();
        let whole = (self.at + END).as_secs_f64();
        let (width, height) = (COLUMNS * WIDTH_OF_TEN / 10 + 2 * MARGIN, lines.len() * LINE + 2 * MARGIN);
        let mut rules = String::new();
        let mut texts = String::new();
        let mut number = 0;
        for (row, line) in lines.iter().enumerate() {
            let mut column = 0;
            for (at, piece) in line {
                let (x, y) = (MARGIN + column * WIDTH_OF_TEN / 10, MARGIN + row * LINE + FONT);
                let class = if line.first().is_some_and(|(_, first)| first == "$ ") { "typed" } else { "said" };
                let share = at.as_secs_f64() * 100.0 / whole;
                // Writing to a string cannot fail.
                let _ = writeln!(
                    rules,
                    "@keyframes k{number}{{0%,{share:.2}%{{opacity:0}}{:.2}%,100%{{opacity:1}}}}",
                    share + 0.01
                );
                let _ = writeln!(rules, "#t{number}{{animation-name:k{number}}}");
                let length = piece.chars().count() * WIDTH_OF_TEN / 10;
                let _ = writeln!(
                    texts,
                    "<text id=\"t{number}\" class=\"{class}\" x=\"{x}\" y=\"{y}\" textLength=\"{length}\" \
                     xml:space=\"preserve\">{}</text>",
                    escaped(piece)
                );
                column += piece.chars().count();
                number += 1;
            }
        }
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
             aria-label=\"A terminal with the quick start\">\n<style>\n\
             text{{font:{FONT}px ui-monospace,Menlo,Consolas,monospace;fill:#e6edf3;\
             animation-duration:{whole:.1}s;animation-iteration-count:infinite}}\n\
             .typed{{fill:#7ee787}}\n\
             @media (prefers-reduced-motion:reduce){{text{{animation:none!important}}}}\n{rules}</style>\n\
             <rect width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"#0d1117\"/>\n{texts}</svg>\n"
        )
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{COLUMNS, Recorded};

    #[test]
    fn what_was_shown_is_in_the_picture_and_for_a_player() {
        let mut recorded = Recorded::default();
        recorded.type_in("ab");
        recorded.run(Command::new("/bin/echo").arg(format!("<{}>", "x".repeat(COLUMNS)))).expect("it ran");
        let lines: Vec<String> =
            recorded.lines().iter().map(|line| line.iter().map(|(_, piece)| piece.as_str()).collect()).collect();
        assert_eq!(lines, ["$ ab".to_owned(), format!("<{}", "x".repeat(COLUMNS - 1)), "x>".to_owned(), String::new()]);
        let cast = recorded.cast().expect("made");
        let events: Vec<serde_json::Value> =
            cast.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!((events[0]["version"].as_u64(), events[1][2].as_str()), (Some(2), Some("$ ")));
        let svg = recorded.svg();
        assert!(svg.contains(">x&gt;</text>") && svg.starts_with("<svg") && svg.ends_with("</svg>\n"), "{svg}");
        assert!(recorded.run(&mut Command::new("/bin/false")).is_err());
    }
}
