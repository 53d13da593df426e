//! What a reader relies on and the compiler does not check: formatting, lints, dependency arrows, [floors], where
//! `unsafe` lives, file sizes; and that the faults of [`mutants`] can still be put back.

mod floors;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::build::{self, NODE_TARGET};
use crate::command::{cargo, command, output, root, run as execute};
use crate::{figures, mutants};

/// Longest source file, lines.
const FILE_LINES_MAX: usize = 500;

/// Longest line, characters.
const LINE_CHARACTERS_MAX: usize = 120;

/// What opens unsafe code. (In pieces, so that these lines do not complain of themselves.)
const UNSAFE: [&str; 3] = [concat!("un", "safe {"), concat!("un", "safe fn"), concat!("un", "safe impl")];

/// What nobody commits.
const UNFINISHED: [&str; 3] = [concat!("to", "do!("), concat!("un", "implemented!("), concat!("d", "bg!(")];

/// Which of our crates each of our crates may depend on (ARCHITECTURE.md, "Dependencies").
const ARROWS: &[(&str, &[&str])] = &[
    ("coppice-protocol", &[]),
    ("coppice-endpoint", &["coppice-protocol"]),
    ("coppice-fuzz", &["coppice-protocol"]),
    ("coppice-hal", &[]),
    ("coppice-core", &["coppice-protocol", "coppice-endpoint", "coppice-hal"]),
    ("coppice-kernel", &["coppice-core", "coppice-hal"]),
    ("coppice-boot", &[]),
    ("coppice-qemu", &[]),
    ("coppice-fabric", &["coppice-protocol"]),
    ("coppice-api", &["coppice-protocol"]),
    ("coppice-explain", &["coppice-api"]),
    ("coppice-storage", &["coppice-protocol"]),
    ("coppice-symbols", &["coppice-protocol"]),
    ("coppice-io-node", &["coppice-protocol", "coppice-endpoint", "coppice-fabric", "coppice-storage"]),
    ("coppice-service-node", &["coppice-protocol", "coppice-api", "coppice-fabric", "coppice-qemu", "coppice-storage"]),
    ("coppice-dashboard", &["coppice-api", "coppice-explain", "coppice-symbols"]),
    ("coppice", &["coppice-api", "coppice-dashboard", "coppice-explain", "coppice-qemu", "coppice-symbols"]),
    (
        "coppice-simulator",
        &[
            "coppice-protocol",
            "coppice-endpoint",
            "coppice-hal",
            "coppice-core",
            "coppice-api",
            "coppice-qemu",
            "coppice-io-node",
            "coppice-service-node",
            "coppice-storage",
        ],
    ),
    ("coppice-tests", &["coppice-protocol", "coppice-endpoint", "coppice-qemu", "coppice-api", "coppice-io-node"]),
    ("xtask", &["coppice-qemu"]),
];

/// Formatting, our own checks, then clippy for host and node code.
///
/// # Errors
/// Lists what is not as it should be.
pub(crate) fn run() -> Result<()> {
    let mut complaints = arrows()?;
    complaints.extend(sources()?);
    complaints.extend(mutants::complaints()?);
    complaints.extend(figures::complaints()?);
    if !complaints.is_empty() {
        bail!("tidy:\n  {}", complaints.join("\n  "));
    }
    execute(&mut cargo(&["fmt", "--all", "--check"]))?;
    let deny = ["--", "--deny", "warnings"];
    execute(
        cargo(&["clippy", "--quiet", "--workspace", "--all-targets"])
            .args(["--exclude", "coppice-kernel", "--exclude", "coppice-boot"])
            .args(deny),
    )?;
    let node = ["clippy", "--quiet", "--release", "--target", NODE_TARGET];
    execute(cargo(&node).args(["--package", "coppice-kernel"]).args(deny))?;
    // The loader embeds a kernel and looks into it when it is built.
    let kernel = build::kernel()?;
    execute(cargo(&node).args(["--package", "coppice-boot"]).args(deny).env("COPPICE_KERNEL_ELF", kernel))
}

