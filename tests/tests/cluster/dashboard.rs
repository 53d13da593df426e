//! The dashboard's pages, as a browser asks for them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use coppice_tests::Cluster;
use coppice_tests::cluster::wait_until;
use coppice_tests::dashboard::Dashboard;
use coppice_tests::guests::{BUSYBOX, Toolchain, program};

/// How long an answer may take.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);

/// How long it may take until a page is what it should be.
const SEEN_TIME_MAX: Duration = Duration::from_secs(60);

/// A browser that a dashboard let in.
struct Browser {
    port: u16,
    cookie: String,
}

impl Browser {
    fn enter(dashboard: &Dashboard) -> Self {
        let mut browser = Self { port: dashboard.port(), cookie: String::new() };
        let path = dashboard.address().strip_prefix(&dashboard.page("")).expect("a path").to_owned();
        let (status, head, _) = browser.ask("GET", &path, "");
        let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")?.split(';').next());
        assert_eq!(status, 303, "{head}");
        browser.cookie = cookie.unwrap_or_else(|| panic!("{head}")).to_owned();
        browser
    }

    fn open(&self, method: &str, path: &str, form: &str) -> TcpStream {
        let Self { port, cookie } = self;
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, *port)).expect("it listens");
        stream.set_read_timeout(Some(ANSWER_TIME_MAX)).expect("a time");
        let origin = if method == "POST" { format!("origin: http://127.0.0.1:{port}\r\n") } else { String::new() };
        let head = format!("{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncookie: {cookie}\r\n{origin}");
        let kind = "content-type: application/x-www-form-urlencoded";
        let rest = format!("connection: close\r\n{kind}\r\ncontent-length: {}\r\n\r\n{form}", form.len());
        write!(stream, "{head}{rest}").expect("sent");
        stream
    }

    /// Status, head and body of an answer.
    fn ask(&self, method: &str, path: &str, form: &str) -> (u16, String, String) {
        let mut answer = String::new();
        self.open(method, path, form).read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{head}"));
        (status, head.to_ascii_lowercase(), body.to_owned())
    }

    fn page(&self, path: &str) -> String {
        let (status, _, body) = self.ask("GET", path, "");
        assert_eq!(status, 200, "{path}: {body}");
        body
    }
}

