//! `cargo xtask demo`: what a newcomer sees first. Boots four nodes, runs a real program on them, shows what happened.

use std::path::Path;

use anyhow::{Context, Result};

use crate::command::run;
use crate::guard::Guard;
use crate::{build, setup};

/// The cluster the demo uses, so that it does not meet one that the user has up.
const CLUSTER: &str = "demo";

/// The program: Debian's busybox, a static Linux binary that nobody adapted.
const PROGRAM: &str = "/bin/busybox";

/// Boots, runs, shows, and takes everything down again whatever happened.
///
/// # Errors
/// If something is missing that cannot be installed, or a step failed.
fn show(coppice: &Path) -> Result<()> {
    let files = tempfile::tempdir().context("cannot make a directory for the demo's files")?;
    let text: String = (1..=20_000).map(|line| format!("line {line} of a file on the host\n")).collect();
    std::fs::write(files.path().join("input.txt"), text)?;
    let tool = |arguments: &[&str]| {
        let mut command = std::process::Command::new(coppice);
        command.args(["--cluster", CLUSTER]).args(arguments).current_dir(files.path());
        command
    };

    // However this ends.
    let guard = Guard::new(&tool(&["down"]), files.path())?;
    eprintln!("\n-- boot four compute nodes");
    run(&mut tool(&["up", "--nodes", "4"]))?;
    let shown = (|| {
        eprintln!("\n-- an unmodified static Linux program on all four, reading a file of the host");
        run(&mut tool(&["run", "-n", "4", "--label", PROGRAM, "sha256sum", "/input.txt"]))?;
        eprintln!("\n-- the same on the host");
        run(std::process::Command::new(PROGRAM).args(["sha256sum", "input.txt"]).current_dir(files.path()))?;
        eprintln!("\n-- it writes files, too");
        run(&mut tool(&["run", PROGRAM, "sort", "-r", "-o", "/sorted.txt", "/input.txt"]))?;
        run(&mut tool(&["run", PROGRAM, "ls", "-l", "/"]))?;
        eprintln!("\n-- what the cluster remembers");
        run(&mut tool(&["nodes"]))?;
        run(&mut tool(&["jobs"]))
    })();
    eprintln!("\n-- and down again");
    let ended = run(&mut tool(&["down"]));
    drop(guard);
    shown.and(ended)
}

/// Sets up, builds and shows.
///
/// # Errors
/// As [`show`].
pub(crate) fn run_all() -> Result<()> {
    setup::for_run()?;
    let built = build::everything()?;
    show(&built.coppice)?;
    eprintln!("\nNow try it yourself: {} --help", built.coppice.display());
    Ok(())
}
