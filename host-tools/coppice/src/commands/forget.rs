//! `coppice forget`: has nodes give back what they hold of programs, and the files that they keep.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use coppice_api::limits::HASH_DIGITS_MIN;
use coppice_api::path::bytes;
use coppice_api::retain::{ForgetOrder, Forgotten};
use coppice_api::{ApiError, ByteString, Client, counted};

use crate::arguments::Forget;
use crate::run::program;
use crate::show::{print, print_json};
use crate::units::{show_bytes, show_ranges};

/// Digits of a whole hash.
const HASH_DIGITS_MAX: usize = 64;

/// Bytes of a program read at a time.
const READ_BYTES: usize = 64 * 1024;

/// Status of a refusal: there is no such program.
const NOT_FOUND: u16 = 404;

pub(crate) async fn forget(client: &Client, forget: &Forget) -> anyhow::Result<()> {
    let forgotten = match forget.program.as_deref().map(meant).transpose()? {
        None => order(client, None).await?,
        Some(Meant::Hash(digits)) => order(client, Some(digits.into())).await?,
        Some(Meant::File(path)) => forget_file(client, &path).await?,
    };
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

async fn order(client: &Client, program: Option<ByteString>) -> Result<Forgotten, ApiError> {
    client.forget(&ForgetOrder { program }).await
}

/// The program that was last run from a file, which may have been built anew since. If none was, the one that is in it:
/// it may have been run from elsewhere.
async fn forget_file(client: &Client, path: &Path) -> anyhow::Result<Forgotten> {
    match order(client, Some(bytes(path))).await {
        Err(refused @ ApiError::Refused { status: NOT_FOUND, .. }) => match hash(path) {
            Ok(hash) => Ok(order(client, Some(hash.into())).await?),
            Err(_) => Err(refused.into()),
        },
        answered => Ok(answered?),
    }
}

/// The hash of a file's bytes, hexadecimal.
fn hash(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut hasher = blake3::Hasher::new();
    let mut bytes = vec![0; READ_BYTES];
    loop {
        let count = file.read(&mut bytes)?;
        match bytes.get(..count) {
            Some(piece) if !piece.is_empty() => hasher.update(piece),
            _ => return Ok(hasher.finalize().to_hex().to_string()),
        };
    }
}

/// Which program a user means.
#[derive(Debug, PartialEq, Eq)]
enum Meant {
    /// Digits its hash starts with.
    Hash(String),
    /// The absolute path of its file, found as `run` finds it.
    File(PathBuf),
}

fn meant(program: &OsStr) -> anyhow::Result<Meant> {
    let digits = HASH_DIGITS_MIN..=HASH_DIGITS_MAX;
    let is_hash = |text: &&str| digits.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if let Some(text) = program.to_str().filter(is_hash) {
        return Ok(Meant::Hash(text.to_ascii_lowercase()));
    }
    let path = program::find(Path::new(program)).with_context(|| "give a program's file or the digits of its hash")?;
    Ok(Meant::File(path))
}

/// What nodes gave back; nothing if that cannot be said because some did not answer.
fn told(forgotten: &Forgotten) -> Option<String> {
    if forgotten.nodes > 0 {
        let (nodes, pages) = (counted(forgotten.nodes, "node"), counted(forgotten.pages, "page"));
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
    use super::{Forgotten, Meant, READ_BYTES, hash, silence, told};

    fn meant(text: &str) -> anyhow::Result<Meant> {
        super::meant(text.as_ref())
    }

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
        assert_eq!(meant("5F3a92c01b7e").expect("digits"), Meant::Hash("5f3a92c01b7e".into()));
        let here = std::env::current_dir().expect("a directory").join("cafe");
        assert_eq!(meant("./cafe").expect("a file"), Meant::File(here));
        assert_eq!(meant("/bin/hello").expect("a file"), Meant::File("/bin/hello".into()));
        let too_long = "0".repeat(65);
        for bad in ["", "caf", "no-such-program", &too_long] {
            let line = format!("{:#}", meant(bad).expect_err(bad));
            assert!(line.starts_with("give a program's file or the digits of its hash: "), "{line}");
        }
    }

    #[test]
    fn a_file_is_known_by_its_bytes() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("program");
        let bytes = vec![7; READ_BYTES + 1];
        std::fs::write(&path, &bytes).expect("file");
        assert_eq!(hash(&path).expect("readable"), blake3::hash(&bytes).to_hex().as_str());
        assert!(hash(directory.path()).is_err() && hash(&directory.path().join("none")).is_err());
    }
}
