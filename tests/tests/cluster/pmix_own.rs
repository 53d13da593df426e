//! OpenPMIx's own test clients and examples, unmodified, as two ranks: on two nodes, on one, and on this host under the
//! library's own server. `tests/guests/pmix/own.txt` says how each ends in each place, and so does the documentation.

use coppice_tests::cluster::Ran;
use coppice_tests::guests::pmix_tests;
use coppice_tests::{Cluster, host};

/// What is known of all of them.
const LIST: &str = include_str!("../../guests/pmix/own.txt");

/// What says so to those who bring a client of their own.
const DOCUMENT: &str = include_str!("../../../docs/process-management.md");

/// How an ending begins of one that never ends.
const HANGS: &str = "fails: hangs";

/// Seconds after which one that is known to hang has done so, and any other one does.
const SECONDS_MAX: [&str; 2] = ["8", "60"];

/// One program.
struct Entry {
    program: &'static str,
    /// What statuses it may end with where it passes.
    statuses: Vec<i32>,
    /// What it says where it passes, and on how many lines.
    says: Vec<(usize, &'static str)>,
    /// How it ends on two nodes, on one, and under the library's own server: `passes`, `fails: REASON`, or, where it is
    /// not the same each time, `varies: REASON`.
    endings: [&'static str; 3],
}

fn entries() -> Vec<Entry> {
    let lines = LIST.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(|line| Entry::read(line).unwrap_or_else(|| panic!("not as the first lines say: {line}"))).collect()
}

impl Entry {
    fn read(line: &'static str) -> Option<Self> {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let &[program, wanted, two, one, own] = columns.as_slice() else { return None };
        let endings = [two, one, own];
        let is_known = |ending: &&str| {
            let why = ending.strip_prefix("fails: ").or(ending.strip_prefix("varies: "));
            *ending == "passes" || why.is_some_and(|why| why.len() > 3)
        };
        let (mut statuses, mut says) = (vec![0], Vec::new());
        for words in wanted.split("; ") {
            match words.split_once(' ')? {
                ("status", text) => {
                    statuses = text.split('/').map(|status| status.parse().ok()).collect::<Option<_>>()?
                }
                (count, text) => says.push((count.parse().ok()?, text)),
            }
        }
        endings.iter().all(is_known).then_some(Self { program, statuses, says, endings })
    }

    /// Why it has not passed, if it has not.
    fn fault(&self, ran: &Ran) -> Option<String> {
        let text = ran.text() + &ran.stderr;
        // What is said differently by different servers is divided by “ / ”.
        let has = |line: &str, what: &str| what.split(" / ").any(|what| line.contains(what));
        let lines_with = |what: &str| text.lines().filter(|line| has(line, what)).count();
        let unsaid = |(count, what): &&(usize, &str)| lines_with(what) != *count;
        if !self.statuses.contains(&ran.status) {
            return Some(format!("status {}", ran.status));
        }
        if let Some((count, what)) = self.says.iter().find(unsaid) {
            return Some(format!("“{what}” is on {} lines, not on {count}", lines_with(what)));
        }
        // What goes wrong is told on lines with this word; what should is among what is counted.
        let told_of = self.says.iter().any(|(_, what)| what.contains("failed"));
        (!told_of && lines_with("failed") > 0).then(|| "says that something failed".into())
    }
}

/// Runs all in one of the places, each for that many seconds at most, and compares how they end with what is known.
#[track_caller]
fn all_end_as_known(place: usize, run: impl Fn(&str, &str) -> Ran) {
    let mut wrong = Vec::new();
    for entry in entries() {
        let known = entry.endings[place];
        let [short, long] = SECONDS_MAX;
        let ran = run(entry.program, if known.starts_with(HANGS) { short } else { long });
        let fault = entry.fault(&ran);
        if known.starts_with("varies: ") || fault.is_none() == (known == "passes") {
            continue;
        }
        let ended = fault.unwrap_or_else(|| "passes".into());
        let text = ran.text() + &ran.stderr;
        let last: Vec<&str> = text.lines().rev().take(12).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        wrong.push(format!("{}: known: {known}; now: {ended}\n    {}", entry.program, last.join("\n    ")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[track_caller]
fn all_end_as_known_on_nodes(place: usize, nodes: &str, ranks_per_node: &str) {
    let cluster = Cluster::up_with(&["--nodes", nodes, "--memory", "192M"]);
    all_end_as_known(place, |program, seconds| {
        let path = pmix_tests().join(program);
        assert!(path.exists(), "no {}: build it with `cargo xtask pmix`", path.display());
        let options = ["-n", "2", "--ranks-per-node", ranks_per_node, "--timeout", seconds];
        cluster.run(&[&options[..], &[&path.to_string_lossy()]].concat())
    });
}

#[test]
fn on_two_nodes_they_end_as_is_known() {
    all_end_as_known_on_nodes(0, "2", "1");
}

#[test]
fn on_one_node_they_end_as_is_known() {
    all_end_as_known_on_nodes(1, "1", "2");
}

#[test]
fn under_the_librarys_own_server_they_end_as_is_known() {
    let directory = pmix_tests();
    all_end_as_known(2, |program, seconds| {
        let program = format!("./{program}");
        let words = ["-k", "2", seconds, "server/simptest", "-n", "2", "-e", program.as_str()];
        host::run(&directory, "/usr/bin/timeout".as_ref(), &words)
    });
}

/// A line of the table in the documentation for each, and no other.
#[test]
fn the_documentation_says_the_same() {
    let table = DOCUMENT.lines().skip_while(|line| !line.starts_with("| program | on two nodes |")).skip(2);
    let table: Vec<&str> = table.take_while(|line| line.starts_with('|')).collect();
    let wanted = entries();
    let wanted = wanted.iter().map(|entry| format!("| `{}` | {} |", entry.program, entry.endings.join(" | ")));
    assert_eq!(table, wanted.collect::<Vec<_>>());
}
