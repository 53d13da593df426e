//! What is on the screen, as it is drawn, and what keys do.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use coppice_api::cluster::ClusterView;
use coppice_api::job::{JobDetail, JobState, JobView};
use coppice_api::node::{MemoryView, NodeState, NodeView};
use coppice_api::overlay::{EpochView, OverlayState, OverlayView, OverlayWish, TotalView};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::draw::draw;
use super::fetch::Seen;
use super::log::Told;
use super::screen::{Action, Screen, View};
use crate::commands::overlay::tests::{epoch, metric};

const NOW_NS: u64 = 1_790_000_010_000_000_000;

fn cluster() -> ClusterView {
    let text = r#"{"name":"default","state":"up","failure":null,"version":"0.1.0","pid":7,"started_at_ns":0,"nodes":4,
        "nodes_ready":3,"nodes_failed":1,"pset_size":2,"cores":1,"memory_bytes":67108864,"accelerator":"tcg",
        "jobs_queued":1,"jobs_running":2,"state_directory":"/s","runtime_directory":"/r","processes":[]}"#;
    serde_json::from_str(text).expect("a cluster")
}

fn node(number: u32) -> NodeView {
    NodeView {
        node: number,
        pset: number / 2,
        state: if number == 3 { NodeState::Failed } else { NodeState::Busy },
        job: (number < 3).then_some(7),
        generation: 1 + number,
        address: Ipv4Addr::new(10, 64, 0, 1 + number as u8),
        kernel: Some("0.1.0".into()),
        boot_ns: Some(190_000_000),
        boot_idle_ns: None,
        cores: Some(1),
        memory: Some(MemoryView {
            total_bytes: 64 << 20,
            kernel_bytes: 8 << 20,
            free_bytes: (40 - u64::from(number)) << 20,
        }),
        region_bytes: 128 << 20,
        last_program: None,
        retained: Vec::new(),
        pid: Some(4000 + number),
        console: "/s/consoles/node.log".into(),
    }
}

/// A job whose program has a name that a terminal would obey.
fn job(number: u64, state: JobState, ranks: u32) -> JobView {
    let text = format!(
        r#"{{"job":{number},"state":"queued","name":"./solve","arguments":["--n","\u001b[2J30000"],"program":"00",
            "root":"/","directory":"/","ranks":{ranks},"ranks_per_node":2,"nodes":[],"submitted_at_ns":0,
            "started_at_ns":null,"running_at_ns":null,"ended_at_ns":null,"estimate_ms":null,"placement":null,
            "retention":null,"exit_status":null,"reason":null}}"#
    );
    let job: JobView = serde_json::from_str(&text).expect("a job");
    let has_begun = state != JobState::Queued;
    JobView {
        state,
        nodes: if has_begun { vec![0, 1, 2] } else { Vec::new() },
        started_at_ns: has_begun.then_some(NOW_NS - 12_000_000_000),
        ended_at_ns: (state == JobState::Ended).then_some(NOW_NS - 2_000_000_000),
        exit_status: (state == JobState::Ended).then_some(3),
        ..job
    }
}

fn told(number: u64) -> EpochView {
    let total = |rank: u32| {
        let (user, network) = (u64::from(rank) * 200 * (number + 1), 900 * (number + 1));
        let values = [("user", user), ("network", network), ("calls", 10 * number), ("pages-resident", 512)];
        let sent = [("bytes-sent", 4096 * number), ("sent-to:1", 3000 * number), ("sent-to:others", 1096 * number)];
        let values = values.into_iter().chain(sent).map(|(name, value)| (name.to_owned(), value)).collect();
        TotalView { rank, values }
    };
    let metrics =
        vec![metric("user", "ns", 700_000_000), metric("network", "ns", 300_000_000), metric("calls", "times", 40)];
    EpochView { ranks: 6, of: 6, missing: String::new(), metrics, totals: (0..5).map(total).collect(), ..epoch(number) }
}

fn seen(number: u64) -> Seen {
    let overlay = OverlayView {
        job: 7,
        state: OverlayState::Running,
        generation: 1,
        wish: Some(OverlayWish::default()),
        period_ms: Some(1000),
        ranks: 6,
        nodes_here: 3,
        nodes: 3,
        processes: Vec::new(),
        epochs: 5,
        late: 0,
        dropped: 0,
        lies: 0,
        not_recorded: 0,
        missing: Vec::new(),
        last: Some(told(number)),
    };
    let running = job(7, JobState::Running, 6);
    Seen {
        at_ns: NOW_NS,
        cluster: cluster(),
        nodes: (0..4).map(node).collect(),
        jobs: vec![job(8, JobState::Queued, 100), running.clone(), job(6, JobState::Ended, 1)],
        overlays: BTreeMap::from([(7, overlay)]),
        job: Some(JobDetail { job: running, rank_reports: Vec::new() }),
    }
}

fn screen() -> Screen {
    let mut screen = Screen::new(None);
    for number in 0..3 {
        screen.take(Ok(seen(number)), NOW_NS);
    }
    screen
}

fn drawn(screen: &mut Screen, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a screen");
    terminal.draw(|frame| draw(frame, screen, NOW_NS)).expect("drawn");
    let text = terminal.backend().to_string();
    let lines: Vec<&str> = text.lines().map(|line| line.trim_matches('"').trim_end()).collect();
    lines.join("\n")
}

