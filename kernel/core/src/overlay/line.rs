//! A connection to the node of a process that is above somebody here: frames go out, and nothing comes back.

use alloc::sync::Arc;
use core::future::poll_fn;

use coppice_endpoint::NetError;
use coppice_protocol::ids::NodeId;
use coppice_protocol::limits::OVERLAY_PORT;

use super::job::{OfJob, unless_over};
use crate::executor;
use crate::limits::{CONNECT_TIMEOUT_NS, OVERLAY_BUFFER_BYTES, OVERLAY_WRITE_NS_MAX};
use crate::net::Wire;

/// Calls a node and says to it what there is, until the overlay is over or the node cannot be reached. What is lost
/// with it is said again by whoever has said it, once the front end has told them of another process.
pub(super) async fn speak(of_job: &Arc<OfJob>, node: NodeId) {
    let connect = of_job.neighbours().connect(node, OVERLAY_PORT, OVERLAY_BUFFER_BYTES);
    let connected = unless_over(of_job, executor::timeout(CONNECT_TIMEOUT_NS, connect)).await;
    let wire = match connected {
        None => return,
        Some(Ok(Ok(wire))) => wire,
        Some(Ok(Err(error))) => {
            log::debug!("overlay of job {}: cannot connect to node {node}: {error}", of_job.id());
            return of_job.give_up(node);
        }
        Some(Err(executor::Elapsed)) => {
            log::debug!("overlay of job {}: node {node} does not answer", of_job.id());
            return of_job.give_up(node);
        }
    };
    while let Some(frame) = of_job.next_frame(node).await {
        let written = unless_over(of_job, executor::timeout(OVERLAY_WRITE_NS_MAX, write(&*wire, &frame))).await;
        match written {
            Some(Ok(Ok(()))) => {}
            None => break,
            Some(Ok(Err(_)) | Err(executor::Elapsed)) => {
                wire.abort();
                return of_job.give_up(node);
            }
        }
    }
}

/// Writes all of it.
async fn write(wire: &dyn Wire, mut bytes: &[u8]) -> Result<(), NetError> {
    poll_fn(|context| {
        while !bytes.is_empty() {
            match wire.poll_write(context, bytes) {
                core::task::Poll::Ready(Ok(count)) => bytes = bytes.get(count..).unwrap_or_default(),
                other => return other.map_ok(drop),
            }
        }
        core::task::Poll::Ready(Ok(()))
    })
    .await
}
