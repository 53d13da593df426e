//! `coppice nodes`, `jobs`, `programs` and `ras`.

use std::time::{SystemTime, UNIX_EPOCH};

use coppice_api::job::{JobView, JobsQuery};
use coppice_api::node::NodeView;
use coppice_api::program::ProgramView;
use coppice_api::ras::RasQuery;
use coppice_api::retain::LastProgram;
use coppice_api::show::show_command;
use coppice_api::{Client, counted};

use crate::arguments::{Jobs, Ras};
use crate::show::{or_dash, print, print_json, print_table, table};
use crate::units::{show_bytes, show_ns, show_ranges, show_time};

/// Digits of a hash that are shown to people.
const HASH_DIGITS: usize = 12;

pub(crate) async fn nodes(client: &Client, json: bool) -> anyhow::Result<()> {
    let nodes = client.nodes().await?;
    if json { print_json(&nodes) } else { print(&nodes_table(&nodes)) }
}

fn nodes_table(nodes: &[NodeView]) -> String {
    let row = |node: &NodeView| {
        vec![
            node.node.to_string(),
            node.state.as_str().to_owned(),
            or_dash(node.job),
            node.pset.to_string(),
            node.address.to_string(),
            node.generation.to_string(),
            or_dash(node.boot_ns.map(show_ns)),
            or_dash(node.cores),
            or_dash(node.memory.map(|memory| show_bytes(memory.free_bytes))),
            or_dash(node.pid),
            retained(
                node.retained.iter().map(|held| held.pages).sum(),
                node.retained.iter().map(|held| held.bytes).sum(),
            ),
            or_dash(node.last_program.as_ref().map(last_program)),
        ]
    };
    let heading = [
        "NODE",
        "STATE",
        "JOB",
        "PSET",
        "ADDRESS",
        "BOOTS",
        "BOOT TIME",
        "CORES",
        "FREE",
        "PID",
        "RETAINED",
        "LAST PROGRAM",
    ];
    table(&heading, nodes.iter().map(row))
}

fn last_program(last: &LastProgram) -> String {
    format!("{} {}", short(&last.program), last.path)
}

/// What nodes hold of programs: pages, and the memory they and their tables take.
fn retained(pages: u64, bytes: u64) -> String {
    if pages == 0 && bytes == 0 {
        return "-".to_owned();
    }
    format!("{}, {}", counted(pages, "page"), show_bytes(bytes))
}

pub(crate) async fn jobs(client: &Client, jobs: &Jobs) -> anyhow::Result<()> {
    let list = client.jobs(&JobsQuery { limit: Some(jobs.limit), before: jobs.before }).await?;
    if jobs.listing.json {
        return print_json(&list);
    }
    print(&jobs_table(&list))
}

fn jobs_table(jobs: &[JobView]) -> String {
    let row = |job: &JobView| {
        vec![
            job.job.to_string(),
            state(job),
            or_dash(job.exit_status),
            ranks(job),
            show_ranges(&job.nodes),
            show_time(job.submitted_at_ns),
            run_time(job),
            show_command(job),
            job.reason.clone().unwrap_or_default(),
        ]
    };
    let heading = ["JOB", "STATE", "EXIT", "RANKS", "NODES", "SUBMITTED", "TIME", "COMMAND", "REASON"];
    table(&heading, jobs.iter().map(row))
}

/// How far a job is, whether it goes on whoever goes away, from what it did not begin at its beginning, and the
/// job of whose rank it is.
fn state(job: &JobView) -> String {
    let detached = job.detached.then(|| "detached".to_owned());
    let restarted = job.restarted_from.map(|checkpoint| format!("from {checkpoint}"));
    let spawned = job.spawned_by.map(|by| format!("of {}", by.job));
    let more: Vec<String> = detached.into_iter().chain(restarted).chain(spawned).collect();
    let state = job.state.as_str();
    if more.is_empty() { state.to_owned() } else { format!("{state} ({})", more.join(", ")) }
}

