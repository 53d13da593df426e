//! Questions, their answers, and what is told of what was done, by a tool that is a script.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;
use tokio::time::timeout;

use super::ORDERS_MAX;
use crate::server::Shared;
use crate::server::tests::{COOKIE, FORM, HOST, OWN, ask, ask_of, header, shared, text, tool};

/// Has something done by a script.
async fn order(script: &str, verb: &str, form: &str) -> Response {
    order_of(Shared { tool: Arc::new(tool(script)), ..shared() }, verb, form).await
}

async fn order_of(shared: Shared, verb: &str, form: &str) -> Response {
    ask_of(shared, "POST", &format!("/orders/{verb}"), &[HOST, COOKIE, OWN, FORM], form).await
}

#[tokio::test]
async fn a_button_leads_to_a_question() {
    let asked = ask("GET", "/orders/kill?job=7&signal=KILL", &[HOST, COOKIE]).await;
    assert_eq!(asked.status(), StatusCode::OK);
    let page = text(asked).await;
    assert!(page.contains(r#"name="job" value="7""#) && page.contains(r#"<option value="KILL" selected>"#), "{page}");
    assert!(page.contains(r#"action="/orders/kill""#) && page.contains(r#"href="/jobs/7""#), "{page}");
    let bad = ask("GET", "/orders/kill?job=%22%3E%3Cscript%3E", &[HOST, COOKIE]).await;
    let page = text(bad).await;
    assert!(page.contains("value=\"&#34;&#62;&#60;script&#62;\"") && page.contains(r#"href="/""#), "{page}");
    for nothing in ["/orders/x", "/orders/kill?x=7"] {
        assert_eq!(ask("GET", nothing, &[HOST, COOKIE]).await.status(), StatusCode::NOT_FOUND, "{nothing}");
    }
}

#[tokio::test]
async fn what_is_said_to_the_tool_is_what_was_put_in() {
    let said = order(r#"printf '[%s]' "$@""#, "link", "links=0%2C3-5&latency=2ms&cut=--cut&direction=both").await;
    assert_eq!(said.status(), StatusCode::OK);
    let page = text(said).await;
    assert!(page.contains("[link][--latency=2ms][--cut][--direction=both][--][0,3-5]"), "{page}");
    assert!(page.contains("coppice link --latency=2ms --cut --direction=both -- &#39;0,3-5&#39;"), "{page}");
}

#[tokio::test]
async fn what_was_done_leads_to_what_came_of_it() {
    for (script, verb, form, place) in [
        ("echo job 7 was sent SIGTERM", "kill", "job=7", "/jobs/7"),
        ("true", "down", "", "/"),
        ("true", "reboot", "node=3", "/nodes"),
        ("echo 12", "run", "program=.%2Fx", "/jobs/12"),
        ("echo 13; echo more", "restart", "checkpoint=7", "/jobs/13"),
    ] {
        let done = order(script, verb, form).await;
        assert_eq!((done.status(), header(&done, "location")), (StatusCode::SEE_OTHER, place), "{verb}");
    }
    let shown = order(r#"printf '<script>\033[2J\nsecond line\n'"#, "console", "node=3").await;
    assert_eq!(shown.status(), StatusCode::OK);
    let page = text(shown).await;
    assert!(page.contains("&#60;script&#62;") && page.contains("\nsecond line") && !page.contains('\u{1b}'), "{page}");
}

#[tokio::test]
async fn what_was_not_done_is_said_and_asked_again() {
    for (script, verb, form, status, why) in [
        ("echo 'coppice: no job 7' >&2; exit 125", "kill", "job=7", StatusCode::CONFLICT, "coppice: no job 7"),
        ("echo 'coppice: no job 7' >&2; exit 125", "trace", "job=7", StatusCode::CONFLICT, "coppice: no job 7"),
        ("echo 'coppice: no job 7' >&2; exit 125", "gdb", "job=7", StatusCode::CONFLICT, "coppice: no job 7"),
        ("exit 3", "kill", "job=7", StatusCode::CONFLICT, "exit status: 3"),
        ("kill -9 $$", "kill", "job=7", StatusCode::CONFLICT, "signal: 9"),
        ("true", "kill", "job=", StatusCode::BAD_REQUEST, "Job: something must be said here"),
        ("true", "run", "program=x&arguments=%22", StatusCode::BAD_REQUEST, "Arguments: no quotation"),
    ] {
        let answer = order(script, verb, form).await;
        assert_eq!(answer.status(), status, "{script}");
        let page = text(answer).await;
        assert!(page.contains(why) && page.contains(&format!("action=\"/orders/{verb}\"")), "{page}");
    }
    let absent = Shared { tool: Arc::new(super::Tool { program: "/no/such".into(), arguments: vec![] }), ..shared() };
    assert_eq!(order_of(absent, "down", "").await.status(), StatusCode::BAD_GATEWAY);
    let long = format!("program={}", "x".repeat(super::FORM_BYTES_MAX));
    assert_eq!(order("true", "run", &long).await.status(), StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn much_that_is_printed_is_read_and_not_all_of_it_shown() {
    let script = "head -c 3000000 /dev/zero | tr '\\0' x; head -c 3000000 /dev/zero >&2";
    let page = text(order(script, "doctor", "").await).await;
    assert!(page.len() > 200_000 && page.len() < 300_000, "{} bytes", page.len());
    assert!(page.contains("… and 2737856 bytes more, which are not shown here"), "it says that there is more");
}

/// Neither those that take long nor the end of the dashboard hold anybody up.
#[tokio::test]
async fn orders_are_few_at_a_time_and_end_with_the_dashboard() {
    let busy = Shared { tool: Arc::new(tool("exec sleep 600")), ..shared() };
    let orders: Vec<_> = (0..ORDERS_MAX).map(|_| tokio::spawn(order_of(busy.clone(), "down", ""))).collect();
    while busy.orders.available_permits() > 0 {
        tokio::task::yield_now().await;
    }
    let more = order_of(busy.clone(), "down", "").await;
    assert_eq!(more.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(text(more).await.contains("as many orders as may be"));
    busy.ended.cancel();
    for order in orders {
        let ended = timeout(Duration::from_secs(60), order).await.expect("at once").expect("it ran");
        assert!(text(ended).await.contains("the dashboard is ending"));
    }
    assert_eq!(busy.orders.available_permits(), ORDERS_MAX);
}

#[tokio::test]
async fn what_is_given_up_may_put_away_what_it_was_at() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("file");
    // Nothing that takes another process, as little time is given.
    let script =
        format!("trap 'echo put away > {0}; exit 1' TERM; echo half > {0}; while :; do :; done", file.display());
    let busy = Shared { tool: Arc::new(tool(&script)), ..shared() };
    let order = tokio::spawn(order_of(busy.clone(), "down", ""));
    let says = |wanted: &str| std::fs::read_to_string(&file).is_ok_and(|text| text == wanted);
    while !says("half\n") {
        tokio::task::yield_now().await;
    }
    busy.ended.cancel();
    let ended = timeout(Duration::from_secs(60), order).await.expect("soon").expect("it ran");
    assert!(text(ended).await.contains("the dashboard is ending") && says("put away\n"));
}
