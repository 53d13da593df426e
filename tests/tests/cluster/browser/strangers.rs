//! Who has no business with a cluster's pages: whoever has not the token, and pages of others.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use coppice_tests::Cluster;
use coppice_tests::browser::{Browser, OTHER_SITE};
use coppice_tests::dashboard::Dashboard;
use serde_json::{Value, json};

use super::{Visit, wait_for_state};

/// What is said to whoever is not let in.
const REFUSAL: &str = "its token is not (any more)";

#[test]
fn the_token_of_this_dashboard_is_what_opens_it() {
    let cluster = Cluster::up(1);
    let former = Dashboard::start(&cluster);
    let browser = Browser::start();
    let port = former.port();
    let refused = |address: &str| {
        let _ = browser.complaints();
        browser.open(address);
        assert!(browser.text("body").contains(REFUSAL), "{address}: {}", browser.text("body"));
        let complaints = browser.complaints();
        assert!(complaints.iter().all(|complaint| complaint.source == "network"), "{complaints:?}");
    };
    let wrong = former.address().replace("token=", "token=0");
    for address in [&former.page("/"), &former.page("/?token="), &wrong, &former.page("/nodes")] {
        refused(address);
    }
    browser.open(former.address());
    // Nobody sees it any more, nor does any script.
    assert_eq!(browser.address(), former.page("/"));
    assert_eq!(browser.value("document.cookie"), "");
    browser.open(&format!("http://localhost:{port}/nodes"));
    assert!(browser.text("body").contains(REFUSAL), "a cookie is of the name that it was given for");
    // What leads here by the name of a site is that site's for the browser.
    let (_, token) = former.address().split_once('?').expect("a token");
    for path in ["", &format!("?{token}")] {
        refused(&format!("http://{OTHER_SITE}:{port}/{path}"));
    }
    browser.open(&former.page("/"));
    browser.until_text("h1", "Cluster default is up");
    let _ = browser.run("window.mark = 'as loaded';");

    // The next one has another token, and does not take that of the former for it.
    let former_address = former.address().to_owned();
    assert_eq!(former.end().status, 143);
    let dashboard = Dashboard::start_at(&cluster, port);
    assert_ne!(former_address, dashboard.address());
    let live = "fetch('/live/').then(answer => answer.status)";
    assert_eq!(browser.promised(live), json!({ "value": 403 }));
    assert_eq!(browser.value("window.mark"), "as loaded");
    assert!(browser.text("h1").starts_with("Cluster default"), "{}", browser.text("body"));
    for address in [&dashboard.page("/"), &former_address, &dashboard.page("/jobs/1")] {
        refused(address);
    }
    browser.open(dashboard.address());
    browser.until_text("main", "1 of 1 ready");
}

/// A page of somebody else's at a port of loopback, which is all there is at it.
struct Elsewhere {
    port: u16,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Elsewhere {
    fn serve(page: String) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let ends = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&ends);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if is_over.load(Ordering::Acquire) {
                    return;
                }
                // A browser may connect before it knows what for, and others may have to wait for that.
                let page = page.clone();
                std::thread::spawn(move || stream.and_then(|stream| answer(&stream, &page)));
            }
        });
        Self { port, ends, thread: Some(thread) }
    }
}

fn answer(mut stream: &TcpStream, page: &str) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/html; charset=utf-8\r\nconnection: close";
    write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{page}", page.len())
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        let woken = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        if let (Ok(_), Some(thread)) = (woken, self.thread.take()) {
            thread.join().expect("it serves");
        }
    }
}

#[test]
fn pages_of_others_neither_see_nor_order() {
    let visit = Visit::begin(1);
    let browser = &visit.browser;
    let job = visit.start_endless(1);
    wait_for_state(&visit.cluster, &job, "running");
    let own = visit.dashboard.page("");
    let kill = visit.dashboard.page("/orders/kill");
    let elsewhere = Elsewhere::serve(format!(
        "<!DOCTYPE html><title>Elsewhere</title><iframe src='{own}/'></iframe>\
         <form method='post' action='{kill}'><input name=job value={job}><input name=signal value=KILL>\
         <button>You have won</button></form>"
    ));
    let goes_on = || {
        let view = visit.cluster.json(&["job", &job]);
        assert_eq!(view["state"], "running", "{view}");
    };
    let _ = browser.complaints();
    // The one is of the same site, as ports do not count for that, so that cookies come along; the other is not.
    for host in ["127.0.0.1", OTHER_SITE] {
        browser.open(&format!("http://{host}:{}/", elsewhere.port));
        assert_eq!(browser.text("button"), "You have won");
        let complaints = browser.complaints();
        assert!(complaints.iter().any(|complaint| complaint.text.contains("frame-ancestors 'none'")), "{complaints:?}");
        // Nothing that is asked for is told.
        for path in ["/", "/live/", &format!("/jobs/{job}")] {
            let asked = browser.promised(&format!("fetch('{own}{path}', {{ credentials: 'include' }})"));
            assert_eq!(asked, json!({ "error": "TypeError: Failed to fetch" }), "{path}");
        }
        // It is not told either what became of this, which is nothing.
        let form = format!("body: new URLSearchParams({{ job: {job}, signal: 'KILL' }})");
        let blind = format!("{{ method: 'POST', mode: 'no-cors', credentials: 'include', {form} }}");
        let ordered = browser.promised(&format!("fetch('{kill}', {blind}).then(({{ type }}) => type)"));
        assert_eq!(ordered, json!({ "value": "opaque" }));
        goes_on();
        browser.click("button");
        assert_eq!(browser.address(), kill);
        assert!(browser.text("body").contains(REFUSAL), "{}", browser.text("body"));
        goes_on();
    }
    // Nor is it what leads there that matters: links do not order.
    browser.open(&kill);
    goes_on();
    visit.open(&format!("/orders/kill?job={job}"));
    goes_on();
    browser.click("button");
    browser.until_text("main header", "ended, exit status 143");
}

#[test]
fn a_job_of_another_cluster_is_none_of_this() {
    let visit = Visit::begin(1);
    let browser = &visit.browser;
    let cluster = Cluster::up(1);
    let other = Dashboard::start(&cluster);
    let run = ["run", "--detach", "/bin/busybox", "sleep", "1000"];
    let job = cluster.coppice(&run).success().text().trim().to_owned();
    wait_for_state(&cluster, &job, "running");
    let is_there = |dashboard: &Dashboard| {
        browser.open(&dashboard.page(&format!("/jobs/{job}")));
        browser.text("h1") == format!("Job {job}: /bin/busybox sleep 1000")
    };
    // A browser knows them apart, also when it is let in by both.
    browser.open(other.address());
    assert!(is_there(&other));
    assert!(!is_there(&visit.dashboard));
    assert!(browser.text("[role=alert]").contains(&format!("no job {job}")), "{}", browser.text("main"));
    let form = format!("body: new URLSearchParams({{ job: {job}, signal: 'KILL' }})");
    let order = format!("fetch('/orders/kill', {{ method: 'POST', {form} }}).then(answer => answer.status)");
    assert_eq!(browser.promised(&order), json!({ "value": 409 }));
    assert!(is_there(&other));
    let view: Value = cluster.json(&["job", &job]);
    assert_eq!(view["state"], "running", "{view}");
}
