//! The process as the host sees it: what its threads may not do, and that a job's thread goes with the job.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::Duration;

use coppice_io_node::wall::{Wall, confine_to_nothing};
use coppice_protocol::pset::ToPset;
use coppice_protocol::ship::{Call, Location, Reply};

use crate::common::{JOB, Pset, run};
use crate::{O_CREAT, O_RDWR};

const EACCES: u16 = 13;

fn at(path: &str) -> Location {
    Location { directory: None, path: path.into() }
}

fn rename(from: &str, to: &str) -> Call {
    Call::Rename { from: at(from), to: at(to), flags: 0 }
}

/// Of each thread of a process: its name, and the value of a line of its status.
pub(crate) fn threads(process: u32, line: &str) -> Vec<(String, String)> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let of_one = |task: std::path::PathBuf| {
        // One may end meanwhile.
        let name = std::fs::read_to_string(task.join("comm")).ok()?;
        let status = std::fs::read_to_string(task.join("status")).ok()?;
        let value = status.lines().find_map(|text| text.strip_prefix(line))?;
        Some((name.trim().to_owned(), value.trim_start_matches(':').trim().to_owned()))
    };
    tasks.filter_map(|task| of_one(task.unwrap().path())).collect()
}

/// Whether there can be a wall.
pub(crate) fn landlock() -> Wall {
    let nowhere = std::path::Path::new("/nowhere");
    let tried = std::thread::spawn(|| confine_to_nothing(nowhere)).join().unwrap().unwrap();
    if tried == Wall::Missing {
        eprintln!("not tried: this kernel has no Landlock");
    }
    tried
}

#[test]
fn jobs_are_held_in_their_roots_by_the_hosts_kernel() {
    run(async {
        if landlock() == Wall::Missing {
            return;
        }
        let (mut pset, mut node) = Pset::with_job().await;
        let root = pset.root();
        std::fs::create_dir(root.join("dir")).unwrap();
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, root.join("fifo"), kind, rustix::fs::Mode::RUSR, 0).unwrap();
        node.open("/file", O_RDWR | O_CREAT).await;
        assert_eq!(node.call(rename("/file", "/dir/file"), &[]).await.0, Reply::Done);
        // No check of the I/O node's own forbids this.
        assert_eq!(node.call(rename("/fifo", "/other"), &[]).await.0, Reply::Failed(EACCES));
        let job = format!("job {JOB}");
        let has_thread = || threads(pset.process(), "NoNewPrivs").iter().any(|(name, _)| *name == job);
        assert!(has_thread());
        pset.send(ToPset::Forget { job: JOB }).await;
        while threads(pset.process(), "NoNewPrivs").iter().any(|(name, _)| *name == job) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
}

#[test]
fn it_has_no_privileges_but_to_use_files() {
    run(async {
        let (pset, mut node) = Pset::with_job().await;
        // CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH and CAP_FOWNER are the lowest but one.
        for (name, bits) in threads(pset.process(), "CapPrm").into_iter().chain(threads(pset.process(), "CapEff")) {
            assert_eq!(u64::from_str_radix(&bits, 16).unwrap() & !0b1110, 0, "{name}: {bits}");
        }
        // So whatever its user is, who writes to a file takes set-user-id off it.
        let theirs = pset.root().join("theirs");
        std::fs::write(&theirs, "").unwrap();
        std::fs::set_permissions(&theirs, PermissionsExt::from_mode(0o4755)).unwrap();
        let file = node.open("/theirs", O_RDWR).await;
        let written = node.call(Call::Write { file, offset: Some(0) }, b"evil").await.0;
        assert_eq!(written, Reply::Written { bytes: 4, end: 4 });
        assert_eq!(std::fs::metadata(&theirs).unwrap().mode() & 0o7777, 0o755);
    });
}
