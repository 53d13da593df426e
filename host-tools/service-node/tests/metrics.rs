//! Metrics of a cluster whose processes are not real: what is counted, how it is asked for, and that Prometheus' own
//! checker finds nothing wrong with it.

mod support;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use coppice_api::cluster::ClusterState;
use coppice_api::job::Submission;
use coppice_api::node::NodeState;
use coppice_protocol::control::Exit;
use coppice_protocol::ids::{NodeId, PsetId, Rank};
use coppice_service_node::connections::Connections;
use coppice_service_node::controller::{Event, Request};
use coppice_service_node::limits::{METRICS_HEAD_BYTES_MAX, METRICS_JOBS_MAX, METRICS_NODES_MAX, METRICS_TIME_MAX};
use coppice_service_node::metrics::seen::JobEnd;
use coppice_service_node::metrics::{Format, Seen, Slots, Snapshot, host, server, text};
use coppice_service_node::output::keeper::Kept;
use support::served::Served;
use support::{Cluster, job};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

/// How long anything may take; the tests themselves take less than a second.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the controller says while none of its orders is carried out.
fn seen(cluster: &mut Cluster) -> Seen {
    *cluster.ask_only(Request::Metrics).expect("answered")
}

/// The text of that.
fn text_of(cluster: &mut Cluster, format: Format) -> String {
    let seen = seen(cluster);
    let processes = host::processes(&seen.helpers);
    let (kept, api, scrapers) = (Kept::default(), Slots::default(), Slots::default());
    text(Snapshot { seen, processes, kept, api, scrapers }, format).expect("text")
}

/// Whether a text has this line.
#[track_caller]
fn assert_has(text: &str, line: &str) {
    assert!(text.lines().any(|found| found == line), "no “{line}” in\n{text}");
}

#[test]
fn what_has_happened_is_counted() {
    let mut cluster = Cluster::up(3, 2);
    let ends = [Exit::Status(0), Exit::Status(0), Exit::Status(3), Exit::Signal(11)];
    for exit in ends {
        let id = cluster.submit(Submission { nodes: vec![0], ..job(1) }).expect("accepted");
        cluster.pass(Duration::from_secs(2));
        let ended = cluster.behaviour.ended(PsetId(0), id, Rank(0), NodeId(0), exit);
        cluster.event(ended);
    }
    let lost = cluster.submit(Submission { nodes: vec![2], ..job(1) }).expect("accepted");
    let waits = cluster.submit(Submission { nodes: vec![2], ..job(1) }).expect("accepted");
    let before = seen(&mut cluster);
    assert_eq!((before.job_states["running"], before.job_states["queued"], before.node_states["busy"]), (1, 1, 1));
    let jobs: Vec<u64> = before.jobs.iter().map(|job| job.job).collect();
    assert_eq!(jobs, [lost.0, waits.0]);
    cluster.lose_machine(2);
    let seen = seen(&mut cluster);
    let ended: Vec<_> = JobEnd::ALL.iter().map(|end| seen.counts.jobs.get(end).copied().unwrap_or(0)).collect();
    assert_eq!(ended, [2, 1, 1, 0, 1, 0]);
    assert_eq!((seen.counts.runs.count(), seen.counts.waits.count()), (5, 5));
    assert!(seen.counts.runs.sum_s >= 8.0, "{:?}", seen.counts.runs);
    assert_eq!((seen.counts.ras[&("info", "node-ready")], seen.counts.ras[&("fatal", "node-lost")]), (4, 1));
    assert_eq!((seen.nodes[2].boots, seen.nodes[1].boots, seen.nodes[2].state), (2, 1, NodeState::Busy));
    assert_eq!((seen.stored.programs, seen.helpers_all, seen.helpers.len()), (1, 3, 3));
    assert!(seen.helpers.iter().all(|helper| helper.up && helper.starts == 1), "{:?}", seen.helpers);
}

#[test]
fn a_service_node_counts_what_it_does_after_one_that_was_killed() {
    let mut cluster = Cluster::up(2, 2);
    cluster.submit(job(2)).expect("accepted");
    let mut cluster = cluster.restarted();
    let seen = seen(&mut cluster);
    assert_eq!(seen.counts.jobs.get(&JobEnd::Lost), Some(&1));
    assert_eq!(seen.counts.ras.iter().collect::<Vec<_>>(), [(&("error", "recovery"), &1)]);
    assert_eq!((seen.jobs.len(), seen.stored.programs, seen.nodes[1].boots), (0, 1, 1));
}

