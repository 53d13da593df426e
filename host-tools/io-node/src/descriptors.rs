//! Descriptors: how many files the jobs of the pset may have open, of those that this process may have open at all.
//!
//! - What the I/O node needs itself is kept back ([`DESCRIPTORS_OWN`]).
//! - A job that starts has some for its root and program and [`HANDLES_PER_RANK_KEPT`] for each of its ranks, or it
//!   does not start. They are its own until its last file is closed.
//! - What a rank opens beyond these comes from what is left. There a job may have as many as are still free, less an
//!   eighth of all, which stays for jobs that start: so the only job gets nearly half of them, two get nearly a third
//!   each, and none can take them all. (A dynamic threshold, as of buffers in switches: Choudhury and Hahne, 1998.)

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coppice_protocol::limits::HANDLES_PER_RANK_KEPT;
use rustix::io::Errno;

use crate::files::Result;
use crate::limits::{DESCRIPTORS_OWN, DESCRIPTORS_PER_JOB, DESCRIPTORS_PER_STAGED_FILE};

/// All that there are for jobs.
#[derive(Debug)]
pub(crate) struct Descriptors {
    all: usize,
    free: Mutex<usize>,
}

/// What a job has of them.
#[derive(Debug)]
pub(crate) struct JobDescriptors {
    pool: Arc<Descriptors>,
    own: usize,
    /// Taken beyond its own.
    beyond: Mutex<usize>,
}

/// One that a file of a job takes, until it is closed.
#[derive(Debug)]
pub(crate) struct Descriptor {
    job: Arc<JobDescriptors>,
    is_beyond: bool,
}

fn lock(count: &Mutex<usize>) -> MutexGuard<'_, usize> {
    count.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Descriptors {
    /// Of a process that may have so many files open.
    #[must_use]
    pub(crate) fn of_limit(limit: usize) -> Arc<Self> {
        let all = limit.saturating_sub(DESCRIPTORS_OWN);
        Arc::new(Self { all, free: Mutex::new(all) })
    }

    /// What a job of so many ranks and files that are staged from here has of its own; the reason why it cannot have
    /// that, if it cannot.
    pub(crate) fn for_job(
        self: &Arc<Self>,
        ranks: usize,
        staged: usize,
    ) -> core::result::Result<JobDescriptors, String> {
        let own = DESCRIPTORS_PER_JOB
            .saturating_add(ranks.saturating_mul(HANDLES_PER_RANK_KEPT))
            .saturating_add(staged.saturating_mul(DESCRIPTORS_PER_STAGED_FILE));
        let mut free = lock(&self.free);
        if *free < own {
            return Err(format!(
                "the I/O node can have {} files open for jobs, {free} of them are free, and {ranks} ranks need {own}; \
                 wait for other jobs, or raise the limit of open files (ulimit -Hn) and bring the cluster up again",
                self.all
            ));
        }
        *free -= own;
        Ok(JobDescriptors { pool: Arc::clone(self), own, beyond: Mutex::new(0) })
    }
}

impl JobDescriptors {
    /// One more, for a rank that has so many files open.
    ///
    /// # Errors
    /// `ENFILE` if the job has its share.
    pub(crate) fn take(self: &Arc<Self>, held: usize) -> Result<Descriptor> {
        let is_beyond = held >= HANDLES_PER_RANK_KEPT;
        if is_beyond {
            let (mut beyond, mut free) = (lock(&self.beyond), lock(&self.pool.free));
            if *beyond >= free.saturating_sub(self.pool.all / 8) {
                return Err(Errno::NFILE);
            }
            *beyond += 1;
            *free -= 1;
        }
        Ok(Descriptor { job: Arc::clone(self), is_beyond })
    }
}

