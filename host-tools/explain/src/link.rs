//! Waiting for the network, and a link that is slow.
//!
//! Files and pages come over the same links. So if a link that the job uses – of one of its nodes or of their I/O
//! nodes – is bad, waiting for the network, files and pages is held against it together; else it is waiting for the
//! network alone, what comes of waiting for slow ranks not included. It counts from a fifth of the time on. A link is
//! bad if it is cut or was in the job's time, loses frames, or delays or limits them more than any that is meant to be
//! fast. Of links there is only what they are like now.

use coppice_api::link::{DirectionView, LinkShape, LinkView, Station};
use coppice_api::show::{show_bytes, show_loss, show_ns, show_ranges, show_rate};

use crate::times::Times;
use crate::words::{its_ranks, numbered, percent};
use crate::{Cause, Evidence, Finding};

/// What must be lost to it, of the time that passed, millionths.
const LOST_PPM_MIN: u64 = 200_000;

/// A smaller share of waiting for one of both, the network or files and pages, is not worth a word, millionths.
const OTHER_PPM_MIN: u64 = 10_000;

/// A link that delays frames so long is slow, ns.
const LATENCY_NS_SLOW: u64 = 1_000_000;

/// A link that carries no more is slow, bits per second.
const BANDWIDTH_BITS_PER_S_SLOW: u64 = 100_000_000;

/// A link that loses so many of a million frames is bad.
const LOSS_PPM_BAD: u32 = 100;

/// A link at which so many of a thousand frames found too many waiting is too slow for what is sent.
const QUEUE_FULL_THOUSANDTHS_BAD: u64 = 10;

/// How bad links are: those that are cut before those that lose, delay and limit. More is worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Badness {
    is_cut: bool,
    loss_ppm: u32,
    latency_ns: u64,
    /// Bits per second that it lacks of what a link may have.
    lacks: u64,
    queue_full: u64,
}

fn badness(direction: &DirectionView) -> Option<Badness> {
    let LinkShape { bandwidth_bits_per_s, latency_ns, loss_ppm, cut: is_cut } = direction.shape;
    let lacks = bandwidth_bits_per_s.map_or(0, |bits| u64::MAX - bits);
    let dropped = direction.counters.dropped.queue_full;
    let all = direction.counters.frames.saturating_add(dropped);
    let are_many = dropped.saturating_mul(1000) >= all.saturating_mul(QUEUE_FULL_THOUSANDTHS_BAD);
    let queue_full = if are_many { dropped } else { 0 };
    let is_bad = is_cut
        || loss_ppm >= LOSS_PPM_BAD
        || latency_ns >= LATENCY_NS_SLOW
        || lacks >= u64::MAX - BANDWIDTH_BITS_PER_S_SLOW
        || queue_full > 0;
    is_bad.then_some(Badness { is_cut, loss_ppm, latency_ns, lacks, queue_full })
}

fn of_link(link: &LinkView) -> Option<Badness> {
    badness(&link.to).max(badness(&link.from))
}

/// What is wrong with a link, to be put behind `it`.
fn described(bad: &Badness) -> String {
    let mut all = Vec::new();
    if bad.is_cut {
        all.push("is cut".to_owned());
    }
    if bad.loss_ppm > 0 {
        all.push(format!("loses {} of its frames", show_loss(bad.loss_ppm)));
    }
    if bad.latency_ns > 0 {
        all.push(format!("delays each frame by {}", show_ns(bad.latency_ns)));
    }
    if bad.lacks > 0 {
        all.push(format!("carries at most {}", show_rate(u64::MAX - bad.lacks)));
    }
    if bad.queue_full > 0 {
        all.push(format!("dropped {} frames because too many waited", bad.queue_full));
    }
    all.join(", ")
}

/// The links that the job uses that are worst, and how bad they are.
fn worst(evidence: &Evidence) -> Option<(Vec<Station>, Badness)> {
    let nodes = &evidence.view().nodes;
    let is_used = |link: &LinkView| match link.link {
        Station::Node(node) => nodes.contains(&node),
        Station::IoNode(pset) => evidence.nodes.iter().any(|node| node.pset == pset && nodes.contains(&node.node)),
    };
    let used = evidence.links.iter().flat_map(|links| &links.links).filter(|link| is_used(link));
    let bad: Vec<(Station, Badness)> = used.filter_map(|link| Some((link.link, of_link(link)?))).collect();
    let worst = bad.iter().map(|(_, bad)| *bad).max()?;
    Some((bad.into_iter().filter(|(_, bad)| *bad == worst).map(|(link, _)| link).collect(), worst))
}