fn press(screen: &mut Screen, keys: &str) -> Action {
    let mut action = Action::Nothing;
    for key in keys.chars() {
        let code = match key {
            '\n' => KeyCode::Enter,
            '<' => KeyCode::Esc,
            '\t' => KeyCode::Tab,
            '\u{8}' => KeyCode::Backspace,
            'v' => KeyCode::Down,
            other => KeyCode::Char(other),
        };
        action = screen.key(KeyEvent::new(code, KeyModifiers::NONE));
    }
    action
}

#[test]
fn jobs_nodes_a_job_and_a_rank_are_shown() {
    let mut screen = screen();
    for (keys, name) in
        [("", "jobs"), ("v\n", "job"), ("vvv\n", "rank"), ("\t", "nodes"), ("v\n", "node"), ("?", "keys")]
    {
        press(&mut screen, keys);
        insta::assert_snapshot!(name, drawn(&mut screen, 80, 24));
    }
}

#[test]
fn any_size_will_do() {
    for keys in ["", "v\n", "v\nvvv\n", "\t", "\tv\n", "?", "v\nL", "/x", "K"] {
        for (width, height) in [(1, 1), (10, 3), (40, 8), (300, 100)] {
            let mut screen = screen();
            press(&mut screen, keys);
            drawn(&mut screen, width, height);
        }
    }
}

#[test]
fn what_a_program_is_called_is_obeyed_by_nobody() {
    let mut screen = screen();
    press(&mut screen, "v\n");
    screen.log.take(Told::Wrote { rank: 0, bytes: b"\x1b]0;title\x07\n".to_vec() });
    for keys in ["", "L"] {
        press(&mut screen, keys);
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).expect("a screen");
        terminal.draw(|frame| draw(frame, &mut screen, NOW_NS)).expect("drawn");
        let cells = terminal.backend().buffer().content();
        assert!(cells.iter().all(|cell| !cell.symbol().contains(char::is_control)));
        let text: String = cells.iter().map(ratatui::buffer::Cell::symbol).collect();
        assert!(text.contains("\\u{1b}"), "{text}");
    }
}

#[test]
fn keys_do_what_they_say() {
    let mut screen = screen();
    assert_eq!((screen.view(), screen.job()), (View::Jobs, None));
    press(&mut screen, "v\n");
    assert_eq!((screen.view(), screen.job()), (View::Job(7), Some(7)));
    press(&mut screen, "v\n");
    assert_eq!((screen.view(), screen.job()), (View::Rank(7, 1), Some(7)));
    assert_eq!(press(&mut screen, "<L"), Action::Nothing);
    assert_eq!((screen.view(), screen.log_of()), (View::Log(7), Some(7)));
    assert_eq!(press(&mut screen, "<K\n"), Action::Signal(7, 15));
    assert_eq!(press(&mut screen, "K\u{8}\u{8}\u{8}\u{8}USR1\n"), Action::Signal(7, 10));
    assert_eq!(press(&mut screen, "Kx\n"), Action::Nothing);
    assert!(screen.note.as_deref().is_some_and(|note| note.contains("'TERMx' is no signal")));
    assert_eq!(press(&mut screen, "K<"), Action::Nothing);
    assert_eq!(press(&mut screen, "o"), Action::Overlay(7, false));
    assert_eq!(press(&mut screen, "<o"), Action::Overlay(7, false), "the one that is selected");
    // A filter takes what is typed, also what would be a key elsewhere.
    press(&mut screen, "/queued\n");
    let text = drawn(&mut screen, 80, 24);
    assert!(text.contains("\n8 ") || text.contains(" 8 "), "{text}");
    assert!(!text.contains("running"), "{text}");
    press(&mut screen, "<");
    assert!(drawn(&mut screen, 80, 24).contains("running"));
    assert_eq!(press(&mut screen, "q"), Action::Quit);
}

#[test]
fn a_service_node_that_is_gone_is_said_to_be_and_what_was_seen_stays() {
    let mut screen = screen();
    screen.take(Err("cannot connect\x1b".into()), NOW_NS - 5_000_000_000);
    screen.take(Err("cannot connect\x1b".into()), NOW_NS);
    let text = drawn(&mut screen, 80, 24);
    assert!(text.starts_with("no answer for 5 s, asks again: cannot connect\\u{1b}"), "{text}");
    assert!(text.contains("running"), "{text}");
    screen.take(Ok(seen(3)), NOW_NS);
    assert!(drawn(&mut screen, 80, 24).starts_with("default: 3 of 4 nodes ready, 1 given up"));
    let mut new = Screen::new(Some(9));
    assert!(drawn(&mut new, 80, 24).contains("asks the service node"));
    new.take(Ok(seen(0)), NOW_NS);
    assert!(drawn(&mut new, 80, 24).contains("asks for job 9"));
}

#[test]
fn sixteen_thousand_nodes_and_ranks_are_drawn() {
    let mut seen = seen(0);
    seen.nodes = (0..16_384).map(|number| NodeView { node: number, ..node(number % 3) }).collect();
    if let Some(detail) = &mut seen.job {
        detail.job = JobView { ranks: 262_144, ..detail.job.clone() };
    }
    let mut screen = Screen::new(None);
    screen.take(Ok(seen), NOW_NS);
    press(&mut screen, "\tG");
    assert!(drawn(&mut screen, 80, 24).contains("16383"));
    press(&mut screen, "\tv\nG");
    assert!(drawn(&mut screen, 80, 24).contains("262143"));
}