impl Drop for JobDescriptors {
    fn drop(&mut self) {
        *lock(&self.pool.free) += self.own;
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        if self.is_beyond {
            let (mut beyond, mut free) = (lock(&self.job.beyond), lock(&self.job.pool.free));
            *beyond -= 1;
            *free += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use coppice_protocol::limits::HANDLES_PER_RANK_KEPT;
    use proptest::collection::vec;
    use proptest::prelude::any;
    use proptest::{prop_assert, prop_assert_eq, proptest};
    use rustix::io::Errno;

    use super::{Descriptor, Descriptors, JobDescriptors, lock};
    use crate::limits::{DESCRIPTORS_OWN, DESCRIPTORS_PER_JOB};

    /// Takes all that a job of one rank gets.
    fn fill(job: &Arc<JobDescriptors>) -> Vec<Descriptor> {
        let mut taken = Vec::new();
        while let Ok(descriptor) = job.take(taken.len()) {
            taken.push(descriptor);
        }
        taken
    }

    #[test]
    fn no_job_can_take_them_all() {
        let pool = Descriptors::of_limit(DESCRIPTORS_OWN + 8000);
        let first = Arc::new(pool.for_job(1, 0).expect("room"));
        let of_first = fill(&first);
        assert!((3400..4000).contains(&of_first.len()), "{}", of_first.len());
        assert_eq!(first.take(of_first.len()).map(drop), Err(Errno::NFILE));
        // Others get their share, and jobs start after it.
        let second = Arc::new(pool.for_job(1, 0).expect("room"));
        let of_second = fill(&second);
        assert!(of_second.len() > 1000, "{}", of_second.len());
        let third = Arc::new(pool.for_job(50, 0).expect("an eighth is kept for jobs that start"));
        assert_eq!(third.take(0).map(drop), Ok(()));
        // As soon as the first has closed its files, the others may have more.
        drop(of_first);
        assert_eq!(second.take(of_second.len()).map(drop), Ok(()));
        drop((first, of_second, second, third));
        assert_eq!(*lock(&pool.free), 8000);
    }

    #[test]
    fn a_job_that_cannot_have_its_own_does_not_start() {
        let pool = Descriptors::of_limit(DESCRIPTORS_OWN + 100);
        let refused = pool.for_job(64, 0).map(drop).expect_err("too many ranks");
        assert!(refused.contains("64 ranks need") && refused.contains("ulimit"), "{refused}");
        assert_eq!(*lock(&pool.free), 100);
        assert!(Descriptors::of_limit(3).for_job(1, 0).is_err());
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_never_more_taken_than_there_is(
            limit in 0..3000_usize,
            steps in vec((any::<u8>(), 0..4_usize, any::<u8>()), 0..400),
        ) {
            let pool = Descriptors::of_limit(DESCRIPTORS_OWN + limit);
            let mut jobs: [Option<(Arc<JobDescriptors>, Vec<Descriptor>)>; 4] = Default::default();
            for (what, which, count) in steps {
                match &mut jobs[which] {
                    None => {
                        let job = pool.for_job(usize::from(count % 6), usize::from(count % 3)).ok();
                        jobs[which] = job.map(|job| (Arc::new(job), vec![]));
                    }
                    slot if what < 10 => *slot = None,
                    Some((_, taken)) if what < 60 => taken.truncate(taken.len().saturating_sub(count.into())),
                    Some((job, taken)) => {
                        for _ in 0..count {
                            taken.extend(job.take(taken.len()).ok());
                        }
                    }
                }
                let own = |job: &JobDescriptors| job.own + *lock(&job.beyond);
                let held: usize = jobs.iter().flatten().map(|(job, _)| own(job)).sum();
                prop_assert_eq!(held + *lock(&pool.free), limit);
                for (job, taken) in jobs.iter().flatten() {
                    let kept = taken.iter().filter(|descriptor| !descriptor.is_beyond).count();
                    prop_assert!(kept <= HANDLES_PER_RANK_KEPT && kept + DESCRIPTORS_PER_JOB <= job.own.max(20));
                }
            }
        }
    }
}
