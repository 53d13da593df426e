//! The floors of the kernel's core: which of its modules each may use. None uses one that stands above it.
//!
//! Looked at is code alone: not comments, and nothing that only tests see (`tests`, `testing` and `models`, and modules
//! in a file from `#[cfg(test)]` on), which may use whatever they need.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};

use crate::command::root;

/// Where the modules are.
const SOURCES: &str = "kernel/core/src";

/// The modules from the ground up, and which each may use (ARCHITECTURE.md, "The floors of the kernel's core").
const FLOORS: &[(&str, &[&str])] = &[
    ("errno", &[]),
    ("limits", &[]),
    ("sync", &[]),
    ("abi", &["errno"]),
    ("random", &["sync"]),
    ("quota", &["errno", "limits", "sync"]),
    ("executor", &["limits", "quota", "sync"]),
    ("clock", &["executor"]),
    ("ras", &["executor", "sync"]),
    ("memory", &["errno", "executor", "limits", "quota", "sync"]),
    ("net", &["executor", "limits", "quota", "random", "sync"]),
    ("ship", &["errno", "executor", "limits", "net", "ras", "sync"]),
    ("agent", &["clock", "executor", "limits", "net", "ras", "ship", "sync"]),
    ("files", &["abi", "clock", "errno", "executor", "limits", "memory", "net", "quota", "random", "ship", "sync"]),
    ("pmi", &["agent", "errno", "executor", "files", "limits", "net", "quota", "sync"]),
    ("staging", &["errno", "executor", "files", "limits", "memory", "net", "quota", "random", "ras", "sync"]),
    ("region", &["errno", "executor", "limits", "quota"]),
    (
        "checkpoint",
        &["errno", "executor", "files", "limits", "memory", "net", "pmi", "quota", "region", "ship", "sync"],
    ),
    (
        "process",
        &[
            "abi",
            "checkpoint",
            "clock",
            "errno",
            "executor",
            "files",
            "limits",
            "memory",
            "net",
            "quota",
            "ras",
            "region",
            "ship",
            "staging",
            "sync",
        ],
    ),
    (
        "syscall",
        &["abi", "clock", "errno", "executor", "files", "limits", "memory", "process", "quota", "random", "ship"],
    ),
    ("thread", &["abi", "clock", "errno", "executor", "memory", "process", "quota", "syscall"]),
    (
        "overlay",
        &["clock", "errno", "executor", "limits", "memory", "net", "process", "quota", "region", "staging", "sync"],
    ),
    (
        "launch",
        &[
            "abi",
            "agent",
            "checkpoint",
            "clock",
            "errno",
            "executor",
            "files",
            "limits",
            "memory",
            "net",
            "overlay",
            "pmi",
            "process",
            "quota",
            "random",
            "ras",
            "ship",
            "staging",
            "sync",
            "thread",
        ],
    ),
    (
        "start",
        &[
            "agent", "clock", "executor", "launch", "limits", "memory", "net", "overlay", "pmi", "process", "quota",
            "random", "ras", "region", "ship", "staging",
        ],
    ),
];

/// Complaints about modules that use what they may not.
///
/// # Errors
/// The sources cannot be read.
pub(super) fn complaints<'a>(files: impl Iterator<Item = &'a str>) -> Result<Vec<String>> {
    let mut complaints = Vec::new();
    for name in files {
        let Some(inside) = name.strip_prefix(SOURCES).and_then(|name| name.strip_prefix('/')) else { continue };
        // A file that was deleted and not yet committed as such.
        let path = root().join(name);
        if !path.exists() || is_for_tests(Path::new(inside)) {
            continue;
        }
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {name}"))?;
        complaints.extend(of_file(inside, &text).into_iter().map(|what| format!("{name}{what}")));
    }
    Ok(complaints)
}

/// Whether only tests see a file.
fn is_for_tests(inside: &Path) -> bool {
    let names = inside.components().filter_map(|part| Path::new(part.as_os_str()).file_stem()?.to_str());
    names.into_iter().any(|name| matches!(name, "tests" | "testing" | "models"))
}

/// Complaints about one file, by its path in the sources, each starting with where in it.
fn of_file(inside: &str, text: &str) -> Vec<String> {
    let path: Vec<&str> = inside.trim_end_matches(".rs").split('/').filter(|part| *part != "mod").collect();
    let (Some(module), depth) = (path.first(), path.len()) else { return Vec::new() };
    if *module == "lib" {
        return Vec::new();
    }
    let Some((_, may)) = FLOORS.iter().find(|(name, _)| name == module) else {
        return vec![format!(": module {module} has no entry in xtask's table of floors")];
    };
    let code = code(text);
    let mut complaints = Vec::new();
    for (at, used) in uses(&code, depth) {
        let is_module = FLOORS.iter().any(|(name, _)| *name == used);
        if is_module && used != *module && !may.contains(&used) {
            let line = 1 + code[..at].matches('\n').count();
            complaints.push(format!(":{line}: module {module} must not use {used}"));
        }
    }
    complaints
}

