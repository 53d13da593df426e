//! Checkpoints that lie in nodes' regions: from there they are pulled, and from there jobs go on.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use coppice_protocol::region::{HEADER_BYTES, SLOTS, Slot, State, Table, header_offset};
use coppice_tests::cluster::{finish_child, wait_until};
use coppice_tests::guests::{Toolchain, program};
use coppice_tests::{Cluster, host};

use rustix::fs::{SeekFrom, seek};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::checkpoint::{checkpoint, end, files_below, first_round, restart, said, start, wait_for};

/// MiB that the program has, rounds that nobody waits for, ms of each, and pages that are changed.
const FEW: [&str; 4] = ["8", "1000000", "2", "64"];

/// How often a checkpoint is made that is drained too soon to be seen before.
const TRIES: u32 = 10;

/// What is in all pages that the program has filled.
const SECRET: &[u8] = b"-secret-";

/// The file of a node's region.
pub(crate) fn region(cluster: &Cluster, node: u32) -> PathBuf {
    cluster.home_path().join(format!("state/default/regions/{node}"))
}

/// The directory that checkpoints are drained to.
pub(crate) fn storage(cluster: &Cluster) -> PathBuf {
    cluster.home_path().join("state/default/checkpoints")
}

/// The files of objects in it.
fn object_files(cluster: &Cluster) -> Vec<PathBuf> {
    ["objects", "packs"].iter().flat_map(|directory| files_below(&storage(cluster).join(directory))).collect()
}

/// The slots that a region has, with their tables.
pub(crate) fn slots(path: &Path) -> Vec<(u8, Slot, Option<Table>)> {
    let file = std::fs::File::open(path).expect("a region");
    let bytes = file.metadata().expect("a length").len();
    let read = |offset, length| {
        let mut read = vec![0; length];
        file.read_exact_at(&mut read, offset).expect("inside");
        read
    };
    let headers = (0..SLOTS).filter_map(|slot| {
        let header = read(header_offset(slot), usize::try_from(HEADER_BYTES).expect("short"));
        Some((slot, Slot::read(&header, bytes)?))
    });
    let with_table = headers.map(|(number, slot)| {
        let table = read(slot.table.offset, usize::try_from(slot.table.bytes).expect("short"));
        (number, slot, Table::read(&table, &slot, bytes).ok())
    });
    with_table.collect()
}

/// Has only the lists of a checkpoint be in the storage, while this is there: what they list is nowhere but in regions.
struct Elsewhere {
    /// Where each file was, and is.
    moved: Vec<(PathBuf, PathBuf)>,
}

impl Elsewhere {
    fn but_lists(cluster: &Cluster, name: &str) -> Self {
        let aside = cluster.home_path().join("aside");
        std::fs::create_dir(&aside).expect("make");
        let (job, number) = name.split_once('@').expect("a name");
        let manifest = storage(cluster).join("jobs").join(job).join(format!("{number}.json"));
        let manifest = std::fs::read_to_string(manifest).expect("a manifest");
        let mut moved = Vec::new();
        let files = object_files(cluster);
        for file in &files {
            let name = file.file_name().and_then(|name| name.to_str()).expect("a name");
            if !manifest.contains(name) {
                let to = aside.join(name);
                std::fs::rename(file, &to).expect("rename");
                moved.push((file.clone(), to));
            }
        }
        assert!(!moved.is_empty() && moved.len() < files.len(), "{manifest}");
        Self { moved }
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        for (from, to) in &self.moved {
            std::fs::rename(to, from).expect("rename");
        }
    }
}

/// Starts the program on node 0 and waits until it has changed some pages.
fn started(cluster: &Cluster) -> String {
    let path = program("writes_few", Toolchain::Glibc);
    let path = path.to_string_lossy();
    let arguments = [&["--nodes-list", "0", &*path], &FEW[..]].concat();
    let job = start(cluster, &arguments);
    wait_for(cluster, &job, "round 100:");
    job
}

/// Starts it, makes a checkpoint, and ends it when it has gone further.
fn checkpointed(cluster: &Cluster) -> String {
    let job = started(cluster);
    let name = checkpoint(cluster, &job);
    let rounds = said(cluster, &job).lines().count();
    wait_for(cluster, &job, &format!("round {}:", rounds + 20));
    end(cluster, &job);
    name
}