/// How many ranks, and on each node if that is not one.
fn ranks(job: &JobView) -> String {
    match job.ranks_per_node {
        1 => job.ranks.to_string(),
        per_node => format!("{} ({per_node}/node)", job.ranks),
    }
}

pub(crate) async fn programs(client: &Client, json: bool) -> anyhow::Result<()> {
    let programs = client.programs().await?;
    if json { print_json(&programs) } else { print(&programs_table(&programs)) }
}

fn programs_table(programs: &[ProgramView]) -> String {
    let row = |program: &ProgramView| {
        let nodes = (!program.nodes.is_empty()).then(|| show_ranges(&program.nodes));
        vec![
            short(&program.hash).to_owned(),
            show_bytes(program.bytes),
            or_dash((program.memory_bytes > 0).then(|| show_bytes(program.memory_bytes))),
            if program.stored { "yes" } else { "no" }.to_owned(),
            show_time(program.used_at_ns),
            or_dash(nodes),
            retained(program.retained_pages, program.retained_bytes),
            retained(program.read_pages, program.read_bytes),
            or_dash((!program.kept_nodes.is_empty()).then(|| show_ranges(&program.kept_nodes))),
            program.path.to_string(),
        ]
    };
    let heading =
        ["PROGRAM", "FILE", "MEMORY", "STORED", "LAST USED", "NODES", "RETAINED", "OF FILES", "STAGED ON", "FROM"];
    table(&heading, programs.iter().map(row))
}

pub(crate) async fn ras(client: &Client, ras: &Ras) -> anyhow::Result<()> {
    let events = client.ras(&RasQuery { limit: Some(ras.limit), node: ras.node, job: ras.job }).await?;
    if ras.listing.json {
        return print_json(&events);
    }
    let rows = events.iter().map(|event| {
        let hexadecimal = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:#x}"));
        vec![
            event.event.to_string(),
            show_time(event.at_ns),
            event.severity.clone(),
            event.kind.clone(),
            or_dash(event.node),
            or_dash(event.job),
            or_dash(event.rank),
            hexadecimal(event.address),
            hexadecimal(event.instruction),
            event.text.clone(),
        ]
    });
    let heading = ["EVENT", "TIME", "SEVERITY", "KIND", "NODE", "JOB", "RANK", "ADDRESS", "INSTRUCTION", "TEXT"];
    print_table(&heading, rows)
}

fn short(hash: &str) -> &str {
    hash.get(..HASH_DIGITS).unwrap_or(hash)
}

