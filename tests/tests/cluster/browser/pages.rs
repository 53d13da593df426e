//! Every page, and how one comes to it.

use coppice_tests::guests::{Toolchain, program};
use serde_json::json;

use super::Visit;

/// More than a browser has connections to one host.
const WINDOWS: usize = 8;

#[test]
fn links_lead_to_every_page() {
    let visit = Visit::begin(2);
    let browser = &visit.browser;
    let ended = visit.run_profiled();
    let fault = program("fault", Toolchain::Glibc);
    let _ = visit.cluster.run(&[&fault.to_string_lossy(), "null"]);
    let crashed = visit.cluster.last_job()["job"].to_string();
    let runs = visit.start_endless(2);
    let links = browser.value("[...document.querySelectorAll('nav a')].map(link => link.getAttribute('href'))");
    let links: Vec<String> = serde_json::from_value(links).expect("addresses");
    for known in ["/", "/jobs", "/nodes", "/programs", "/checkpoints", "/links", "/events"] {
        assert!(links.iter().any(|link| link == known), "{known} in {links:?}");
    }
    for link in &links {
        browser.click(&format!("nav a[href='{link}']"));
        assert_eq!(browser.address(), visit.dashboard.page(link));
        assert_eq!(browser.value("document.querySelector('nav [aria-current]').getAttribute('href')"), json!(link));
        assert_eq!(browser.value("document.querySelectorAll('h1').length"), 1, "{link}");
        // It hears what it becomes.
        let live = browser.value("document.querySelector('main [sse-connect]')?.getAttribute('sse-connect')");
        let live = live.as_str().unwrap_or_else(|| panic!("{link} is not live"));
        let requests = visit.assert_nothing_strange();
        assert!(requests.contains(&visit.dashboard.page(live)), "{live} in {requests:?}");
    }
    for (page, job) in [("/", &ended), ("/nodes", &runs), ("/events", &crashed)] {
        visit.open(page);
        let link = format!("main a[href='/jobs/{job}']");
        let _ = browser.until(&format!("document.querySelector({})", json!(link)));
        browser.click(&link);
        assert_eq!(browser.address(), visit.dashboard.page(&format!("/jobs/{job}")));
        assert!(browser.text("h1").starts_with(&format!("Job {job}: ")), "{}", browser.text("h1"));
        let _ = visit.assert_nothing_strange();
    }
    for (from, link, title) in [
        (format!("/jobs/{ended}"), format!("/jobs/{ended}/ranks/1"), format!("Rank 1 of job {ended} on node 1")),
        (format!("/jobs/{runs}"), format!("/jobs/{runs}/ranks/1"), format!("Rank 1 of job {runs} on node 1")),
        (format!("/jobs/{ended}"), "/nodes/1".to_owned(), "Node 1 is busy".to_owned()),
        ("/nodes".to_owned(), "/nodes/1".to_owned(), "Node 1 is busy".to_owned()),
    ] {
        visit.open(&from);
        browser.click(&format!("main a[href='{link}']"));
        assert_eq!((browser.address(), browser.text("h1")), (visit.dashboard.page(&link), title));
        let _ = visit.assert_nothing_strange();
    }
}

/// What is chosen on a page is in its address, and so is there when it is loaded again.
#[test]
fn nodes_are_chosen_and_coloured() {
    let visit = Visit::begin(2);
    let browser = &visit.browser;
    let runs = visit.start_endless(1);
    visit.open("/nodes");
    browser.until_text("figcaption", "1 ready");
    let _ = browser.run(
        "document.querySelector('[name=by]').value = 'job'; document.querySelector('[name=state]').value = 'busy';",
    );
    browser.click("main button");
    browser.until_text("figcaption", &format!("1 job {runs}"));
    let chosen = |browser: &coppice_tests::browser::Browser| {
        browser.value("[document.querySelector('[name=by]').value, document.querySelector('[name=state]').value]")
    };
    for _ in 0..2 {
        assert_eq!(chosen(browser), json!(["job", "busy"]));
        assert_eq!(browser.rows("main table").len(), 1);
        browser.reload();
    }
    // What is being chosen stays while the page changes.
    let _ = browser.run("document.querySelector('[name=by]').value = 'free';");
    let _ = visit.cluster.coppice(&["kill", &runs]).success();
    browser.until_text("figcaption", "2 no job");
    assert_eq!(chosen(browser), json!(["free", "busy"]));
    let _ = visit.assert_nothing_strange();
}

#[test]
fn what_there_is_not_is_said_to_be_not() {
    let visit = Visit::begin(1);
    assert_eq!(visit.browser.text("section p"), "There was none yet. coppice run ./program runs one.");
    let _ = visit.assert_nothing_strange();
    for (path, said) in [("/jobs/99", "no job 99"), ("/jobs/x", "There is no such page."), ("/x", "no such page")] {
        visit.open(path);
        assert!(visit.browser.text("[role=alert]").contains(said), "{path}: {}", visit.browser.text("main"));
        // That is all that there is to complain of.
        let complaints = visit.browser.complaints();
        let [complaint] = &complaints[..] else { panic!("{path}: {complaints:?}") };
        assert!(complaint.text.contains(path) && complaint.text.contains("404"), "{complaint:?}");
    }
    visit.browser.click("nav a[href='/nodes']");
    assert_eq!(visit.browser.text("h1"), "Nodes");
}

/// A browser has few connections to one host; pages that nobody looks at must not have them all.
#[test]
fn pages_are_looked_at_in_many_windows() {
    let visit = Visit::begin(1);
    let browser = &visit.browser;
    let mut windows = Vec::new();
    for _ in 0..WINDOWS {
        browser.until_text("h1", "Cluster default is up");
        windows.push(browser.open_window());
        visit.open("/");
    }
    let job = visit.start_endless(1);
    browser.until_text(&format!("#job-{job}"), "running");
    for window in windows {
        browser.go_to_window(window);
        browser.until_text(&format!("#job-{job}"), "running");
    }
    let _ = visit.assert_nothing_strange();
}
