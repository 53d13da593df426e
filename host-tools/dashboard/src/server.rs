//! The dashboard: pages of a cluster on a port of loopback, for the browser of one user.
//!
//! It is a client of the service node like any other tool, in a process of its own: what pages cost is not on the
//! service node's event loop, and the dashboard outlives it and finds it again. A page works without scripts; with
//! them, [`live`] sends what has changed. Who may see it, and from where, is [`access`]' matter.

mod access;
mod assets;
mod live;
mod orders;
mod output;
mod pages;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use coppice_api::Client;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

pub use self::access::Access;
pub use self::orders::Tool;
use self::orders::{FORM_BYTES_MAX, ORDERS_MAX};

/// Connections at a time; further ones wait until one ends.
const CONNECTIONS_MAX: usize = 64;

/// How long a connection may take to say what it wants, also the next time: whoever may connect may not be the user.
const HEAD_TIME_MAX: Duration = Duration::from_secs(5);

/// How long it is waited when the system gives no connection, as it has no room for one.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Pages that are live at a time; further ones are as they were loaded.
const LIVE_MAX: usize = 16;

/// What requests share.
#[derive(Clone, Debug)]
struct Shared {
    client: Client,
    access: Access,
    /// What obeys orders.
    tool: Arc<Tool>,
    live: Arc<Semaphore>,
    orders: Arc<Semaphore>,
    ended: CancellationToken,
}

impl Shared {
    fn new(client: Client, access: Access, tool: Tool) -> Self {
        let [live, orders] = [LIVE_MAX, ORDERS_MAX].map(|most| Arc::new(Semaphore::new(most)));
        Self { client, access, tool: Arc::new(tool), live, orders, ended: CancellationToken::new() }
    }
}

/// Serves pages until `end` is done; `tool` does what is ordered on them. Then answers that are under way are, and live
/// pages end.
pub async fn serve(client: Client, access: Access, tool: Tool, listener: TcpListener, end: impl Future<Output = ()>) {
    let shared = Shared::new(client, access, tool);
    let ended = shared.ended.clone();
    let router = router(shared);
    let free = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let accepting = async {
        loop {
            // It is never closed.
            let Ok(slot) = Arc::clone(&free).acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) => drop(tokio::spawn(converse(stream, router.clone(), ended.clone(), slot))),
                // Descriptors have run out; those that are open will end.
                Err(_) => sleep(ACCEPT_RETRY_INTERVAL).await,
            }
        }
    };
    tokio::select! {
        () = accepting => {}
        () = end => {}
    }
    ended.cancel();
    // All of them are free when nobody is left.
    let _ = free.acquire_many(u32::try_from(CONNECTIONS_MAX).unwrap_or(u32::MAX)).await;
}

/// Answers one connection until it ends, or the dashboard does.
async fn converse(stream: TcpStream, router: Router, ended: CancellationToken, slot: OwnedSemaphorePermit) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME_MAX);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)));
    let goes_on = tokio::select! {
        _ = connection.as_mut() => false,
        () = ended.cancelled() => true,
    };
    if goes_on {
        connection.as_mut().graceful_shutdown();
        // Whether it broke off is its peer's matter.
        let _ = connection.await;
    }
    drop(slot);
}

fn router(shared: Shared) -> Router {
    Router::new()
        .route("/orders/{verb}", get(orders::ask).post(orders::obey).layer(DefaultBodyLimit::max(FORM_BYTES_MAX)))
        .route("/jobs/{job}/output", get(output::output))
        .route("/live/{*page}", get(live::live))
        .route("/live/", get(live::live))
        .route("/assets/{name}", get(assets::asset))
        .fallback(get(pages::show))
        .layer(from_fn_with_state(shared.clone(), access::guard))
        .with_state(shared)
}

#[cfg(test)]
mod tests;
