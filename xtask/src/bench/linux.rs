//! The peer: Debian's Linux for virtual machines on the same QEMU machine, its init one of our measuring programs.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::command::{command, output, run, target};

/// Debian's package of the peer.
const PACKAGE: &str = "linux-image-cloud-amd64";

/// What the peer printed on its serial line, under `-icount shift=0`.
///
/// # Errors
/// If the package cannot be had or the machine does not end by itself.
pub(crate) fn run_as_init(program: &Path) -> Result<String> {
    let kernel = kernel()?;
    let directory = tempfile::tempdir()?;
    std::fs::copy(program, directory.path().join("init"))?;
    let archive = directory.path().join("initramfs");
    let mut cpio = Command::new("/bin/busybox")
        .args(["cpio", "-o", "-H", "newc"])
        .current_dir(directory.path())
        .stdin(Stdio::piped())
        .stdout(std::fs::File::create(&archive)?)
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start busybox cpio")?;
    cpio.stdin.take().context("cpio has no input")?.write_all(b"init\n")?;
    if !cpio.wait()?.success() {
        bail!("busybox cpio failed");
    }
    let machine = ["-machine", "q35", "-cpu", "max", "-m", "128M", "-nodefaults", "-display", "none", "-no-reboot"];
    output(
        command("timeout", &["300", "qemu-system-x86_64"])
            .args(machine)
            .args(["-icount", "shift=0,sleep=off", "-serial", "stdio", "-append", "console=ttyS0 quiet panic=-1"])
            .arg("-kernel")
            .arg(kernel)
            .arg("-initrd")
            .arg(archive),
    )
}

/// The peer's kernel image, downloaded and unpacked once into the target directory.
fn kernel() -> Result<PathBuf> {
    let directory = target().join("peer-linux");
    let find = || {
        let entries = std::fs::read_dir(directory.join("boot")).ok()?;
        entries.flatten().map(|entry| entry.path()).find(|path| path.to_string_lossy().contains("vmlinuz"))
    };
    if let Some(kernel) = find() {
        return Ok(kernel);
    }
    std::fs::create_dir_all(&directory)?;
    let depends = output(&mut command("apt-cache", &["depends", PACKAGE]))?;
    let image = depends
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
        .find(|name| name.starts_with("linux-image-"))
        .with_context(|| format!("apt knows no {PACKAGE}; run: apt-get update"))?
        .to_owned();
    run(command("apt-get", &["download", "-q", &image]).current_dir(&directory))?;
    let package = std::fs::read_dir(&directory)?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .context("apt-get downloaded nothing")?;
    run(command("dpkg-deb", &["-x"]).arg(&package).arg(&directory))?;
    find().context("the package has no kernel image")
}
