//! Two machines with Debian's Linux on a switch of ours: what two nodes are held against. Machines, network cards,
//! switch and the measuring program are the same as for the nodes; the kernel is another.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use super::guest::compile;
use super::linux;
use crate::build::Built;

/// Longest that the two may take, from switching them on until both have stopped, seconds.
const SECONDS_MAX: &str = "200";

/// The switch, which ends when its input does.
struct Switch {
    process: Child,
}

/// Runs a program on both, as rank 0 and rank 1, and returns what the two printed. `kind` is `plain`, or `mpi`, if it
/// is to be served PMI.
///
/// # Errors
/// If the kernel cannot be had, or a machine does not stop by itself.
pub(super) fn run(built: &Built, kind: &str, program: &Path, arguments: &str) -> Result<String> {
    let kernel = linux::kernel()?;
    let init = compile("peer")?;
    let modules = linux::modules(&[&linux::VIRTIO[..], &linux::CARD].concat())?;
    let mut files = vec![("init", init.as_path()), ("program", program)];
    files.extend(modules.iter().map(|(name, path)| (name.as_str(), path.as_path())));
    // Paths of sockets must be short.
    let directory = tempfile::Builder::new().prefix("cop").tempdir_in("/tmp")?;
    let archive = directory.path().join("initramfs");
    linux::pack(&files, &directory.path().join("files"), &archive)?;
    let _switch = Switch::start(built, directory.path())?;
    let machine = |number: usize| -> Result<Child> {
        let at = |name: &str| directory.path().join(format!("n{number}.{name}")).display().to_string();
        let (local, remote) = (at("sock"), at("sw"));
        let wire = format!("dgram,id=wire,local.type=unix,local.path={local},remote.type=unix,remote.path={remote}");
        let card = format!("virtio-net-pci,netdev=wire,mac={},romfile=,host_mtu=9000", mac(number));
        let mut command = Command::new("timeout");
        command.arg(SECONDS_MAX);
        command.args(linux::like_a_node(&kernel, &archive, &format!("{number} {kind} /program {arguments}")));
        command.args(["-netdev", &wire, "-device", &card, "-serial", &format!("file:{}", at("console"))]);
        command.stdin(Stdio::null()).spawn().context("cannot start timeout qemu-system-x86_64")
    };
    let machines = [machine(0)?, machine(1)?];
    let mut said = String::new();
    let mut stopped = true;
    for (number, mut machine) in machines.into_iter().enumerate() {
        stopped &= machine.wait()?.success();
        let console = std::fs::read(directory.path().join(format!("n{number}.console")));
        said.push_str(&String::from_utf8_lossy(&console.unwrap_or_default()));
    }
    if !stopped {
        bail!("the Linux machines did not stop; they said: {said}");
    }
    Ok(said)
}

/// The Ethernet address of node `number`.
fn mac(number: usize) -> String {
    format!("02:00:0a:40:00:{:02x}", number + 1)
}

impl Switch {
    /// Starts it with a link for each machine.
    fn start(built: &Built, directory: &Path) -> Result<Self> {
        let process = Command::new(built.coppice.with_file_name("coppice-fabric"))
            .arg("--directory")
            .arg(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start coppice-fabric")?;
        let mut switch = Self { process };
        let input = switch.process.stdin.as_mut().context("the switch has no input")?;
        for number in 0..2 {
            let command = serde_json::json!({ "do": "add-port", "link": format!("n{number}"), "mac": mac(number) });
            writeln!(input, "{}", serde_json::json!({ "id": number, "command": command }))?;
        }
        let output = switch.process.stdout.take().context("the switch has no output")?;
        let mut lines = BufReader::new(output).lines();
        // That it is ready, and an answer to each command.
        for _ in 0..3 {
            let line = lines.next().context("the switch has ended")??;
            if line.contains("failed") {
                bail!("the switch refused a link: {line}");
            }
        }
        // What it says later is of no interest, but must go somewhere.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(switch)
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}
