//! `coppice doctor`: what is missing on this host, and the command that mends it.

use std::path::Path;
use std::process::ExitCode;

use coppice_api::counted;
use coppice_api::descriptors::{Extent, hard_limit, nodes_within, raise};
use coppice_api::job::EXIT_COPPICE;
use coppice_api::limits::{NODES_DEFAULT, PSET_NODES_DEFAULT, SOCKET_NAME_BYTES_MAX, SOCKET_PATH_BYTES_MAX};
use coppice_api::{ClusterPaths, PathError, shown};
use coppice_qemu::launch::Launcher;
use coppice_qemu::locate::{LocateError, Qemu, find_qemu};
use coppice_qemu::probe::{PROBE_LIMIT, probe};
use coppice_qemu::tether::Tether;
use landlock::{AccessFs, LandlockStatus, Ruleset, RulesetAttr};
use serde::Serialize;

use crate::show::{print, print_json};

/// The first version of Landlock that lets files be renamed from one directory to another.
const LANDLOCK_VERSION_MIN: i32 = 2;

/// Room for programs, logs and the database, bytes.
const DISK_BYTES_MIN: u64 = 1 << 30;

/// Memory for a default cluster: four nodes and their QEMUs, bytes.
const HOST_MEMORY_BYTES_MIN: u64 = 1 << 30;

/// One thing looked at.
#[derive(Debug, Serialize)]
struct Check {
    what: &'static str,
    verdict: Verdict,
    found: String,
    /// The command that mends it.
    mend: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Verdict {
    /// As it should be.
    Good,
    /// Works, but could be better.
    Slow,
    /// Works, with one guard less.
    Weak,
    /// Must be mended.
    Missing,
}

impl Check {
    fn good(what: &'static str, found: String) -> Self {
        Self { what, verdict: Verdict::Good, found, mend: None }
    }

