//! The cluster as a whole, and its nodes.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use coppice_api::body::ChannelBody;
use coppice_api::cluster::ClusterView;
use coppice_api::node::NodeView;
use coppice_protocol::ids::NodeId;

use super::{Answered, Api, Number, answer};
use crate::controller::{Refused, Request};
use crate::limits::STREAM_PIECES_MAX;

pub(super) async fn cluster(State(api): State<Api>) -> Answered<ClusterView> {
    let view = api.ask(Request::Watch).await?;
    Ok(Json(view.borrow().clone()))
}

/// One JSON line for the state now and for every later one. States that change faster than they are read are skipped.
pub(super) async fn watch(State(api): State<Api>) -> Result<Response, Refused> {
    let mut view = api.ask(Request::Watch).await?;
    let (pieces, body) = ChannelBody::new(STREAM_PIECES_MAX);
    tokio::spawn(async move {
        loop {
            let mut line = serde_json::to_vec(&*view.borrow_and_update()).unwrap_or_default();
            line.push(b'\n');
            if pieces.send(line.into()).await.is_err() {
                return;
            }
            tokio::select! {
                changed = view.changed() => if changed.is_err() { return },
                () = pieces.closed() => return,
            }
        }
    });
    Ok(Body::new(body).into_response())
}

pub(super) async fn down(State(api): State<Api>) -> Answered<()> {
    answer(api.tell(Request::Down).await)
}

pub(super) async fn nodes(State(api): State<Api>) -> Answered<Vec<NodeView>> {
    answer(api.ask(Request::Nodes).await)
}

pub(super) async fn reboot(State(api): State<Api>, Number(node): Number<u32>) -> Answered<()> {
    answer(api.ask(|answer| Request::Reboot(NodeId(node), answer)).await)
}
