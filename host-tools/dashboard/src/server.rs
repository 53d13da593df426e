//! The dashboard: pages of a cluster on a port of loopback, for the browser of one user.
//!
//! It is a client of the service node like any other tool, in a process of its own: what pages cost is not on the
//! service node's event loop, and the dashboard outlives it and finds it again. A page works without scripts; with
//! them, [`live`] sends what has changed. Who may see it, and from where, is [`access`]' matter.

mod access;
mod assets;
mod live;
mod orders;
mod pages;

use std::future::Future;
use std::io;
use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use coppice_api::Client;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

pub use self::access::Access;
use self::pages::Page;

/// Pages that are live at a time; further ones are as they were loaded.
const LIVE_MAX: usize = 16;

/// What requests share.
#[derive(Clone, Debug)]
struct Shared {
    client: Client,
    access: Access,
    live: Arc<Semaphore>,
    ended: CancellationToken,
}

impl Shared {
    fn new(client: Client, access: Access) -> Self {
        Self { client, access, live: Arc::new(Semaphore::new(LIVE_MAX)), ended: CancellationToken::new() }
    }
}

/// Serves pages until `end` is done. Those who listen to live pages are sent away then.
///
/// # Errors
/// Of the listener.
pub async fn serve(
    client: Client,
    access: Access,
    listener: TcpListener,
    end: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let shared = Shared::new(client, access);
    let ended = shared.ended.clone();
    axum::serve(listener, router(shared))
        .with_graceful_shutdown(async move {
            end.await;
            // Each that is live hears that and ends, and is not waited for.
            ended.cancel();
        })
        .await
}

fn router(shared: Shared) -> Router {
    let page = |page: Page| get(move |state| pages::show(state, page));
    Router::new()
        .route("/", page(Page::Overview))
        .route("/nodes", page(Page::Nodes))
        .route("/jobs/{job}", get(pages::show_job))
        .route("/programs", page(Page::Programs))
        .route("/events", page(Page::Events))
        .route("/links", page(Page::Links))
        .route("/jobs/{job}/kill", post(orders::kill))
        .route("/live/{*page}", get(live::live))
        .route("/assets/{name}", get(assets::asset))
        .fallback(pages::none)
        .layer(from_fn_with_state(shared.clone(), access::guard))
        .with_state(shared)
}

#[cfg(test)]
mod tests;
