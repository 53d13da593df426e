//! The measured programs.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::bench::guest::compile_with;

/// A program that touches all of its pages before `main`.
pub(super) struct Program {
    /// Its size in words.
    pub(super) size: &'static str,
    /// How much sooner it is to start where it is retained.
    pub(super) wanted: &'static str,
    /// The file, as an argument.
    pub(super) path: String,
}

/// All of them.
pub(super) struct Programs {
    /// Of several sizes, the smallest first.
    pub(super) sizes: Vec<Program>,
    /// Writes to as many pages of zeros as its argument says.
    pub(super) dirty: String,
    /// Has another kernel start the others.
    pub(super) init: PathBuf,
}

/// What is compiled: size, pages of read-only and of initialised data, and what is wanted.
const SIZES: [(&str, u32, u32, &str); 4] =
    [("26 KB", 1, 1, "–"), ("2 MB", 504, 4, "≥ 10 ×"), ("8 MB", 2036, 8, "–"), ("40 MB", 10_226, 8, "≥ 50 ×")];

impl Programs {
    /// Compiles them.
    ///
    /// # Errors
    /// If the compiler is missing or complains.
    pub(super) fn compile() -> Result<Self> {
        let mut sizes = Vec::new();
        for (size, read_only, data, wanted) in SIZES {
            let options = [format!("-DREAD_ONLY_PAGES={read_only}"), format!("-DDATA_PAGES={data}")];
            let name = format!("bench_touch_all-{read_only}");
            let path = argument(compile_with("musl-gcc", "bench_touch_all", &name, &options)?)?;
            sizes.push(Program { size, wanted, path });
        }
        let plain = |name: &str| compile_with("musl-gcc", name, name, &[]);
        Ok(Self { sizes, dirty: argument(plain("bench_dirty")?)?, init: plain("bench_fork_exec")? })
    }
}

fn argument(path: PathBuf) -> Result<String> {
    path.into_os_string().into_string().ok().context("path is not UTF-8")
}
