//! Pages say what the tools say.

use std::time::Duration;

use coppice_api::counted;
use coppice_api::job::{JobDetail, JobView, RankView};
use coppice_api::link::LinkView;
use coppice_api::node::NodeView;
use coppice_api::program::ProgramView;
use coppice_api::ras::RasView;
use coppice_api::show::{show_bytes, show_command, show_end, show_ns, show_ranges, show_time};
use coppice_tests::cluster::wait_until;
use coppice_tests::guests::{Toolchain, program};
use serde::de::DeserializeOwned;

use super::Visit;

/// How long it may take until a page says what the tools say.
const SAME_TIME_MAX: Duration = Duration::from_secs(60);

/// What a cell of a table is to have in it, where that is looked at.
type Cell = Option<String>;

fn cell(value: impl ToString) -> Cell {
    Some(value.to_string())
}

/// Nothing is an empty cell.
fn filled(value: Option<impl ToString>) -> Cell {
    Some(value.map(|value| value.to_string()).unwrap_or_default())
}

impl Visit {
    #[track_caller]
    fn told<T: DeserializeOwned>(&self, arguments: &[&str]) -> T {
        let json = self.cluster.json(arguments);
        serde_json::from_value(json).unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
    }

    /// Waits until the rows of a table are those that they should be at that moment.
    #[track_caller]
    fn assert_rows(&self, table: &str, wanted: impl Fn() -> Vec<Vec<Cell>>) {
        wait_until("the page says what the tools say", SAME_TIME_MAX, || {
            let (rows, wanted) = (self.browser.rows(table), wanted());
            let is_so = |(cell, wanted): (&String, &Cell)| wanted.as_ref().is_none_or(|wanted| cell == wanted);
            let is_row = |(row, wanted): (&Vec<String>, &Vec<Cell>)| {
                row.len() == wanted.len() && row.iter().zip(wanted).all(is_so)
            };
            let are_same = rows.len() == wanted.len() && rows.iter().zip(&wanted).all(is_row);
            if are_same { Ok(()) } else { Err(format!("{table} has {rows:?}, not {wanted:?}")) }
        });
    }

    /// What a page says by the side of a name.
    #[track_caller]
    fn fact(&self, name: &str) -> String {
        let names = format!("[...document.querySelectorAll('dt')].find(name => name.innerText === '{name}')");
        let fact = self.browser.value(&format!("{names}?.nextElementSibling.innerText"));
        fact.as_str().unwrap_or_else(|| panic!("no {name}")).to_owned()
    }
}

fn job_row(job: &JobView) -> Vec<Cell> {
    let status = job.exit_status.expect("it has ended");
    let lasted_ns = job.ended_at_ns.expect("it has ended") - job.started_at_ns.expect("it has begun");
    let placed = job.placement.as_ref().map(|placement| placement.summary.clone());
    vec![
        cell(job.job),
        cell(format!("ended {status}")),
        cell(job.ranks),
        cell(show_ranges(&job.nodes)),
        cell(show_time(job.submitted_at_ns)),
        cell(show_ns(lasted_ns)),
        cell(show_command(job)),
        filled(job.reason.clone().or(placed)),
    ]
}

fn node_row(node: &NodeView) -> Vec<Cell> {
    let held: u64 = node.retained.iter().map(|held| held.bytes).sum();
    vec![
        cell(node.node),
        cell(node.state.as_str()),
        filled(node.job),
        cell(node.pset),
        node.memory.map(|memory| show_bytes(memory.free_bytes)),
        cell(format!("{} in {}", show_bytes(held), counted(node.retained.len(), "program"))),
        cell(node.generation),
        filled(node.last_program.as_ref().map(|last| last.path.to_string())),
    ]
}

fn program_row(program: &ProgramView) -> Vec<Cell> {
    vec![
        cell(&program.hash[..12]),
        cell(&program.path),
        cell(show_bytes(program.bytes)),
        cell(show_time(program.used_at_ns)),
        cell(if program.nodes.is_empty() { "-".to_owned() } else { show_ranges(&program.nodes) }),
        cell(show_bytes(program.retained_bytes)),
        cell("Forget"),
    ]
}

/// Frames pass all the time.
fn link_row(link: &LinkView) -> Vec<Cell> {
    let shape = if link.to.shape.latency_ns > 0 { "+ 3000 µs, loses 1%" } else { "as fast as it can be" };
    vec![cell(link.link), cell("up"), cell(shape), None, None, cell(shape), None, None]
}