/// The code without comments and without what follows where tests begin.
fn code(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let begins = |window: &[&str]| window[0].starts_with("#[cfg(test)]") && window[1].ends_with("mod tests {");
    let end = lines.windows(2).position(begins).unwrap_or(lines.len());
    let bare = |line: &&str| line.split("//").next().unwrap_or_default().to_owned() + "\n";
    lines[..end].iter().map(bare).collect()
}

/// The modules that paths in the code begin with, where they do: behind `crate::`, or behind as many `super::` as lead
/// out of a module `depth` deep.
fn uses(code: &str, depth: usize) -> Vec<(usize, &str)> {
    let out = "super::".repeat(depth);
    let from = |prefix: &str| -> Vec<(usize, &str)> {
        code.match_indices(prefix)
            .flat_map(|(at, _)| firsts(&code[at + prefix.len()..]).map(move |name| (at, name)))
            .collect()
    };
    let mut found = from("crate::");
    found.extend(from(&out));
    found
}

/// The names that a path goes on with: one, or those of a group in braces.
fn firsts(rest: &str) -> impl Iterator<Item = &str> {
    let group = rest.strip_prefix('{');
    let (mut nested, mut names) = (0, BTreeSet::new());
    let Some(group) = group else {
        names.insert(ident(rest));
        return names.into_iter();
    };
    let mut is_first = true;
    for (at, character) in group.char_indices() {
        match character {
            '{' => nested += 1,
            '}' if nested == 0 => break,
            '}' => nested -= 1,
            ',' if nested == 0 => is_first = true,
            _ if is_first && !character.is_whitespace() => {
                names.insert(ident(&group[at..]));
                is_first = false;
            }
            _ => {}
        }
    }
    names.into_iter()
}

/// The identifier that a text begins with.
fn ident(text: &str) -> &str {
    let end = text.find(|character: char| !character.is_alphanumeric() && character != '_').unwrap_or(text.len());
    &text[..end]
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{FLOORS, is_for_tests, of_file};

    #[test]
    fn nobody_uses_who_stands_above() {
        for (floor, (module, may)) in FLOORS.iter().enumerate() {
            for used in *may {
                assert!(FLOORS[..floor].iter().any(|(name, _)| name == used), "{module} on {used}");
            }
        }
    }

    #[test]
    fn whoever_looks_up_is_named() {
        let says = |name, text: &str| of_file(name, text).len();
        assert_eq!(
            of_file("files/pipe.rs", "//! A.\n\nuse crate::process::Process;\n"),
            [":3: module files must not use process"]
        );
        assert_eq!(says("process/state.rs", "use crate::syscall;\n"), 1);
        assert_eq!(says("process.rs", "fn f() { crate::syscall::g(crate::pmi::h()) }\n"), 2);
        assert_eq!(
            says("files/pipe.rs", "use crate::{\n    process::{Process, pmi},\n    pmi, errno::Errno,\n};\n"),
            2
        );
        assert_eq!(says("files.rs", "use super::process::Process;\n"), 1);
        assert_eq!(says("files/special/text.rs", "use super::super::super::pmi;\n"), 1);
        assert_eq!(says("memory/mod.rs", "use super::files;\n"), 1);
        assert_eq!(says("abi/time.rs", "use crate::executor;\n"), 1);
        assert_eq!(says("elsewhere.rs", ""), 1);
    }

    #[test]
    fn whoever_looks_down_or_tests_is_not() {
        let says = |name, text: &str| of_file(name, text).len();
        assert_eq!(says("thread.rs", "use crate::process::Process;\nuse crate::syscall;\n"), 0);
        assert_eq!(
            says("files/pipe.rs", "//! As [`crate::process`] has it.\nuse super::special;\nuse crate::files::flags;\n"),
            0
        );
        assert_eq!(
            says(
                "files/pipe.rs",
                "fn f() {} // crate::process\n#[cfg(test)]\nmod tests {\n    use crate::process;\n}\n"
            ),
            0
        );
        assert!(
            is_for_tests(Path::new("process/testing/world.rs")) && is_for_tests(Path::new("files/poller/models.rs"))
        );
        assert!(!is_for_tests(Path::new("process/special/texts.rs")));
    }
}
