//! The API over a real socket with the real client; only the processes behind the controller are not real.

mod support;

use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::Duration;

use coppice_api::job::{JobState, JobsQuery, KillOrder, Submission, Submitted};
use coppice_api::link::{LinkChange, LinkOrder, LinksQuery, RecordingOrder, Station};
use coppice_api::ras::RasQuery;
use coppice_api::retain::ForgetOrder;
use coppice_api::staging::{Staged, StagedView};
use coppice_api::stream::{JobEvent, StreamFrame};
use coppice_api::{ApiError, Client};
use coppice_protocol::control::Exit;
use coppice_protocol::ids::{JobId, NodeId, PsetId, Rank};
use coppice_protocol::limits::{INPUT_WINDOW_BYTES, OUTPUT_WINDOW_BYTES};
use coppice_protocol::pset::{FromPset, ToPset};
use coppice_protocol::ship::Stream;
use coppice_service_node::connections::Connections;
use coppice_service_node::controller::Event;
use coppice_service_node::http::Api;
use coppice_service_node::plant::{HelperEvent, Incarnation, PlantEvent};
use support::memory::PAGES;
use support::{Cluster, Order};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// How long anything may take; the tests themselves take milliseconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// A cluster that answers on its socket.
struct Served {
    client: Client,
    events: mpsc::Sender<Event>,
    cluster: JoinHandle<Cluster>,
    program: PathBuf,
    files: tempfile::TempDir,
}

impl Served {
    fn new(cluster: Cluster) -> Self {
        Self::with_connections(cluster, 100)
    }

    /// That has so many connections open at most.
    fn with_connections(cluster: Cluster, most: usize) -> Self {
        let paths = support::paths(cluster.home.path());
        let listener = UnixListener::bind(paths.api_socket()).expect("socket");
        let ((events, queue), store) = (mpsc::channel(100), cluster.store.clone());
        let connections = Connections::new(most);
        let router =
            Api::new(events.clone(), store, connections.clone(), support::storage(cluster.home.path())).router();
        tokio::spawn(async move { axum::serve(connections.bound(listener), router).await });
        let files = tempfile::tempdir().expect("directory");
        let program = files.path().join("prog");
        std::fs::write(&program, support::program_file()).expect("program");
        let cluster = tokio::spawn(cluster.serve(queue));
        Self { client: Client::new(paths), events, cluster, program, files }
    }

    fn job(&self, ranks: u32) -> Submission {
        Submission { program: self.program.clone(), ..support::job(ranks) }
    }

    /// The first I/O node says something.
    async fn said(&self, message: FromPset) {
        let event = PlantEvent::Pset {
            pset: PsetId(0),
            incarnation: Incarnation::default().next(),
            event: HelperEvent::Said(message),
        };
        self.events.send(Event::Plant(event)).await.expect("served");
    }

    async fn end(&self, job: u64, status: u8) {
        let report = support::behaviour::report(JobId(job), Rank(0), Exit::Status(status));
        self.said(support::behaviour::one_end(NodeId(0), report, &[])).await;
    }

    /// Ends the cluster and returns it with all orders it gave.
    async fn down(self) -> Cluster {
        self.client.down().await.expect("told");
        tokio::time::timeout(PATIENCE, self.cluster).await.expect("in time").expect("no panic")
    }
}

