//! `cargo xtask sqlite-suite`: SQLite's own tests of its database, in files on the host, by a program on a node; and
//! the same on this host. Their program is SQLite and a Tcl that runs their scripts, built statically from Debian's
//! sources.
//!
//! What fails on the node must fail here, and nothing else: several want a user who is not root, or what this build
//! has not. `tests/guests/sqlite/tests.txt` names those that are run: they start no second program, which a node does
//! not have.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::bench::cluster::Cluster;
use crate::build::everything;
use crate::command::command;
use crate::debian::Source;
use crate::recipe::{Build, Recipe};
use crate::setup;

/// Where it comes from.
const SOURCE: Source =
    Source { title: "SQLite", package: "sqlite3", version: "3.40.1", packed: "tar.xz", patched: false };

/// What it is configured with: Debian's Tcl, and nothing that is loaded.
const OPTIONS: [&str; 4] =
    ["--disable-shared", "--disable-readline", "--disable-load-extension", "--with-tcl=/usr/lib/tcl8.6"];

/// The scripts of that Tcl, which it looks for when it begins.
const TCL: &str = "/usr/share/tcltk/tcl8.6";

/// The tests, by the names of their scripts.
const TESTS: &str = include_str!("../../tests/guests/sqlite/tests.txt");

/// Memory of the node.
const MEMORY: &str = "512M";

/// How long a script may take, s.
const SECONDS: &str = "600";

/// What to run.
#[derive(Args)]
pub(crate) struct Options {
    /// Only scripts whose name contains this
    filter: Option<String>,
    /// Make every call on files at the I/O node
    #[arg(long)]
    strict: bool,
}

/// What a script said.
#[derive(PartialEq, Eq)]
struct Said {
    /// Tests that were made, and those of them that failed.
    made: Option<u64>,
    failed: Vec<String>,
}

/// Builds, runs and prints.
///
/// # Errors
/// If a script ends otherwise than on this host.
pub(crate) fn run(options: &Options) -> Result<()> {
    setup::for_sqlite()?;
    let prefix = ready()?;
    let (program, root) = (prefix.join("testfixture"), prefix.join("root"));
    let cluster = Cluster::up(&everything()?, &["--nodes", "1", "--memory", MEMORY])?;
    let scripts = TESTS.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace);
    let wanted = |name: &&str| options.filter.as_ref().is_none_or(|filter| name.contains(filter.as_str()));
    let (mut scripts_run, mut made, mut others) = (0, 0, Vec::new());
    for name in scripts.filter(wanted) {
        let script = format!("test/{name}.test");
        let here = native(&program, &root, &script)?;
        let begun = Instant::now();
        let io = if options.strict { "strict" } else { "leased" };
        let mut there = cluster.command(&["run", "--quiet", "--timeout", SECONDS, "--io", io, "--root"]);
        there.arg(&root).args(["--env", "TCL_LIBRARY=/tcl"]).arg(&program).arg(&script);
        let there = said(&mut there)?;
        let seconds = begun.elapsed().as_secs_f64();
        let count = there.made.map_or("no".into(), |made| made.to_string());
        let failed = there.failed.len();
        scripts_run += 1;
        // One that says nothing anywhere has shown nothing.
        if there == here && here.made.is_some() {
            println!("alike   {seconds:6.1} s  {name}: {count} tests, {failed} fail in both places");
        } else {
            println!("UNLIKE  {seconds:6.1} s  {name}: {count} tests; fail: {}", there.failed.join(" "));
            println!("                  on this host: {:?} tests; fail: {}", here.made, here.failed.join(" "));
            others.push(name);
        }
        made += there.made.unwrap_or_default();
    }
    ensure!(scripts_run > 0, "no script matches");
    println!("{made} tests on the node");
    if !others.is_empty() {
        bail!("not as on this host: {}", others.join(", "));
    }
    Ok(())
}

/// Has the program built, and the directory that is its root made, unless they are there.
fn ready() -> Result<PathBuf> {
    let from = vec![SOURCE.version.into(), OPTIONS.join(" "), TCL.into()];
    let recipe = Recipe { title: format!("SQLite {} and its tests", SOURCE.version), places: &["sqlite-suite"], from };
    recipe.ready(build)
}

fn build(build: &Build) -> Result<()> {
    let source = build.unpack(&SOURCE)?;
    build.configure(&source, &OPTIONS)?;
    // The first word is libtool's.
    build.make(&source, &["testfixture", "LTLINK_EXTRAS=-all-static -s"])?;
    let root = build.prefix.join("root");
    let _ = std::fs::remove_dir_all(&build.prefix);
    std::fs::create_dir_all(&root).with_context(|| format!("cannot make {}", root.display()))?;
    std::fs::copy(source.join("testfixture"), build.prefix.join("testfixture")).context("no testfixture was built")?;
    for part in ["test", "ext"] {
        build.step(command("cp", &["-r"]).arg(source.join(part)).arg(&root))?;
    }
    build.step(command("cp", &["-rL", TCL]).arg(root.join("tcl")))
}

/// Runs a script on this host.
fn native(program: &Path, root: &Path, script: &str) -> Result<Said> {
    let mut limited = Command::new("timeout");
    limited.arg(SECONDS).arg(program).arg(script);
    said(limited.current_dir(root).env("TCL_LIBRARY", root.join("tcl")))
}

/// Runs it, and takes what it says.
fn said(run: &mut Command) -> Result<Said> {
    let output = run.stdin(std::process::Stdio::null()).output().context("cannot run SQLite's tests")?;
    Ok(Said::of(&String::from_utf8_lossy(&output.stdout)))
}

impl Said {
    /// Of lines such as `2 errors out of 84 tests on …` and `!Failures on these tests: a-1.2 a-1.3`.
    fn of(text: &str) -> Self {
        let mut lines = text.lines();
        let made = lines.find_map(|line| {
            let (errors, behind) = line.split_once(" errors out of ")?;
            errors.parse::<u64>().ok()?;
            behind.split_whitespace().next()?.parse().ok()
        });
        let failed = lines.find_map(|line| line.strip_prefix("!Failures on these tests: "));
        let failed = failed.into_iter().flat_map(str::split_whitespace).map(str::to_owned).collect();
        Self { made, failed }
    }
}

#[cfg(test)]
mod tests {
    use super::Said;

    #[test]
    fn what_failed_is_found_in_what_is_said() {
        let text = "delete-8.6... Ok\n2 errors out of 67 tests on vm Linux 64-bit little-endian\n\
                    !Failures on these tests: delete-8.1 delete-8.2\nAll memory allocations freed - no leaks\n";
        let said = Said::of(text);
        assert_eq!((said.made, said.failed), (Some(67), vec!["delete-8.1".into(), "delete-8.2".into()]));
        let said = Said::of("0 errors out of 5 tests on x\nAll memory freed\n");
        assert_eq!((said.made, said.failed.len()), (Some(5), 0));
        assert_eq!(Said::of("couldn't fork child process: out of memory").made, None);
    }
}
