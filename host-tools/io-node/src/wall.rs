//! A second wall around the I/O node, held by the host's kernel: Landlock.
//!
//! The first one is the way paths are resolved ([`crate::files`]). Should that ever be fooled, the kernel refuses by
//! itself what no job has a right to. There are three kinds of threads, each in a domain of its own that it cannot
//! leave:
//!
//! - **The threads of a job** ([`confine_to_root`]): the first opens the job's root and program, goes into a domain of
//!   that root alone, and starts one in the same domain for each of the job's nodes. From then on these open all files
//!   of the job and make, remove, rename and link all of its names.
//!   A file or a directory that does not lie in the root is `EACCES` there, however it was found, and so are new
//!   devices, sockets and FIFOs, and giving such a one another name, everywhere.
//! - **The threads of objects** ([`confine_to_objects`]), which keep parts of checkpoints: they make, read and rename
//!   files in two directories of where checkpoints are kept, and read and write the regions of nodes where these lie.
//!   Not even manifests can be reached there, and no region made or removed.
//! - **Everything else** ([`confine_to_nothing`]): the event loop, which reads what nodes say, and the threads that
//!   wait for disks. They work on files that were opened by the threads above, and can open and change none at all.
//!   Their one right is to remove files from the directory of the cluster's sockets, because their own is in there.
//!
//! None can start programs, send signals to other processes, reach abstract sockets and TCP ports of the host, or
//! command devices. One more thread, outside, does nothing but start the jobs' threads.
//!
//! What the wall does not hold: Landlock has no say in what only looks at files or changes no data (stat, readlink,
//! access, chmod, utimensat, `O_PATH`), so these rest on the first wall alone. All threads are one process: who could
//! run code of his own in it could take any of their files. And in a root of `/` everything is inside, so the host's
//! kernel file systems are kept shut by [`crate::files`] alone there.
//!
//! As calls that may wait are made on these threads anyhow, the wall costs nothing but its making. Where the host's
//! kernel has no Landlock, or has only its first version, which forbids to rename between directories, there is no such
//! wall: the log says so, and
//! `coppice doctor`.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus, PathBeneath, PathFd,
    RestrictionStatus, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

/// What is refused is what these versions know, as far as the kernel does, and never more: what newer ones can refuse
/// was not tried.
const FILES: ABI = ABI::V5;
/// See [`FILES`].
const NETWORK: ABI = ABI::V4;
/// See [`FILES`].
const SCOPES: ABI = ABI::V6;

/// How much of a wall there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wall {
    /// The kernel holds it; this is its version of Landlock.
    Stands(i32),
    /// The kernel has none that can be used.
    Missing,
}

impl Wall {
    fn of(status: &RestrictionStatus) -> Self {
        match (&status.ruleset, status.landlock) {
            (RulesetStatus::NotEnforced, _) => Self::Missing,
            (_, LandlockStatus::Available { effective_abi, kernel_abi }) => {
                Self::Stands(kernel_abi.unwrap_or(effective_abi as i32))
            }
            _ => Self::Missing,
        }
    }
}

/// Keeps this thread, and those it starts from now on, in a directory.
///
/// # Errors
/// If the kernel does not take the rules; the thread is as free as before then.
pub fn confine_to_root(root: &impl AsFd) -> Result<Wall, RulesetError> {
    let rights = AccessFs::ReadDir
        | AccessFs::ReadFile
        | AccessFs::WriteFile
        | AccessFs::ReadDir
        | AccessFs::RemoveDir
        | AccessFs::RemoveFile
        | AccessFs::MakeDir
        | AccessFs::MakeReg
        | AccessFs::MakeSym
        | AccessFs::Refer
        | AccessFs::Truncate;
    raise(&[(root.as_fd(), rights)])
}

/// Keeps this thread, and those it starts from now on, in the directories that objects of checkpoints are put in, and
/// in that of nodes' regions, if there is one.
///
/// # Errors
/// As [`confine_to_root`].
pub fn confine_to_objects(
    directories: [BorrowedFd<'_>; 3],
    regions: Option<BorrowedFd<'_>>,
) -> Result<Wall, RulesetError> {
    let rights = AccessFs::ReadDir
        | AccessFs::ReadFile
        | AccessFs::WriteFile
        | AccessFs::RemoveFile
        | AccessFs::MakeDir
        | AccessFs::MakeReg
        | AccessFs::Refer;
    let mut rules = Vec::from(directories.map(|directory| (directory, rights)));
    rules.extend(regions.map(|regions| (regions, AccessFs::ReadFile | AccessFs::WriteFile)));
    raise(&rules)
}

/// Keeps this thread, and those it starts from now on, from opening and changing any file, but for removing some from
/// the directory `sockets`.
///
/// # Errors
/// As [`confine_to_root`].
pub fn confine_to_nothing(sockets: &Path) -> Result<Wall, RulesetError> {
    match PathFd::new(sockets) {
        Ok(sockets) => raise(&[(sockets.as_fd(), AccessFs::RemoveFile.into())]),
        Err(_) => raise(&[]),
    }
}

/// Leaves these rights in these directories.
fn raise(rules: &[(BorrowedFd<'_>, BitFlags<AccessFs>)]) -> Result<Wall, RulesetError> {
    let mut ruleset = Ruleset::default()
        // All or nothing: without it, no file could be renamed from one directory to another.
        .set_compatibility(CompatLevel::SoftRequirement)
        .handle_access(AccessFs::Refer)?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(FILES))?
        .handle_access(AccessNet::from_all(NETWORK))?
        .scope(Scope::from_all(SCOPES))?
        .create()?;
    for (directory, rights) in rules {
        ruleset = ruleset.add_rule(PathBeneath::new(directory, *rights))?;
    }
    Ok(Wall::of(&ruleset.restrict_self()?))
}
