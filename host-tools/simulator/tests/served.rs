//! A cluster of many nodes and jobs that answers, and its pages: all of it can be come to, and no page is longer for it
//! than it may be.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use coppice_api::job::{JobState, JobsQuery};
use coppice_api::{Client, ClusterPaths};
use coppice_dashboard::{Access, Tool, serve};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

const NODES: usize = 1024;
const JOBS: usize = 1500;

/// Rows of a list that are on a page.
const ROWS: usize = 200;

/// What a page may be long, bytes.
const PAGE_BYTES_MAX: usize = 200_000;

/// The simulator.
struct Served {
    child: Child,
    client: Client,
    _home: tempfile::TempDir,
}

impl Served {
    fn up(home: tempfile::TempDir) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_coppice-simulator"));
        command.args(["served", "--nodes", &NODES.to_string(), "--past", &JOBS.to_string(), "--home"]);
        let mut child = command.arg(home.path()).stdout(Stdio::piped()).spawn().expect("started");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        assert_eq!(line, "up\n");
        Self { child, client: client(home.path()), _home: home }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn client(home: &Path) -> Client {
    let lookup = |variable: &str| (variable == "COPPICE_HOME").then(|| home.as_os_str().to_owned());
    let user = rustix::process::getuid().as_raw();
    Client::new(ClusterPaths::find_with("default".parse().expect("a name"), lookup, user).expect("paths"))
}

/// A page, as a browser that was let in gets it.
fn page(address: SocketAddr, cookie: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let head = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\ncookie: {cookie}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.len() < PAGE_BYTES_MAX, "{path}: {} bytes", answer.len());
    answer
}

/// Where links lead that have this in front.
fn links<'a>(page: &'a str, prefix: &'a str) -> impl Iterator<Item = &'a str> {
    page.match_indices("href=\"").filter_map(move |(at, before)| {
        page[at + before.len()..].split('"').next().filter(|address| address.starts_with(prefix))
    })
}

/// All rows of a list, page by page.
fn walk(ask: &dyn Fn(&str) -> String, first: &str, row: &str) -> Vec<String> {
    let (mut found, mut next) = (Vec::new(), Some(first.to_owned()));
    while let Some(address) = next {
        let page = ask(&address);
        let before = found.len();
        found.extend(
            page.match_indices(row).filter_map(|(at, _)| page[at + row.len()..].split('"').next()).map(str::to_owned),
        );
        assert!(found.len() - before <= ROWS, "{address}");
        let more = page.match_indices("<a href=\"").map(|(at, before)| &page[at + before.len()..]);
        let more = more.filter_map(|rest| rest.split_once('"')).find(|(_, rest)| rest.starts_with(" rel=\"next\""));
        next = more.map(|(address, _)| address.replace("&amp;", "&"));
        assert!(found.len() <= 2 * (NODES + JOBS), "there is no end");
    }
    found
}

#[tokio::test]
async fn all_of_a_large_cluster_can_be_come_to() {
    let served = Served::up(tempfile::tempdir().expect("directory"));
    let client = &served.client;
    let cluster = client.cluster().await.expect("it answers");
    assert_eq!((cluster.nodes as usize, cluster.nodes_ready as usize, cluster.jobs_running), (NODES, NODES, 1));
    let all = JobsQuery { limit: Some(2 * JOBS as u32), before: None };
    let jobs = client.jobs(&all).await.expect("listed");
    let ended = jobs.iter().filter(|job| job.state == JobState::Ended).count();
    assert_eq!((jobs.len(), ended, jobs[JOBS].nodes.len()), (JOBS + 1, JOBS, NODES));

    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let access = Access::new(address.port()).expect("random numbers");
    let token = access.address().split_once("token=").expect("a token").1.to_owned();
    let (end, ended) = oneshot::channel::<()>();
    let tool = Tool { program: "/bin/false".into(), arguments: vec![] };
    let serving = tokio::spawn(serve(client.clone(), access, tool, listener, async {
        let _ = ended.await;
    }));
    let looked = tokio::task::spawn_blocking(move || {
        let cookie = format!("coppice-{}={token}", address.port());
        let ask = |path: &str| page(address, &cookie, path);
        let overview = ask("/");
        assert!(overview.contains("1024 of 1024 ready") && overview.contains("1024 nodes: 1024 busy"), "{overview}");
        assert_eq!(links(&overview, "/jobs/").count(), 25);
        let jobs = walk(&ask, "/jobs", "id=\"job-");
        assert!(
            jobs.iter().map(String::as_str).eq((1..=JOBS + 1)
                .rev()
                .map(|job| job.to_string())
                .collect::<Vec<_>>()
                .iter()
                .map(String::as_str))
        );
        let nodes = walk(&ask, "/nodes?by=free", "id=\"node-");
        assert!(nodes.len() == NODES && nodes[NODES - 1] == "1023", "{} nodes", nodes.len());
        assert!(walk(&ask, "/nodes?state=failed", "id=\"node-").is_empty());
        assert!(ask("/nodes/1000").contains("Node 1000 is busy"));
        // A link of each node, and of each I/O node.
        assert_eq!(walk(&ask, "/links", "href=\"/orders/link?links=").len(), NODES + NODES / 64);
        let job = ask(&format!("/jobs/{}", JOBS + 1));
        assert!(job.contains("running") && job.contains("1024 (0-1023)"), "{job}");
    });
    looked.await.expect("as it should be");
    end.send(()).expect("it runs");
    serving.await.expect("it ends");
}
