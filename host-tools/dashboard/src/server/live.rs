//! Pages that change while they are looked at, by server-sent events: the content of a page is made again now and then,
//! and sent if it is another one.

use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::sleep;

use super::Shared;
use super::pages::{Content, Page, unknown};

/// A page that takes long to make is made so much less often than that.
const PARTS: u32 = 80;

/// One page that is live.
struct Live {
    shared: Shared,
    page: Page,
    /// What was sent last.
    sent: Option<u64>,
    /// How long to wait before it is made again; nothing: it stays as it is.
    next: Option<Duration>,
    _permit: OwnedSemaphorePermit,
}

/// What a page becomes.
pub(super) async fn live(State(shared): State<Shared>, uri: Uri) -> Response {
    let Some(page) = Page::live_at(&uri) else { return unknown() };
    match Arc::clone(&shared.live).try_acquire_owned() {
        Ok(permit) => {
            let live = Live { next: Some(page.every()), shared, page, sent: None, _permit: permit };
            Sse::new(events(live)).keep_alive(KeepAlive::default()).into_response()
        }
        // A browser asks again by itself.
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "As many pages as may be are live.\n").into_response(),
    }
}

fn events(live: Live) -> impl Stream<Item = Result<Event, Infallible>> {
    stream::unfold(live, |mut live| async move {
        loop {
            tokio::select! {
                () = live.shared.ended.cancelled() => return None,
                () = sleep(live.next.unwrap_or(Duration::MAX)) => {}
            }
            let since = Instant::now();
            let made = live.page.content(&live.shared.client).await;
            live.next = match &made {
                Ok(Content { is_final: true, .. }) => None,
                _ => Some(live.page.every().max(since.elapsed() * PARTS)),
            };
            let content = made.map_or_else(|error| error.content(), |content| content.html);
            let mut hasher = DefaultHasher::new();
            content.hash(&mut hasher);
            let made = Some(hasher.finish());
            if made != live.sent {
                live.sent = made;
                return Some((Ok(Event::default().data(content)), live));
            }
        }
    })
}
