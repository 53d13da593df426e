//! Metrics over TCP, on loopback alone, for those who scrape and cannot speak through a Unix socket.
//!
//! Whoever is on this host may ask, and nothing but this is answered. So nobody is trusted: there are few connections
//! at a time, each is for one short request and its answer, and ends after a while whatever its peer does or does not.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{ALLOW, CONTENT_TYPE};
use axum::http::{HeaderValue, Method, Request, Response, StatusCode};
use coppice_api::client::METRICS_PATH;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use crate::connections::Connections;
use crate::http::{Api, wanted};
use crate::limits::{METRICS_HEAD_BYTES_MAX, METRICS_HEAD_LINES_MAX};

/// How long it is waited when the system gives no connection, as it has no room for one.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// A socket on loopback; port 0: any that is free.
///
/// # Errors
/// One line that says what to do.
pub async fn listen(port: u16) -> Result<TcpListener, String> {
    let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
    TcpListener::bind(address).await.map_err(|error| {
        let error = crate::store::plain(&error);
        format!("cannot serve metrics on {address}: {error}; give --metrics-port another port, or 0 for any")
    })
}

/// Answers all who connect, as many at a time as there may be, each for so long at most.
pub async fn serve(listener: TcpListener, connections: Connections, patience: Duration, api: Api) {
    loop {
        let turn = connections.turn().await;
        match listener.accept().await {
            Ok((stream, _)) => {
                let (slot, api) = (connections.opened(turn), api.clone());
                tokio::spawn(async move {
                    // Whoever takes too long loses the connection with its place.
                    let _ = tokio::time::timeout(patience, converse(stream, api)).await;
                    drop(slot);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "no connection for metrics");
                tokio::time::sleep(ACCEPT_RETRY_INTERVAL).await;
            }
        }
    }
}

/// One request and its answer.
async fn converse(stream: TcpStream, api: Api) {
    let mut http = http1::Builder::new();
    http.keep_alive(false).max_buf_size(METRICS_HEAD_BYTES_MAX).max_headers(METRICS_HEAD_LINES_MAX);
    // The time of all of it has a limit, of which the time until its head has come is a part.
    http.header_read_timeout(None);
    let answer = service_fn(move |request| answer(api.clone(), request));
    if let Err(error) = http.serve_connection(TokioIo::new(stream), answer).await {
        tracing::debug!(%error, "a scrape broke off");
    }
}

async fn answer(api: Api, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    if request.uri().path() != METRICS_PATH {
        return Ok(refusal(StatusCode::NOT_FOUND, "there is only /metrics here\n"));
    }
    if request.method() != Method::GET {
        let mut refusal = refusal(StatusCode::METHOD_NOT_ALLOWED, "use GET\n");
        refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
        return Ok(refusal);
    }
    let format = wanted(request.headers());
    let text = match api.metrics(format).await {
        Ok(text) => text,
        Err(refused) => {
            let status = StatusCode::from_u16(refused.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            return Ok(refusal(status, format!("{}\n", refused.message)));
        }
    };
    Ok(response(StatusCode::OK, format.content_type(), text))
}

fn refusal(status: StatusCode, text: impl Into<Body>) -> Response<Body> {
    response(status, "text/plain; charset=utf-8", text)
}

fn response(status: StatusCode, content_type: &'static str, text: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