#[test]
fn pages_show_what_there_is_and_end_a_job() {
    let cluster = Cluster::up(2);
    let path = program("goes_on", Toolchain::Glibc);
    let bad = "<script>alert(1)</script>";
    let run = ["run", "--detach", "--overlay=5", "-n", "2", &path.to_string_lossy(), "1000000", "/lines.txt", "5", bad];
    let job = cluster.coppice(&run).success().text().trim().to_owned();
    let dashboard = Dashboard::start(&cluster);
    let browser = Browser::enter(&dashboard);
    let overview = browser.page("/");
    assert!(overview.contains("2 of 2 ready") && overview.contains("aria-label=\"2 nodes: 2 busy\""), "{overview}");
    assert!(overview.contains(&format!("href=\"/jobs/{job}\"")) && overview.contains("&#60;script&#62;"), "{overview}");
    assert!(!overview.contains(bad), "{overview}");
    wait_until("what ranks do is on the job's page", SEEN_TIME_MAX, || {
        let page = browser.page(&format!("/jobs/{job}"));
        let is_there = page.contains("Where the time went") && page.contains("Ranks over time");
        if is_there && !page.contains(bad) { Ok(()) } else { Err(page) }
    });
    // What is seen elsewhere is seen here.
    let nodes = browser.page("/nodes");
    assert!(nodes.contains("2 busy") && nodes.contains("id=\"node-1\""), "{nodes}");
    let by_job = browser.page("/nodes?by=job&state=busy&from=1");
    assert!(by_job.contains(&format!("2 job {job}")) && by_job.contains("1 of 2 nodes are listed"), "{by_job}");
    let node = browser.page("/nodes/1");
    assert!(node.contains("Node 1 is busy") && node.contains("10.64.0.2") && node.contains("<dt>Link</dt>"), "{node}");
    let (status, _, missing) = browser.ask("GET", "/nodes/2", "");
    assert!(status == 404 && missing.contains("there is no node 2; there are 2"), "{missing}");
    wait_until("what a rank does is on its page", SEEN_TIME_MAX, || {
        let rank = browser.page(&format!("/jobs/{job}/ranks/1"));
        if rank.contains("Where its time went") && rank.contains("What it called") { Ok(()) } else { Err(rank) }
    });
    assert_eq!(browser.ask("GET", &format!("/jobs/{job}/ranks/2"), "").0, 404);
    assert!(browser.page("/jobs").contains(&format!("href=\"/jobs/{job}\"")));
    assert!(browser.page(&format!("/jobs?before={job}")).contains("There is none before that one."));
    assert!(browser.page("/checkpoints").contains("There is none."));
    assert!(browser.page("/events?node=1").contains("node-ready"));
    let hash = cluster.json(&["programs"])[0]["hash"].as_str().expect("a hash")[..12].to_owned();
    assert!(browser.page("/programs").contains(&hash));
    let _ = cluster.coppice(&["link", "1", "--latency", "3ms"]).success();
    assert!(browser.page("/links").contains("+ 3000 µs"), "{}", browser.page("/links"));
    assert!(browser.page("/events").contains("node-ready"));
    let (status, _, missing) = browser.ask("GET", "/jobs/99", "");
    assert!(status == 404 && missing.contains("no job 99"), "{missing}");
    // It is done as on the terminal, and what cannot be done is said as there.
    assert!(browser.page(&format!("/orders/kill?job={job}")).contains("coppice kill --help"));
    let (status, _, refused) = browser.ask("POST", "/orders/kill", "job=99&signal=TERM");
    assert!(status == 409 && refused.contains("no job 99"), "{refused}");
    let run = format!("program={}&arguments=echo+%3Cb%3E&ranks=2&root=%2F", BUSYBOX.replace('/', "%2F"));
    let (status, head, _) = browser.ask("POST", "/orders/run", &run);
    assert!(status == 303 && head.contains("location: /jobs/2"), "{head}");
    let waits = format!("waits for 2 nodes; job {job} has 2 nodes");
    assert!(browser.page("/").contains(&waits) && browser.page("/jobs/2").contains(&waits));
    let (status, head, _) = browser.ask("POST", "/orders/kill", &format!("job={job}&signal=TERM"));
    assert!(status == 303 && head.contains(&format!("location: /jobs/{job}")), "{head}");
    wait_until("the job has ended", SEEN_TIME_MAX, || {
        let page = browser.page(&format!("/jobs/{job}"));
        if page.contains("ended, exit status 143") { Ok(()) } else { Err(page) }
    });
    wait_until("the one that was begun here has run", SEEN_TIME_MAX, || {
        let page = browser.page("/jobs/2");
        if page.contains("ended, exit status 0") && page.contains("&#60;b&#62;") { Ok(()) } else { Err(page) }
    });
    let (status, head, output) = browser.ask("GET", "/jobs/2/output", "");
    assert!(status == 200 && head.contains("content-type: text/plain"), "{head}");
    assert_eq!(output.matches("<b>").count(), 2, "{output}");
    let held = browser.page("/nodes/0");
    assert!(held.contains("It starts these programs without loading them"), "{held}");
    let (status, _, console) = browser.ask("POST", "/orders/console", "node=0");
    assert!(status == 200 && console.contains("It was done: <code>coppice console -- 0</code>"), "{console}");
}

#[test]
fn a_live_page_says_what_changes_also_that_a_cluster_goes_and_comes() {
    let cluster = Cluster::up(1);
    let dashboard = Dashboard::start(&cluster);
    let mut live = BufReader::new(Browser::enter(&dashboard).open("GET", "/live/", ""));
    let mut until = |wanted: &str| loop {
        let mut line = String::new();
        assert!(live.read_line(&mut line).expect("it goes on") > 0, "it ended before {wanted}");
        if line.contains(wanted) {
            break;
        }
    };
    until("1 of 1 ready");
    let _ = cluster.run(&[BUSYBOX, "true"]);
    until("href=\"/jobs/1\"");
    let _ = cluster.coppice(&["down"]).success();
    until("is not up");
    let _ = cluster.coppice(&["up", "--accel", "tcg", "--nodes", "1"]).success();
    until("1 of 1 ready");
    // It ends by a signal at once, whoever looks.
    let ended = dashboard.end();
    assert_eq!((ended.status, ended.stderr.as_str()), (143, ""));
}

#[test]
fn nobody_comes_in_without_the_token() {
    let cluster = Cluster::up(1);
    let dashboard = Dashboard::start(&cluster);
    let mut browser = Browser::enter(&dashboard);
    let (_, right) = browser.cookie.split_once('=').expect("a pair");
    let wrong = [String::new(), format!("coppice-{}=", browser.port), format!("coppice-1={right}")];
    for cookie in wrong {
        browser.cookie = cookie;
        for path in ["/", "/jobs/1", "/live/", "/assets/style.css"] {
            assert_eq!(browser.ask("GET", path, "").0, 403, "{path} with {}", browser.cookie);
        }
        assert_eq!(browser.ask("POST", "/orders/kill", "job=1&signal=TERM").0, 403);
    }
    let taken = cluster.coppice(&["dashboard", "--port", &browser.port.to_string()]);
    assert!(taken.status == 125 && taken.stderr.contains("cannot listen at port"), "{}", taken.stderr);
    assert_eq!(taken.stderr.lines().count(), 1, "{}", taken.stderr);
}
