//! Manifests in their files: by the jobs they are of, and numbers.

use std::str::FromStr;

use coppice_protocol::ids::JobId;
use rustix::fd::OwnedFd;
use rustix::fs::AtFlags;
use rustix::io::Errno;

use crate::directory::{make_directory, names, open_directory, read};
use crate::limits::MANIFEST_BYTES_MAX;
use crate::manifest::{of_file, to_file};
use crate::{Manifest, Result, Storage, StorageError};

/// What the names of their files end with.
const SUFFIX: &str = ".json";

impl Storage {
    /// Writes a manifest: from now on there is that checkpoint, also after a crash of the host. All its objects have to
    /// be on stable storage before ([`Storage::settle`]).
    ///
    /// # Errors
    /// [`StorageError::ManifestExists`], [`StorageError::ManifestTooLong`], or what the host says. It may be there or
    /// not then.
    pub fn write_manifest(&self, manifest: &Manifest) -> Result<()> {
        let (job, number) = (manifest.job, manifest.number);
        let bytes =
            to_file(manifest).map_err(|error| StorageError::DamagedManifest { job, number, why: error.to_string() })?;
        if bytes.len() > MANIFEST_BYTES_MAX {
            return Err(StorageError::ManifestTooLong { job, number, bytes: bytes.len() });
        }
        let path = path(job, number);
        let failed = |error| self.failed("write", &path, error);
        let made = make_directory(&self.jobs, &job.to_string()).map_err(failed)?;
        let directory = open_directory(&self.jobs, &job.to_string()).map_err(failed)?;
        match rustix::fs::statat(&directory, file_name(number), AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => {}
            other => return Err(other.map_or_else(failed, |_| StorageError::ManifestExists { job, number })),
        }
        let mut file = self.temporary()?;
        file.write(&bytes)?;
        file.synchronise()?;
        file.name_in(&directory, &file_name(number)).map_err(failed)?;
        rustix::fs::fsync(&directory).map_err(failed)?;
        if made { rustix::fs::fsync(&self.jobs).map_err(failed) } else { Ok(()) }
    }

    /// The jobs that have checkpoints, in order.
    ///
    /// # Errors
    /// What the host says.
    pub fn jobs(&self) -> Result<Vec<JobId>> {
        let names = names(&self.jobs).map_err(|error| self.failed("read", "jobs", error))?;
        let mut jobs: Vec<JobId> = names.iter().filter_map(|name| number(name)).map(JobId).collect();
        jobs.sort_unstable();
        Ok(jobs)
    }

    /// A job's checkpoints by their numbers, in order; what is wrong with one that is damaged. A job that nobody knows
    /// has none.
    ///
    /// # Errors
    /// What the host says of all of them.
    pub fn manifests(&self, job: JobId) -> Result<Vec<(u32, Result<Manifest>)>> {
        let Some(directory) = self.directory_of(job)? else { return Ok(Vec::new()) };
        let names = names(&directory).map_err(|error| self.failed("read", &format!("jobs/{job}"), error))?;
        let mut numbers: Vec<u32> = names.iter().filter_map(|name| number(name.strip_suffix(SUFFIX)?)).collect();
        numbers.sort_unstable();
        Ok(numbers.into_iter().map(|number| (number, self.read_manifest(&directory, job, number))).collect())
    }

    /// One checkpoint of a job.
    ///
    /// # Errors
    /// [`StorageError::NoManifest`], [`StorageError::DamagedManifest`], or what the host says.
    pub fn manifest(&self, job: JobId, number: u32) -> Result<Manifest> {
        let directory = self.directory_of(job)?.ok_or(StorageError::NoManifest { job, number })?;
        self.read_manifest(&directory, job, number)
    }

    /// Deletes a checkpoint, damaged or not. Its objects stay until the next [`Storage::collect`].
    ///
    /// # Errors
    /// [`StorageError::NoManifest`], or what the host says.
    pub fn delete(&self, job: JobId, number: u32) -> Result<()> {
        let path = path(job, number);
        let failed = |error| self.failed("remove", &path, error);
        let directory = self.directory_of(job)?.ok_or(StorageError::NoManifest { job, number })?;
        self.forget_verified(&directory, job, number)?;
        match rustix::fs::unlinkat(&directory, file_name(number), AtFlags::empty()) {
            Err(Errno::NOENT) => return Err(StorageError::NoManifest { job, number }),
            removed => removed.map_err(failed)?,
        }
        // Before any of its objects can go.
        rustix::fs::fsync(&directory).map_err(failed)?;
        match rustix::fs::unlinkat(&self.jobs, job.to_string(), AtFlags::REMOVEDIR) {
            // The job has more.
            Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(()),
            removed => removed.map_err(failed),
        }
    }

    pub(crate) fn directory_of(&self, job: JobId) -> Result<Option<OwnedFd>> {
        match open_directory(&self.jobs, &job.to_string()) {
            Err(Errno::NOENT) => Ok(None),
            opened => opened.map(Some).map_err(|error| self.failed("open", &format!("jobs/{job}"), error)),
        }
    }

    fn read_manifest(&self, directory: &OwnedFd, job: JobId, number: u32) -> Result<Manifest> {
        let file = match read(directory, &file_name(number), MANIFEST_BYTES_MAX) {
            Err(Errno::NOENT) => return Err(StorageError::NoManifest { job, number }),
            read => read.map_err(|error| self.failed("read", &path(job, number), error))?,
        };
        let damaged = |why| StorageError::DamagedManifest { job, number, why };
        let manifest = of_file(&file).map_err(damaged)?;
        if (manifest.job, manifest.number) != (job, number) {
            return Err(damaged(format!("it is checkpoint {} of job {}", manifest.number, manifest.job)));
        }
        Ok(manifest)
    }
}

pub(crate) fn file_name(number: u32) -> String {
    format!("{number}{SUFFIX}")
}

fn path(job: JobId, number: u32) -> String {
    format!("jobs/{job}/{}", file_name(number))
}

/// The number that a name is, if it is written as we write it.
fn number<T: FromStr + ToString>(name: &str) -> Option<T> {
    name.parse().ok().filter(|number: &T| number.to_string() == name)
}
