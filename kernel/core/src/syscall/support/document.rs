//! The table in `docs/linux.md`, and that it says what the code says.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use std::path::{Path, PathBuf};

use super::{Support, TABLE};
use coppice_protocol::syscalls::name;

/// Highest number there is on Linux 6.10.
const NUMBER_MAX: i32 = 462;

/// Around the table in the document.
const BEGIN: &str = "<!-- Made by `cargo xtask linux-table`. -->\n";
const END: &str = "<!-- The end of what is made. -->\n";

/// Set by whoever wants the document written anew.
const WRITE: &str = "COPPICE_WRITE_LINUX_TABLE";

fn table() -> String {
    let known: BTreeMap<u32, Support> = TABLE.iter().copied().collect();
    let rows = (0..=NUMBER_MAX).filter_map(|number| Some((number, name(number)?))).map(|(number, name)| {
        let (there, how) = match known.get(&number.unsigned_abs()) {
            Some(Support::Whole) => ("yes", String::new()),
            Some(Support::Partly(how)) => ("partly", (*how).to_string()),
            Some(Support::Refused(errno)) => ("no", format!("`{errno:?}`")),
            None => ("no", "`ENOSYS`, counted".to_string()),
        };
        format!("| {number} | {name} | {there} | {how} |\n")
    });
    let head = "| number | call | there | how far, or what is answered |\n| --- | --- | --- | --- |\n";
    rows.fold(head.to_string(), |all, row| all + &row)
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/linux.md")
}

#[test]
fn the_document_says_what_the_code_says() {
    let text = std::fs::read_to_string(path()).expect("docs/linux.md");
    let (before, rest) = text.split_once(BEGIN).expect("the beginning of the table");
    let (written, after) = rest.split_once(END).expect("the end of the table");
    let made = format!("\n{}\n", table());
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(path(), format!("{before}{BEGIN}{made}{END}{after}")).expect("write docs/linux.md");
    } else {
        assert!(written == made, "docs/linux.md is not what the code says: cargo xtask linux-table");
    }
}

/// The names after `nr::` in a source.
fn named(source: &str) -> BTreeSet<&str> {
    let is_name = |byte: char| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == '_';
    source.split("nr::").skip(1).map(|rest| &rest[..rest.find(|byte| !is_name(byte)).unwrap_or(rest.len())]).collect()
}

#[test]
fn the_table_has_what_the_dispatch_answers_and_nothing_else() {
    let answered: BTreeSet<&str> = [include_str!("../../syscall.rs"), include_str!("../../process/thread.rs")]
        .into_iter()
        .flat_map(named)
        // Known to the thread as calls that libraries try and can do without.
        .filter(|name| !matches!(*name, "CLONE3" | "RSEQ"))
        .collect();
    let listed = named(include_str!("../support.rs"));
    assert_eq!(answered.difference(&listed).collect::<BTreeSet<_>>(), BTreeSet::new(), "not in the table");
    assert_eq!(listed.difference(&answered).collect::<BTreeSet<_>>(), BTreeSet::new(), "not answered");
    assert!(TABLE.is_sorted_by_key(|(number, _)| *number));
}
