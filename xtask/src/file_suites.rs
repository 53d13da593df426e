//! `cargo xtask file-suites`: programs that others have published to try file systems with, for nodes, in
//! `target/file-suites/bin`: pjdfstest, which looks at what each call must and must not do, and fsx, which does all
//! kinds of things to a file and looks at every byte. Both are crates, built statically.

use anyhow::Result;

use crate::command::cargo;
use crate::recipe::{Build, Recipe};

/// The crates, with their versions.
const CRATES: [&str; 2] = ["pjdfstest@0.2.2", "fsx@0.3.2"];

/// How they are built: quickly.
const HOW: [&str; 4] = ["--locked", "--debug", "--target", "x86_64-unknown-linux-musl"];

/// Builds them, unless they are there.
///
/// # Errors
/// If they cannot be fetched or built; names the log.
pub(crate) fn ready() -> Result<()> {
    let from = CRATES.iter().chain(&HOW).map(|word| (*word).to_owned()).collect();
    let recipe = Recipe { title: CRATES.join(" and "), places: &["file-suites"], from };
    recipe.ready(install).map(drop)
}

fn install(build: &Build) -> Result<()> {
    let mut install = cargo(&["install", "--no-track", "--root"]);
    install.arg(&build.prefix).args(HOW).args(CRATES);
    install.env("CARGO_TARGET_DIR", build.directory.join("target"));
    build.step(install.env("CARGO_PROFILE_DEV_DEBUG", "0").env_remove("RUSTFLAGS"))
}
