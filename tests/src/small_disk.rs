//! A small file system of its own for a test to fill: a tmpfs, mounted where nobody else sees it.
//!
//! A process holds the mount, in a mount namespace of its own. Commands are run in there, and the test reaches the
//! files through that process's root in `/proc`. Whatever becomes of the test, the mount ends with its last process.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The mount, as long as this lives.
pub struct SmallDisk {
    holder: Child,
    path: PathBuf,
}

impl SmallDisk {
    /// Mounts one of so many KiB over a directory. `None`: this machine does not let its users mount anything, not even
    /// for themselves.
    ///
    /// # Panics
    /// If there is no `unshare`.
    #[must_use]
    pub fn mount(directory: &Path, kib: u64) -> Option<Self> {
        let script = "mount -t tmpfs -o mode=700,size=\"$1\"k tmpfs \"$0\" && echo mounted && exec cat";
        let holder = Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
            .args([directory.as_os_str(), kib.to_string().as_ref()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let holder = holder.expect("unshare, of util-linux");
        let path = PathBuf::from(format!("/proc/{}/root", holder.id()));
        let mut disk = Self { path: path.join(directory.strip_prefix("/").unwrap_or(directory)), holder };
        let mut line = String::new();
        let _ = BufReader::new(disk.holder.stdout.take()?).read_line(&mut line);
        // Some systems let mount what they then do not let use.
        (line == "mounted\n" && File::create(disk.path.join("usable")).is_ok()).then_some(disk)
    }

    /// Where its files are for who is not in there.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A command that sees it, run where this process is.
    #[must_use]
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        let target = format!("--target={}", self.holder.id());
        command.args([&*target, "--user", "--mount", "--preserve-credentials", "--wd=."]).arg(program);
        command
    }

    /// Leaves no byte free, until what this returns is removed.
    ///
    /// # Panics
    /// If it does not get full.
    #[must_use]
    pub fn fill(&self) -> PathBuf {
        let path = self.path.join("filler");
        let mut file = OpenOptions::new().create(true).append(true).open(&path).expect("a file on the small disk");
        for size in [65536, 4096, 1] {
            let full = (0..1 << 20).find_map(|_| file.write_all(&vec![b'x'; size]).err()).expect("a small disk");
            assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
        }
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
