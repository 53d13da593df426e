//! Whether KVM really works here.
//!
//! That `/dev/kvm` is there, opens and makes machines does not mean that guests run: on some nested hosts they print a
//! line and then crawl. So the image that is to run is booted once, without personality, under a short limit: it must
//! come to its end (it says what it lacks and ends the machine) before KVM is trusted. TCG needs no proof.
//!
//! A host that is busy makes a good guest look like a crawling one, and one that is short of something does not start
//! it. So only what would be found again is remembered: that a guest came to its end, that it came to another end, and
//! that the device is not there or not for us. All else holds for the one who asked.

use std::fmt::Display;
use std::fs::{self, File};
use std::future::Future;
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

/// Why KVM is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Refusal {
    reason: String,
    /// It would be found again, so it may be remembered.
    is_lasting: bool,
}

impl Refusal {
    fn lasting(reason: impl Display) -> Self {
        Self { reason: reason.to_string(), is_lasting: true }
    }

    fn passing(reason: impl Display) -> Self {
        Self { reason: reason.to_string(), is_lasting: false }
    }
}

impl From<Result<(), Refusal>> for Verdict {
    fn from(tried: Result<(), Refusal>) -> Self {
        match tried {
            Ok(()) => Self { accelerator: Accelerator::Kvm, kvm_refused: None },
            Err(refusal) => Self { accelerator: Accelerator::Tcg, kvm_refused: Some(refusal.reason) },
        }
    }
}

/// Finds out by booting `image` under KVM with a limit of `limit`.
pub async fn probe(launcher: &Launcher, image: &Path, limit: Duration) -> Verdict {
    try_kvm(launcher, image, limit).await.into()
}

/// As [`probe`] with [`PROBE_LIMIT`], but asks the file `cache` first and leaves there what would be found again. That
/// holds for this boot of the host, this QEMU and this image. A cache that cannot be read or written costs time only.
pub async fn probe_cached(launcher: &Launcher, image: &Path, cache: &Path) -> Verdict {
    remembered(cache, key(launcher, image), try_kvm(launcher, image, PROBE_LIMIT)).await
}

/// The verdict that `cache` has for `key`, or else the one that comes of trying.
async fn remembered(cache: &Path, key: String, trial: impl Future<Output = Result<(), Refusal>>) -> Verdict {
    if let Some(cached) = fs::read(cache).ok().and_then(|bytes| serde_json::from_slice::<Cached>(&bytes).ok())
        && cached.key == key
    {
        return cached.verdict;
    }
    let tried = trial.await;
    let is_lasting = tried.as_ref().map_or_else(|refusal| refusal.is_lasting, |()| true);
    let verdict = Verdict::from(tried);
    if is_lasting {
        let _uncached = store(cache, &Cached { key, verdict: verdict.clone() });
    }
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
    let access = rustix::fs::access(KVM, rustix::fs::Access::READ_OK | rustix::fs::Access::WRITE_OK);
    format!("{} kvm={access:?} {:?} {:?}", boot.trim(), stamp(&launcher.qemu.path), stamp(image))
}

async fn try_kvm(launcher: &Launcher, image: &Path, limit: Duration) -> Result<(), Refusal> {
    if let Err(error) = File::options().read(true).write(true).open(KVM) {
        return Err(does_not_open(&error));
    }
    let mut machine = Machine::new("coppice-probe", image, PROBE_MEMORY_BYTES, Accelerator::Kvm);
    machine.serial = Serial::Stdio;
    let mut running = launcher.start(&machine).map_err(Refusal::passing)?;
    let mut said = Vec::new();
    let ended = tokio::time::timeout(limit, boot(&mut running, &mut said)).await;
    let lines = said.iter().filter(|byte| **byte == b'\n').count();
    match ended {
        Ok(Ok(exit)) => judge(lines, &exit),
        Ok(Err(error)) => Err(Refusal::passing(format!("a guest under KVM could not be watched: {error}"))),
        Err(_) => {
            let _gone = running.kill().await;
            let limit = limit.as_secs_f32();
            let found = format!("a guest under KVM printed {lines} lines and had not come to its end after {limit} s");
            Err(Refusal::passing(found))
        }
    }
}

fn does_not_open(error: &io::Error) -> Refusal {
    match error.kind() {
        io::ErrorKind::NotFound => Refusal::lasting(format!("{KVM} does not exist")),
        io::ErrorKind::PermissionDenied => {
            Refusal::lasting(format!("{KVM} may not be opened: add yourself to its group (`usermod -aG kvm USER`)"))
        }
        // Descriptors or memory may have run out.
        _ => Refusal::passing(format!("{KVM} does not open: {error}")),
    }
}

/// What it means that the guest printed so many lines and its machine ended so.
fn judge(lines: usize, exit: &Exit) -> Result<(), Refusal> {
    let found = || format!("a guest under KVM printed {lines} lines, then {exit}");
    match exit {
        Exit::Guest { .. } | Exit::Off if lines > 0 => Ok(()),
        Exit::Guest { .. } | Exit::Off => Err(Refusal::lasting(found())),
        // Somebody may have killed it, memory may have run out, others may have the processor's extensions now.
        Exit::Signal(_) | Exit::Qemu { .. } => Err(Refusal::passing(found())),
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io;

    use super::{Refusal, Verdict, does_not_open, judge, remembered};
    use crate::launch::Exit;
    use crate::machine::Accelerator;

    const YES: Verdict = Verdict { accelerator: Accelerator::Kvm, kvm_refused: None };

    #[tokio::test]
    async fn what_may_pass_is_not_remembered() {
        let directory = tempfile::tempdir().expect("directory");
        let cache = directory.path().join("accelerator.json");
        let ask = |key: &str, found| remembered(&cache, key.to_owned(), async move { found });
        let no = |reason: &str| Verdict { accelerator: Accelerator::Tcg, kvm_refused: Some(reason.to_owned()) };
        // It counts for the one who asked, and the next one finds out anew.
        assert_eq!(ask("host", Err(Refusal::passing("slow"))).await, no("slow"));
        assert_eq!(fs::read_dir(directory.path()).expect("directory").count(), 0);
        assert_eq!(ask("host", Ok(())).await, YES);
        assert_eq!(ask("host", Err(Refusal::passing("slow"))).await, YES);
        // Nor does it take away what is remembered of another host or image.
        assert_eq!(ask("other", Err(Refusal::passing("slow"))).await, no("slow"));
        assert_eq!(ask("host", Err(Refusal::lasting("closed"))).await, YES);
        assert_eq!(ask("other", Err(Refusal::lasting("closed"))).await, no("closed"));
        assert_eq!(ask("other", Ok(())).await, no("closed"));
    }

    #[test]
    fn what_would_be_found_again_lasts() {
        let lasts = |found: Result<(), Refusal>| found.expect_err("refused").is_lasting;
        let opened = |kind: io::ErrorKind| does_not_open(&io::Error::from(kind)).is_lasting;
        assert!(opened(io::ErrorKind::NotFound) && opened(io::ErrorKind::PermissionDenied));
        assert!(!opened(io::ErrorKind::OutOfMemory) && !opened(io::ErrorKind::Interrupted));
        assert_eq!(judge(1, &Exit::Guest { status: 1 }), Ok(()));
        assert_eq!(judge(1, &Exit::Off), Ok(()));
        assert!(lasts(judge(0, &Exit::Off)));
        assert!(!lasts(judge(1, &Exit::Signal(9))));
        assert!(!lasts(judge(0, &Exit::Qemu { status: 1, message: "Cannot allocate memory".to_owned() })));
    }
}
