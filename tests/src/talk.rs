//! What the guest `talks` writes, and jobs of it that are detached.

use std::path::PathBuf;

use crate::Cluster;
use crate::cluster::{Ran, wait_until};
use crate::commands::COMMAND_TIME_MAX;
use crate::guests::{Toolchain, program};

/// The file that such a job waits for, in its root.
const GO: &str = "go";

/// What a rank writes to its standard output, or to its standard error.
#[must_use]
pub fn said(rank: u32, is_error: bool, bytes: usize) -> Vec<u8> {
    let seed = u64::from(rank) * 2 + u64::from(is_error);
    let bytes = if is_error { bytes / 4 } else { bytes };
    let mut said: Vec<u8> = (0..bytes.div_ceil(8) as u64).flat_map(|index| word(seed, index).to_le_bytes()).collect();
    said.truncate(bytes);
    said
}

fn word(seed: u64, index: u64) -> u64 {
    let word = seed.wrapping_add(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(index + 1));
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// The guest.
#[must_use]
pub fn guest() -> PathBuf {
    program("talks", Toolchain::Musl)
}

/// Arguments that have `run` run the guest; it waits in the middle if it is to.
#[must_use]
pub fn arguments(options: &[&str], bytes: usize, status: u8, waits: bool) -> Vec<String> {
    let guest = guest().to_str().expect("a path").to_owned();
    let own = [guest, bytes.to_string(), status.to_string()];
    let waits = waits.then(|| format!("/{GO}"));
    options.iter().map(|option| (*option).to_owned()).chain(own).chain(waits).collect()
}

/// Starts a detached job of any program.
///
/// # Panics
/// If `run` says anything but its number.
#[track_caller]
pub fn detach<S: AsRef<str>>(cluster: &Cluster, arguments: &[S]) -> u64 {
    let arguments: Vec<&str> = ["run", "--detach"].into_iter().chain(arguments.iter().map(AsRef::as_ref)).collect();
    number(&cluster.coppice(&arguments).success())
}

/// The job's number, which is all that was said.
///
/// # Panics
/// If it was not.
#[track_caller]
pub fn number(ran: &Ran) -> u64 {
    let text = ran.text();
    assert_eq!(ran.stderr, "", "{text}");
    let line = text.strip_suffix('\n').unwrap_or_else(|| panic!("{text:?} is no line"));
    line.parse().unwrap_or_else(|_| panic!("{text:?} is no number"))
}

/// Lets jobs go on that wait, and all that come to wait until [`stop`].
///
/// # Panics
/// If the file cannot be made.
pub fn go(cluster: &Cluster) {
    std::fs::write(cluster.seen(cluster.root()).join(GO), "").expect("written");
}

/// Jobs that come to wait wait again.
///
/// # Panics
/// If the file cannot be removed.
pub fn stop(cluster: &Cluster) {
    std::fs::remove_file(cluster.seen(cluster.root()).join(GO)).expect("removed");
}

/// Waits until so many bytes of a job's output are kept.
///
/// # Panics
/// If that does not come about.
#[track_caller]
pub fn wait_until_kept(cluster: &Cluster, job: u64, bytes: usize) {
    wait_until("output is kept", COMMAND_TIME_MAX, || {
        let ran = cluster.coppice(&["logs", &job.to_string()]).success();
        let kept = ran.stdout.len() + ran.stderr_bytes.len();
        if kept >= bytes { Ok(()) } else { Err(format!("{kept} of {bytes} bytes")) }
    });
}
