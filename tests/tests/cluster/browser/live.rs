//! What changes is seen as it does, without a page being loaded again.

use coppice_tests::browser::Key;
use coppice_tests::guests::{Toolchain, program};
use serde_json::json;

use super::{Visit, wait_for_state};

/// The button that leads to the end of a job.
const KILL: &str = "a.button[href^='/orders/kill']";

impl Visit {
    /// From now on it is known whether the page was loaded again.
    #[track_caller]
    fn mark(&self) {
        let _ = self.browser.run("window.mark = 'as loaded';");
    }

    #[track_caller]
    fn assert_not_loaded_again(&self) {
        assert_eq!(self.browser.value("window.mark"), "as loaded");
    }

    /// Moves the focus to an element, which it is to stay at.
    #[track_caller]
    fn focus(&self, selector: &str) {
        let _ = self
            .browser
            .run(&format!("window.focused = document.querySelector({}); window.focused.focus();", json!(selector)));
        self.assert_focus_stays();
    }

    /// It is at the same element, and not at one that looks the same.
    #[track_caller]
    fn assert_focus_stays(&self) {
        let stays = "window.focused.isConnected && document.activeElement === window.focused";
        assert_eq!(self.browser.value(stays), true, "at {}", self.browser.value("document.activeElement.outerHTML"));
    }

    #[track_caller]
    fn kill(&self, job: &str) {
        let _ = self.cluster.coppice(&["kill", job]).success();
        wait_for_state(&self.cluster, job, "ended");
    }
}

#[test]
fn jobs_come_and_go_in_a_page_that_stays() {
    let visit = Visit::begin(2);
    let browser = &visit.browser;
    visit.mark();
    browser.until_text("main", "There was none yet.");
    let first = visit.start_endless(1);
    browser.until_text("#job-1", "running");
    browser.until_text("figcaption", "1 busy");
    visit.focus("#job-1 a");
    let second = visit.start_endless(1);
    browser.until_text("#job-2", "running");
    browser.until_text("figcaption", "2 busy");
    visit.assert_focus_stays();
    let third = visit.start_endless(1);
    browser.until_text("#job-3", "queued");
    visit.kill(&first);
    browser.until_text("#job-1", "ended 143");
    browser.until_text("#job-3", "running");
    visit.assert_focus_stays();
    // In the other order than they came.
    assert_eq!(browser.rows("main table").iter().map(|row| row[0].as_str()).collect::<Vec<_>>(), ["3", "2", "1"]);
    visit.assert_not_loaded_again();
    // Where it is at is where it leads.
    browser.press(Key::Enter);
    browser.until_text("h1", "Job 1: ");
    assert_eq!(browser.address(), visit.dashboard.page("/jobs/1"));

    visit.open("/nodes");
    visit.mark();
    browser.until_text("#node-0", "busy");
    visit.kill(&second);
    visit.kill(&third);
    browser.until_text("figcaption", "2 ready");
    browser.until_text("#node-0", "ready");
    visit.assert_not_loaded_again();

    visit.open("/events");
    visit.mark();
    visit.focus("[role=region]");
    let fault = program("fault", Toolchain::Glibc);
    let _ = visit.cluster.run(&[&fault.to_string_lossy(), "null"]);
    let _ = browser.until("document.querySelector('main a[href=\"/jobs/4\"]')");
    visit.assert_focus_stays();
    visit.assert_not_loaded_again();

    visit.open("/links");
    visit.mark();
    let _ = visit.cluster.coppice(&["link", "1", "--cut"]).success();
    let _ = browser.until("document.querySelector('tbody tr:nth-child(2)').innerText.includes('cut')");
    let _ = visit.cluster.coppice(&["link", "1", "--mend"]).success();
    let _ = browser.until("document.querySelector('tbody tr:nth-child(2)').innerText.includes('up')");
    visit.assert_not_loaded_again();
    let _ = visit.assert_nothing_strange();
}

#[test]
fn a_job_is_followed_to_its_end_which_its_button_brings_about() {
    let visit = Visit::begin(2);
    let browser = &visit.browser;
    let job = visit.start_endless(2);
    visit.open(&format!("/jobs/{job}"));
    visit.mark();
    // What the overlay tells comes by and by, in front of what was there.
    browser.until_text("main", "Where the time went");
    browser.until_text("main", "Ranks over time");
    visit.focus(KILL);
    let _ = browser.run(
        "getSelection().selectAllChildren(document.querySelector('h1'));
         document.querySelector('#facts').scrollIntoView();
         window.before = document.querySelector('dl').innerText;",
    );
    let selected = browser.value("String(getSelection())");
    for _ in 0..2 {
        let _ = browser.until("document.querySelector('dl').innerText !== window.before");
        let _ = browser.run("window.before = document.querySelector('dl').innerText;");
    }
    visit.assert_focus_stays();
    // What is read stays where it is, whatever comes above and below.
    assert_eq!(browser.value("Math.round(document.querySelector('#facts').getBoundingClientRect().top)"), 0);
    assert_eq!(browser.value("String(getSelection())"), selected);
    assert!(selected.as_str().is_some_and(|text| text.starts_with("Job 1: ")), "{selected}");
    visit.assert_not_loaded_again();
    browser.click(KILL);
    // What it leads to is a question.
    assert_eq!(
        browser.value("[...document.querySelectorAll('main [name]')].map(field => field.value)"),
        json!([job, "TERM"])
    );
    browser.click("button");
    browser.until_text("main header", "ended, exit status 143");
    assert_eq!(browser.address(), visit.dashboard.page(&format!("/jobs/{job}")));
    let view = visit.cluster.json(&["job", &job]);
    assert_eq!((&view["state"], &view["exit_status"]), (&json!("ended"), &json!(143)), "{view}");
    // There is nothing to be ended any more, and nothing that would be lost.
    assert_eq!(browser.value(&format!("document.querySelectorAll({}).length", json!(KILL))), 0);
    let before = browser.value("document.body.innerText");
    browser.reload();
    assert_eq!(browser.value("document.body.innerText"), before);
    // Where it is is all that htmx notes.
    let kept = browser.value("[...Object.keys(localStorage), ...Object.keys(sessionStorage), document.cookie]");
    assert_eq!(kept, json!(["htmx-current-path-for-history", ""]));
    let _ = visit.assert_nothing_strange();
}

#[test]
fn a_page_outlives_the_service_node() {
    let visit = Visit::begin(1);
    let browser = &visit.browser;
    let job = visit.start_endless(1);
    wait_for_state(&visit.cluster, &job, "running");
    visit.open(&format!("/jobs/{job}"));
    visit.mark();
    browser.until_text("h1", "Job 1: ");
    visit.cluster.kill_process("coppiced");
    browser.until_text("[role=alert]", "is not up");
    let _ = visit.cluster.coppice(&["up", "--accel", "tcg", "--nodes", "1"]).success();
    // The job has ended with its cluster.
    browser.until_text("main header", "ended");
    visit.assert_not_loaded_again();

    visit.open("/");
    visit.mark();
    browser.until_text("main", "1 of 1 ready");
    let _ = visit.cluster.coppice(&["down"]).success();
    browser.until_text("[role=alert]", "is not up");
    let _ = visit.cluster.coppice(&["up", "--accel", "tcg", "--nodes", "1"]).success();
    browser.until_text("main", "1 of 1 ready");
    let job = visit.start_endless(1);
    browser.until_text(&format!("#job-{job}"), "running");
    visit.assert_not_loaded_again();
    let _ = visit.assert_nothing_strange();
}
