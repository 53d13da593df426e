//! Disks that fill at every write in turn: the state's, while a cluster comes up, runs a job, reboots a node and goes
//! down; and the one a job writes to. Whoever is refused hears so in one line or by an errno, records are true, and
//! nothing stays behind.
//!
//! The suite takes every few pages; `COPPICE_STEP=1` takes each, and `COPPICE_SEED` begins elsewhere, as `cargo xtask
//! soak` does turn by turn.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use coppice_tests::cluster::{finish, wait_until};
use coppice_tests::guests::{BUSYBOX, Toolchain, program};
use coppice_tests::namespace::fill;
use coppice_tests::random::told;
use coppice_tests::{Cluster, Ran};

/// Room for a cluster of a node, KiB; and for what a job writes.
const STATE_KIB: u64 = 16 * 1024;
const ROOT_KIB: u64 = 1024;
const PAGE_BYTES: u64 = 4096;
/// Of so many numbers of free pages the suite tries one.
const STEP: u64 = 12;
/// More room than all of it needs, pages and files.
const PAGES_MAX: u64 = 800;
const FILES_MAX: u64 = 60;
/// Free pages of the disk that a job writes to.
const JOB_PAGES: [u64; 18] = [0, 1, 2, 3, 4, 5, 6, 8, 10, 13, 18, 20, 21, 22, 25, 30, 33, 40];
/// What the system says.
const FULL: &str = "o space left";
/// How long a node may take to be ready, or a job to end.
const QUIET_TIME_MAX: Duration = Duration::from_secs(60);

fn numbers(max: u64) -> impl Iterator<Item = u64> {
    let step = told("COPPICE_STEP").unwrap_or(STEP);
    let first = told("COPPICE_SEED").unwrap_or(0) % step;
    (first..max).step_by(usize::try_from(step).expect("a number"))
}

/// What leaves only so many pages free.
struct Filler {
    path: PathBuf,
    file: File,
}

impl Filler {
    fn of(directory: &Path) -> Self {
        let path = fill(directory);
        let file = File::options().write(true).open(&path).expect("a file");
        Self { path, file }
    }

    fn leave(&self, pages: u64) {
        // What a process held that has just ended is free a little later: then there is more than was left.
        wait_until("so many pages are free", QUIET_TIME_MAX, || {
            self.try_to_leave(pages);
            let free = self.free();
            if free == pages { Ok(()) } else { Err(format!("{free} and not {pages}")) }
        });
    }

    fn free(&self) -> u64 {
        rustix::fs::fstatvfs(&self.file).expect("a disk").f_bfree
    }

