//! A report of a job: one page, which says what the tools say.

use coppice_tests::Cluster;
use coppice_tests::guests::{Toolchain, program};

/// Text as it stands in a page.
fn escaped(text: &str) -> String {
    let entities = [("&", "&#38;"), ("<", "&#60;"), (">", "&#62;"), ("\"", "&#34;"), ("'", "&#39;")];
    entities.into_iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

#[test]
fn a_report_has_all_that_is_known_and_needs_nothing_else() {
    let cluster = Cluster::up(2);
    let path = program("profiled", Toolchain::Glibc);
    let (path, bad) = (path.to_string_lossy(), "</title><script>alert(1)</script>\u{1b}[2J");
    let run = ["--overlay=5", "--sample", "200", "--keep-output", "-n", "2", &path, "1500", bad];
    let _ = cluster.run(&run).success();
    let job = cluster.last_job()["job"].to_string();
    let file = cluster.root().join("report.html");
    let made = cluster.coppice(&["report", &job, "-o", &file.to_string_lossy()]).success();
    assert_eq!((made.text().as_str(), made.stderr.as_str()), ("", ""));
    let page = std::fs::read_to_string(&file).expect("a page");
    // What explains it, functions, output, in words.
    let explanation = cluster.json(&["explain", &job]);
    for finding in explanation["findings"].as_array().expect("findings") {
        let text = escaped(finding["text"].as_str().expect("a sentence"));
        assert!(page.contains(&text), "{text} in {page}");
    }
    for wanted in ["in the program</td>", "<code>heavy</code>", "exit 0</td>", "total ", "Ranks over time", "image/svg"]
    {
        assert!(page.contains(wanted), "{wanted} in {page}");
    }
    // Nothing of another file or host, nothing that is executed, nothing that was no text.
    assert!(page.contains(&escaped("</title><script>alert(1)</script>\\u{1b}[2J")), "{page}");
    for unwanted in ["<script", "\u{1b}", "<link", "src=\"http", "href=", "url(", "@import"] {
        assert!(!page.contains(unwanted), "{unwanted} in {page}");
    }
    let shown = cluster.coppice(&["report", &job, "--output", "-"]).success().text();
    assert!(shown.starts_with("<!DOCTYPE html>") && shown.ends_with("</html>\n"), "{shown}");
    let refused = cluster.coppice(&["report", "99", "-o", &file.to_string_lossy()]).refused(&["no job 99"]);
    assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);
}
