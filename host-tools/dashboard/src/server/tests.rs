//! Who is let in, and what pages may do, without a cluster.

use std::net::Ipv4Addr;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::response::Response;
use coppice_api::{Client, ClusterPaths};
use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tower::ServiceExt;

use super::{Access, CONNECTIONS_MAX, Shared, Tool, router, serve};

const PORT: u16 = 4711;

/// A tool that is this script of a shell.
pub(super) fn tool(script: &str) -> Tool {
    Tool { program: "/bin/sh".into(), arguments: vec!["-c".into(), script.into(), "sh".into()] }
}

/// A dashboard of a cluster that is not up, whose token is "secret", and whose tool fails.
pub(super) fn shared() -> Shared {
    let lookup = |variable: &str| (variable == "COPPICE_HOME").then(|| "/no/such/home".into());
    let paths = ClusterPaths::find_with("default".parse().expect("a name"), lookup, 0).expect("paths");
    Shared::new(Client::new(paths), Access::of(PORT, "secret"), tool("echo it cannot be done >&2; exit 125"))
}

pub(super) async fn ask(method: &str, path: &str, headers: &[(&str, &str)]) -> Response {
    ask_of(shared(), method, path, headers, "").await
}

pub(super) async fn ask_of(shared: Shared, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Response {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    router(shared).oneshot(request.body(Body::from(body.to_owned())).expect("a request")).await.expect("an answer")
}

pub(super) async fn text(answer: Response) -> String {
    let bytes = answer.into_body().collect().await.expect("a page").to_bytes();
    String::from_utf8_lossy(&bytes).into_owned()
}

pub(super) const HOST: (&str, &str) = ("host", "127.0.0.1:4711");
pub(super) const OWN: (&str, &str) = ("origin", "http://127.0.0.1:4711");
pub(super) const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");
pub(super) const COOKIE: (&str, &str) = ("cookie", "other=1; coppice-4711=secret");

pub(super) fn header<'a>(response: &'a Response, name: &str) -> &'a str {
    response.headers().get(name).map_or("", |value| value.to_str().expect("text"))
}

#[tokio::test]
async fn the_token_opens_and_becomes_a_cookie() {
    let entered = ask("GET", "/jobs/7?token=secret&x=1", &[HOST]).await;
    assert_eq!((entered.status(), header(&entered, "location")), (StatusCode::SEE_OTHER, "/jobs/7?x=1"));
    assert_eq!(header(&entered, "set-cookie"), "coppice-4711=secret; Path=/; HttpOnly; SameSite=Strict");
    let elsewhere = ask("GET", "//evil.example/?token=secret", &[HOST]).await;
    assert_eq!(header(&elsewhere, "location"), "/evil.example/");
    let seen = ask("GET", "/assets/style.css", &[HOST, COOKIE]).await;
    assert_eq!((seen.status(), header(&seen, "content-type")), (StatusCode::OK, "text/css; charset=utf-8"));
    let named = ask("GET", "/assets/style.css", &[("host", "localhost:4711"), COOKIE]).await;
    assert_eq!(named.status(), StatusCode::OK);
}

#[tokio::test]
async fn nobody_else_is_let_in() {
    let of_another = ("cookie", "coppice-4712=secret");
    let expired = ("cookie", "coppice-4711=secreT");
    for (path, headers) in [
        ("/", vec![HOST]),
        ("/assets/style.css", vec![HOST]),
        ("/?token=", vec![HOST]),
        ("/?token=secre", vec![HOST, COOKIE]),
        ("/", vec![HOST, of_another]),
        ("/", vec![HOST, expired]),
        ("/live/", vec![HOST, expired]),
    ] {
        let refused = ask("GET", path, &headers).await;
        assert_eq!(refused.status(), StatusCode::FORBIDDEN, "{path} {headers:?}");
        assert_eq!(header(&refused, "set-cookie"), "");
    }
    for host in ["evil.example:4711", "127.0.0.1", "127.0.0.1:4712", ""] {
        let refused = ask("GET", "/?token=secret", &[("host", host), COOKIE]).await;
        assert_eq!(refused.status(), StatusCode::MISDIRECTED_REQUEST, "{host}");
    }
}

#[tokio::test]
async fn orders_come_from_own_pages() {
    let own = OWN;
    for headers in [
        vec![HOST, COOKIE],
        vec![HOST, own],
        vec![HOST, COOKIE, ("origin", "http://127.0.0.1:4712")],
        vec![HOST, COOKIE, ("origin", "https://127.0.0.1:4711")],
        vec![HOST, COOKIE, ("origin", "null")],
    ] {
        assert_eq!(ask("POST", "/orders/down", &headers).await.status(), StatusCode::FORBIDDEN, "{headers:?}");
    }
    assert_eq!(ask("POST", "/orders/down?token=secret", &[HOST, own]).await.status(), StatusCode::FORBIDDEN);
    // This one is: that it cannot be done has another reason.
    assert_eq!(ask("POST", "/orders/down", &[HOST, COOKIE, own, FORM]).await.status(), StatusCode::CONFLICT);
    assert_eq!(ask("GET", "/orders/down", &[HOST, COOKIE]).await.status(), StatusCode::OK);
    assert_eq!(ask("DELETE", "/orders/down", &[HOST, COOKIE, own]).await.status(), StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn all_answers_say_what_a_page_may_load() {
    for (path, headers) in [("/", vec![HOST, COOKIE]), ("/", vec![]), ("/x", vec![HOST, COOKIE])] {
        let answer = ask("GET", path, &headers).await;
        let policy = header(&answer, "content-security-policy");
        assert!(policy.starts_with("default-src 'none'; script-src 'self';") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(
            (header(&answer, "cache-control"), header(&answer, "x-content-type-options")),
            ("no-store", "nosniff")
        );
    }
}

#[tokio::test]
async fn a_cluster_that_is_not_up_is_said_to_be_so_and_looked_for_again() {
    let answer = ask("GET", "/", &[HOST, COOKIE]).await;
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    let page = text(answer).await;
    assert!(
        page.contains("cluster &#39;default&#39; is not up")
            && page.contains("sse-connect=\"/live/\"")
            && page.contains("/orders/up"),
        "{page}"
    );
    for unknown in ["/x", "/jobs/x", "/jobs/7/x", "/live/x", "/assets/x"] {
        assert_eq!(ask("GET", unknown, &[HOST, COOKIE]).await.status(), StatusCode::NOT_FOUND, "{unknown}");
    }
}

/// Whoever connects and says nothing keeps nobody out for long, and nobody who does holds up the end.
#[tokio::test]
async fn who_says_nothing_loses_his_place() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let shared = shared();
    let (end, ended) = oneshot::channel::<()>();
    let access = Access::of(address.port(), "secret");
    let serving = tokio::spawn(serve(shared.client, access, tool(""), listener, async {
        let _ = ended.await;
    }));
    let connect = || TcpStream::connect(address);
    let mut silent = Vec::new();
    for _ in 0..CONNECTIONS_MAX + 5 {
        silent.push(connect().await.expect("taken, or in the backlog"));
    }
    let mut asking = connect().await.expect("in the backlog");
    let request = format!("GET / HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    asking.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    asking.read_to_string(&mut answer).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    let waits = connect().await.expect("taken");
    end.send(()).expect("it runs");
    serving.await.expect("it ends");
    drop((silent, waits));
}

#[test]
fn tokens_are_long_and_new_each_time() {
    let [one, other] = [(); 2].map(|()| Access::new(PORT).expect("random numbers").address());
    assert!(one != other && one.starts_with("http://127.0.0.1:4711/?token=") && one.len() > 64, "{one}");
}