#[test]
fn a_cluster_can_be_asked_from_its_beginning_to_its_end() {
    let mut cluster = Cluster::new(2, 1);
    let first = text_of(&mut cluster, Format::OpenMetrics);
    assert_has(&first, r#"coppice_cluster_state{state="starting"} 1"#);
    assert_has(&first, r#"coppice_nodes{state="waiting"} 2"#);
    assert_has(&first, r#"coppice_process_up{process="fabric",pset=""} 0"#);
    cluster.settle();
    let up = text_of(&mut cluster, Format::OpenMetrics);
    assert_has(&up, r#"coppice_cluster_state{state="up"} 1"#);
    assert_has(&up, r#"coppice_process_up{process="io-node",pset="1"} 1"#);
    cluster.controller.handle(Event::Request(Request::Down), cluster.now());
    let last = text_of(&mut cluster, Format::OpenMetrics);
    assert_has(&last, r#"coppice_cluster_state{state="stopping"} 1"#);
    for text in [first, up, last] {
        assert!(text.ends_with("\n# EOF\n"));
    }
}

#[test]
fn a_text_is_bounded_and_says_what_is_left_out() {
    let nodes = u32::try_from(METRICS_NODES_MAX).expect("few") + 6;
    let mut cluster = Cluster::new(nodes, 2);
    for _ in 0..METRICS_JOBS_MAX + 5 {
        cluster.submit(Submission { detached: true, ..job(nodes) }).expect("accepted");
    }
    let text = text_of(&mut cluster, Format::OpenMetrics);
    for line in ["coppice_nodes_left_out 6", "coppice_jobs_left_out 5", "coppice_processes_left_out 260"] {
        assert_has(&text, line);
    }
    assert!(text.len() < 2 << 20, "{} bytes", text.len());
}

#[test]
fn a_cluster_that_cannot_come_up_is_shown_as_such() {
    let mut cluster = Cluster::new(1, 1);
    cluster.behaviour.boots = false;
    cluster.settle();
    cluster.pass(Duration::from_secs(600));
    let seen = seen(&mut cluster);
    assert_eq!((seen.cluster.state, seen.node_states["failed"], seen.nodes[0].boots_failed), {
        (ClusterState::Failed, 1, u64::from(seen.nodes[0].boots))
    });
    assert!(seen.nodes[0].boots > 1);
}

/// What is answered to these bytes, and then nothing more.
async fn answer(stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite, request: &str) -> String {
    let mut stream = std::pin::pin!(stream);
    stream.write_all(request.as_bytes()).await.expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("read");
    answer
}

/// The type of an answer, and its body.
fn parts(answer: &str) -> (&str, &str) {
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.lines().find_map(|line| line.strip_prefix("content-type: ")).expect("a type"), body)
}

#[tokio::test]
async fn both_formats_are_served_with_the_api() {
    let served = Served::new(Cluster::up(2, 1));
    let socket = served.client.paths().api_socket();
    let ask = async |accept: &str| {
        let stream = UnixStream::connect(&socket).await.expect("connected");
        answer(stream, &format!("GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{accept}\r\n")).await
    };
    let open = ask("").await;
    let (kind, body) = parts(&open);
    assert_eq!(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8");
    assert!(body.ends_with("\n# EOF\n"));
    assert_has(body, r#"coppice_connections{of="api"} 1"#);
    assert_has(body, "# TYPE coppice_node_boots counter");
    let classic = ask("accept: text/plain\r\n").await;
    let (kind, body) = parts(&classic);
    assert_eq!(kind, "text/plain; version=0.0.4; charset=utf-8");
    assert!(!body.contains("# EOF") && !body.contains("# UNIT"));
    assert_has(body, "# TYPE coppice_node_boots_total counter");
    let text = served.client.metrics().await.expect("text");
    assert_has(&text, r#"coppice_cluster_info{name="test",version="0.1.0",accelerator="tcg"} 1"#);
    served.down().await;
}

/// Serves metrics by TCP, so many connections at a time; gives the port.
async fn by_tcp(served: &Served, connections: &Connections, patience: Duration) -> u16 {
    let listener = server::listen(0).await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    tokio::spawn(server::serve(listener, connections.clone(), patience, served.api.clone()));
    port
}

async fn connect(port: u16) -> TcpStream {
    TcpStream::connect(("127.0.0.1", port)).await.expect("connected")
}

#[tokio::test]
async fn nothing_but_metrics_is_served_over_tcp() {
    let served = Served::new(Cluster::up(1, 1));
    let port = by_tcp(&served, &Connections::new(2), METRICS_TIME_MAX).await;
    let ask = async |request: &str| answer(connect(port).await, request).await;
    let text = ask("GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(parts(&text).1.ends_with("\n# EOF\n"), "{text}");
    for path in ["/", "/v1/cluster", "/metrics/", "/v1/cluster/down", "//metrics"] {
        for method in ["GET", "POST"] {
            let refused = ask(&format!("{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n")).await;
            assert!(refused.starts_with("HTTP/1.1 404 "), "{method} {path}: {refused}");
        }
    }
    let refused = ask("POST /metrics HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}").await;
    assert!(refused.starts_with("HTTP/1.1 405 ") && refused.contains("allow: GET\r\n"), "{refused}");
    let long = format!("GET /metrics HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(METRICS_HEAD_BYTES_MAX));
    assert!(ask(&long).await.starts_with("HTTP/1.1 431 "));
    let many = format!("GET /metrics HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(100));
    assert!(ask(&many).await.starts_with("HTTP/1.1 431 "));
    assert!(ask("nonsense\r\n\r\n").await.starts_with("HTTP/1.1 400 "));
    // Of two requests the first is answered, and the connection is over.
    let twice = "GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n".repeat(2);
    assert_eq!(ask(&twice).await.matches("HTTP/1.1 200").count(), 1);
    served.down().await;
}

#[tokio::test]
async fn peers_that_say_nothing_or_read_nothing_keep_others_out_for_a_while_only() {
    let served = Served::new(Cluster::up(1, 1));
    let (connections, patience) = (Connections::new(2), Duration::from_millis(200));
    let port = by_tcp(&served, &connections, patience).await;
    let silent = connect(port).await;
    let mut slow = connect(port).await;
    slow.write_all(b"GET /metrics HTTP/1.1\r\nx: ").await.expect("written");
    let mut deaf = connect(port).await;
    deaf.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("written");
    let text = answer(connect(port).await, "GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n");
    let text = tokio::time::timeout(PATIENCE, text).await.expect("in time");
    let open = parts(&text).1.lines().find_map(|line| line.strip_prefix(r#"coppice_connections{of="metrics"} "#));
    assert_eq!(open, Some("0"), "this cluster's API does not know of them");
    for mut gone in [silent, slow] {
        let end = gone.read(&mut [0]).await;
        assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
    }
    drop(deaf);
    let all_ended = async {
        while connections.slots() != (Slots { open: 0, most: 2 }) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, all_ended).await.expect("in time");
    served.down().await;
}

#[tokio::test]
async fn a_port_that_somebody_has_is_refused_with_what_to_do() {
    let listener = server::listen(0).await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let refused = server::listen(port).await.expect_err("taken");
    assert_eq!(
        refused,
        format!(
            "cannot serve metrics on 127.0.0.1:{port}: Address already in use; give --metrics-port another port, or 0 \
             for any"
        )
    );
}

/// Prometheus' checker, where `cargo xtask test` puts it.
fn promtool() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |dir| root.join(dir));
    let promtool = target.join("prometheus/usr/bin/promtool");
    if promtool.exists() {
        return Some(promtool);
    }
    eprintln!("not tried: no {}; `cargo xtask test` fetches it", promtool.display());
    None
}

#[test]
fn promtool_finds_nothing_to_complain_of() {
    let Some(promtool) = promtool() else { return };
    let mut cluster = Cluster::new(3, 2);
    let mut texts = vec![text_of(&mut cluster, Format::Classic)];
    cluster.settle();
    let names: [&[u8]; 4] = [b"a\"b\\n\n{}", b"\xff\xfe", b"", "\u{202e}\u{fc}".as_bytes()];
    for name in names {
        cluster.submit(Submission { name: name.into(), ..job(1) }).expect("accepted");
    }
    texts.push(text_of(&mut cluster, Format::Classic));
    cluster.controller.handle(Event::Request(Request::Down), cluster.now());
    texts.push(text_of(&mut cluster, Format::Classic));
    for text in texts {
        let mut check = Command::new(&promtool);
        check.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut check = check.spawn().expect("started");
        check.stdin.take().expect("piped").write_all(text.as_bytes()).expect("written");
        let output = check.wait_with_output().expect("ended");
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success() && said.is_empty(), "{said}\n{text}");
    }
}
