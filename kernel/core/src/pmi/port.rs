//! PMI_PORT: for ranks that call PMI instead of using the descriptor that they inherit.
//!
//! The port is a socket like those of programs, so that a program of this node reaches it without the network. Who
//! calls from elsewhere is turned away: programs cannot, and nodes have no reason to.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::future::poll_fn;
use core::net::Ipv4Addr;
use core::sync::atomic::AtomicUsize;
use core::task::{Context, Poll};

use coppice_endpoint::SocketError;
use coppice_protocol::limits::{PMI_LINE_BYTES_MAX, PMI_PORT};
use coppice_protocol::pmi::Conversation;

use super::Pmi;
use super::dialogue::Dialogue;
use super::job::Job;
use super::peers::Ticket;
use super::speech::Speech;
use crate::executor::{self, race};
use crate::files::readiness::until;
use crate::limits::PMI_LOCAL_CALLERS_MAX;
use crate::net::{Network, Tcp};

impl Pmi {
    /// Answers the calls of this node's ranks. Never done, unless the port is in use.
    pub async fn serve(self, network: Arc<dyn Network>) {
        let listener = match listen(&*network) {
            Ok(listener) => listener,
            Err(error) => return log::error!("pmi: cannot listen to ranks: {error}"),
        };
        let callers = Arc::<AtomicUsize>::default();
        loop {
            let socket = until(|waker| listener.register(waker), || listener.accept().ok()).await;
            let own = socket.local().0;
            let is_local = socket.peer().is_some_and(|(address, _)| address == own || address.is_loopback());
            // Dropped, it is closed. So it is at the limit.
            let Some(ticket) = Ticket::take(&callers, PMI_LOCAL_CALLERS_MAX).filter(|_| is_local) else { continue };
            let Some(job) = self.job_here() else { continue };
            let spawned = executor::spawn(async move {
                let guest = Guest::new(&job);
                let _ = race(job.over(), talk(&job, &*socket)).await;
                drop((socket, guest, ticket));
            });
            if spawned.is_err() {
                log::warn!("pmi: no room for a rank that calls");
            }
        }
    }

    /// The job that has ranks here: there is one at a time.
    fn job_here(&self) -> Option<Arc<Job>> {
        self.shared.jobs.lock().values().find(|job| !job.is_deserted()).cloned()
    }
}

fn listen(network: &dyn Network) -> Result<Box<dyn Tcp>, SocketError> {
    let listener = network.tcp()?;
    listener.bind(Ipv4Addr::UNSPECIFIED, PMI_PORT, false)?;
    listener.listen(PMI_LOCAL_CALLERS_MAX)?;
    Ok(listener)
}

/// A task that speaks with a rank, as its job counts them.
struct Guest(Arc<Job>);

impl Guest {
    fn new(job: &Arc<Job>) -> Self {
        job.guest_came();
        Self(Arc::clone(job))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.0.guest_gone();
    }
}

/// Speaks with a rank until one of both has nothing more to say.
async fn talk(job: &Arc<Job>, socket: &dyn Tcp) {
    let speech = Speech::Pmi(Conversation::on_port());
    let Ok(mut dialogue) = Dialogue::new(Arc::clone(job), speech) else { return };
    poll_fn(|context| poll_talk(job, socket, &mut dialogue, context)).await;
}

fn poll_talk(job: &Job, socket: &dyn Tcp, dialogue: &mut Dialogue, context: &mut Context<'_>) -> Poll<()> {
    // First to be told of changes, then a look.
    socket.register(context.waker());
    loop {
        if let Some(rank) = dialogue.rank() {
            // There are few who do, for whom there always is room.
            let _ = job.watch_rank(rank, context.waker());
        }
        dialogue.go_on();
        let sent = send(socket, dialogue);
        let is_over = dialogue.is_over() && dialogue.said().is_empty();
        let heard = if dialogue.has_room() { receive(socket, dialogue) } else { Err(SocketError::WouldBlock) };
        match (sent, heard) {
            // Nothing more comes, or could go.
            (_, Ok(0)) => return Poll::Ready(()),
            _ if is_over => return Poll::Ready(()),
            (Ok(_), _) | (_, Ok(_)) => {}
            (Err(SocketError::WouldBlock), Err(SocketError::WouldBlock)) => return Poll::Pending,
            (Err(_), Err(_)) => return Poll::Ready(()),
        }
    }
}

/// Sends what the rank is to be told.
fn send(socket: &dyn Tcp, dialogue: &mut Dialogue) -> Result<(), SocketError> {
    if dialogue.said().is_empty() {
        return Err(SocketError::WouldBlock);
    }
    let mut rest = dialogue.said();
    let count = socket.send(&mut |room| {
        let count = room.len().min(rest.len());
        room[..count].copy_from_slice(&rest[..count]);
        rest = &rest[count..];
        count
    })?;
    dialogue.told(count);
    Ok(())
}

/// Hears what the rank says; 0 if that is all.
fn receive(socket: &dyn Tcp, dialogue: &mut Dialogue) -> Result<usize, SocketError> {
    let mut result = Err(SocketError::WouldBlock);
    dialogue.hear(PMI_LINE_BYTES_MAX, |slot| {
        let mut filled = 0;
        result = socket.receive(&mut |bytes| {
            let count = bytes.len().min(slot.len() - filled);
            slot[filled..filled + count].copy_from_slice(&bytes[..count]);
            filled += count;
            count
        });
        filled
    });
    result
}