/// Has it go on from a checkpoint on a node, and looks at what it says.
#[track_caller]
fn goes_on(cluster: &Cluster, name: &str, node: &str) {
    let path = program("writes_few", Toolchain::Glibc);
    let job = restart(cluster, name, &["--nodes-list", node]);
    wait_until("it goes on", Duration::from_secs(60), || {
        let text = said(cluster, &job);
        if text.lines().count() > 100 { Ok(()) } else { Err(format!("{text}{}", cluster.json(&["jobs"]))) }
    });
    end(cluster, &job);
    let text = said(cluster, &job);
    let first = first_round(&text);
    let rounds = (first + text.lines().count()).to_string();
    let native = host::run(cluster.root(), &path, &[FEW[0], &rounds, "0", FEW[3]]).text();
    assert!(first > 100 && native.contains(&text), "from {first}: {text}");
}

/// The process of a node's machine.
pub(crate) fn machine(cluster: &Cluster, node: usize) -> Pid {
    let pid = cluster.json(&["nodes"])[node]["pid"].as_i64().expect("a process");
    Pid::from_raw(i32::try_from(pid).expect("a process id")).expect("a process id")
}

/// A node that was killed has its ranks again with nothing but what lies in its region; one that lost that, too, has
/// them from the storage; and so has one whose region is damaged.
#[test]
fn a_job_goes_on_from_what_its_node_has() {
    let cluster = Cluster::up(2);
    let name = checkpointed(&cluster);
    let slots = slots(&region(&cluster, 0));
    let [(_, slot, Some(table))] = &slots[..] else { panic!("one checkpoint lies there: {slots:?}") };
    assert_eq!(slot.state, State::Drained);
    kill_process(machine(&cluster, 0), Signal::KILL).expect("kill");
    let _ = cluster.coppice(&["reboot", "0"]);
    cluster.wait_until_ready();
    let elsewhere = Elsewhere::but_lists(&cluster, &name);
    goes_on(&cluster, &name, "0");
    let refused = cluster.coppice(&["restart", &name, "--nodes-list", "1"]);
    assert!(refused.status == 125 && !refused.stderr.is_empty(), "{}", refused.stderr);
    drop(elsewhere);
    goes_on(&cluster, &name, "1");
    // One bit of each object.
    let file = OpenOptions::new().read(true).write(true).open(region(&cluster, 0)).expect("a region");
    for extent in table.extents() {
        let mut byte = [0];
        file.read_exact_at(&mut byte, extent.offset + extent.bytes / 2).expect("inside");
        file.write_all_at(&[byte[0] ^ 4], extent.offset + extent.bytes / 2).expect("inside");
    }
    goes_on(&cluster, &name, "0");
    // All of it.
    let length = file.metadata().expect("a length").len();
    file.set_len(0).and_then(|()| file.set_len(length)).expect("cut");
    goes_on(&cluster, &name, "0");
}

/// Bytes that a checkpoint of a job took.
fn bytes_of_checkpoint(cluster: &Cluster, job: &str, options: &[&str]) -> (String, u64) {
    let made: Value = cluster.json(&[&["checkpoint", job], options].concat());
    (made["checkpoint"].as_str().expect("a name").to_owned(), made["bytes"].as_u64().expect("bytes"))
}

/// What was not written since the last checkpoint is not written again, and is there in each of them, in the region and
/// in the storage.
#[test]
fn only_what_was_written_since_is_written_again() {
    let cluster = Cluster::up(2);
    let job = started(&cluster);
    let whole: u64 = FEW[0].parse::<u64>().expect("a number") << 20;
    let (first, bytes) = bytes_of_checkpoint(&cluster, &job, &[]);
    assert!(bytes > whole, "{bytes} bytes of {whole}");
    let mut last = first.clone();
    for _ in 0..3 {
        let rounds = said(&cluster, &job).lines().count();
        wait_for(&cluster, &job, &format!("round {}:", rounds + 20));
        let (name, bytes) = bytes_of_checkpoint(&cluster, &job, &[]);
        assert!(bytes < whole / 4, "{name}: {bytes} bytes");
        last = name;
    }
    // All of them are in the storage, the last one is in the region.
    end(&cluster, &job);
    goes_on(&cluster, &first, "1");
    goes_on(&cluster, &last, "1");
    let _elsewhere = Elsewhere::but_lists(&cluster, &last);
    goes_on(&cluster, &last, "0");
}

