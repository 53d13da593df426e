//! Mounts of a test's own, which nobody else sees: a small disk to fill, a file system that does not answer.
//!
//! A shell holds them in a mount namespace of its own. Commands are run in there, and the test reaches the files
//! through that shell's root in `/proc`. Whatever becomes of the test, the mounts end with the last process in there.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;

/// A shell in a mount namespace of its own, as long as this lives.
pub struct Namespace {
    shell: Child,
    streams: Mutex<(ChildStdin, BufReader<ChildStdout>)>,
}

impl Namespace {
    /// A namespace with the mounts of this one.
    ///
    /// # Panics
    /// If util-linux is not there.
    #[must_use]
    pub fn new() -> Self {
        let shell = Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "sh"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut shell = shell.expect("unshare, of util-linux");
        let (input, output) = (shell.stdin.take().expect("piped"), shell.stdout.take().expect("piped"));
        Self { shell, streams: Mutex::new((input, BufReader::new(output))) }
    }

    /// Has the shell do something. False if it cannot, or is not there because this machine does not let its users have
    /// namespaces.
    fn does(&self, script: &str) -> bool {
        let (input, output) = &mut *self.streams.lock().expect("not poisoned");
        let mut line = String::new();
        let asked = writeln!(input, "if {script} >&2; then echo yes; else echo no; fi").and_then(|()| input.flush());
        asked.and_then(|()| output.read_line(&mut line)).is_ok() && line == "yes\n"
    }

    /// Mounts a disk of so many KiB over a directory. False if that cannot be done here.
    #[must_use]
    pub fn mount_small_disk(&self, directory: &Path, kib: u64) -> bool {
        let directory = directory.display();
        self.does(&format!("mount -t tmpfs -o mode=700,size={kib}k tmpfs {directory} && touch {directory}/usable"))
    }

    /// Has nothing written in a directory. False if that cannot be done here.
    #[must_use]
    pub fn make_read_only(&self, directory: &Path) -> bool {
        let directory = directory.display();
        self.does(&format!("mount --bind {directory} {directory} && mount -o remount,bind,ro {directory}"))
    }

    /// Lets a small disk have that many files and directories at most, itself included. False if it has more.
    #[must_use]
    pub fn limit_files(&self, directory: &Path, files: u64) -> bool {
        self.does(&format!("mount -o remount,nr_inodes={files} {}", directory.display()))
    }

    /// Mounts a file system over a directory that answers nothing, ever: one in user space whose server only listens.
    /// False if that cannot be done here.
    #[must_use]
    pub fn mount_dead(&self, directory: &Path) -> bool {
        let directory = directory.display();
        self.does(&format!(
            "exec 3<>/dev/fuse && mount -i -t fuse -o fd=3,rootmode=40000,user_id=0,group_id=0 dead {directory}"
        ))
    }

    /// Takes the last file system away that [`Self::mount_dead`] mounted: who waits for it has an error. False if that
    /// cannot be done.
    #[must_use]
    pub fn unmount_dead(&self, directory: &Path) -> bool {
        self.does(&format!("exec 3>&- && umount -l {}", directory.display()))
    }

    /// A command that sees the mounts, run where this process is.
    #[must_use]
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        let target = format!("--target={}", self.shell.id());
        command.args([&*target, "--user", "--mount", "--preserve-credentials", "--wd=."]).arg(program);
        command
    }

    /// Where a path of the namespace is for who is not in there.
    #[must_use]
    pub fn path(&self, path: &Path) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root", self.shell.id())).join(path.strip_prefix("/").unwrap_or(path))
    }
}

impl Default for Namespace {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

/// Leaves no byte free on the small disk under a directory, until the file that this returns is removed.
///
/// # Panics
/// If it does not get full.
#[must_use]
pub fn fill(directory: &Path) -> PathBuf {
    let path = directory.join("filler");
    let mut file = OpenOptions::new().create(true).append(true).open(&path).expect("a file on the small disk");
    for size in [65536, 4096, 1] {
        let full = (0..1 << 20).find_map(|_| file.write_all(&vec![b'x'; size]).err()).expect("a small disk");
        assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    }
    path
}