    fn missing(what: &'static str, found: String, mend: impl Into<String>) -> Self {
        Self { what, verdict: Verdict::Missing, found, mend: Some(mend.into()) }
    }
}

pub(crate) async fn doctor(paths: Result<ClusterPaths, PathError>, json: bool) -> anyhow::Result<ExitCode> {
    let mut checks = Vec::new();
    let qemu = check_qemu(&mut checks);
    let complete = check_installation(&mut checks);
    if let (Some(qemu), Some(image)) = (qemu, &complete) {
        checks.push(check_kvm(qemu, image).await);
    }
    match &paths {
        Ok(paths) => check_directories(paths, &mut checks),
        Err(error) => checks.push(Check::missing("directories", error.to_string(), "export COPPICE_HOME=~/.coppice")),
    }
    checks.push(check_landlock());
    checks.push(check_descriptors());
    checks.extend(check_memory());
    if json {
        print_json(&checks)?;
    } else {
        print(&checks.iter().map(describe).collect::<String>())?;
    }
    let sound = checks.iter().all(|check| check.verdict != Verdict::Missing);
    Ok(if sound { ExitCode::SUCCESS } else { ExitCode::from(EXIT_COPPICE) })
}

fn describe(check: &Check) -> String {
    let verdict = match check.verdict {
        Verdict::Good => "ok     ",
        Verdict::Slow => "slow   ",
        Verdict::Weak => "weak   ",
        Verdict::Missing => "MISSING",
    };
    let mend = check.mend.as_ref().map(|mend| format!("\n        mend it: {mend}")).unwrap_or_default();
    format!("{verdict} {}: {}{mend}\n", check.what, check.found)
}

fn check_qemu(checks: &mut Vec<Check>) -> Option<Qemu> {
    const INSTALL: &str = "apt-get install qemu-system-x86";
    match find_qemu() {
        Ok(qemu) => {
            checks.push(Check::good("QEMU", format!("{} at {}", qemu.version, shown(&qemu.path))));
            Some(qemu)
        }
        Err(LocateError::Missing) => {
            checks.push(Check::missing("QEMU", "qemu-system-x86_64 is not in PATH".to_owned(), INSTALL));
            None
        }
        Err(error) => {
            checks.push(Check::missing("QEMU", error.to_string(), INSTALL));
            None
        }
    }
}

/// The boot image, if everything is there.
fn check_installation(checks: &mut Vec<Check>) -> Option<std::path::PathBuf> {
    let own = std::env::current_exe().ok()?;
    let missing: Vec<&str> = ["coppiced", "coppice-fabric", "coppice-io-node", "coppice-node.elf"]
        .into_iter()
        .filter(|name| !own.with_file_name(name).is_file())
        .collect();
    let directory = shown(own.parent().unwrap_or(Path::new("/"))).to_string();
    if missing.is_empty() {
        checks.push(Check::good("installation", format!("complete in {directory}")));
    } else {
        let found = format!("{} not in {directory}", missing.join(", "));
        checks.push(Check::missing("installation", found, "cargo xtask build"));
    }
    let image = own.with_file_name("coppice-node.elf");
    image.is_file().then_some(image)
}

async fn check_kvm(qemu: Qemu, image: &Path) -> Check {
    let launcher = Launcher { qemu, tether: Tether::Own };
    match probe(&launcher, image, PROBE_LIMIT).await.kvm_refused {
        None => Check::good("KVM", "a node runs under it".to_owned()),
        Some(reason) => Check {
            what: "KVM",
            verdict: Verdict::Slow,
            found: format!("not used, nodes are emulated: {reason}"),
            mend: None,
        },
    }
}

fn check_directories(paths: &ClusterPaths, checks: &mut Vec<Check>) {
    let existed = paths.runtime().exists();
    let made = paths.create();
    match &made {
        Ok(()) => {
            let bytes = paths.runtime().as_os_str().len() + SOCKET_NAME_BYTES_MAX;
            let found = format!(
                "state in {}, sockets in {} ({bytes} of {SOCKET_PATH_BYTES_MAX} bytes of path)",
                shown(paths.state()),
                shown(paths.runtime())
            );
            checks.push(Check::good("directories", found));
            checks.extend(check_disk(paths.state()));
        }
        Err(error) => checks.push(Check::missing("directories", error.to_string(), "export COPPICE_HOME=~/.coppice")),
    }
    if !existed && made.is_ok() {
        // Only looked whether it can be made; whoever brings the cluster up makes it again.
        let _ = paths.remove_runtime();
    }
}

fn check_disk(directory: &Path) -> Option<Check> {
    let status = rustix::fs::statvfs(directory).ok()?;
    let free = status.f_bavail.saturating_mul(status.f_frsize);
    let found = format!("{} MiB free in {}", free >> 20, shown(directory));
    Some(if free >= DISK_BYTES_MIN {
        Check::good("disk", found)
    } else {
        Check::missing("disk", found, "export COPPICE_HOME=DIR with a DIR on a disk with 1 GiB free")
    })
}

/// Whether the kernel can hold jobs in their roots, found out by having it hold a thread that does nothing.
fn check_landlock() -> Check {
    let tried = std::thread::spawn(|| {
        let ruleset = Ruleset::default().handle_access(AccessFs::Refer)?.create()?;
        ruleset.restrict_self().map(|status| status.landlock)
    });
    let (verdict, found) = match tried.join() {
        Ok(Ok(LandlockStatus::Available { effective_abi, kernel_abi })) => {
            let version = kernel_abi.unwrap_or(effective_abi as i32);
            let is_enough = version >= LANDLOCK_VERSION_MIN;
            let held = if is_enough { "the kernel, too, holds jobs in their roots" } else { "too old to be used" };
            (if is_enough { Verdict::Good } else { Verdict::Weak }, format!("version {version}, {held}"))
        }
        Ok(Ok(LandlockStatus::NotEnabled)) => (Verdict::Weak, "not enabled: boot with lsm=landlock,…".to_owned()),
        _ => (Verdict::Weak, "not in this kernel: I/O nodes alone hold jobs in their roots".to_owned()),
    };
    Check { what: "Landlock", verdict, found, mend: None }
}

fn check_descriptors() -> Check {
    let (limit, wanted) = (hard_limit(), Extent::here(NODES_DEFAULT, PSET_NODES_DEFAULT));
    let enough = match nodes_within(limit, wanted.pset_size, wanted.boots) {
        0 => "not enough for a node".to_owned(),
        nodes => format!("enough for {}", counted(nodes, "node")),
    };
    let found = match limit {
        u64::MAX => format!("no limit, {enough}"),
        limit => format!("at most {limit} at a time, {enough}"),
    };
    if wanted.refused_by(limit).is_none() {
        Check::good("open files", found)
    } else {
        let mend = format!("{}; or LimitNOFILE of the service that brings the cluster up", raise(wanted.needs()));
        Check::missing("open files", found, mend)
    }
}

fn check_memory() -> Option<Check> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let available = line.trim().trim_end_matches(" kB").parse::<u64>().ok()?.saturating_mul(1024);
    let found = format!("{} MiB available", available >> 20);
    Some(if available >= HOST_MEMORY_BYTES_MIN {
        Check::good("memory", found)
    } else {
        Check::missing("memory", found, "coppice up --nodes 1 (fewer nodes)")
    })
}
