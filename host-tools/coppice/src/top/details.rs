//! What `top` says of one job, rank or node.

use coppice_api::node::NodeView;
use coppice_api::show::show_command;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use super::fetch::Seen;
use super::lists::{OfJob, lasted_ns};
use crate::show::{harmless, or_dash};
use crate::units::{show_bytes, show_ns, show_ranges};

/// What a rank is that does nothing but wait, and what it is that does not wait at all: by quarters.
const SHADES: [char; 4] = ['░', '▒', '▓', '█'];

/// Whether anything is known of a rank.
const UNKNOWN: char = '·';

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);

/// One line about a job.
pub(super) fn about(all: &OfJob<'_>, now_ns: u64) -> Line<'static> {
    let job = all.job;
    let nodes =
        if job.nodes.is_empty() { "no nodes yet".to_owned() } else { format!("nodes {}", show_ranges(&job.nodes)) };
    let reason = job.reason.as_ref().map(|reason| format!(" · {}", harmless(reason))).unwrap_or_default();
    Line::from(vec![
        Span::styled(job.state.as_str(), BOLD),
        Span::from(format!(
            " {} · {} ranks on {nodes}{reason} · {}",
            or_dash(lasted_ns(job, now_ns).map(show_ns)),
            job.ranks,
            show_command(job)
        )),
    ])
}

/// How many lines the map of a job's ranks has on a screen of that width, at most so many.
pub(super) fn map_height(all: &OfJob<'_>, width: u16, lines: u16) -> u16 {
    let wanted = all.job.ranks.div_ceil(u32::from(width.max(1)));
    u16::try_from(wanted).unwrap_or(u16::MAX).min(lines)
}

/// All ranks of a job: how much of its time each is in its program, and, by colour, what most of it goes to. Where
/// there is no room for each a sign is some of them.
pub(super) fn map(all: &OfJob<'_>, width: u16, lines: u16) -> Vec<Line<'static>> {
    let (width, ranks) = (usize::from(width.max(1)), all.job.ranks as usize);
    let signs = ranks.min(width * usize::from(map_height(all, width as u16, lines)));
    let sign = |sign: usize| {
        let own = sign * ranks / signs..(sign + 1) * ranks / signs;
        let known: Vec<_> = own.filter_map(|rank| all.now(rank as u32)).collect();
        let Some(first) = known.first() else { return Span::from(UNKNOWN.to_string()) };
        let busy = known.iter().map(|now| now.share("user")).sum::<f64>() / known.len() as f64;
        let shade = SHADES[((busy * SHADES.len() as f64) as usize).min(SHADES.len() - 1)];
        let colour = match first.shares.first().map(|(name, _)| name.as_str()) {
            Some("user") => Color::Green,
            Some("network") => Color::Blue,
            Some("futex") => Color::Magenta,
            Some("file" | "input") => Color::Cyan,
            Some("page" | "ready") => Color::Red,
            _ => Color::Reset,
        };
        Span::styled(shade.to_string(), Style::new().fg(colour))
    };
    let all: Vec<Span<'static>> = (0..signs).map(sign).collect();
    let mut map: Vec<Line<'static>> = all.chunks(width).map(|line| Line::from(line.to_vec())).collect();
    map.push(Line::from(vec![
        Span::from("█ in its program … ░ waits:"),
        Span::styled(" network", Style::new().fg(Color::Blue)),
        Span::styled(" futex", Style::new().fg(Color::Magenta)),
        Span::styled(" file", Style::new().fg(Color::Cyan)),
        Span::styled(" page, core", Style::new().fg(Color::Red)),
    ]));
    map
}

/// What is known of a rank.
pub(super) fn facts_of_rank(all: &OfJob<'_>, rank: u32, width: usize) -> Vec<Line<'static>> {
    /// Longest name of what time goes to.
    const NAME: usize = 9;
    let node = or_dash(all.node(rank));
    let mut lines =
        vec![Line::from(vec![Span::styled(all.state(rank), BOLD), Span::from(format!(" · on node {node}"))])];
    if let Some(report) = all.ended.get(&rank) {
        lines.extend(report.reason.as_ref().map(|reason| Line::from(harmless(reason).into_owned())));
        let counters = &report.counters;
        lines.push(Line::from(format!("{} page faults", counters.page_faults)));
        return lines;
    }
    let Some(now) = all.now(rank) else {
        lines.push(Line::from(
            "nothing is known of what it does; o begins to look at that, of 32 ranks at a time in turn",
        ));
        return lines;
    };
    lines.push(Line::default());
    let room = width.saturating_sub(NAME + 10);
    for (name, share) in &now.shares {
        let bar = "█".repeat(((share * room as f64).round() as usize).min(room));
        lines.push(Line::from(format!("{name:NAME$} {:5.1} % {bar}", share * 100.0)));
    }
    lines.push(Line::default());
    let rate = |value: Option<f64>| value.unwrap_or_default();
    lines.push(Line::from(format!(
        "{:.0} calls/s, {}/s to other nodes, {} of memory",
        rate(now.calls),
        show_bytes(rate(now.sent) as u64),
        show_bytes(now.pages.saturating_mul(4096)),
    )));
    let peers: Vec<String> = now.peers.iter().map(|(node, bytes)| format!("{node}: {}", show_bytes(*bytes))).collect();
    if !peers.is_empty() {
        lines.push(Line::from(format!("sent in all to nodes {}", peers.join(", "))));
    }
    lines
}

/// What is known of a node.
pub(super) fn facts_of_node(seen: &Seen, node: u32) -> Vec<Line<'static>> {
    let Some(view) = seen.nodes.iter().find(|view| view.node == node) else {
        return vec![Line::from(format!("there is no node {node} any more"))];
    };
    let NodeView { state, job, pset, address, generation, kernel, boot_ns, cores, memory, region_bytes, pid, .. } =
        view;
    let mut lines = vec![Line::from(vec![
        Span::styled(state.as_str(), BOLD),
        Span::from(job.map(|job| format!(" · job {job}")).unwrap_or_default()),
    ])];
    let mut fact = |name: &str, value: String| lines.push(Line::from(format!("{name:14} {value}")));
    fact("pset", pset.to_string());
    fact("address", address.to_string());
    fact("boots", generation.to_string());
    fact("kernel", harmless(&or_dash(kernel.clone())).into_owned());
    fact("boot time", or_dash(boot_ns.map(show_ns)));
    fact("cores", or_dash(*cores));
    let of_memory =
        memory.map(|memory| format!("{} free of {}", show_bytes(memory.free_bytes), show_bytes(memory.total_bytes)));
    fact("memory", or_dash(of_memory));
    fact("region", show_bytes(*region_bytes));
    fact("process", or_dash(*pid));
    fact("console", harmless(&view.console.display().to_string()).into_owned());
    for held in &view.retained {
        fact("holds", format!("{} in {} pages of {}", show_bytes(held.bytes), held.pages, harmless(&held.program)));
    }
    lines
}