/// Complaints about dependencies between our crates that [`ARROWS`] does not have.
fn arrows() -> Result<Vec<String>> {
    let text = output(&mut cargo(&["metadata", "--format-version", "1", "--no-deps"]))?;
    let metadata: Value = serde_json::from_str(&text).context("cargo metadata printed no JSON")?;
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.iter().copied().collect();
    let mut complaints = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        let Some(may) = allowed.get(name) else {
            complaints.push(format!("crate {name} has no entry in xtask's table of dependencies"));
            continue;
        };
        let ours = package["dependencies"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|dependency| dependency["kind"].is_null() && !dependency["path"].is_null())
            .filter_map(|dependency| dependency["name"].as_str());
        complaints.extend(
            ours.filter(|dependency| !may.contains(dependency))
                .map(|dependency| format!("crate {name} must not depend on {dependency}")),
        );
    }
    Ok(complaints)
}

/// Complaints about source files.
fn sources() -> Result<Vec<String>> {
    let listed = output(&mut command("git", &["ls-files", "--cached", "--others", "--exclude-standard", "*.rs"]))?;
    let mut complaints = floors::complaints(listed.lines())?;
    for name in listed.lines() {
        // A file that was deleted and not yet committed as such.
        let Ok(text) = std::fs::read_to_string(root().join(name)) else {
            continue;
        };
        if !is_reached(&root().join(name)) {
            complaints.push(format!("{name}: no module declares it"));
        }
        complaints.extend(source(Path::new(name), &text).into_iter().map(|what| format!("{name}{what}")));
    }
    Ok(complaints)
}

/// Whether the compiler ever sees a file: it is where a crate starts, or the module above declares it.
fn is_reached(path: &Path) -> bool {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let directory = path.parent().unwrap_or(Path::new(""));
    let starts_crates = ["tests", "benches", "examples", "rust"].iter().any(|name| directory.ends_with(name));
    if matches!(stem, "main" | "lib" | "build") || starts_crates && stem != "mod" {
        return true;
    }
    // `a/b.rs` is declared in `a.rs` or a file of `a`; `a/b/mod.rs` likewise, one further up.
    let (module, home) = if stem == "mod" {
        (directory.file_name().and_then(|name| name.to_str()).unwrap_or_default(), directory.parent())
    } else {
        (stem, Some(directory))
    };
    let home = home.unwrap_or(Path::new(""));
    let beside = std::fs::read_dir(home).into_iter().flatten().flatten().map(|entry| entry.path());
    beside
        .chain([home.with_extension("rs")])
        .filter(|parent| parent != path)
        .filter_map(|parent| std::fs::read_to_string(parent).ok())
        .any(|text| text.contains(&format!("mod {module};")))
}

/// Complaints about one source file, each starting with where in it.
fn source(name: &Path, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let lines = text.lines().count();
    if lines > FILE_LINES_MAX {
        complaints.push(format!(": {lines} lines; at most {FILE_LINES_MAX}"));
    }
    if !text.starts_with("//!") && !text.starts_with("#!") {
        complaints.push(": does not start with what the module is about (//!)".into());
    }
    let may_be_unsafe = name.starts_with("boot") || name.starts_with("kernel/hal") || name.starts_with("tests/guests");
    for (number, line) in text.lines().enumerate() {
        let at = number + 1;
        if line.chars().count() > LINE_CHARACTERS_MAX {
            complaints.push(format!(":{at}: longer than {LINE_CHARACTERS_MAX} characters"));
        }
        let code = line.split("//").next().unwrap_or_default();
        if !may_be_unsafe && UNSAFE.iter().any(|word| code.contains(word)) {
            complaints.push(format!(":{at}: unsafe code outside boot/ and kernel/hal"));
        }
        if UNFINISHED.iter().any(|word| code.contains(word)) {
            complaints.push(format!(":{at}: unfinished"));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::source;

    #[test]
    fn complains_about_what_it_should() {
        assert!(source(Path::new("a.rs"), "//! Fine.\nfn main() {}\n").is_empty());
        assert_eq!(source(Path::new("a.rs"), "fn main() {}\n").len(), 1);
        let block = format!("//! Fine.\nfn f() {{ {} {{}} }}\n", "unsafe");
        assert_eq!(source(Path::new("kernel/core/src/a.rs"), &block).len(), 1);
        assert!(source(Path::new("kernel/hal/src/a.rs"), &block).is_empty());
        assert_eq!(source(Path::new("a.rs"), &format!("//! {}\n", "x".repeat(120))).len(), 1);
        assert_eq!(source(Path::new("a.rs"), &format!("//! Long.\n{}", "\n".repeat(500))).len(), 1);
    }
}
