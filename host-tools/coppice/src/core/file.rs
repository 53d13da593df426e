//! A file that has no name until it is whole: whoever is interrupted leaves nothing behind.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};

/// See this module.
#[derive(Debug)]
pub(crate) struct CoreFile {
    file: File,
    directory: PathBuf,
    /// Where it is to be.
    path: PathBuf,
}

impl CoreFile {
    /// One that is to be at `path`, where its directory is. Only its user may read it: it is a program's memory.
    pub(crate) fn new(path: &Path) -> io::Result<Self> {
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = rustix::fs::open(&directory, flags, Mode::RUSR | Mode::WUSR)?;
        Ok(Self { file: file.into(), directory, path: path.to_owned() })
    }

    /// Puts bytes where they belong. What is never written is zeros.
    pub(crate) fn put(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, at)
    }

    /// It is whole, and so long: gives it its name, which another file may have had.
    pub(crate) fn finish(self, length: u64) -> io::Result<()> {
        use std::os::fd::AsRawFd;
        self.file.set_len(length)?;
        let nameless = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        // A link does not take another's place; a renamed one does.
        let name = format!(".{}.{}.new", self.path.file_name().unwrap_or_default().display(), std::process::id());
        let interim = self.directory.join(name);
        rustix::fs::linkat(CWD, nameless.as_str(), CWD, &interim, AtFlags::SYMLINK_FOLLOW)?;
        std::fs::rename(&interim, &self.path).inspect_err(|_| drop(std::fs::remove_file(&interim)))
    }
}

#[cfg(test)]
mod tests {
    use super::CoreFile;

    fn names(directory: &std::path::Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).expect("a directory");
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn it_is_there_when_it_is_whole_and_takes_the_place_of_another() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("core");
        let file = CoreFile::new(&path).expect("a file");
        file.put(b"end", 5000).expect("room");
        drop(file);
        assert!(names(directory.path()).is_empty());
        std::fs::write(&path, b"another").expect("a file");
        let file = CoreFile::new(&path).expect("a file");
        file.put(b"end", 5000).expect("room");
        file.finish(6000).expect("a name");
        let bytes = std::fs::read(&path).expect("a file");
        assert_eq!((bytes.len(), &bytes[4998..5004]), (6000, &b"\0\0end\0"[..]));
        assert_eq!(names(directory.path()), ["core"]);
        assert!(CoreFile::new(&directory.path().join("none/core")).is_err());
    }
}
