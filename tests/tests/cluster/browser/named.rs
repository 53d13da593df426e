//! Whatever programs call themselves and say is text to a browser, and nothing that it does.

use std::os::unix::fs::PermissionsExt;

use coppice_tests::guests::{Toolchain, program};
use serde_json::json;

use super::Visit;

/// What would be done if it were taken for part of a page. No name of a file has a stroke in it.
const BAD: &str = "'\"><img src=x onerror=window.hit=1><svg onload=window.hit=2>";

/// The function that the guest is in, as its source has it.
const FUNCTION: &[u8] = b"the_test_has_another_name_for_this_that_no_source_could_have_for_a_function";

/// What no name of a file can be.
const WORSE: &str = "</pre></code></script><script>window.hit=3</script><a href=\"javascript:window.hit=4\" autofocus \
                     onfocus=window.hit=5 hx-get=/x hx-trigger=load>x</a>{{7*7}}${7*7}&lt;b&gt;";

impl Visit {
    #[track_caller]
    fn assert_nothing_was_done(&self) {
        assert_eq!(self.browser.value("typeof window.hit"), "undefined", "{}", self.browser.address());
        let made = "document.querySelectorAll('main img[src=x], main svg[onload], main script, main [hx-get], \
                    main b, main a[href^=javascript]').length";
        assert_eq!(self.browser.value(made), 0, "{}", self.browser.text("main"));
        let _ = self.assert_nothing_strange();
    }

    /// Text stands in an element as it is.
    #[track_caller]
    fn assert_seen(&self, selector: &str, text: &str) {
        let all =
            format!("[...document.querySelectorAll({})].map(part => part.textContent).join('\\n')", json!(selector));
        let _ = self.browser.until(&format!("{all}.includes({})", json!(text)));
    }
}

/// The guest, with another name for the function that it is in.
fn renamed() -> Vec<u8> {
    let mut bytes = std::fs::read(program("names_itself", Toolchain::Glibc)).expect("a program");
    let (mut name, mut places) = (BAD.as_bytes().to_vec(), 0);
    name.push(0);
    assert!(name.len() <= FUNCTION.len());
    for at in 0..bytes.len() - FUNCTION.len() {
        if bytes[at..].starts_with(FUNCTION) {
            bytes[at..at + name.len()].copy_from_slice(&name);
            places += 1;
        }
    }
    assert_eq!(places, 1);
    bytes
}

#[test]
fn nothing_that_a_program_names_is_done() {
    let visit = Visit::begin(1);
    let browser = &visit.browser;
    // Its own name, that of the directory that it sees as its root, and that of the one it works in.
    let root = visit.cluster.root().join(format!("root{BAD}"));
    let directory = format!("directory{BAD}");
    std::fs::create_dir_all(root.join(&directory)).expect("a directory");
    let name = format!("program{BAD}");
    let file = root.join(&name);
    std::fs::write(&file, renamed()).expect("written");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).expect("made a program");
    // What comes into a page that is looked at is no more done than what is there when it is loaded.
    let (root, file) = (root.to_string_lossy(), file.to_string_lossy());
    let directory = format!("/{directory}");
    let environment = format!("BAD={WORSE}");
    let run = |how: &str| {
        let run = ["run", "--detach", "--overlay=5", "--sample", "200", "--root", &root, "--cwd", &directory];
        let program = ["--env", &environment, &file, how, WORSE];
        visit.cluster.coppice(&[&run[..], &program].concat()).success().text().trim().to_owned()
    };
    let job = run("stays");
    browser.until_text("#job-1", "running");
    visit.assert_seen("#job-1 code", &name);
    visit.assert_seen("#job-1 code", WORSE);
    visit.assert_nothing_was_done();
    visit.open(&format!("/jobs/{job}"));
    visit.assert_seen("dd", &format!("root{BAD}"));
    visit.assert_seen("dd", &directory);
    browser.until_text("main", "Ranks over time");
    visit.assert_nothing_was_done();
    let _ = visit.cluster.coppice(&["kill", &job]).success();
    browser.until_text("main header", "ended");
    visit.assert_seen("pre", &format!("argument: {WORSE}\\r\nenvironment: {WORSE}\n\\r"));
    visit.assert_seen("section[aria-labelledby=functions] code", BAD);
    visit.assert_nothing_was_done();

    visit.open("/events");
    let crashed = run("crashes");
    let _ = browser.until(&format!("document.querySelector('main a[href=\"/jobs/{crashed}\"]')"));
    visit.assert_nothing_was_done();
    let of_jobs = [format!("/jobs/{job}"), format!("/jobs/{crashed}"), format!("/jobs/{job}/ranks/0")];
    let lists =
        ["/", "/jobs", "/nodes", "/nodes?by=program", "/nodes/0", "/programs", "/checkpoints", "/links", "/events"];
    for path in lists.into_iter().chain(of_jobs.iter().map(String::as_str)) {
        visit.open(path);
        if ["/nodes", "/nodes/0", "/programs", "/jobs"].contains(&path) {
            visit.assert_seen("td code", &name);
        }
        visit.assert_nothing_was_done();
        let images = "[...document.images].every(image => image.complete && image.naturalWidth > 0)";
        assert_eq!(browser.value(images), true, "{path}");
    }
    // Nor is what is put into a form, and said of it.
    visit.open("/orders/run");
    let _ = browser.run(&format!("document.querySelector('[name=program]').value = {}", json!(WORSE)));
    browser.click("main button");
    browser.until_text("[role=alert]", "It was not done");
    assert_eq!(browser.value("document.querySelector('[name=program]').value"), json!(WORSE));
    visit.assert_seen("[role=alert]", WORSE);
    // That it was not done is what the browser complains of.
    let complaints = browser.complaints();
    assert!(complaints.iter().all(|complaint| complaint.text.contains("409")), "{complaints:?}");
    visit.assert_nothing_was_done();
}
