//! The table in `docs/linux.md`, and that it says what [`CALLS`] says.

extern crate std;

use alloc::format;
use alloc::string::{String, ToString};
use std::path::{Path, PathBuf};

use super::{CALLS, Interruption, Place, SystemCall};

/// Around the table in the document.
const BEGIN: &str = "<!-- Made by `cargo xtask linux-table`. -->\n";
const END: &str = "<!-- The end of what is made. -->\n";

/// Set by whoever wants the document written anew.
const WRITE: &str = "COPPICE_WRITE_LINUX_TABLE";

fn row(call: &SystemCall) -> String {
    let (there, how) = match (call.place, call.how_far) {
        (Place::Refused(errno), _) => ("no", format!("`{errno}`")),
        (Place::Absent, _) => ("no", "`ENOSYS`, counted".to_string()),
        (_, Some(how)) => ("partly", how.to_string()),
        (_, None) => ("yes", String::new()),
    };
    let made = match call.place {
        Place::Fact | Place::AtOnce | Place::Registers | Place::Memory | Place::Thread => "at once",
        Place::Tried => "at once or waits",
        Place::Node => "in the node",
        Place::Shipped => "in the node or shipped",
        Place::Refused(_) | Place::Absent => "",
    };
    let signal = match call.interruption {
        Interruption::Waits => "",
        Interruption::Fails => "`EINTR`",
        Interruption::Restarts => "`SA_RESTART`",
        Interruption::RestartsUntimed => "`SA_RESTART`, `EINTR` with a time limit",
    };
    let SystemCall { number, name, .. } = call;
    format!("| {number} | {name} | {there} | {how} | {made} | {signal} |\n")
}

fn table() -> String {
    let head = "| number | call | there | how far, or what is answered | made | a signal |\n\
                | --- | --- | --- | --- | --- | --- |\n";
    CALLS.iter().map(row).fold(head.to_string(), |all, row| all + &row)
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/linux.md")
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