fn refusal(result: Result<Submitted, ApiError>) -> String {
    match result {
        Err(ApiError::Refused { message, .. }) => message,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn nobody_listens() {
    let home = tempfile::tempdir().expect("directory");
    let client = Client::new(support::paths(home.path()));
    let error = client.nodes().await.expect_err("not up").to_string();
    assert_eq!(error, "cluster 'test' is not up; start it with `coppice up`");
}

#[tokio::test]
async fn listings() {
    let served = Served::new(Cluster::up(3, 2));
    let client = &served.client;
    let view = client.cluster().await.expect("cluster");
    assert_eq!((view.nodes, view.nodes_ready, view.accelerator.as_deref()), (3, 3, Some("tcg")));
    assert_eq!(view.processes.len(), 3);
    assert_eq!(client.nodes().await.expect("nodes").len(), 3);
    assert_eq!(client.ras(&RasQuery { limit: Some(2), ..RasQuery::default() }).await.expect("events").len(), 2);
    assert_eq!(client.ras(&RasQuery { node: Some(1), ..RasQuery::default() }).await.expect("events").len(), 1);
    assert_eq!(client.jobs(&JobsQuery::default()).await.expect("jobs"), []);
    let mut watch = client.watch().await.expect("watch");
    assert_eq!(watch.next_state().await.expect("state").expect("now").nodes_ready, 3);
    client.reboot(1).await.expect("rebooted");
    assert!(matches!(client.reboot(9).await, Err(ApiError::Refused { status: 404, .. })));
    assert!(matches!(client.job(9).await, Err(ApiError::Refused { status: 404, .. })));
    served.down().await;
    while watch.next_state().await.expect("states until the end").is_some() {}
}

#[tokio::test]
async fn links_are_shown_and_changed() {
    let served = Served::new(Cluster::up(3, 2));
    let client = &served.client;
    assert_eq!(client.links(&LinksQuery::default()).await.expect("all").links.len(), 5);
    let some = LinksQuery { links: Some("2,io1".parse().expect("links")) };
    let shown = client.links(&some).await.expect("some").links;
    assert_eq!(shown.iter().map(|link| link.link).collect::<Vec<_>>(), [Station::Node(2), Station::IoNode(1)]);
    // Whatever a file is called.
    let file = PathBuf::from(std::ffi::OsString::from_vec(b"/\xff.pcap".to_vec()));
    let order = LinkOrder {
        links: Station::Node(2).into(),
        change: LinkChange { cut: Some(true), ..LinkChange::default() },
        recording: Some(RecordingOrder::Start { file: file.clone() }),
    };
    let changed = client.change_links(&order).await.expect("changed").links.remove(0);
    assert!(changed.to.shape.cut && changed.from.shape.cut);
    assert_eq!(changed.recording.map(|recording| recording.file), Some(file));
    let missing = LinkOrder { links: Station::Node(3).into(), ..order };
    assert!(matches!(client.change_links(&missing).await, Err(ApiError::Refused { status: 404, .. })));
    served.down().await;
}

#[tokio::test]
async fn a_job_from_submission_to_end() {
    let served = Served::new(Cluster::up(1, 1));
    let job = served.client.submit(&served.job(1)).await.expect("accepted").job;
    let mut stream = served.client.stream(job).await.expect("stream");
    for (stream, bytes) in [(Stream::Output, &b"out\n"[..]), (Stream::Error, b"err")] {
        let bytes = bytes.to_vec();
        served.said(FromPset::Output { job: JobId(job), rank: Rank(0), stream, bytes }).await;
    }
    served.end(job, 7).await;
    let mut frames = Vec::new();
    while let Some(frame) = stream.next_frame().await.expect("whole") {
        frames.push(frame);
    }
    assert_eq!(frames.len(), 5, "{frames:?}");
    assert_eq!(frames[0], StreamFrame::Event(JobEvent::Queued { ahead: 0 }));
    assert_eq!(frames[1], StreamFrame::Event(JobEvent::Started { nodes: vec![0] }));
    assert_eq!(frames[2], StreamFrame::Output { rank: 0, bytes: b"out\n".to_vec() });
    assert_eq!(frames[3], StreamFrame::Error { rank: 0, bytes: b"err".to_vec() });
    match &frames[4] {
        StreamFrame::Event(JobEvent::Ended(view)) => assert_eq!(view.exit_status, Some(7)),
        other => panic!("{other:?}"),
    }
    let programs = served.client.programs().await.expect("programs");
    assert_eq!((programs.len(), programs[0].bytes, programs[0].stored), (1, 4096, true));
    let ended = served.client.kill(job, KillOrder { signal: 9 }).await;
    assert!(matches!(ended, Err(ApiError::Refused { status: 409, .. })));
    assert_eq!(served.client.job(job).await.expect("job").rank_reports.len(), 1);
    served.down().await;
}

#[tokio::test]
async fn a_program_is_stored_once_and_told_by_its_bytes() {
    let served = Served::new(Cluster::up(1, 1));
    let copy = served.files.path().join("copy");
    std::fs::copy(&served.program, &copy).expect("copied");
    let mut hashes = Vec::new();
    for program in [&served.program, &served.program, &copy] {
        let submission = Submission { program: program.clone(), ..served.job(1) };
        let job = served.client.submit(&submission).await.expect("accepted").job;
        hashes.push(served.client.job(job).await.expect("job").job.program);
        served.end(job, 0).await;
    }
    let mut changed = support::program_file();
    changed[3000] = 1;
    std::fs::write(&served.program, changed).expect("changed");
    let job = served.client.submit(&served.job(1)).await.expect("accepted").job;
    hashes.push(served.client.job(job).await.expect("job").job.program);
    assert!(hashes[0] == hashes[1] && hashes[1] == hashes[2] && hashes[2] != hashes[3], "{hashes:?}");
    assert_eq!(served.client.programs().await.expect("programs").len(), 2);
    let cluster = served.down().await;
    let stored = std::fs::read_dir(support::paths(cluster.home.path()).programs()).expect("directory").count();
    assert_eq!(stored, 4, "two programs, each with its tree, and nothing partial is left");
}

#[tokio::test]
async fn a_stored_program_that_was_altered_does_not_run() {
    let served = Served::new(Cluster::up(1, 1));
    let run = async || {
        let job = served.client.submit(&served.job(1)).await.expect("accepted").job;
        served.end(job, 0).await;
        served.client.job(job).await.expect("job").job.program
    };
    let program = run().await;
    let copy = served.client.paths().programs().join(&program);
    let events = async || {
        let events = served.client.ras(&RasQuery::default()).await.expect("events");
        events.iter().filter(|event| event.kind == "recovery" && event.text.contains(&program)).count()
    };
    let good = support::program_file();
    let mut bad = good.clone();
    bad[4000] ^= 1;
    for rounds in 1..=2 {
        std::fs::remove_file(&copy).expect("removed");
        std::fs::write(&copy, &bad).expect("altered");
        for _ in 0..2 {
            assert_eq!(run().await, program);
            assert!(std::fs::read(&copy).expect("copy") == good);
            assert_eq!(events().await, rounds);
        }
    }
    served.down().await;
}

#[tokio::test]
async fn files_are_staged_and_forgotten_with_their_job() {
    let served = Served::new(Cluster::up(1, 1));
    let data = served.files.path().join("data");
    let staged = |path: &str| vec![Staged { file: data.clone(), path: path.into() }];
    let submission = Submission { staged: staged("/in//data"), ..served.job(1) };
    let message = refusal(served.client.submit(&submission).await);
    assert!(message.contains("cannot read staged file") && message.contains("No such file"), "{message}");
    std::fs::write(&data, "").expect("written");
    let message = refusal(served.client.submit(&submission).await);
    assert!(message.contains("is empty") && !message.contains('\n'), "{message}");
    std::fs::write(&data, "no program").expect("written");
    let message = refusal(served.client.submit(&Submission { staged: staged("in"), ..served.job(1) }).await);
    assert!(message.contains("not an absolute path"), "{message}");
    let job = served.client.submit(&submission).await.expect("accepted").job;
    let listed = served.client.job(job).await.expect("job").job.staged;
    assert_eq!(listed, [StagedView { path: Some("/in/data".into()), bytes: 10 }]);
    served.end(job, 0).await;
    // It is not known as a program for having been staged, and the program is not forgotten for that either.
    let submission = Submission { program: data.clone(), ..served.job(1) };
    assert!(refusal(served.client.submit(&submission).await).contains("cannot run"));
    let submission =
        Submission { staged: vec![Staged { file: served.program.clone(), path: "/prog".into() }], ..served.job(1) };
    let job = served.client.submit(&submission).await.expect("accepted").job;
    served.end(job, 0).await;
    assert_eq!(served.client.programs().await.expect("programs").len(), 1);
    let cluster = served.down().await;
    let stored = std::fs::read_dir(support::paths(cluster.home.path()).programs()).expect("directory").count();
    assert_eq!(stored, 2, "the program and its tree");
}

#[tokio::test]
async fn what_cannot_run_is_refused_in_one_line() {
    let served = Served::new(Cluster::up(1, 1));
    let file = |name: &str, bytes: &[u8]| {
        let path = served.files.path().join(name);
        std::fs::write(&path, bytes).expect("file");
        path
    };
    let mut arm = support::program_file();
    arm[18] = 183;
    let cases = [
        (PathBuf::from("/no/such/program"), "No such file"),
        (served.files.path().to_owned(), "not a file"),
        (file("text", b"#!/bin/sh\n"), "text"),
        (file("empty", b""), "empty"),
        (file("arm", &arm), "arm"),
        (file("short", &support::program_file()[..100]), "short"),
    ];
    for (program, words) in cases {
        let submission = Submission { program, ..served.job(1) };
        let message = refusal(served.client.submit(&submission).await);
        assert!(message.contains(words) && !message.contains('\n'), "{message}");
    }
    let message = refusal(served.client.submit(&served.job(2)).await);
    assert!(message.contains("-n 2"), "{message}");
    assert_eq!(served.client.jobs(&JobsQuery::default()).await.expect("jobs"), [], "none was recorded");
    served.down().await;
}

#[tokio::test]
async fn a_reader_that_leaves_ends_the_job() {
    let served = Served::new(Cluster::up(1, 1));
    let job = served.client.submit(&served.job(1)).await.expect("accepted").job;
    let stream = served.client.stream(job).await.expect("stream");
    drop(stream);
    let ended = async {
        loop {
            let view = served.client.job(job).await.expect("job").job;
            if view.state == JobState::Ended {
                return view;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let view = tokio::time::timeout(PATIENCE, ended).await.expect("in time");
    assert!(view.reason.is_some_and(|reason| reason.contains("went away")));
    served.down().await;
}

#[tokio::test]
async fn a_slow_reader_is_not_run_over() {
    let served = Served::new(Cluster::up(1, 1));
    let job = served.client.submit(&served.job(1)).await.expect("accepted").job;
    let mut stream = served.client.stream(job).await.expect("stream");
    // A whole window, in pieces, none of it read.
    let piece = vec![b'x'; OUTPUT_WINDOW_BYTES / 16];
    for _ in 0..16 {
        let bytes = piece.clone();
        served.said(FromPset::Output { job: JobId(job), rank: Rank(0), stream: Stream::Output, bytes }).await;
    }
    served.end(job, 0).await;
    let mut got = 0;
    while let Some(frame) = stream.next_frame().await.expect("whole") {
        if let StreamFrame::Output { bytes, .. } = frame {
            got += bytes.len();
        }
    }
    assert_eq!(got, OUTPUT_WINDOW_BYTES);
    let cluster = served.down().await;
    let taken = cluster.told().filter(|(_, message)| matches!(message, ToPset::OutputTaken { .. })).count();
    assert!(taken < 16, "{taken}: the job had ended before most of it was taken");
}

#[tokio::test]
async fn input_goes_as_far_as_there_is_room() {
    let served = Served::new(Cluster::up(1, 1));
    let submission = Submission { input_rank: Some(0), ..served.job(1) };
    let job = served.client.submit(&submission).await.expect("accepted").job;
    let _stream = served.client.stream(job).await.expect("stream");
    let (sender, feed) = Client::input_feed();
    let client = served.client.clone();
    let upload = tokio::spawn(async move { client.input(job, feed).await });
    let total = 3 * INPUT_WINDOW_BYTES;
    tokio::spawn(async move {
        for _ in 0..total / 1024 {
            if sender.send(vec![b'i'; 1024].into()).await.is_err() {
                return;
            }
        }
    });
    // The rank reads nothing for a while, then everything.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!upload.is_finished());
    for _ in 0..total / 1024 {
        served.said(FromPset::InputTaken { job: JobId(job), bytes: 1024 }).await;
        tokio::task::yield_now().await;
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
    tokio::time::timeout(PATIENCE, upload).await.expect("in time").expect("no panic").expect("sent");
    served.end(job, 0).await;
    let cluster = served.down().await;
    let sent: Vec<&[u8]> = cluster
        .orders
        .iter()
        .filter_map(|order| match order {
            Order::Tell(_, message) => match &**message {
                ToPset::Input { bytes, .. } => Some(&bytes[..]),
                _ => None,
            },
            _ => None,
        })
        .collect();
    assert_eq!(sent.iter().map(|bytes| bytes.len()).sum::<usize>(), total);
    assert_eq!(sent.last().map(|bytes| bytes.len()), Some(0), "its end is told");
}

#[tokio::test]
async fn a_job_that_ends_needs_no_more_input() {
    let served = Served::new(Cluster::up(1, 1));
    let submission = Submission { input_rank: Some(0), ..served.job(1) };
    let job = served.client.submit(&submission).await.expect("accepted").job;
    let _stream = served.client.stream(job).await.expect("stream");
    let (sender, feed) = Client::input_feed();
    let client = served.client.clone();
    let upload = tokio::spawn(async move { client.input(job, feed).await });
    sender.send(vec![0; 10].into()).await.expect("taken");
    tokio::time::sleep(Duration::from_millis(50)).await;
    served.end(job, 0).await;
    // The sender never ends; the upload does.
    let _ = tokio::time::timeout(PATIENCE, upload).await.expect("in time").expect("no panic");
    served.down().await;
}

#[tokio::test]
async fn programs_are_forgotten_on_request() {
    let mut cluster = Cluster::up(2, 2);
    cluster.run_on(support::PROGRAM, &[0, 1]);
    let served = Served::new(cluster);
    let hash = "03".repeat(32);
    let programs = served.client.programs().await.expect("programs");
    assert_eq!((programs[0].nodes.as_slice(), programs[0].retained_pages), (&[0, 1][..], 2 * PAGES));
    let forget = |program: &str| {
        let (client, program) = (served.client.clone(), Some(program.to_owned()));
        async move { client.forget(&ForgetOrder { program: program.map(Into::into) }).await }
    };
    assert!(matches!(forget("/no/such/program").await, Err(ApiError::Refused { status: 404, .. })));
    let nothing = forget(&"0".repeat(64)).await.expect("asked");
    assert_eq!((nothing.nodes, nothing.pages), (0, 0));
    let forgotten = forget(&hash[..8]).await.expect("forgotten");
    assert_eq!((forgotten.nodes, forgotten.pages, forgotten.silent), (2, 2 * PAGES, vec![]));
    let all = served.client.forget(&ForgetOrder::default()).await.expect("forgotten");
    assert_eq!(all.nodes, 0, "nothing is left");
    let nodes = served.client.nodes().await.expect("nodes");
    assert!(nodes.iter().all(|node| node.retained.is_empty() && node.last_program.is_some()));
    served.down().await;
}

#[tokio::test]
async fn a_job_tells_how_it_was_placed() {
    let served = Served::new(Cluster::up(2, 2));
    let wanted = Submission { nodes: vec![1], estimate_ms: Some(5000), ..served.job(1) };
    let job = served.client.submit(&wanted).await.expect("accepted").job;
    let view = served.client.job(job).await.expect("job").job;
    let placement = view.placement.expect("it has nodes");
    assert_eq!((placement.summary.as_str(), placement.nodes[0].node), ("1 node as listed", 1));
    assert_eq!((view.estimate_ms, view.nodes), (Some(5000), vec![1]));
    assert!(view.running_at_ns >= view.started_at_ns && view.started_at_ns.is_some());
    let message = refusal(served.client.submit(&Submission { nodes: vec![1, 0], ..served.job(1) }).await);
    assert!(message.contains("--nodes-list"), "{message}");
    served.down().await;
}

#[tokio::test]
async fn jobs_that_wait_keep_nobody_else_out() {
    let served = Served::with_connections(Cluster::up(1, 1), 16);
    let mut streams = Vec::new();
    let refused = loop {
        assert!(streams.len() <= 16, "every connection is a job's");
        match served.client.submit(&served.job(1)).await {
            Ok(Submitted { job }) => streams.push((job, served.client.stream(job).await.expect("stream"))),
            refused => break refusal(refused),
        }
        // The connection of the submission may be noticed to be gone a little later: others would be refused for it.
        answered(&served).await;
    };
    assert!((8..=12).contains(&streams.len()), "{}", streams.len());
    let words = "connections open and can take no further job; wait until some have ended";
    assert!(refused.starts_with("coppiced has ") && refused.ends_with(words), "{refused}");
    assert_eq!(served.client.nodes().await.expect("answered").len(), 1);
    let (job, stream) = streams.pop().expect("taken");
    served.client.kill(job, KillOrder { signal: 9 }).await.expect("killed");
    // Its connection is free again, and with it there is room for a job.
    drop((stream, streams.pop()));
    let again = async {
        while served.client.submit(&served.job(1)).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, again).await.expect("room again");
    served.down().await;
}

/// Comes back when the service node has looked at all its connections.
async fn answered(served: &Served) {
    for _ in 0..3 {
        served.client.nodes().await.expect("answered");
    }
}

#[tokio::test]
async fn jobs_that_nobody_has_attached_to_yet_count() {
    let served = Served::with_connections(Cluster::up(1, 1), 16);
    let mut taken = 0;
    while served.client.submit(&served.job(1)).await.is_ok() {
        taken += 1;
        assert!(taken <= 6, "more than have connections left");
    }
    assert!(taken >= 4, "{taken}");
    assert_eq!(served.client.nodes().await.expect("answered").len(), 1);
    served.down().await;
}

#[tokio::test]
async fn connections_beyond_the_most_wait_for_others_to_end() {
    let served = Served::with_connections(Cluster::up(1, 1), 4);
    let mut silent = Vec::new();
    for _ in 0..4 {
        let stream = UnixStream::connect(served.client.paths().api_socket()).await.expect("connected");
        silent.push(stream);
    }
    let client = served.client.clone();
    let mut nodes = tokio::spawn(async move { client.nodes().await });
    let early = tokio::time::timeout(Duration::from_millis(100), &mut nodes).await;
    assert!(early.is_err(), "a connection too many was taken");
    silent.pop();
    assert_eq!(nodes.await.expect("no panic").expect("answered").len(), 1);
    served.down().await;
}
