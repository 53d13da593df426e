//! How a job failed: what happened first, and where.
//!
//! The first of the events that can end a job – in order of time, of the job itself or of its nodes while it had them –
//! is what happened first. If there is none, it is the rank that ended badly by itself after the shortest time: who is
//! ended because of another is killed, and that later. If all were killed, the job was ended from outside, and its
//! reason says why.

use coppice_api::job::{RankOutcome, RankView};
use coppice_api::ras::RasView;
use coppice_api::show::{show_bytes, show_ns};
use coppice_api::signal;

use crate::blame::consequences;
use crate::words::{capital, its_ranks, rank as named};
use crate::{Cause, Evidence, Finding, memory};

/// Linux's number of the signal by which ranks are ended from outside.
pub(crate) const SIGKILL: u8 = 9;

/// Signals that a program's own faults and `abort` bring. Any other was sent by somebody.
const OF_FAULTS: [&str; 7] = ["SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE", "SIGSEGV", "SIGSYS"];

/// What an event of this kind is the cause of, if it can end a job.
fn cause_of(kind: &str) -> Option<Cause> {
    match kind {
        "program-fault" | "damaged-program" => Some(Cause::Crash),
        "out-of-memory" => Some(Cause::MemoryShort),
        "node-lost" | "kernel-panic" | "io-node-lost" => Some(Cause::NodeLost),
        _ => None,
    }
}

/// Whether a rank did not end as it should.
pub(crate) fn is_bad(rank: &RankView) -> bool {
    rank.outcome != RankOutcome::Exited || rank.exit != Some(0)
}

/// Whether it was ended from outside, so that it can be for another's sake.
pub(crate) fn is_killed(rank: &RankView) -> bool {
    rank.outcome == RankOutcome::Signalled && rank.signal == Some(SIGKILL)
}

/// Says how it failed, if it has.
pub(crate) fn find(evidence: &Evidence) -> Option<Finding> {
    let view = evidence.view();
    let reports = &evidence.job.rank_reports;
    let has_failed = view.exit_status.is_some_and(|status| status != 0) || reports.iter().any(is_bad);
    let first = first_event(evidence, has_failed);
    match first {
        Some((cause, event)) => Some(by_event(evidence, cause, event)),
        None if !has_failed => None,
        None => {
            let own = reports.iter().filter(|rank| is_bad(rank) && !is_killed(rank));
            let first = own.min_by_key(|rank| (rank.counters.run_ns, rank.rank));
            Some(first.map_or_else(|| from_outside(evidence), |first| by_rank(evidence, first)))
        }
    }
}

/// The first event that can have ended the job.
fn first_event(evidence: &Evidence, has_failed: bool) -> Option<(Cause, &RasView)> {
    let view = evidence.view();
    let had_nodes = view.started_at_ns.map(|since| since..=evidence.end_ns());
    let is_of_it = |event: &RasView| match (event.job, event.node) {
        (Some(job), _) => job == view.job,
        // Of a node it counts only if the job did not get through.
        (None, node) => {
            let is_here = node.is_none_or(|node| view.nodes.contains(&node));
            has_failed && is_here && had_nodes.as_ref().is_some_and(|time| time.contains(&event.at_ns))
        }
    };
    let bad = evidence.ras.iter().filter_map(|event| Some((cause_of(&event.kind)?, event)));
    bad.filter(|(_, event)| is_of_it(event)).min_by_key(|(_, event)| (event.at_ns, event.event))
}

