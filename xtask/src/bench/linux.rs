//! The peer: Debian's Linux for virtual machines on the same QEMU machine, its init one of our measuring programs.

use std::ffi::OsString;
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

/// As a node's, but with the timers Linux looks for when it boots.
const MACHINE: &str = "q35,usb=off,sata=off,smbus=off,smm=off,vmport=off,dump-guest-core=off";

/// Drivers of virtio devices, in the order in which they are loaded, and then those of the network card.
pub(super) const VIRTIO: [&str; 5] =
    ["virtio_ring", "virtio", "virtio_pci_modern_dev", "virtio_pci_legacy_dev", "virtio_pci"];
pub(super) const CARD: [&str; 3] = ["failover", "net_failover", "virtio_net"];

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

/// QEMU with a machine of one processor that is as a node's, boots this and gives `init` these arguments; what else it
/// has may follow.
pub(super) fn like_a_node(kernel: &Path, archive: &Path, arguments: &str) -> Vec<OsString> {
    let line = format!("console=ttyS0 quiet no_timer_check tsc=reliable panic=-1 -- {arguments}");
    let mut command: Vec<OsString> = [
        &["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"][..],
        &["-machine", MACHINE, "-accel", "tcg,thread=single,tb-size=32"],
        &["-cpu", "max", "-m", "256M", "-smp", "cpus=1", "-append", &line],
    ]
    .concat()
    .into_iter()
    .map(OsString::from)
    .collect();
    command.extend(["-kernel".into(), kernel.into(), "-initrd".into(), archive.into()]);
    command
}

/// Files of drivers, by their names in a machine, once there is a [`kernel`].
///
/// # Errors
/// If Debian's package lacks one.
pub(super) fn modules(wanted: &[&str]) -> Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    let mut directories = vec![target().join("peer-linux/lib/modules")];
    while let Some(directory) = directories.pop() {
        let entries = std::fs::read_dir(&directory).with_context(|| format!("cannot read {}", directory.display()))?;
        for path in entries.flatten().map(|entry| entry.path()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() && !path.is_symlink() {
                directories.push(path);
            } else if name.strip_suffix(".ko").is_some_and(|stem| wanted.contains(&stem)) {
                found.push((name, path));
            }
        }
    }
    if found.len() != wanted.len() {
        bail!("Debian's kernel package lacks a driver of {wanted:?}: has {found:?}");
    }
    Ok(found)
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
