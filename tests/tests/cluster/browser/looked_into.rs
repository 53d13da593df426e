//! Into a rank from its page: what it calls, and how it is debugged.

use std::process::{Command, Stdio};

use super::{Visit, wait_for_state};

#[test]
fn a_page_shows_what_a_rank_calls_and_says_how_it_is_debugged() {
    let visit = Visit::begin(1);
    let browser = &visit.browser;
    let job = visit.start_endless(1);
    wait_for_state(&visit.cluster, &job, "running");
    let rank = format!("/jobs/{job}/ranks/0");

    visit.open(&rank);
    browser.click("a[href^='/orders/trace']");
    browser.click("main button");
    assert_eq!(browser.text("main code"), format!("coppice trace --rank=0 --seconds=5 -- {job}"));
    let calls = browser.text("main pre");
    assert!(calls.contains("nanosleep("), "{calls}");

    visit.open(&rank);
    browser.click("a[href^='/orders/gdb']");
    browser.click("main button");
    assert_eq!(browser.text("main code"), format!("coppice gdb --print -- {job} 0"));
    let command = browser.text("main pre");
    assert!(command.ends_with(&format!(" --cluster default gdb {job} 0")), "{command}");
    // Without a terminal it has gdb's protocol spoken, here by nobody, wherever it is typed.
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &command]).env_clear().current_dir("/").stdin(Stdio::null());
    let typed = shell.output().expect("a shell");
    assert!(typed.status.success() && typed.stderr.is_empty(), "{command}: {typed:?}");
    visit.assert_nothing_strange();

    let _ = visit.cluster.coppice(&["kill", &job]).success();
    wait_for_state(&visit.cluster, &job, "ended");
    for verb in ["trace", "gdb"] {
        visit.open(&format!("/orders/{verb}?job={job}&rank=0"));
        browser.click("main button");
        browser.until_text("[role=alert]", &format!("job {job} has ended already"));
    }
}
