//! Files of the host that users name: looked at on threads, never by the thread that serves everybody, because they may
//! lie on a mount that does not answer.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::controller::Refused;
use crate::limits::HOST_FILE_THREADS_MAX;

/// The threads.
#[derive(Clone, Debug)]
pub struct HostFiles {
    /// A permit for each thread, kept as long as that works, whether or not somebody still waits for it.
    threads: Arc<Semaphore>,
}

impl Default for HostFiles {
    fn default() -> Self {
        Self { threads: Arc::new(Semaphore::new(HOST_FILE_THREADS_MAX)) }
    }
}

impl HostFiles {
    /// Does some work on `what` on a thread, and waits so long for it.
    ///
    /// # Errors
    /// It takes longer; or so many others take longer that there is no thread for it.
    pub async fn work<T: Send + 'static>(
        &self,
        what: &str,
        patience: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refused> {
        let Ok(permit) = Arc::clone(&self.threads).try_acquire_owned() else {
            return Err(Refused::busy(&format!(
                "cannot look at {what}: {HOST_FILE_THREADS_MAX} requests wait for files that do not answer"
            )));
        };
        let thread = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(permit);
            done
        });
        match tokio::time::timeout(patience, thread).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => Err(Refused { status: 500, message: format!("looking at {what}: {error}") }),
            Err(_) => Err(Refused::bad(format!(
                "cannot look at {what}: it has not answered for {} s; is what it lies on still there?",
                patience.as_secs()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::HostFiles;
    use crate::limits::HOST_FILE_THREADS_MAX;

    #[tokio::test]
    async fn what_does_not_answer_is_given_up_and_takes_a_thread_until_it_does() {
        let files = HostFiles::default();
        let patience = Duration::from_millis(1);
        let mut dead = Vec::new();
        for _ in 0..HOST_FILE_THREADS_MAX {
            let (answer, answered) = mpsc::channel::<()>();
            dead.push(answer);
            let refused = files.work("/dead", patience, move || answered.recv()).await.expect_err("no answer");
            assert!(refused.message.contains("/dead") && refused.message.contains("has not answered"));
        }
        let refused = files.work("/good", patience, || ()).await.expect_err("no thread");
        assert_eq!(refused.status, 503);
        drop(dead);
        while files.threads.available_permits() == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(files.work("/good", Duration::from_secs(60), || 7).await, Ok(7));
    }
}
