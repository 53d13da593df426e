//! `coppice forget`: has nodes give back what they hold of programs.

use std::path::Path;

use anyhow::{Context, anyhow, bail};
use coppice_api::Client;
use coppice_api::retain::{ForgetOrder, Forgotten};

use crate::arguments::Forget;
use crate::run::program;
use crate::show::{print, print_json};
use crate::units::{counted, show_bytes, show_ranges};

/// Digits of a whole hash.
const HASH_DIGITS_MAX: usize = 64;

pub(crate) async fn forget(client: &Client, forget: &Forget) -> anyhow::Result<()> {
    let program = forget.program.as_deref().map(meant).transpose()?;
    let forgotten = client.forget(&ForgetOrder { program }).await?;
    if forget.listing.json {
        print_json(&forgotten)?;
    } else if let Some(line) = told(&forgotten) {
        print(&format!("{line}\n"))?;
    }
    match silence(&forgotten.silent) {
        Some(line) => bail!(line),
        None => Ok(()),
    }
}

/// The program as the service node knows it: digits of a hash as they are, a file by its absolute path, found as `run`
/// finds it.
fn meant(text: &str) -> anyhow::Result<String> {
    let is_hash = (1..=HASH_DIGITS_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hash {
        return Ok(text.to_ascii_lowercase());
    }
    let path = program::find(Path::new(text)).with_context(|| "give a program's file or the digits of its hash")?;
    path.into_os_string().into_string().map_err(|path| anyhow!("{} is not UTF-8", Path::new(&path).display()))
}

/// What nodes gave back; nothing if that cannot be said because some did not answer.
fn told(forgotten: &Forgotten) -> Option<String> {
    if forgotten.nodes > 0 {
        let (nodes, pages) = (counted(forgotten.nodes.into(), "node"), counted(forgotten.pages, "page"));
        return Some(format!("{nodes} gave back {pages} ({})", show_bytes(forgotten.bytes)));
    }
    forgotten.silent.is_empty().then(|| "no node held anything".to_owned())
}

/// Which nodes did not answer.
fn silence(silent: &[u32]) -> Option<String> {
    let nodes = show_ranges(silent);
    match silent.len() {
        0 => None,
        1 => Some(format!(
            "node {nodes} did not answer and may still hold pages; try again, or `coppice reboot {nodes}`"
        )),
        _ => {
            Some(format!("nodes {nodes} did not answer and may still hold pages; try again, or `coppice reboot` them"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Forgotten, meant, silence, told};

    #[test]
    fn what_was_given_back_is_told_in_one_line() {
        let cases = [
            (2, 384, 1_572_864, vec![], Some("2 nodes gave back 384 pages (1.5 MiB)")),
            (1, 1, 8192, vec![], Some("1 node gave back 1 page (8.0 KiB)")),
            (1, 2, 8192, vec![3], Some("1 node gave back 2 pages (8.0 KiB)")),
            (0, 0, 0, vec![], Some("no node held anything")),
            (0, 0, 0, vec![3], None),
        ];
        for (nodes, pages, bytes, silent, line) in cases {
            let forgotten = Forgotten { nodes, pages, bytes, silent, round_trip_ns: 1 };
            assert_eq!(told(&forgotten).as_deref(), line);
        }
    }

    #[test]
    fn silent_nodes_are_named() {
        assert_eq!(silence(&[]), None);
        let line = silence(&[5]).expect("a line");
        assert!(line.starts_with("node 5 did not answer") && line.contains("`coppice reboot 5`"), "{line}");
        let line = silence(&[5, 4, 9]).expect("a line");
        assert!(line.starts_with("nodes 4-5,9 did not answer") && !line.contains('\n'), "{line}");
    }

    #[test]
    fn programs_are_meant_by_hash_or_file() {
        assert_eq!(meant("5F3a92c01b7e").expect("digits"), "5f3a92c01b7e");
        let here = std::env::current_dir().expect("a directory").join("cafe");
        assert_eq!(meant("./cafe").expect("a file"), here.to_str().expect("UTF-8"));
        assert_eq!(meant("/bin/hello").expect("a file"), "/bin/hello");
        let too_long = "0".repeat(65);
        for bad in ["", "no-such-program", &too_long] {
            let line = format!("{:#}", meant(bad).expect_err(bad));
            assert!(line.starts_with("give a program's file or the digits of its hash: "), "{line}");
        }
    }
}
