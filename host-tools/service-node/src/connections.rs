//! The connections of the API: how many are open at a time, and how many of them jobs may have.
//!
//! A job has its connections as long as it is under way. So that jobs cannot keep out who wants to know or to end
//! something, a part is kept back from them: when no more than that is left, submissions are refused. Whatever is
//! connected beyond all of them waits in the socket's backlog until another connection ends.

use std::collections::BTreeSet;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::serve::Listener;
use coppice_api::descriptors::Extent;
use coppice_api::limits::{API_CONNECTIONS_MAX, API_CONNECTIONS_MIN};
use coppice_protocol::ids::JobId;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::unix::SocketAddr;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::controller::Refused;
use crate::limits::{ATTACH_TIME_MAX, CONNECTIONS_KEPT_ONE_IN, CONNECTIONS_PER_JOB};
use crate::metrics::Slots;

/// Connections that this limit of open files leaves room for.
#[must_use]
pub fn within(limit: u64, cluster: Extent) -> usize {
    let left = limit.saturating_sub(cluster.of_service_node().into());
    let most = u64::from(API_CONNECTIONS_MAX);
    usize::try_from(left.clamp(API_CONNECTIONS_MIN.into(), most)).unwrap_or(usize::MAX)
}

/// All connections of one service node.
#[derive(Clone, Debug)]
pub struct Connections {
    most: usize,
    /// A permit for each that may still be opened.
    free: Arc<Semaphore>,
    open: Arc<AtomicUsize>,
    coming: Arc<Mutex<Coming>>,
}

/// Jobs that have been or are about to be taken, and whose connections are not open yet.
#[derive(Debug, Default)]
struct Coming {
    submissions: usize,
    jobs: BTreeSet<JobId>,
}

impl Connections {
    /// None yet, and never more than so many.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { most, free: Arc::new(Semaphore::new(most)), open: Arc::default(), coming: Arc::default() }
    }

    /// Takes connections from a socket, as many as there may be.
    #[must_use]
    pub fn bound(&self, listener: UnixListener) -> Bounded {
        Bounded { listener, connections: self.clone() }
    }

    /// How many are open.
    #[must_use]
    pub fn slots(&self) -> Slots {
        Slots { open: self.open.load(Ordering::Relaxed), most: self.most }
    }

    /// Waits until one more may be opened.
    pub(crate) async fn turn(&self) -> Turn {
        // The semaphore is never closed; were it, going on without it does no harm.
        Turn(Arc::clone(&self.free).acquire_owned().await.ok())
    }

    /// It is open.
    pub(crate) fn opened(&self, turn: Turn) -> Slot {
        self.open.fetch_add(1, Ordering::Relaxed);
        Slot { _turn: turn, open: Arc::clone(&self.open) }
    }

    /// Makes sure that a job can have its connections; they are expected until the submission ends, or is told
    /// otherwise.
    ///
    /// # Errors
    /// So many are open, or expected by others, that only those are left which are kept back from jobs.
    pub(crate) fn expect_job(&self) -> Result<Expected, Refused> {
        let open = self.most.saturating_sub(self.free.available_permits());
        let mut coming = self.coming();
        let expected = (coming.submissions + coming.jobs.len() + 1) * CONNECTIONS_PER_JOB;
        if open + expected > self.most - self.most / CONNECTIONS_KEPT_ONE_IN {
            return Err(Refused::busy(&format!(
                "coppiced has {open} connections open and can take no further job; wait until some have ended"
            )));
        }
        coming.submissions += 1;
        drop(coming);
        Ok(Expected(self.clone()))
    }

    /// Makes sure that somebody can wait for a job or for its output, over a connection that is open.
    ///
    /// # Errors
    /// Only those are left which are kept back for what is answered soon.
    pub(crate) fn expect_watcher(&self) -> Result<(), Refused> {
        let open = self.most.saturating_sub(self.free.available_permits());
        let coming = self.coming();
        let expected = (coming.submissions + coming.jobs.len()) * CONNECTIONS_PER_JOB;
        if open + expected > self.most - self.most / CONNECTIONS_KEPT_ONE_IN {
            return Err(Refused::busy(&format!(
                "coppiced has {open} connections open and lets nobody else wait; try again when some have ended"
            )));
        }
        Ok(())
    }

    /// The job's connections are being opened.
    pub(crate) fn attached(&self, job: JobId) {
        self.coming().jobs.remove(&job);
    }

    fn coming(&self) -> MutexGuard<'_, Coming> {
        // Whole at every moment, also after a panic.
        self.coming.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one needs to be opened.
#[derive(Debug)]
pub(crate) struct Turn(#[expect(dead_code, reason = "it is given back by being dropped")] Option<OwnedSemaphorePermit>);

/// One that is open.
#[derive(Debug)]
pub(crate) struct Slot {
    _turn: Turn,
    open: Arc<AtomicUsize>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The connections of a job that is being submitted.
#[derive(Debug)]
pub(crate) struct Expected(Connections);

impl Expected {
    /// The job was taken: they are expected until it is attached to, or killed because it was not.
    pub(crate) fn until_attached(self, job: JobId) {
        let connections = self.0.clone();
        connections.coming().jobs.insert(job);
        tokio::spawn(async move {
            tokio::time::sleep(ATTACH_TIME_MAX).await;
            connections.attached(job);
        });
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        let mut coming = self.0.coming();
        coming.submissions = coming.submissions.saturating_sub(1);
    }
}

/// A socket of which no more connections are taken than there may be.
#[derive(Debug)]
pub struct Bounded {
    listener: UnixListener,
    connections: Connections,
}

impl Listener for Bounded {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        let turn = self.connections.turn().await;
        let (stream, address) = Listener::accept(&mut self.listener).await;
        (Connection { stream, _slot: self.connections.opened(turn) }, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// One connection, which counts as long as it is open.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    _slot: Slot,
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
