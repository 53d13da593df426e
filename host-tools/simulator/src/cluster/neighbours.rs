//! The other nodes, as a node's kernel reaches them.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use coppice_core::net::{BoxFuture, Caller, Datagrams, Door, Neighbours, Wire};
use coppice_endpoint::NetError;
use coppice_protocol::ids::NodeId;

use super::machine::LifeId;
use super::network::{Callee, End, Network};
use super::wire::NodeEnd;

/// A boot's way to the other nodes.
pub(super) struct Neighbourhood {
    pub network: Network,
    pub life: LifeId,
}

impl Neighbours for Neighbourhood {
    fn connect(&self, node: NodeId, port: u16, buffer_bytes: usize) -> BoxFuture<'_, Result<Arc<dyn Wire>, NetError>> {
        Box::pin(async move {
            let callee = Callee::Node(node, port);
            let end = NodeEnd::call(self.network.clone(), self.life, callee, buffer_bytes).await?;
            Ok(Arc::new(end) as Arc<dyn Wire>)
        })
    }

    fn listen(&self, port: u16, backlog: usize, buffer_bytes: usize) -> Result<Box<dyn Door>, NetError> {
        let at = (self.life, port);
        if !self.network.lock().listen(at, backlog, buffer_bytes) {
            return Err(NetError::PortInUse);
        }
        Ok(Box::new(OpenPort { network: self.network.clone(), at }))
    }

    /// There are none in this world: its jobs have nothing staged.
    fn datagrams(&self, _: u16, _: usize) -> Result<Arc<dyn Datagrams>, NetError> {
        Err(NetError::Address)
    }
}

/// A port that other nodes may call.
struct OpenPort {
    network: Network,
    at: (LifeId, u16),
}

impl Drop for OpenPort {
    fn drop(&mut self) {
        self.network.lock().unlisten(self.at);
    }
}

impl Door for OpenPort {
    fn accept(&self) -> BoxFuture<'_, Result<Caller, NetError>> {
        Box::pin(poll_fn(|context| {
            let Some((id, node)) = self.network.lock().accept(self.at, context.waker()) else { return Poll::Pending };
            let end = NodeEnd { network: self.network.clone(), id, end: End::Called };
            Poll::Ready(Ok((Arc::new(end) as Arc<dyn Wire>, node.address())))
        }))
    }
}
