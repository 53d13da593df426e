//! The directory of the host that a job sees as `/`.

use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use rustix::fd::{AsFd, AsRawFd};
use rustix::fs::{Access, AtFlags, CWD};
use rustix::io::Errno;

use super::porter::{Duty, Porter, is_on_duty};
use super::{Result, descriptor_path, errno};
use crate::disk::JobPlace;
#[cfg(test)]
use crate::wall::Wall;
use crate::wall::confine_to_root;

/// Magic numbers of file systems whose files are doors into the host's kernel, not data. Their entries can be looked
/// at, but neither opened nor changed: `/proc/self` would be this process, and some files block or act when read.
const KERNEL_FILE_SYSTEMS: [u64; 24] = [
    0x0000_9fa0, // proc
    0x6265_6572, // sysfs
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
    0x7363_6673, // securityfs
    0x6265_6570, // configfs
    0x6361_6665, // bpf
    0x0027_e0eb, // cgroup
    0x6367_7270, // cgroup2
    0xf97c_ff8c, // selinuxfs
    0x0000_1cd1, // devpts
    0x4249_4e4d, // binfmt_misc
    0x4341_5d53, // smackfs
    0x5a3c_69f0, // apparmorfs
    0x6573_5543, // fusectl
    0x6165_676c, // pstore
    0xde5e_81e4, // efivarfs
    0x0765_5821, // resctrl
    0x6e73_6673, // nsfs
    0x6e66_7364, // nfsd
    0x6759_6969, // rpc_pipefs
    0x1980_0202, // mqueue
    0x6c6f_6f70, // binderfs
    0x0000_9fa2, // usbdevfs
];

/// What tells one file of the host from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) device: u64,
    pub(super) inode: u64,
}

impl Identity {
    pub(super) fn of(file: &impl AsFd) -> Result<Self> {
        let status = rustix::fs::fstat(file)?;
        Ok(Self { device: status.st_dev, inode: status.st_ino })
    }
}

/// An open root directory. It stays the same directory if the host renames it, and is refused (`ESTALE`) once the host
/// has removed it.
#[derive(Debug)]
pub(crate) struct Root {
    dir: Arc<Dir>,
    identity: Identity,
    /// Where files are opened and names changed, if not here and now.
    porter: Option<Porter>,
    /// The host's kernel can resolve paths in one call, as far as is known.
    at_once: AtomicBool,
    /// The host's kernel keeps the job's threads in it.
    #[cfg(test)]
    walled: bool,
}

impl Root {
    /// Opens a directory of the host as a root.
    ///
    /// # Errors
    /// The errno of opening it, `EACCES` if it cannot be read and searched or is part of the host's kernel.
    pub(crate) fn open(path: impl AsRef<std::path::Path>) -> Result<Self> {
        let dir = Dir::open_ambient_dir(path, ambient_authority()).map_err(|error| errno(&error))?;
        rustix::fs::accessat(CWD, descriptor_path(&dir), Access::READ_OK | Access::EXEC_OK, AtFlags::EACCESS)?;
        if is_kernel_file_system(&dir)? {
            return Err(Errno::ACCESS);
        }
        let identity = Identity::of(&dir)?;
        Ok(Self {
            dir: Arc::new(dir),
            identity,
            porter: None,
            at_once: AtomicBool::new(true),
            #[cfg(test)]
            walled: false,
        })
    }

    /// Makes this thread the first of the job's, which whoever has the root has things done by, and has the host's
    /// kernel keep it in the root for that, if it can.
    pub(crate) fn guard(self, place: Option<JobPlace>) -> (Self, Duty) {
        let wall = confine_to_root(&*self.dir);
        if let Err(error) = &wall {
            tracing::warn!(%error, "no second wall around a job's root");
        }
        let (porter, duty) = Porter::new(place);
        #[cfg(test)]
        let walled = !matches!(wall, Ok(Wall::Missing));
        let root = Self {
            porter: Some(porter),
            #[cfg(test)]
            walled,
            ..self
        };
        (root, duty)
    }

    /// The job's first thread.
    pub(crate) fn porter(&self) -> Option<&Porter> {
        self.porter.as_ref()
    }

    /// Does what opens a file or changes a name where the host's kernel lets nobody out of the root: here, if this is a
    /// thread of the job's.
    pub(super) fn inside<T: Send + 'static>(&self, work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
        match &self.porter {
            Some(porter) if !is_on_duty() => porter.run(work),
            _ => work(),
        }
    }

    /// Is it worth trying to have a path resolved in one call?
    pub(super) fn resolves_at_once(&self) -> bool {
        self.at_once.load(Ordering::Relaxed)
    }

    /// It is not.
    pub(super) fn always_walk(&self) {
        self.at_once.store(false, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(super) fn is_guarded(&self) -> bool {
        self.walled
    }

    /// The directory, as long as it exists.
    pub(super) fn dir(&self) -> Result<&Arc<Dir>> {
        // A removed directory stays open but is an empty husk: say so rather than letting every file be "missing".
        if rustix::fs::fstat(&self.dir)?.st_nlink == 0 { Err(Errno::STALE) } else { Ok(&self.dir) }
    }

    /// Is that directory this root?
    pub(super) fn is(&self, dir: &impl AsFd) -> Result<bool> {
        Ok(Identity::of(dir)? == self.identity)
    }

    /// Refuses (`EACCES`) what belongs to one of the host's kernel file systems.
    pub(super) fn admit(&self, file: &impl AsFd, device: u64) -> Result<()> {
        if device != self.identity.device && is_kernel_file_system(file)? { Err(Errno::ACCESS) } else { Ok(()) }
    }

    /// As [`Self::admit`], for a file whose device nobody has looked at yet.
    pub(super) fn admit_unknown(&self, file: &impl AsFd) -> Result<()> {
        self.admit(file, rustix::fs::fstat(file)?.st_dev)
    }

    /// The path of an open file from the root as it is now, without a leading slash; empty for the root itself.
    /// `ENOENT` if the file lies outside (the host moved it) or was removed.
    ///
    /// This is a hint about names only: whoever uses it to open something compares what was opened.
    pub(super) fn path_of(&self, file: &impl AsRawFd) -> Result<Vec<u8>> {
        let root = std::fs::read_link(descriptor_path(&*self.dir)).map_err(|error| errno(&error))?;
        let path = std::fs::read_link(descriptor_path(file)).map_err(|error| errno(&error))?;
        let below = path.strip_prefix(root).map_err(|_| Errno::NOENT)?;
        Ok(below.as_os_str().as_bytes().to_vec())
    }
}

fn is_kernel_file_system(file: &impl AsFd) -> Result<bool> {
    let kind = rustix::fs::fstatfs(file)?.f_type;
    Ok(KERNEL_FILE_SYSTEMS.contains(&u64::from_ne_bytes(kind.to_ne_bytes())))
}