/// Nodes of the job whose link was cut in its time.
fn was_cut(evidence: &Evidence) -> Vec<u32> {
    let view = evidence.view();
    let in_time = view.submitted_at_ns..=evidence.end_ns();
    let cut = evidence.ras.iter().filter(|event| event.kind == "link-cut" && in_time.contains(&event.at_ns));
    let mut nodes: Vec<u32> = cut.filter_map(|event| event.node).filter(|node| view.nodes.contains(node)).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

/// Stations as people call them, and as `coppice link` takes them.
fn named(stations: &[Station]) -> (String, String) {
    let nodes: Vec<u32> = stations.iter().filter_map(|station| station.node()).collect();
    let (mut names, mut words) = (Vec::new(), Vec::new());
    if !nodes.is_empty() {
        names.push(numbered("node", &nodes));
        words.push(show_ranges(&nodes));
    }
    for io_node in stations.iter().filter(|station| station.node().is_none()) {
        names.push(format!("I/O node {io_node}"));
        words.push(io_node.to_string());
    }
    (names.join(" and "), words.join(","))
}

/// Looks for it. Of the waiting for others so much has been explained already, ns.
pub(crate) fn find(evidence: &Evidence, times: &Times<'_>, blamed_ns: u64) -> Option<Finding> {
    let network = times.share_ppm("network");
    let network_ns = times.lost_ns(network).saturating_sub(blamed_ns);
    let ranks = its_ranks(evidence.view().ranks);
    let in_all = show_ns(times.sum("network"));
    let waited = format!("{ranks} waited for the network for {} of their time ({in_all} in all)", percent(network));
    let sent = match times.sum("bytes-sent") {
        0 => String::new(),
        bytes => format!(", and sent {} to other nodes", show_bytes(bytes)),
    };
    if let Some((links, bad)) = worst(evidence) {
        let other = times.share_ppm("file").saturating_add(times.share_ppm("page"));
        let lost_ns = network_ns.saturating_add(times.lost_ns(other)).min(times.elapsed_ns());
        if times.part_ppm(lost_ns) < LOST_PPM_MIN {
            return None;
        }
        let (names, command) = named(&links);
        let (whose, it) = if links.len() == 1 { ("The link of", "it") } else { ("The links of", "each") };
        let waited = match (network < OTHER_PPM_MIN, other < OTHER_PPM_MIN) {
            (true, false) => format!("{ranks} waited for files and pages for {} of their time", percent(other)),
            (_, true) => waited,
            (false, false) => format!("{waited}, for files and pages for {}", percent(other)),
        };
        let text = format!("{whose} {names} slows the job down: {it} {}; {waited}{sent}.", described(&bad));
        let text = if links.len() == 1 { text } else { text.replacen("slows", "slow", 1) };
        let mend = match bad {
            Badness { is_cut: true, .. } => format!("coppice link {command} --mend"),
            _ => format!("coppice link {command} --latency 0us --loss 0% --bandwidth none"),
        };
        return Some(Finding::new(Cause::SlowLink, lost_ns, &text).try_this("Make it a good one again", mend));
    }
    if times.part_ppm(network_ns) < LOST_PPM_MIN {
        return None;
    }
    let cut = was_cut(evidence);
    if let Some(first) = cut.first() {
        let text = format!("The link of {} was cut for a while: {waited}{sent}.", numbered("node", &cut));
        let command = format!("coppice ras --node {first}");
        return Some(Finding::new(Cause::SlowLink, network_ns, &text).try_this("See when it was", command));
    }
    let beside = match blamed_ns {
        0 => String::new(),
        _ => format!(", {} beside what comes of waiting for other ranks", percent(times.part_ppm(network_ns))),
    };
    let text =
        format!("The network holds the job up: {waited}{beside}{sent}; no link that it uses is known to be slow.");
    let finding = Finding::new(Cause::Network, network_ns, &text);
    Some(finding.try_this("See what passes on the links while it runs", "coppice nodes --links"))
}

#[cfg(test)]
mod tests {
    use coppice_api::link::{DirectionView, DroppedView, LinkCounters, LinkShape, Station};

    use super::{badness, named};

    #[test]
    fn links_are_bad_from_the_thresholds_on() {
        let of = |shape: LinkShape| badness(&DirectionView { shape, ..DirectionView::default() }).is_some();
        let good = LinkShape::default();
        assert!(!of(good) && of(LinkShape { cut: true, ..good }));
        let at = |latency_ns| of(LinkShape { latency_ns, ..good });
        assert!(!at(999_999) && at(1_000_000) && at(u64::MAX));
        let at = |loss_ppm| of(LinkShape { loss_ppm, ..good });
        assert!(!at(99) && at(100) && at(u32::MAX));
        let at = |bits| of(LinkShape { bandwidth_bits_per_s: Some(bits), ..good });
        assert!(!at(100_000_001) && at(100_000_000) && at(0) && !at(u64::MAX));
        let of = |frames, queue_full| {
            let dropped = DroppedView { queue_full, ..DroppedView::default() };
            let counters = LinkCounters { frames, bytes: 0, dropped };
            badness(&DirectionView { shape: good, counters }).is_some()
        };
        assert!(!of(0, 0) && !of(500, 0) && !of(199, 2 - 1) && of(198, 2) && !of(99_001, 999) && of(99_000, 1000));
    }

    #[test]
    fn links_are_named_as_the_command_takes_them() {
        let all = [Station::Node(1), Station::Node(2), Station::IoNode(0)];
        assert_eq!(named(&all), ("nodes 1-2 and I/O node io0".into(), "1-2,io0".into()));
        assert_eq!(named(&all[..1]), ("node 1".into(), "1".into()));
    }
}