/// If the checkpoint before was deleted, all is written again.
#[test]
fn what_was_deleted_is_written_again() {
    let cluster = Cluster::up(2);
    let job = started(&cluster);
    let (first, bytes) = bytes_of_checkpoint(&cluster, &job, &[]);
    let _ = cluster.coppice(&["checkpoints", "--delete", &first]).success();
    let (second, again) = bytes_of_checkpoint(&cluster, &job, &[]);
    assert!(again > bytes / 2, "{again} bytes of {bytes}");
    end(&cluster, &job);
    goes_on(&cluster, &second, "1");
}

/// Neither region nor storage has anything of a job whose checkpoints were deleted.
#[test]
fn nothing_is_left_of_what_was_deleted() {
    let cluster = Cluster::up(1);
    let job = started(&cluster);
    let first = checkpoint(&cluster, &job);
    wait_for(&cluster, &job, &format!("round {}:", said(&cluster, &job).lines().count() + 20));
    let second = checkpoint(&cluster, &job);
    end(&cluster, &job);
    assert!(has_secret(&region(&cluster, 0)), "the region has what was checkpointed");
    for name in [&first, &second] {
        let _ = cluster.coppice(&["checkpoints", "--delete", name]).success();
    }
    assert!(!has_secret(&region(&cluster, 0)));
    assert_eq!(slots(&region(&cluster, 0)), vec![]);
    assert_eq!(object_files(&cluster), Vec::<PathBuf>::new());
}

/// Nor of what was given up: because the node went, or the job.
#[test]
fn nothing_is_left_of_what_was_given_up() {
    let cluster = Cluster::up_with(&["--nodes", "1", "--memory", "128M"]);
    let path = program("writes_few", Toolchain::Glibc);
    let arguments = [&*path.to_string_lossy(), "48", "1000000", "2", "64"];
    let region = region(&cluster, 0);
    let is_being_filled = || {
        let slots = slots(&region);
        slots.iter().all(|(_, slot, _)| slot.state == State::Filling) && !slots.is_empty() && has_secret(&region)
    };
    let mut was_stopped = 0;
    for _ in 0..TRIES {
        let job = start(&cluster, &arguments);
        wait_for(&cluster, &job, "round 20:");
        let mut command = cluster.command(&["checkpoint", &job]);
        let mut making = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start");
        let machine = machine(&cluster, 0);
        while !is_being_filled() && making.try_wait().expect("a child").is_none() {}
        kill_process(machine, Signal::STOP).expect("stop");
        // It may have been whole a moment later.
        let is_stopped = is_being_filled();
        was_stopped += usize::from(is_stopped);
        let is_to_go = is_stopped && was_stopped == 1;
        if is_to_go {
            kill_process(machine, Signal::KILL).expect("kill");
        } else {
            kill_process(machine, Signal::CONT).expect("go on");
            let _ = cluster.coppice(&["kill", "--signal", "KILL", &job]).success();
        }
        let made = finish_child(making, "checkpoint");
        assert!(!is_to_go || made.status != 0, "{}", made.text());
        let _ = cluster.coppice(&["wait", &job]);
        if is_to_go {
            let _ = cluster.coppice(&["reboot", "0"]);
            cluster.wait_until_ready();
        }
        for checkpoint in cluster.json(&["checkpoints"]).as_array().expect("a list") {
            let _ = cluster.coppice(&["checkpoints", "--delete", checkpoint["checkpoint"].as_str().expect("a name")]);
        }
        wait_until("nothing is left", Duration::from_secs(60), || {
            let left = (has_secret(&region), slots(&region));
            if left == (false, Vec::new()) { Ok(()) } else { Err(format!("{left:?}")) }
        });
        if was_stopped > 1 {
            return;
        }
    }
    panic!("no slot was seen to be filled in {TRIES} tries");
}

/// Whether something of what these programs have in memory is in a file, of which what was never written is not read.
pub(crate) fn has_secret(path: &Path) -> bool {
    let file = std::fs::File::open(path).expect("a file");
    let mut at = 0;
    while let Ok(begin) = seek(&file, SeekFrom::Data(at)) {
        at = seek(&file, SeekFrom::Hole(begin)).expect("its end");
        let mut bytes = vec![0; usize::try_from(at - begin).expect("short")];
        file.read_exact_at(&mut bytes, begin).expect("inside");
        if bytes.windows(SECRET.len()).any(|bytes| bytes == SECRET) {
            return true;
        }
    }
    false
}

