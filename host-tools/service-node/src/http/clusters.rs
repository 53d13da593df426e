//! The cluster as a whole, and its nodes.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use coppice_api::body::ChannelBody;
use coppice_api::body::LINES_TYPE;
use coppice_api::cluster::ClusterView;
use coppice_api::node::NodeView;
use coppice_api::schema::Nothing;
use coppice_protocol::ids::NodeId;

use super::{Answered, Api, Bad, Missing, Number, OfNode, Usual, answer, document};
use crate::controller::{Refused, Request};
use crate::limits::STREAM_PIECES_MAX;

/// The cluster as a whole: what it consists of and how far it is.
#[utoipa::path(
    get,
    path = "/v1/cluster",
    tag = "cluster",
    operation_id = "cluster",
    responses((status = 200, description = "The cluster.", body = ClusterView), Usual)
)]
pub(super) async fn cluster(State(api): State<Api>) -> Answered<ClusterView> {
    let view = api.ask(Request::Watch).await?;
    Ok(Json(view.borrow().clone()))
}

/// The cluster as it is now, and again whenever it changes, until it is down.
///
/// One JSON line for each state. States that change faster than they are read are skipped.
#[utoipa::path(
    get,
    path = "/v1/cluster/watch",
    tag = "cluster",
    operation_id = "watch_cluster",
    responses(
        (
            status = 200,
            description = "Lines, each the cluster as it is then.",
            body = ClusterView, content_type = LINES_TYPE
        ),
        Usual
    )
)]
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
    Ok(document::of_type(LINES_TYPE, body))
}

/// Ends the cluster.
///
/// It is answered at once. Jobs are killed, and the connection of who watches the cluster ends when all is gone.
#[utoipa::path(
    post,
    path = "/v1/cluster/down",
    tag = "cluster",
    operation_id = "down",
    responses((status = 200, description = "It is being ended.", body = Nothing), Usual)
)]
pub(super) async fn down(State(api): State<Api>) -> Answered<()> {
    answer(api.tell(Request::Down).await)
}

/// The compute nodes, in order.
#[utoipa::path(
    get,
    path = "/v1/nodes",
    tag = "nodes",
    operation_id = "nodes",
    responses((status = 200, description = "The nodes.", body = Vec<NodeView>), Usual)
)]
pub(super) async fn nodes(State(api): State<Api>) -> Answered<Vec<NodeView>> {
    answer(api.ask(Request::Nodes).await)
}

/// Boots a node anew; a job that has it ends.
#[utoipa::path(
    post,
    path = "/v1/nodes/{node}/reboot",
    tag = "nodes",
    operation_id = "reboot_node",
    params(OfNode),
    responses((status = 200, description = "It is being booted.", body = Nothing), Bad, Missing, Usual)
)]
pub(super) async fn reboot(State(api): State<Api>, Number(OfNode { node }): Number<OfNode>) -> Answered<()> {
    answer(api.ask(|answer| Request::Reboot(NodeId(node), answer)).await)
}