/// From its start to its end, or to now.
pub(crate) fn run_time(job: &JobView) -> String {
    let Some(start) = job.started_at_ns else { return "-".to_owned() };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let end = job.ended_at_ns.unwrap_or_else(|| u64::try_from(now).unwrap_or(u64::MAX));
    show_ns(end.saturating_sub(start))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::path::PathBuf;

    use coppice_api::checkpoint::CheckpointName;
    use coppice_api::job::{JobState, JobView};
    use coppice_api::node::{MemoryView, NodeState, NodeView};
    use coppice_api::program::ProgramView;
    use coppice_api::retain::{LastProgram, RetainedView};

    use super::{jobs_table, nodes_table, programs_table};
    use crate::commands::job::tests::view;

    const HASH: &str = "0123456789abcdef";

    fn node() -> NodeView {
        NodeView {
            node: 1,
            pset: 0,
            state: NodeState::Booting,
            job: None,
            generation: 1,
            address: Ipv4Addr::new(10, 64, 0, 2),
            kernel: None,
            boot_ns: None,
            boot_idle_ns: None,
            cores: None,
            memory: None,
            region_bytes: 0,
            last_program: None,
            retained: Vec::new(),
            pid: Some(77),
            console: PathBuf::new(),
        }
    }

    #[test]
    fn nodes_show_what_they_hold() {
        let held = |pages, bytes| RetainedView { program: HASH.into(), pages, bytes, is_file: false, is_read: false };
        let last = LastProgram { program: HASH.into(), path: "./hello".into(), bytes: 1, job: 4, at_ns: 0 };
        let memory = MemoryView { total_bytes: 64 << 20, kernel_bytes: 4 << 20, free_bytes: 60 << 20 };
        let warm = NodeView {
            node: 0,
            state: NodeState::Ready,
            boot_ns: Some(20_000_000),
            cores: Some(2),
            memory: Some(memory),
            last_program: Some(last),
            retained: vec![held(300, 1 << 20), held(212, 1 << 20)],
            ..node()
        };
        let text = nodes_table(&[warm, node()]);
        let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(
            words[0].join(" "),
            "NODE STATE JOB PSET ADDRESS BOOTS BOOT TIME CORES FREE PID RETAINED LAST PROGRAM"
        );
        let expected = "0 ready - 0 10.64.0.2 1 20 ms 2 60.0 MiB 77 512 pages, 2.0 MiB 0123456789ab ./hello";
        assert_eq!(words[1].join(" "), expected);
        assert_eq!(words[2].join(" "), "1 booting - 0 10.64.0.2 1 - - - 77 - -");
    }

    #[test]
    fn jobs_that_are_nobodys_or_restarted_are_marked() {
        let restarted_from = Some(CheckpointName { job: 7, number: 2 });
        let restarted = JobView { job: 9, restarted_from, ..view() };
        let detached = JobView { job: 8, state: JobState::Running, exit_status: None, detached: true, ..view() };
        let text = jobs_table(&[view(), detached, restarted]);
        let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(words[0].join(" "), "JOB STATE EXIT RANKS NODES SUBMITTED TIME COMMAND REASON");
        let when = "1970-01-01 00:00:00Z";
        assert_eq!(words[1].join(" "), format!("7 ended 0 2 1,4 {when} 2000 ms ./hello world"));
        assert_eq!(words[2].join(" "), format!("8 running (detached) - 2 1,4 {when} 2000 ms ./hello world"));
        assert_eq!(words[3].join(" "), format!("9 ended (from 7@2) 0 2 1,4 {when} 2000 ms ./hello world"));
    }

    #[test]
    fn programs_show_who_holds_them() {
        let cold = ProgramView {
            hash: HASH.into(),
            bytes: 4096,
            memory_bytes: 8192,
            path: "/bin/hello".into(),
            used_at_ns: 0,
            stored: true,
            nodes: Vec::new(),
            retained_pages: 0,
            retained_bytes: 0,
            kept_nodes: Vec::new(),
            kept_bytes: 0,
            read_pages: 0,
            read_bytes: 0,
        };
        let warm = ProgramView {
            nodes: vec![0, 1, 2, 5],
            retained_pages: 1,
            retained_bytes: 8192,
            read_pages: 3,
            read_bytes: 16384,
            stored: false,
            ..cold.clone()
        };
        let file = ProgramView { memory_bytes: 0, kept_nodes: vec![0, 2, 3], kept_bytes: 9, ..cold.clone() };
        let text = programs_table(&[cold, warm, file]);
        let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(words[0].join(" "), "PROGRAM FILE MEMORY STORED LAST USED NODES RETAINED OF FILES STAGED ON FROM");
        let when = "1970-01-01 00:00:00Z";
        assert_eq!(words[1].join(" "), format!("0123456789ab 4.0 KiB 8.0 KiB yes {when} - - - - /bin/hello"));
        assert_eq!(
            words[2].join(" "),
            format!("0123456789ab 4.0 KiB 8.0 KiB no {when} 0-2,5 1 page, 8.0 KiB 3 pages, 16.0 KiB - /bin/hello")
        );
        assert_eq!(words[3].join(" "), format!("0123456789ab 4.0 KiB - yes {when} - - - 0,2-3 /bin/hello"));
    }
}
