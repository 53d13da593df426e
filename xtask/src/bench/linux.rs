//! The peer: Debian's Linux for virtual machines on the same QEMU machine, its init one of our measuring programs.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::command::{self, command, output, target};

/// Debian's package of the peer.
const PACKAGE: &str = "linux-image-cloud-amd64";

/// The peer's processor: it clears and copies by words, as our kernel does. With `erms` Linux moves single bytes, which
/// a real processor does many at a time, and each would count as an instruction.
const PROCESSOR: &str = "max,erms=off,fsrm=off";

/// A run of the peer.
pub(crate) struct Guest<'a> {
    /// Its file system: names, and the host's files to copy there. The one named `init` is started.
    pub(crate) files: &'a [(&'a str, &'a Path)],
    /// Arguments of `init`.
    pub(crate) arguments: &'a str,
    /// Memory of the machine, as QEMU has it.
    pub(crate) memory: &'a str,
    /// Its processors.
    pub(crate) cpus: &'a str,
    /// Its clock counts instructions (`-icount shift=0`). If not, each processor has a thread of the host.
    pub(crate) counted: bool,
}

impl<'a> Guest<'a> {
    /// A machine of one processor that counts instructions.
    pub(crate) fn of(files: &'a [(&'a str, &'a Path)]) -> Self {
        Self { files, arguments: "", memory: "128M", cpus: "1", counted: true }
    }
}

/// What the peer printed on its serial line.
///
/// # Errors
/// If the package cannot be had or the machine does not end by itself.
pub(crate) fn run(guest: &Guest<'_>) -> Result<String> {
    let kernel = kernel()?;
    let directory = tempfile::tempdir()?;
    let archive = directory.path().join("initramfs");
    pack(guest.files, &directory.path().join("files"), &archive)?;
    let machine = ["-machine", "q35", "-nodefaults", "-display", "none", "-no-reboot", "-serial", "stdio"];
    output(
        command("timeout", &["300", "qemu-system-x86_64"])
            .args(machine)
            .args(["-cpu", PROCESSOR, "-m", guest.memory, "-smp", guest.cpus])
            .args(if guest.counted { ["-icount", "shift=0,sleep=off"] } else { ["-accel", "tcg,thread=multi"] })
            .args(["-append", &format!("console=ttyS0 quiet panic=-1 -- {}", guest.arguments)])
            .arg("-kernel")
            .arg(kernel)
            .arg("-initrd")
            .arg(archive),
    )
}

/// Copies the files to a new directory and makes an archive of it.
///
/// # Errors
/// If a file is missing or there is no room.
pub(super) fn pack(files: &[(&str, &Path)], directory: &Path, archive: &Path) -> Result<()> {
    std::fs::create_dir(directory)?;
    for (name, file) in files {
        std::fs::copy(file, directory.join(name)).with_context(|| format!("cannot copy {}", file.display()))?;
    }
    let mut cpio = Command::new("/bin/busybox")
        .args(["cpio", "-o", "-H", "newc"])
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(std::fs::File::create(archive)?)
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start busybox cpio")?;
    let names: String = files.iter().map(|(name, _)| format!("{name}\n")).collect();
    cpio.stdin.take().context("cpio has no input")?.write_all(names.as_bytes())?;
    if !cpio.wait()?.success() {
        bail!("busybox cpio failed");
    }
    Ok(())
}

/// The peer's kernel image, downloaded and unpacked once into the target directory.
///
/// # Errors
/// If the package cannot be had.
pub(super) fn kernel() -> Result<PathBuf> {
    let directory = target().join("peer-linux");
    let find = || {
        let entries = std::fs::read_dir(directory.join("boot")).ok()?;
        entries.flatten().map(|entry| entry.path()).find(|path| path.to_string_lossy().contains("vmlinuz"))
    };
    if let Some(kernel) = find() {
        return Ok(kernel);
    }
    std::fs::create_dir_all(&directory)?;
    if download(&directory).is_err() {
        // The lists of packages are not there, or older than the archive.
        command::run(&mut command("apt-get", &["update", "-q"]))?;
        download(&directory)?;
    }
    let package = std::fs::read_dir(&directory)?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .context("apt-get downloaded nothing")?;
    command::run(command("dpkg-deb", &["-x"]).arg(&package).arg(&directory))?;
    find().context("the package has no kernel image")
}

/// Downloads the package with the kernel image that the peer's package stands for today.
fn download(directory: &Path) -> Result<()> {
    let depends = output(&mut command("apt-cache", &["depends", PACKAGE]))?;
    let image = depends
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
        .find(|name| name.starts_with("linux-image-"))
        .with_context(|| format!("apt knows no {PACKAGE}"))?
        .to_owned();
    command::run(command("apt-get", &["download", "-q", &image]).current_dir(directory))
}