    fn try_to_leave(&self, pages: u64) {
        let free = self.free();
        let bytes = self.file.metadata().expect("a file").len() / PAGE_BYTES * PAGE_BYTES;
        if free > pages {
            let more = (free - pages) * PAGE_BYTES;
            rustix::fs::fallocate(&self.file, rustix::fs::FallocateFlags::empty(), bytes, more).expect("taken");
        } else {
            self.file.set_len(bytes - (pages - free) * PAGE_BYTES).expect("cut");
        }
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        // The disk may be gone with what used it.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A cluster whose state lies on a disk of its own, if this machine has such.
fn with_small_state() -> Option<Cluster> {
    Cluster::with_mounts(|cluster, mounts| mounts.mount_small_disk(&cluster.home_path(), STATE_KIB))
}

fn up(cluster: &Cluster) -> Ran {
    cluster.coppice(&["up", "--accel", "tcg", "--nodes", "1", "--cores", "1"])
}

fn nothing_is_left(cluster: &Cluster, when: &str) {
    cluster.assert_no_process_left();
    assert!(!cluster.home_path().join("run/default").exists(), "sockets are left {when}");
    let programs = cluster.home_path().join("state/default/programs");
    for entry in std::fs::read_dir(programs).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        assert!(!name.ends_with(".partial"), "{name} is left {when}");
    }
    let log = std::fs::read(cluster.home_path().join("state/default/coppiced.log")).unwrap_or_default();
    assert!(!String::from_utf8_lossy(&log).contains("panicked"), "coppiced panicked {when}");
}

/// What a job came to, if it was taken.
#[derive(Debug, PartialEq, Eq)]
struct Came {
    status: i32,
    lines: usize,
}

/// A cluster's life on a disk of so little room. Says whether it came up, and whether nothing at all was refused.
fn life(cluster: &Cluster, when: &str) -> (bool, bool) {
    let came_up = up(cluster);
    if came_up.status != 0 {
        let ran = came_up.refused(&[FULL]);
        assert!(!ran.stderr.contains("panicked"), "{when}: {}", ran.stderr);
        return (false, false);
    }
    let mut all_done = true;
    let mut done = |ran: Ran| {
        if ran.status != 0 {
            all_done = false;
            let _ = ran.refused(&[]);
        }
    };
    let lines = program("lines", Toolchain::Musl);
    let arguments = ["--keep-output", lines.to_str().expect("a path"), "tag", "40", "0", "7"];
    let ran = cluster.run(&arguments);
    let written = ran.text();
    let told = if ran.status == 7 {
        Some(Came { status: 7, lines: ran.text().lines().count() })
    } else {
        done(ran);
        None
    };
    assert!(told.iter().all(|came| came.lines == 40), "{when}: {told:?}");
    done(cluster.coppice(&["reboot", "0"]));
    // Of what it wrote all is kept, or it is said where that ends.
    let is_kept = told.is_none() || {
        let kept = cluster.coppice(&["logs", "1"]).success();
        let is_cut = kept.stderr.contains("is kept up to here: its log could not be written");
        assert!(written.starts_with(&kept.text()) && (is_cut || kept.text() == written), "{when}: {}", kept.stderr);
        !is_cut
    };
    for listing in ["nodes", "jobs", "ras", "programs"] {
        let _ = cluster.json(&[listing]);
    }
    done(cluster.coppice(&["forget"]));
    let recorded = |cluster: &Cluster| cluster.json(&["jobs"]);
    let truth = recorded(cluster);
    let jobs = truth.as_array().expect("jobs");
    assert_eq!(jobs.len(), usize::from(told.is_some()), "{when}: {truth}");
    if told.is_some() {
        assert_eq!((&jobs[0]["state"], &jobs[0]["exit_status"]), (&"ended".into(), &7.into()), "{when}: {truth}");
    }
    let _ = cluster.coppice(&["down"]).success();
    nothing_is_left(cluster, when);
    (true, all_done && is_kept)
}

#[test]
fn a_disk_of_the_state_that_fills_at_any_write() {
    let Some(cluster) = with_small_state() else { return };
    let state = cluster.home_path().join("state");
    let filler = Filler::of(&cluster.home_path());
    let mut lives = 0;
    for pages in numbers(PAGES_MAX) {
        let when = format!("with {pages} pages free");
        let _ = std::fs::remove_dir_all(&state);
        let _ = std::fs::remove_dir_all(cluster.home_path().join("run"));
        filler.leave(pages);
        let (came_up, all_done) = life(&cluster, &when);
        nothing_is_left(&cluster, &when);
        // With room again, everything is as it was.
        if came_up {
            lives += 1;
            filler.leave(PAGES_MAX);
            let _ = up(&cluster).success();
            let jobs = cluster.json(&["jobs"]);
            for job in jobs.as_array().expect("jobs") {
                assert_eq!((&job["state"], &job["exit_status"]), (&"ended".into(), &7.into()), "{when}: {jobs}");
            }
            let _ = cluster.run(&[BUSYBOX, "true"]).success();
            let events = cluster.json(&["ras"]).to_string();
            let _ = cluster.coppice(&["down"]).success();
            if all_done && !events.contains("records could not be written") {
                println!("{pages} pages are enough; {lives} clusters came up on fewer");
                return;
            }
        }
    }
    panic!("{PAGES_MAX} pages are not enough");
}

#[test]
fn a_disk_of_the_state_that_takes_no_further_file() {
    let Some(cluster) = with_small_state() else { return };
    let home = cluster.home_path();
    let limit = |files| cluster.namespace().expect("mounts").limit_files(cluster.home_name(), files);
    for files in 3..FILES_MAX {
        for directory in ["state", "run"] {
            let _ = std::fs::remove_dir_all(home.join(directory));
        }
        assert!(limit(files), "{files} files");
        let (came_up, all_done) = life(&cluster, &format!("with {files} files at most"));
        nothing_is_left(&cluster, &format!("with {files} files at most"));
        if came_up && all_done {
            println!("{files} files are enough");
            return;
        }
    }
    panic!("{FILES_MAX} files are not enough");
}

/// What a job is told by its I/O node, if each of its calls is made there, is what Linux says on the same disk, and so
/// are the files.
#[test]
fn a_job_hears_of_a_full_disk_what_linux_says() {
    let Some(cluster) = Cluster::with_mounts(|cluster, mounts| mounts.mount_small_disk(cluster.root(), ROOT_KIB))
    else {
        return;
    };
    let _ = up(&cluster).success();
    let guest = program("fills", Toolchain::Musl);
    let root = cluster.seen(cluster.root());
    let filler = Filler::of(&root);
    let work = root.join("work");
    let afresh = |pages| {
        if work.exists() {
            std::fs::remove_dir_all(&work).expect("removed");
        }
        std::fs::create_dir(&work).expect("made");
        filler.leave(pages);
    };
    let (mut full, mut partial) = (0, 0);
    for pages in JOB_PAGES {
        afresh(pages);
        let mut native = cluster.namespace().expect("mounts").command(&guest);
        native.arg(cluster.root().join("work")).stdin(Stdio::null());
        let native = finish(native).success().text();
        afresh(pages);
        let root = cluster.root().to_str().expect("a path");
        let strict = ["--io", "strict", "--root", root, guest.to_str().expect("a path"), "/work"];
        let ran = cluster.run(&strict).success();
        assert_eq!(ran.text(), native, "with {pages} pages free");
        full += native.matches("No space left on device").count();
        partial += usize::from(native.lines().any(|line| line.starts_with("write ") && line.contains("4096")));
    }
    assert!(full > JOB_PAGES.len() && partial > 0, "{full} refusals, {partial} times a part was written");
    // A program that looks at errors says so, also where they are told later.
    afresh(3);
    let root_name = cluster.root().to_str().expect("a path");
    let dd = ["--root", root_name, BUSYBOX, "dd", "if=/dev/zero", "of=/work/copy", "bs=2500", "count=20"];
    let ran = cluster.run(&dd);
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("No space left on device"), "{}", ran.stderr);
    assert_eq!(std::fs::metadata(work.join("copy")).expect("a file").len(), 3 * PAGE_BYTES);
    wait_until("the node is ready", QUIET_TIME_MAX, || {
        let nodes = cluster.json(&["nodes"]);
        if nodes[0]["state"] == "ready" { Ok(()) } else { Err(nodes.to_string()) }
    });
    assert_eq!(cluster.json(&["nodes"])[0]["generation"], 1, "nothing was lost");
}
