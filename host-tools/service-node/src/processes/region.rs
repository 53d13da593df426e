//! The file of a node's region ([`coppice_protocol::region`]), before a machine is booted with it.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use coppice_api::shown;
use coppice_protocol::region::BLOCK_BYTES;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use crate::store::plain;

/// Makes sure that there is a file of this length, the user's alone. What is in it stays, but of one of another length,
/// as what lies where in a region depends on that: such a one is emptied. Room on the disk is
/// taken for the headers alone.
pub(super) fn prepare(path: &Path, bytes: u64) -> Result<(), String> {
    let prepare = || -> io::Result<()> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(io::Error::other("it is no file"));
        }
        if found.len() != bytes {
            file.set_len(0)?;
            file.set_len(bytes)?;
        }
        // Reading a page that is not there yet ends a machine if there is none to be had, as on a full tmpfs.
        match fallocate(&file, FallocateFlags::empty(), 0, BLOCK_BYTES.min(bytes)) {
            Err(Errno::OPNOTSUPP) => Ok(()),
            allocated => Ok(allocated?),
        }
    };
    prepare().map_err(|error| format!("cannot make the node's region, {}: {}", shown(path), plain(&error)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use super::{BLOCK_BYTES, prepare};

    #[test]
    fn what_is_in_a_region_stays_unless_its_length_is_another() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("3");
        let begins = |bytes: &[u8]| fs::read(&path).expect("a file").starts_with(bytes);
        prepare(&path, 4 << 20).expect("made");
        let made = fs::metadata(&path).expect("a file");
        assert_eq!((made.len(), made.mode() & 0o777), (4 << 20, 0o600));
        assert!(made.blocks() * 512 <= 2 * BLOCK_BYTES, "{} blocks", made.blocks());
        let mut kept = vec![0; 4 << 20];
        kept[..4].copy_from_slice(b"kept");
        fs::write(&path, &kept).expect("written");
        prepare(&path, 4 << 20).expect("there");
        assert!(begins(b"kept"));
        for bytes in [6 << 20, 2 << 20] {
            prepare(&path, bytes).expect("made anew");
            assert_eq!(fs::metadata(&path).expect("a file").len(), bytes);
            assert!(begins(&[0; 4]));
            fs::write(&path, b"other").expect("written");
        }
    }

    #[test]
    fn what_cannot_be_a_region_is_said_in_a_line() {
        let directory = tempfile::tempdir().expect("directory");
        let is_a_line = |path: &std::path::Path, why: &str| {
            let said = prepare(path, 2 << 20).expect_err("none");
            assert!(said.starts_with("cannot make the node's region, ") && said.ends_with(why), "{said}");
            assert!(!said.contains('\n'));
        };
        is_a_line(directory.path(), "Is a directory");
        is_a_line("/dev/null".as_ref(), "it is no file");
        is_a_line(&directory.path().join("a\n/b"), "No such file or directory");
    }
}
