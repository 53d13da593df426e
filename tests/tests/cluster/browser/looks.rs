//! Pages are for everybody: in light and dark, on a narrow screen, by keyboard alone, and for whoever hears them.

use std::path::PathBuf;

use coppice_tests::browser::{Key, Look};
use coppice_tests::guests::{Toolchain, program};

use super::Visit;

/// As wide as small telephones are.
const NARROW: u32 = 360;

/// As wide as a window is.
const WIDE: u32 = 1280;

const LOOKS: [(&str, Look); 3] = [
    ("light", Look { is_dark: false, width: WIDE }),
    ("dark", Look { is_dark: true, width: WIDE }),
    ("narrow", Look { is_dark: false, width: NARROW }),
];

/// The directory that is to have images of all pages.
const IMAGES: &str = "COPPICE_SCREENSHOTS";

impl Visit {
    /// Has something on every page; gives them, with names.
    fn fill(&self) -> Vec<(String, String)> {
        let ended = self.run_profiled();
        let fault = program("fault", Toolchain::Glibc);
        let _ = self.cluster.run(&["--keep-output", &fault.to_string_lossy(), "null"]);
        let crashed = self.cluster.last_job()["job"].to_string();
        let runs = self.start_endless(2);
        let _ = self.cluster.coppice(&["link", "1", "--latency", "3ms", "--loss", "1%"]).success();
        let jobs = [("job", ended), ("job-crashed", crashed), ("job-running", runs)];
        let rank = ("rank".to_owned(), format!("/jobs/{}/ranks/0", jobs[0].1));
        let kill = ("question".to_owned(), format!("/orders/kill?job={}", jobs[2].1));
        let trace = ("question-trace".to_owned(), format!("/orders/trace?job={}", jobs[2].1));
        let running = ("rank-running".to_owned(), format!("/jobs/{}/ranks/0", jobs[2].1));
        let jobs = jobs.map(|(name, job)| (name.to_owned(), format!("/jobs/{job}")));
        let more = [("node", "/nodes/0"), ("nodes-held", "/nodes?by=held"), ("run", "/orders/run")];
        let more = more.map(|(name, path)| (name.to_owned(), path.to_owned()));
        let lists = ["jobs", "nodes", "programs", "checkpoints", "links", "events"]
            .map(|name| (name.to_owned(), format!("/{name}")));
        let ends = [("overview", "/"), ("problem", "/jobs/99")].map(|(name, path)| (name.to_owned(), path.to_owned()));
        lists.into_iter().chain(jobs).chain(more).chain([rank, running, kill, trace]).chain(ends).collect()
    }

    /// Waits until all is on a page that [`Self::fill`] names.
    fn wait_for_charts(&self, name: &str) {
        match name {
            "job-running" => self.browser.until_text("main", "Ranks over time"),
            "rank-running" => self.browser.until_text("main", "Where its time went"),
            _ => {}
        }
    }
}

#[test]
fn nothing_is_in_the_way_of_anybody() {
    let visit = Visit::begin(2);
    let browser = &visit.browser;
    for (name, path) in visit.fill() {
        visit.open(&path);
        visit.wait_for_charts(&name);
        for (look, how) in LOOKS {
            browser.set_look(how);
            let barriers = browser.barriers();
            assert!(barriers.is_empty(), "{path}, {look}: {barriers:#?}");
        }
    }
}

#[test]
fn pages_fit_on_narrow_screens_and_are_dark_for_those_who_want_it() {
    let visit = Visit::begin(2);
    let browser = &visit.browser;
    let images = std::env::var_os(IMAGES).map(PathBuf::from);
    for (name, path) in visit.fill() {
        for (look, how) in LOOKS {
            browser.set_look(how);
            visit.open(&path);
            visit.wait_for_charts(&name);
            assert_eq!(browser.value("innerWidth"), how.width);
            let ground = browser.value("getComputedStyle(document.body).backgroundColor");
            assert_eq!(ground == "rgb(255, 255, 255)", !how.is_dark, "{path}: {ground}");
            let over = "document.scrollingElement.scrollWidth - innerWidth";
            assert_eq!(browser.value(over), 0, "{path} is wider than {}", how.width);
            // What is wider than its place can be moved in it, and nothing else is cut off.
            let beyond = browser.value(
                "[...document.querySelectorAll('main *')].filter(part =>
                    !part.closest('.wide, svg') && part.getBoundingClientRect().right > innerWidth + 0.5
                ).map(part => part.outerHTML)",
            );
            assert_eq!(beyond, serde_json::json!([]), "{path}, {look}");
            if let Some(images) = &images {
                std::fs::create_dir_all(images).expect("a directory");
                std::fs::write(images.join(format!("{name}-{look}.png")), browser.image()).expect("written");
            }
        }
    }
}

/// All that a key can be at, in the order in which it is read.
const FOCUSABLE: &str = "[...document.querySelectorAll('a[href], button, input, select, textarea, [tabindex=\"0\"]')]";

#[test]
fn keys_reach_everything_in_order_and_show_where_they_are() {
    let visit = Visit::begin(2);
    let browser = &visit.browser;
    let pages = visit.fill();
    for (name, path) in &pages {
        visit.open(path);
        // What comes later comes in between.
        visit.wait_for_charts(name);
        let there = browser.value(&format!("{FOCUSABLE}.length")).as_u64().expect("a number");
        assert!(there >= 5, "{path}: {there}");
        for at in 0..there {
            browser.press(Key::Tab);
            let here = browser.value("document.activeElement.outerHTML");
            let is_next = format!("{FOCUSABLE}.indexOf(document.activeElement)");
            assert_eq!(browser.value(&is_next), at, "{path}: {here}");
            let ring = browser.value(
                "(style => style.outlineStyle === 'solid' && parseFloat(style.outlineWidth) >= 2)
                    (getComputedStyle(document.activeElement))",
            );
            assert_eq!(ring, true, "{path}: nothing shows that it is at {here}");
        }
    }
    // A job is found, looked at and ended without a pointer.
    let (_, runs) = pages.iter().find(|(name, _)| name == "job-running").expect("one runs");
    visit.open("/");
    let at = |wanted: &str| {
        for _ in 0..100 {
            browser.press(Key::Tab);
            if browser.value(&format!("document.activeElement.matches('{wanted}')")) == true {
                return;
            }
        }
        panic!("no {wanted} at {}", browser.address());
    };
    at(&format!("main a[href=\"{runs}\"]"));
    browser.press(Key::Enter);
    browser.until_text("h1", "Job 3: ");
    at("a[href^=\"/orders/kill\"]");
    browser.press(Key::Enter);
    browser.until_text("h1", "Send a signal");
    at("button");
    browser.press(Key::Enter);
    browser.until_text("main header", "ended, exit status 143");
}