fn event_row(event: &RasView) -> Vec<Cell> {
    let when = cell(show_time(event.at_ns));
    let (node, job, rank) = (filled(event.node), filled(event.job), filled(event.rank));
    vec![when, cell(&event.severity), cell(&event.kind), node, job, rank, cell(&event.text)]
}

fn rank_row(rank: &RankView) -> Vec<Cell> {
    let counters = &rank.counters;
    vec![
        cell(rank.rank),
        cell(rank.node),
        cell(show_end(rank)),
        cell(show_ns(counters.launch_ns)),
        cell(show_ns(counters.run_ns)),
        cell(counters.page_faults),
        cell(counters.pages_fetched),
        cell(show_bytes(counters.pages_peak * 4096)),
        cell(show_bytes(counters.bytes_read)),
        cell(show_bytes(counters.bytes_written)),
        cell(rank.syscalls.iter().map(|count| count.calls).sum::<u64>()),
        filled(rank.reason.clone()),
    ]
}

#[test]
fn pages_say_what_the_tools_say() {
    let visit = Visit::begin(2);
    let browser = &visit.browser;
    let job = visit.run_profiled();
    let fault = program("fault", Toolchain::Glibc);
    let _ = visit.cluster.run(&["--keep-output", &fault.to_string_lossy(), "null"]);
    let crashed = visit.cluster.last_job()["job"].to_string();
    let _ = visit.cluster.coppice(&["link", "1", "--latency", "3ms", "--loss", "1%"]).success();

    visit.open("/");
    assert_eq!(browser.text("h1"), "Cluster default is up");
    browser.until_text("main", "Nodes: 2 of 2 ready");
    browser.until_text("main", "Jobs: 0 run, 0 wait.");
    browser.until_text("figcaption", "2 ready");
    visit.assert_rows("main table", || visit.told::<Vec<JobView>>(&["jobs"]).iter().rev().map(job_row).collect());
    visit.open("/nodes");
    visit.assert_rows("main table", || visit.told::<Vec<NodeView>>(&["nodes"]).iter().map(node_row).collect());
    visit.open("/programs");
    visit.assert_rows("main table", || visit.told::<Vec<ProgramView>>(&["programs"]).iter().map(program_row).collect());
    visit.open("/links");
    visit.assert_rows("main table", || {
        visit.told::<Vec<LinkView>>(&["nodes", "--links"]).iter().map(link_row).collect()
    });
    assert_eq!(browser.value("document.body.innerText.match(/loses 1%/g).length"), 2);
    visit.open("/events");
    visit.assert_rows("main table", || visit.told::<Vec<RasView>>(&["ras"]).iter().rev().map(event_row).collect());

    for job in [&job, &crashed] {
        visit.open(&format!("/jobs/{job}"));
        visit.assert_is_as_told(job);
    }
    let _ = visit.assert_nothing_strange();
}

impl Visit {
    /// The page of a job that has ended says what the tools say of it.
    #[track_caller]
    fn assert_is_as_told(&self, job: &str) {
        let browser = &self.browser;
        let JobDetail { job: view, rank_reports, .. } = self.told(&["job", job]);
        let state = format!("ended, exit status {}", view.exit_status.expect("it has ended"));
        assert!(browser.text("main header p").starts_with(&state), "{}", browser.text("main header p"));
        assert_eq!(browser.text("h1"), format!("Job {job}: {}", show_command(&view)));
        assert_eq!(self.fact("Program"), view.program);
        assert_eq!(self.fact("Submitted"), show_time(view.submitted_at_ns));
        assert_eq!(self.fact("Nodes"), format!("{} ({})", view.nodes.len(), show_ranges(&view.nodes)));
        self.assert_rows("section[aria-labelledby=ranks] table", || rank_reports.iter().map(rank_row).collect());
        let explained = self.cluster.json(&["explain", job]);
        let said =
            browser.value("[...document.querySelectorAll('.findings li > p:first-child')].map(p => p.innerText)");
        let findings = explained["findings"].as_array().expect("findings");
        let texts: Vec<_> = findings.iter().map(|finding| finding["text"].clone()).collect();
        assert_eq!(said, serde_json::Value::from(texts));
        let logged = self.cluster.coppice(&["logs", job]).success();
        assert_eq!(browser.text("pre").trim_end(), logged.text().trim_end());
        // An image that could not be shown has no size.
        let images = "[...document.images].every(image => image.complete && image.naturalWidth > 0)";
        assert_eq!(browser.value(images), true);
    }
}