/// What the I/O node cannot wipe now it may wipe later: so nothing of the next checkpoint lies there.
#[test]
fn a_region_that_cannot_be_wiped_is_left_alone() {
    let cluster = Cluster::up(2);
    let job = started(&cluster);
    let (region, aside) = (region(&cluster, 0), cluster.home_path().join("aside"));
    std::fs::rename(&region, &aside).expect("rename");
    std::fs::create_dir(&region).expect("make");
    let name = checkpoint(&cluster, &job);
    // The machine has the file open, wherever it is.
    assert_eq!(slots(&aside), vec![]);
    end(&cluster, &job);
    goes_on(&cluster, &name, "1");
    std::fs::remove_dir(&region).expect("remove");
    std::fs::rename(&aside, &region).expect("rename");
    goes_on(&cluster, &name, "0");
}

/// A region that is too small for all of it has what fits, and the I/O node is given the rest; without one it is given
/// all.
#[test]
fn a_small_region_or_none_is_enough() {
    for size in ["2M", "4M", "0"] {
        let cluster = Cluster::up_with(&["--nodes", "2", "--nmr", size]);
        let name = checkpointed(&cluster);
        goes_on(&cluster, &name, "0");
        goes_on(&cluster, &name, "1");
    }
}

/// Ranks may stand until all of it is in the region.
#[test]
fn ranks_may_stand_until_all_is_copied() {
    let cluster = Cluster::up(2);
    let job = started(&cluster);
    let made = cluster.json(&["checkpoint", &job, "--phase1", "copy"]);
    let steps = made["steps"].as_array().expect("steps").iter().map(|step| step["name"].as_str().expect("a name"));
    assert_eq!(steps.collect::<Vec<_>>(), ["stop", "quiet", "record", "save", "copy", "resume"], "{made}");
    let name = made["checkpoint"].as_str().expect("a name");
    let rounds = said(&cluster, &job).lines().count();
    wait_for(&cluster, &job, &format!("round {}:", rounds + 20));
    end(&cluster, &job);
    goes_on(&cluster, name, "0");
    goes_on(&cluster, name, "1");
    // The processor may copy all of it.
    let job = started(&cluster);
    let made = cluster.json(&["checkpoint", &job, "--phase1", "copy", "--dma-pending", "0"]);
    end(&cluster, &job);
    let name = made["checkpoint"].as_str().expect("a name");
    goes_on(&cluster, name, "0");
    goes_on(&cluster, name, "1");
    let _ = cluster.coppice(&["checkpoint", &job, "--dma-pending", "0"]).refused(&["--phase1 copy"]);
}

/// What lies in a region is pulled while its machine executes nothing: it is stopped.
#[test]
fn draining_takes_nothing_of_the_node() {
    let cluster = Cluster::up_with(&["--nodes", "1", "--memory", "128M"]);
    let path = program("writes_few", Toolchain::Glibc);
    let arguments = [&*path.to_string_lossy(), "48", "1000000", "2", "64"];
    let is_local = |job: &str| {
        let listed = cluster.json(&["checkpoints", job]);
        listed.as_array().is_some_and(|listed| listed.iter().any(|checkpoint| checkpoint["state"] == "local"))
    };
    // It may be drained before it was seen to be local.
    for _ in 0..TRIES {
        let job = start(&cluster, &arguments);
        wait_for(&cluster, &job, "round 20:");
        let mut command = cluster.command(&["checkpoint", &job, "--json"]);
        let mut making = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start");
        let mut was_local = false;
        while !was_local && making.try_wait().expect("a child").is_none() {
            was_local = is_local(&job);
        }
        let machine = machine(&cluster, 0);
        if was_local {
            kill_process(machine, Signal::STOP).expect("stop");
        }
        let made = finish_child(making, "checkpoint");
        let rounds = said(&cluster, &job).lines().count();
        if was_local {
            kill_process(machine, Signal::CONT).expect("go on");
        }
        assert_eq!(made.status, 0, "{}", made.stderr);
        wait_for(&cluster, &job, &format!("round {}:", rounds + 5));
        end(&cluster, &job);
        if was_local {
            return;
        }
    }
    panic!("no checkpoint was seen to be local in {TRIES} tries");
}
