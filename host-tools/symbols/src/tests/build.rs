//! Programs that compilers make.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use crate::{Place, Symbols};

pub(super) const C: (&str, &str) = ("solve.c", include_str!("solve.c"));
pub(super) const CPP: (&str, &str) = ("solve.cpp", include_str!("solve.cpp"));
pub(super) const RUST: (&str, &str) = ("solve.rs", include_str!("solve.rs.txt"));
pub(super) const DEEP: (&str, &str) = ("deep.s", include_str!("deep.s"));
pub(super) const OFTEN: (&str, &str) = ("often.s", include_str!("often.s"));

/// A program, and where it says that its symbols are.
pub(super) struct Built {
    pub(super) bytes: Vec<u8>,
    symbols: BTreeMap<String, u64>,
}

impl Built {
    /// Compiles a source; `strip` takes its symbols away again.
    pub(super) fn new((name, source): (&str, &str), options: &[&str], strip: bool) -> Self {
        let directory = tempfile::tempdir().expect("directory");
        let (from, to) = (directory.path().join(name), directory.path().join("solve"));
        std::fs::write(&from, source).expect("source");
        let mut compiler = match Path::new(name).extension().and_then(|ending| ending.to_str()) {
            Some("rs") => {
                let mut rustc = Command::new("rustc");
                let link = "link-args=-nostartfiles -nostdlib -static -no-pie";
                let how = ["panic=abort", "relocation-model=static", "opt-level=1", link];
                rustc.args(how.iter().flat_map(|option| ["-C", option])).args(["--edition", "2024"]);
                rustc
            }
            kind => {
                let mut compiler = Command::new(if kind == Some("cpp") { "g++" } else { "gcc" });
                compiler.arg("-O1");
                if !source.contains("#include") {
                    compiler.args(["-nostdlib", "-fno-asynchronous-unwind-tables"]);
                }
                compiler
            }
        };
        run(compiler.args(options).arg("-o").arg(&to).arg(&from).current_dir(directory.path()));
        let text = run(Command::new("nm").arg(&to));
        let symbols = text.lines().filter_map(|line| {
            let mut words = line.split_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            Some((words.nth(1)?.to_owned(), address))
        });
        let symbols = symbols.collect();
        if strip {
            run(Command::new("strip").arg(&to));
        }
        Self { bytes: std::fs::read(&to).expect("program"), symbols }
    }

    /// The C program, as most are.
    pub(super) fn plain() -> &'static Self {
        static PLAIN: OnceLock<Built> = OnceLock::new();
        PLAIN.get_or_init(|| Self::new(C, &["-static", "-g"], false))
    }

    /// Where a symbol is in the file.
    #[track_caller]
    pub(super) fn at(&self, symbol: &str) -> u64 {
        *self.symbols.get(symbol).unwrap_or_else(|| panic!("no {symbol} in {:?}", self.symbols))
    }

    /// Where the first symbol is whose name has this in it.
    pub(super) fn with(&self, part: &str) -> u64 {
        *self.symbols.iter().find(|(name, _)| name.contains(part)).expect("a symbol").1
    }

    pub(super) fn symbols(&self) -> Symbols {
        Symbols::of("solve", self.bytes.clone()).expect("a program")
    }
}

fn run(command: &mut Command) -> String {
    let done = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("text")
}

pub(super) fn here(address: u64) -> Place {
    Place { address, is_return: false }
}