fn by_event(evidence: &Evidence, cause: Cause, event: &RasView) -> Finding {
    let reports = &evidence.job.rank_reports;
    let report = event.rank.and_then(|rank| reports.iter().find(|report| report.rank == rank));
    let whose = event.rank.map(|rank| named(rank, event.node.or_else(|| evidence.node_of(rank))));
    let after =
        report.map_or_else(String::new, |report| format!(", {} after it began", show_ns(report.counters.run_ns)));
    let first = |is_first: &dyn Fn(&RankView) -> bool| consequences(evidence, event, is_first);
    let is_it = |report: &RankView| Some(report.rank) == event.rank;
    match cause {
        Cause::MemoryShort => {
            let (who, node) = (whose.unwrap_or_else(|| "the program".to_owned()), event.node);
            let had = report.map(|report| {
                let own = show_bytes(report.counters.pages_peak.saturating_mul(crate::pages::PAGE_BYTES));
                let all = memory::of_node(evidence, report.node).map(show_bytes);
                let of = all.map_or_else(String::new, |all| format!(" of the {all} that it has for programs"));
                format!(": that rank had {own}{of}")
            });
            let place = node.map_or_else(|| "a node".to_owned(), |node| format!("node {node}"));
            let text = format!(
                "Memory was short: {place} had none left, and {who} was ended for it{after}{}; {}.",
                had.unwrap_or_default(),
                first(&is_it)
            );
            let finding = Finding::new(cause, evidence.whole_ns(), &text);
            finding.try_this("Have nodes with more memory (take the cluster down first)", memory::more(evidence))
        }
        Cause::NodeLost => {
            let is_lost = |report: &RankView| report.outcome == RankOutcome::Lost && event.node == Some(report.node);
            let text =
                format!("{}; that came first, and {}.", capital(event.text.trim_end_matches('.')), first(&is_lost));
            let finding = Finding::new(cause, evidence.whole_ns(), &text);
            match event.node {
                Some(node) if event.kind == "kernel-panic" => {
                    finding.try_this("See what its kernel said", format!("coppice console {node}"))
                }
                _ => {
                    let advice = "Have it go on by itself from a checkpoint when that happens";
                    finding.try_this(advice, "coppice run --checkpoint-every auto --max-restarts 3 …")
                }
            }
        }
        _ => {
            // What the rank's own record says has no name of the program before it.
            let reason =
                report.and_then(|report| Some(format!("{} {}", signal::name(report.signal?), report.reason.as_ref()?)));
            let what = reason.unwrap_or_else(|| event.text.clone());
            let who = whose.map_or_else(|| "The program".to_owned(), |whose| capital(&whose));
            let text = format!("{who} crashed{after}: {what}; {}.", first(&is_it));
            let finding = Finding::new(cause, evidence.whole_ns(), &text);
            finding.try_this("Have a core file written when it crashes, for gdb", "coppice run --core …")
        }
    }
}

/// How a rank ended, behind its name.
fn ended(rank: &RankView) -> (Cause, String) {
    match (rank.outcome, rank.exit, rank.signal) {
        (RankOutcome::NotStarted, ..) => (Cause::NotStarted, "could not be started".to_owned()),
        (RankOutcome::Lost, ..) => (Cause::NodeLost, "was lost with its node".to_owned()),
        (_, Some(status), _) => (Cause::Failed, format!("exited with status {status}")),
        (_, _, Some(number)) => {
            let name = signal::name(number);
            let cause = if OF_FAULTS.contains(&&*name) { Cause::Crash } else { Cause::Ended };
            (cause, format!("was ended by {name}"))
        }
        _ => (Cause::Failed, "ended in a way that is not known".to_owned()),
    }
}

fn by_rank(evidence: &Evidence, first: &RankView) -> Finding {
    let view = evidence.view();
    let reports = &evidence.job.rank_reports;
    let (cause, how) = ended(first);
    let like_it = reports.iter().filter(|rank| ended(rank) == (cause, how.clone())).count();
    let why = first.reason.as_ref().map_or_else(String::new, |reason| format!(" ({reason})"));
    let text = if like_it > 1 && like_it == reports.len() {
        format!("All of {} {}{why}.", its_ranks(view.ranks), how.replacen("was ", "were ", 1))
    } else {
        let after = show_ns(first.counters.run_ns);
        let rest = crate::blame::of_ranks(evidence, &|rank| rank.rank == first.rank);
        let who = capital(&named(first.rank, Some(first.node)));
        format!("{who} was the first that failed: it {how} after {after}{why}; {rest}.")
    };
    let finding = Finding::new(cause, evidence.whole_ns(), &text);
    let job = view.job;
    match cause {
        Cause::Crash => finding.try_this("Have a core file written when it crashes, for gdb", "coppice run --core …"),
        Cause::NodeLost | Cause::NotStarted | Cause::Ended => {
            finding.try_this("See what else happened to it", format!("coppice ras --job {job}"))
        }
        _ if view.output.is_some_and(|output| !output.given_back) => {
            finding.try_this("See what it wrote", format!("coppice logs {job}"))
        }
        _ => finding.try_this("Keep what it writes when it runs again", "coppice run --keep-output …"),
    }
}

/// Nothing of its own ended it.
fn from_outside(evidence: &Evidence) -> Finding {
    let view = evidence.view();
    let why = view.reason.clone().unwrap_or_else(|| {
        view.exit_status.map_or_else(|| "nobody said why".to_owned(), |status| format!("its exit status is {status}"))
    });
    let text = format!("The job was ended, and no rank failed by itself before that: {why}.");
    Finding::new(Cause::Ended, evidence.whole_ns(), &text)
        .try_this("See what else happened to it", format!("coppice ras --job {}", view.job))
}
