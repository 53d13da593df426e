//! Ranks that a rank of a job wants: their program is found in the root of that job, and the new job submitted.

use std::ffi::OsStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use coppice_api::job::Submission;
use coppice_api::shown;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::Api;
use super::jobs::{check, check_root_of, find};
use crate::controller::{Refused, Request, SpawnRequest};
use crate::limits::HOST_FILE_TIME_MAX;
use crate::plant::SpawnOrder;
use crate::store::{Kind, plain};

impl Api {
    /// Has a job submitted that a rank wants, or the rank told why there is none.
    pub(super) async fn carry_out_spawn(self, order: SpawnOrder) {
        let spawn = Box::new(order.spawn.clone());
        if let Err(refused) = self.submit_spawned(order).await {
            // If it cannot be told, the cluster is going down, and so is the rank.
            let _ = self.tell(Request::NotSpawned(spawn, refused.message)).await;
        }
    }

    async fn submit_spawned(&self, SpawnOrder { spawn, submission, is_found }: SpawnOrder) -> Result<(), Refused> {
        let submission = if is_found {
            *submission
        } else {
            let what = format!("program '{}' in root '{}'", submission.name, shown(&submission.root));
            let find = move || program_in_root(&submission).map(|program| Submission { program, ..*submission });
            self.files.work(&what, HOST_FILE_TIME_MAX, find).await??
        };
        check(&submission)?;
        let expected = self.connections.expect_job()?;
        check_root_of(self, &submission).await?;
        let (program, file) = find(self, Kind::Program, &submission.program).await?;
        let is_detached = submission.detached;
        let request = Box::new(SpawnRequest { spawn, submission, program, file });
        let job = self.ask(|answer| Request::Spawn(request, answer)).await?;
        if !is_detached {
            expected.until_attached(job);
        }
        Ok(())
    }
}

/// The file of a program that a job names, as the job sees the files of its root: by its path if there is a `/` in the
/// name, or else in its working directory or one of `PATH`.
fn program_in_root(job: &Submission) -> Result<PathBuf, Refused> {
    let name = &job.name;
    let root = format!("root '{}'", shown(&job.root));
    let open = || rustix::fs::openat(CWD, &job.root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let directory = open().map_err(|errno| Refused::bad(format!("cannot use {root}: {}", plain(&errno.into()))))?;
    let mut errno = Errno::NOENT;
    for place in places(job) {
        match file_in(&directory, &place) {
            Ok(path) => return Ok(path),
            Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(other) => errno = other,
        }
    }
    Err(Refused::bad(format!("cannot run '{name}': {} in {root}", plain(&errno.into()))))
}

/// Where a program may be, in the order in which it is looked for.
fn places(job: &Submission) -> Vec<PathBuf> {
    let (directory, name) = (path(&job.directory), path(&job.name));
    let here = directory.join(name);
    if name.as_os_str().as_bytes().contains(&b'/') {
        return vec![here];
    }
    let searched = job.environment.iter().find_map(|variable| variable.strip_prefix(b"PATH="));
    let searched = searched.into_iter().flat_map(|list| list.split(|byte| *byte == b':'));
    std::iter::once(here).chain(searched.map(|place| directory.join(OsStr::from_bytes(place)).join(name))).collect()
}

fn path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// The path on the host of a regular file, links being what they are inside the root.
fn file_in(root: &OwnedFd, place: &Path) -> Result<PathBuf, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let file = rustix::fs::openat2(root, place, flags, Mode::empty(), ResolveFlags::IN_ROOT)?;
    let kind = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
    if !kind.is_file() {
        return Err(if kind.is_dir() { Errno::ISDIR } else { Errno::ACCESS });
    }
    let link = rustix::fs::readlink(format!("/proc/self/fd/{}", file.as_raw_fd()), Vec::new())?;
    Ok(path(link.as_bytes()).to_owned())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use coppice_api::job::Submission;
    use tempfile::TempDir;

    use super::program_in_root;
    use crate::http::jobs::tests::job;

    #[test]
    fn programs_are_found_as_the_job_sees_its_root() {
        let root = TempDir::new().expect("a directory");
        let at = |path: &str| root.path().join(path);
        for directory in ["work", "bin"] {
            std::fs::create_dir(at(directory)).expect("made");
        }
        for file in ["work/here", "bin/there", "bin/here"] {
            std::fs::write(at(file), b"x").expect("written");
        }
        std::os::unix::fs::symlink("/bin/there", at("work/link")).expect("linked");
        std::os::unix::fs::symlink("../../../bin/there", at("work/out")).expect("linked");
        let job = Submission {
            root: root.path().canonicalize().expect("there"),
            directory: "/work".into(),
            environment: vec!["PATH=/nowhere:/bin".into()],
            ..job()
        };
        let found = |name: &str| {
            let job = Submission { name: name.into(), ..job.clone() };
            program_in_root(&job).map_err(|refused| refused.message)
        };
        let is = |path: &str| Ok(job.root.join(path));
        assert_eq!(found("here"), is("work/here"));
        assert_eq!(found("there"), is("bin/there"));
        assert_eq!(found("./here"), is("work/here"));
        assert_eq!(found("/bin/here"), is("bin/here"));
        assert_eq!(found("../bin/here"), is("bin/here"));
        // Neither a link nor a path leads out.
        assert_eq!([found("link"), found("./out")], [is("bin/there"), is("bin/there")]);
        assert_eq!(found("../../../bin/there"), is("bin/there"));
        for (name, why) in [("nobody", "No such file"), ("./there", "No such file"), ("/work", "directory")] {
            let refused = found(name).expect_err(name);
            assert!(refused.starts_with(&format!("cannot run '{name}': ")) && refused.contains(why), "{refused}");
            assert!(!Path::new(name).is_absolute() || refused.contains("root"));
        }
    }
}
