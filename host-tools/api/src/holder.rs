//! Which machine has a cluster: state directories may lie in a home that several machines share.
//!
//! A lock and an abstract socket say so on one machine alone, and locks over a network may say nothing. So who brings a
//! cluster up leaves a record in its state directory, with the machine's name and present boot, and takes it away at
//! the end. A record of this machine, of whatever boot, is no obstacle: its lock says whether it is still true. One of
//! another machine stands until it is ended there, or somebody who knows that the machine is gone removes the record.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::limits::HOLDER_BYTES_MAX;
use crate::path::shown;
use crate::paths::ClusterPaths;

/// The machine and the process that have a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The machine's name.
    host: String,
    /// Its boot: also the same when the machine was given another name meanwhile.
    boot: String,
    /// The service node there.
    process: u32,
}

/// Another machine has the cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "cluster '{cluster}' is not here: machine '{host}' brought it up and has not ended it; use it there, or remove {} \
     if that machine is gone for good",
    shown(record)
)]
pub struct Elsewhere {
    /// The cluster.
    pub cluster: String,
    /// The machine.
    pub host: String,
    /// What says so.
    pub record: PathBuf,
}

/// Why a cluster cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum TakeError {
    /// Another machine has it.
    #[error(transparent)]
    Elsewhere(#[from] Elsewhere),
    /// The record cannot be read or written.
    #[error("cannot use {}: {source}", shown(record))]
    Record {
        /// The record.
        record: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Holder {
    /// This process.
    #[must_use]
    pub fn own() -> Self {
        let line = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let (host, boot) = (line("/proc/sys/kernel/hostname"), line("/proc/sys/kernel/random/boot_id"));
        Self { host, boot, process: std::process::id() }
    }

    /// Who the record says has the cluster; nobody if there is no record, or none that makes sense.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn of(paths: &ClusterPaths) -> io::Result<Option<Self>> {
        let file = match File::open(paths.holder()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut bytes = Vec::new();
        file.take(HOLDER_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(serde_json::from_slice::<Self>(&bytes).ok().filter(|holder| !holder.host.contains(char::is_control)))
    }

    fn is_on_the_machine_of(&self, other: &Self) -> bool {
        self.host == other.host || (self.boot == other.boot && !self.boot.is_empty())
    }
}

/// Whether the record says that another machine has the cluster. One that cannot be read says nothing.
///
/// # Errors
/// It does.
pub fn check(paths: &ClusterPaths) -> Result<(), Elsewhere> {
    let holder = Holder::of(paths).ok().flatten();
    match holder.filter(|holder| !holder.is_on_the_machine_of(&Holder::own())) {
        Some(Holder { host, .. }) => Err(Elsewhere { cluster: paths.name().to_string(), host, record: paths.holder() }),
        None => Ok(()),
    }
}

/// Has the record say that this process has the cluster. Only for one who has its lock.
///
/// # Errors
/// [`TakeError`].
pub fn take(paths: &ClusterPaths) -> Result<(), TakeError> {
    let (own, record) = (Holder::own(), paths.holder());
    let fresh = record.with_extension(format!("{}-{}", own.boot, own.process));
    let placed = write(&fresh, &own).and_then(|()| {
        // What this machine left, or nobody can read, is replaced; where nothing is, only one of several machines that
        // come at once gets its record there.
        if fs::exists(&record)? && check(paths).is_ok() {
            return fs::rename(&fresh, &record);
        }
        match fs::hard_link(&fresh, &record) {
            // A file system without links: the one that comes last has it.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists && !fs::exists(&record)? => {
                fs::rename(&fresh, &record)
            }
            linked => linked,
        }
    });
    let _renamed = fs::remove_file(&fresh);
    // Whatever came of it, another machine may have been faster.
    check(paths)?;
    placed.map_err(|source| TakeError::Record { record, source })
}

fn write(path: &PathBuf, holder: &Holder) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(&serde_json::to_vec(holder)?)?;
    file.sync_data()
}

/// Removes the record if it is still this one's.
///
/// # Errors
/// It cannot be removed.
pub fn give_up(paths: &ClusterPaths, holder: &Holder) -> io::Result<()> {
    if Holder::of(paths)?.as_ref() != Some(holder) {
        return Ok(());
    }
    match fs::remove_file(paths.holder()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::fs;

    use super::{Elsewhere, Holder, TakeError, check, give_up, take};
    use crate::paths::ClusterPaths;

    struct Home(tempfile::TempDir);

    impl Home {
        fn new() -> Self {
            let home = Self(tempfile::tempdir().expect("directory"));
            fs::create_dir_all(home.paths().state()).expect("made");
            home
        }

        fn paths(&self) -> ClusterPaths {
            let variable = |wanted: &str| (wanted == "COPPICE_HOME").then(|| OsString::from(self.0.path()));
            ClusterPaths::find_with("c".parse().expect("a name"), variable, 1000).expect("paths")
        }

        fn leave(&self, holder: &Holder) {
            fs::write(self.paths().holder(), serde_json::to_vec(holder).expect("JSON")).expect("written");
        }

        fn files(&self) -> usize {
            fs::read_dir(self.paths().state()).expect("state").count()
        }
    }

    fn other() -> Holder {
        Holder { host: "elsewhere".to_owned(), boot: "another".to_owned(), process: 7 }
    }

    #[test]
    fn what_another_machine_has_is_not_taken_from_it() {
        let home = Home::new();
        let paths = home.paths();
        home.leave(&other());
        let refused = check(&paths).expect_err("there");
        let expected = Elsewhere { cluster: "c".to_owned(), host: "elsewhere".to_owned(), record: paths.holder() };
        assert_eq!(refused, expected);
        let text = refused.to_string();
        assert!(text.contains("'elsewhere'") && text.contains(&crate::shown(&paths.holder()).to_string()), "{text}");
        assert!(!text.contains('\n') && !text.contains("  "), "{text}");
        assert!(matches!(take(&paths), Err(TakeError::Elsewhere(found)) if found == expected));
        give_up(&paths, &Holder::own()).expect("not ours");
        assert_eq!((Holder::of(&paths).expect("read"), home.files()), (Some(other()), 1));
        // Somebody knows that it is gone.
        fs::remove_file(paths.holder()).expect("removed");
        take(&paths).expect("free");
        assert_eq!((Holder::of(&paths).expect("read"), home.files()), (Some(Holder::own()), 1));
        give_up(&paths, &Holder::own()).expect("ours");
        assert_eq!(home.files(), 0);
    }

    #[test]
    fn what_this_machine_left_is_taken_over() {
        let (home, own) = (Home::new(), Holder::own());
        let paths = home.paths();
        let rebooted = Holder { boot: "an earlier one".to_owned(), process: 1, ..own.clone() };
        let renamed = Holder { host: "earlier".to_owned(), process: 1, ..own.clone() };
        for left in [rebooted, renamed] {
            home.leave(&left);
            check(&paths).expect("here");
            take(&paths).expect("here");
            assert_eq!(Holder::of(&paths).expect("read"), Some(own.clone()));
        }
        // What makes no sense names nobody.
        let control = Holder { host: "a\nb".to_owned(), ..other() };
        for damaged in [b"{".to_vec(), Vec::new(), vec![b' '; 1 << 20], serde_json::to_vec(&control).expect("JSON")] {
            fs::write(paths.holder(), damaged).expect("written");
            check(&paths).expect("nobody");
            take(&paths).expect("nobody has it");
            assert_eq!((Holder::of(&paths).expect("read"), home.files()), (Some(own.clone()), 1));
        }
    }
}
