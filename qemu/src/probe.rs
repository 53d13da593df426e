//! Whether KVM really works here.
//!
//! That `/dev/kvm` is there, opens and makes machines does not mean that guests run: on some nested hosts they print a
//! line and then crawl. So the image that is to run is booted once, without personality, under a short limit: it must
//! come to its end (it says what it lacks and ends the machine) before KVM is trusted. TCG needs no proof.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt;

use crate::launch::{Exit, Launcher, Running};
use crate::machine::{Accelerator, Machine, Serial};

/// How long the image may take from QEMU's start to its own end. Under TCG it takes a few tenths of a second.
pub const PROBE_LIMIT: Duration = Duration::from_secs(2);

/// Memory of the probed machine, bytes.
const PROBE_MEMORY_BYTES: u64 = 64 * 1024 * 1024;

/// Bytes of serial output that are looked at.
const SERIAL_BYTES_MAX: usize = 64 * 1024;

/// The device through which KVM is used.
const KVM: &str = "/dev/kvm";

/// Which accelerator to use, and why not the faster one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// What to use.
    pub accelerator: Accelerator,
    /// Why KVM is not used, in one line; none if it is.
    pub kvm_refused: Option<String>,
}

/// What a verdict was found for, and the verdict.
#[derive(Serialize, Deserialize)]
struct Cached {
    /// Everything that may change it: see [`key`].
    key: String,
    verdict: Verdict,
}

/// Finds out by booting `image` under KVM with a limit of `limit`.
pub async fn probe(launcher: &Launcher, image: &Path, limit: Duration) -> Verdict {
    match try_kvm(launcher, image, limit).await {
        Ok(()) => Verdict { accelerator: Accelerator::Kvm, kvm_refused: None },
        Err(reason) => Verdict { accelerator: Accelerator::Tcg, kvm_refused: Some(reason) },
    }
}

/// As [`probe`] with [`PROBE_LIMIT`], but asks the file `cache` first and leaves the verdict there. A verdict holds for
/// this boot of the host, this QEMU and this image. A cache that cannot be read or written costs time only.
pub async fn probe_cached(launcher: &Launcher, image: &Path, cache: &Path) -> Verdict {
    let key = key(launcher, image);
    if let Some(cached) = fs::read(cache).ok().and_then(|bytes| serde_json::from_slice::<Cached>(&bytes).ok())
        && cached.key == key
    {
        return cached.verdict;
    }
    let verdict = probe(launcher, image, PROBE_LIMIT).await;
    let _uncached = store(cache, &Cached { key, verdict: verdict.clone() });
    verdict
}

fn store(cache: &Path, cached: &Cached) -> io::Result<()> {
    // Written beside and renamed, so that nobody ever reads half of it.
    let fresh = cache.with_extension(format!("{}.new", std::process::id()));
    let written = File::create(&fresh)
        .and_then(|mut file| file.write_all(&serde_json::to_vec(cached)?))
        .and_then(|()| fs::rename(&fresh, cache));
    if written.is_err() {
        let _absent = fs::remove_file(&fresh);
    }
    written
}

fn key(launcher: &Launcher, image: &Path) -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let stamp = |path: &Path| {
        let metadata = fs::metadata(path).ok()?;
        let age = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        Some(format!("{} {} {}", path.display(), metadata.len(), age.as_nanos()))
    };
    let access = rustix::fs::access(KVM, rustix::fs::Access::READ_OK | rustix::fs::Access::WRITE_OK).is_ok();
    format!("{} kvm={access} {:?} {:?}", boot.trim(), stamp(&launcher.qemu.path), stamp(image))
}

async fn try_kvm(launcher: &Launcher, image: &Path, limit: Duration) -> Result<(), String> {
    match File::options().read(true).write(true).open(KVM) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(format!("{KVM} does not exist")),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Err(format!("{KVM} may not be opened: add yourself to its group (`usermod -aG kvm USER`)"));
        }
        Err(error) => return Err(format!("{KVM} does not open: {error}")),
    }
    let mut machine = Machine::new("coppice-probe", image, PROBE_MEMORY_BYTES, Accelerator::Kvm);
    machine.serial = Serial::Stdio;
    let mut running = launcher.start(&machine).map_err(|error| error.to_string())?;
    let mut said = Vec::new();
    let ended = tokio::time::timeout(limit, boot(&mut running, &mut said)).await;
    let lines = said.iter().filter(|byte| **byte == b'\n').count();
    match ended {
        Ok(Ok(Exit::Guest { .. } | Exit::Off)) if lines > 0 => Ok(()),
        Ok(Ok(exit)) => Err(format!("a guest under KVM printed {lines} lines, then {exit}")),
        Ok(Err(error)) => Err(format!("a guest under KVM could not be watched: {error}")),
        Err(_) => {
            let _gone = running.kill().await;
            let limit = limit.as_secs_f32();
            Err(format!("a guest under KVM printed {lines} lines and had not come to its end after {limit} s"))
        }
    }
}

/// Collects the serial line until the machine ends.
async fn boot(running: &mut Running, said: &mut Vec<u8>) -> io::Result<Exit> {
    if let Some(mut serial) = running.serial() {
        let mut chunk = [0; 1024];
        while let count @ 1.. = serial.read(&mut chunk).await? {
            let room = SERIAL_BYTES_MAX.saturating_sub(said.len());
            said.extend_from_slice(&chunk[..count.min(room)]);
        }
    }
    running.wait().await
}
