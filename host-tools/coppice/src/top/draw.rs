//! How `top` is drawn: in the colours that the terminal has itself, so that it can be read on a dark ground as on a
//! light one, and never by colour alone.

use coppice_api::job::JobState;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Row, Sparkline, Table as Widget};

use super::details::{self, facts_of_node, facts_of_rank};
use super::fetch::Seen;
use super::lists::{Jobs, Nodes, OfJob};
use super::ranks::{in_words, shares};
use super::screen::{Input, Screen, View};
use super::table::{Listing, Table};
use crate::show::harmless;
use crate::units::{show_ns, show_time};

/// Widest a column is that is not the last one.
const COLUMN_MAX: usize = 24;

/// Lines of the map of all ranks.
const MAP_LINES: u16 = 4;

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const FAINT: Style = Style::new().add_modifier(Modifier::DIM);
const CHOSEN: Style = Style::new().add_modifier(Modifier::REVERSED);
const BAD: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);

/// What keys do.
const HELP: [&str; 15] = [
    "Tab            jobs, or nodes",
    "↑ ↓ k j        the row above, or below; PgUp PgDn Home End",
    "Enter l →      look into a job, a rank or a node",
    "Esc h ←        back",
    "s              sort by the next column",
    "r              the other way round",
    "/              only rows with a text; Esc shows all again",
    "L              follow the log of a job, if its output is kept",
    "K              send a job a signal",
    "o              begin to look at what the ranks of a job do, or end that",
    "?              this",
    "q Ctrl-C       leave",
    "",
    "What ranks do is known of jobs with an overlay (`run --overlay`, or `o`):",
    "of 32 ranks at a time, in turn.",
];

/// Draws all of it.
pub(super) fn draw(frame: &mut Frame<'_>, screen: &mut Screen, now_ns: u64) {
    let [title, path, body, bottom] =
        Layout::vertical([Constraint::Length(1), Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)])
            .areas(frame.area());
    frame.render_widget(title_line(screen, now_ns), title);
    frame.render_widget(path_line(screen), path);
    frame.render_widget(bottom_line(screen), bottom);
    let view = screen.view();
    let Screen { seen, jobs, nodes, of_job, ranks, log, .. } = screen;
    if view == View::Help {
        return text(frame, body, HELP.iter().map(|line| Line::from(*line)).collect());
    }
    if let View::Log(_) = view {
        let (lines, below) = log.page(usize::from(body.height.saturating_sub(1)));
        let mut lines: Vec<Line<'_>> = lines.into_iter().map(Line::from).collect();
        let more = (below > 0).then(|| format!("{below} more lines below"));
        let end = more.or_else(|| log.over.as_deref().map(|why| harmless(why).into_owned()));
        lines.extend(end.map(|end| Line::styled(end, FAINT)));
        return text(frame, body, lines);
    }
    let Some(seen) = seen else {
        return text(frame, body, vec![Line::from("asks the service node …")]);
    };
    match view {
        View::Jobs => list(frame, body, jobs, &Jobs(seen)),
        View::Nodes => list(frame, body, nodes, &Nodes(seen)),
        View::Node(node) => text(frame, body, facts_of_node(seen, node)),
        View::Job(job) | View::Rank(job, _) => match seen.job.as_ref().filter(|detail| detail.job.job == job) {
            None => text(frame, body, vec![Line::from(format!("asks for job {job} …"))]),
            Some(detail) => {
                let all = OfJob::new(detail, ranks.get(&job));
                match view {
                    View::Rank(_, rank) => text(frame, body, facts_of_rank(&all, rank, usize::from(body.width))),
                    _ => of_a_job(frame, body, of_job, &all, seen),
                }
            }
        },
        View::Log(_) | View::Help => {}
    }
}

fn text(frame: &mut Frame<'_>, area: Rect, lines: Vec<Line<'_>>) {
    frame.render_widget(Paragraph::new(lines), area);
}

/// The cluster, and whether there is one.
fn title_line(screen: &Screen, now_ns: u64) -> Line<'static> {
    if let Some((since_ns, why)) = &screen.trouble {
        let seconds = now_ns.saturating_sub(*since_ns) / 1_000_000_000;
        return Line::styled(format!("no answer for {seconds} s, asks again: {}", harmless(why)), BAD);
    }
    let Some(seen) = &screen.seen else { return Line::styled("coppice", BOLD) };
    let cluster = &seen.cluster;
    let failed = if cluster.nodes_failed > 0 { format!(", {} given up", cluster.nodes_failed) } else { String::new() };
    let title = format!(
        "{}: {} of {} nodes ready{failed} · jobs: {} run, {} wait · {}",
        cluster.name,
        cluster.nodes_ready,
        cluster.nodes,
        cluster.jobs_running,
        cluster.jobs_queued,
        time_of_day(seen.at_ns),
    );
    Line::styled(title, BOLD)
}

/// Of a moment without its day: that is known to whoever looks on.
fn time_of_day(ns: u64) -> String {
    show_time(ns).split(' ').next_back().unwrap_or_default().to_owned()
}

/// Where we are.
fn path_line(screen: &Screen) -> Line<'static> {
    let tab = |name: &'static str, is_it: bool| Span::styled(format!(" {name} "), if is_it { CHOSEN } else { FAINT });
    let is_nodes = screen.views().first() == Some(&View::Nodes);
    let mut spans = vec![tab("jobs", !is_nodes), tab("nodes", is_nodes)];
    for view in screen.views().iter().skip(1) {
        let name = match view {
            View::Job(job) => format!("job {job}"),
            View::Rank(_, rank) => format!("rank {rank}"),
            View::Node(node) => format!("node {node}"),
            View::Log(job) => format!("log of job {job}"),
            View::Help => "keys".to_owned(),
            View::Jobs | View::Nodes => continue,
        };
        spans.push(Span::styled(format!(" › {name}"), BOLD));
    }
    Line::from(spans)
}

/// What is typed, what came of the last thing that was done, or what keys do here.
fn bottom_line(screen: &Screen) -> Line<'static> {
    match (&screen.input, &screen.note) {
        (Some(Input::Filter), _) => Line::styled(format!("only rows with: {}▏", screen.filter()), BOLD),
        (Some(Input::Signal(job, text)), _) => {
            Line::styled(format!("signal for job {job}: {text}▏ Enter sends it, Esc does not"), BOLD)
        }
        (None, Some(note)) => Line::styled(harmless(note).into_owned(), BOLD),
        (None, None) => {
            let keys = match screen.view() {
                View::Jobs => "Enter look into  Tab nodes  s sort  / filter  L log  K signal  ? keys  q quit",
                View::Nodes => "Enter look into  Tab jobs  s sort  / filter  K signal  ? keys  q quit",
                View::Job(_) => "Enter rank  s sort  / filter  L log  K signal  o overlay  Esc back  ? keys",
                View::Log(_) => "↑ ↓ PgUp PgDn End  Esc back  ? keys  q quit",
                View::Rank(..) | View::Node(_) | View::Help => "Esc back  ? keys  q quit",
            };
            Line::styled(keys, FAINT)
        }
    }
}

/// A list, as much of it as there is room for.
fn list(frame: &mut Frame<'_>, area: Rect, table: &mut Table, listing: &dyn Listing) {
    let page = table.page(listing, usize::from(area.height.saturating_sub(1)));
    let arrow = if table.is_reversed { '↓' } else { '↑' };
    let heading: Vec<String> = (listing.heading().iter().enumerate())
        .map(|(column, name)| if column == table.column { format!("{name}{arrow}") } else { (*name).to_owned() })
        .collect();
    let last = heading.len().saturating_sub(1);
    let width = |column: usize| {
        let cells = page.rows.iter().filter_map(|row| row.get(column)).chain(heading.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default().min(COLUMN_MAX)
    };
    let widths = (0..heading.len()).map(|column| match column {
        column if column == last => Constraint::Min(0),
        column => Constraint::Length(u16::try_from(width(column)).unwrap_or(u16::MAX)),
    });
    let cut = |cell: &String| match cell.char_indices().nth(COLUMN_MAX - 1) {
        Some((end, _)) if cell.chars().count() > COLUMN_MAX => format!("{}…", &cell[..end]),
        _ => cell.clone(),
    };
    let rows = page.rows.iter().enumerate().map(|(place, row)| {
        let cells = row.iter().enumerate().map(|(column, cell)| if column == last { cell.clone() } else { cut(cell) });
        Row::new(cells).style(if page.selected == Some(place) { CHOSEN } else { Style::new() })
    });
    let widget = Widget::new(rows, widths).header(Row::new(heading).style(BOLD)).column_spacing(1);
    frame.render_widget(widget, area);
}

/// A job: what its time goes to, when, which ranks, and these one by one.
fn of_a_job(frame: &mut Frame<'_>, area: Rect, table: &mut Table, all: &OfJob<'_>, seen: &Seen) {
    let job = all.job;
    let last = seen.overlays.get(&job.job).and_then(|overlay| overlay.last.as_ref());
    let does = match last {
        Some(last) => {
            let (k, n, every) = (last.ranks, last.of, show_ns(last.period_ns));
            format!("{k} of {n} ranks in {every}: {}", in_words(&shares(last), 5))
        }
        None if job.state == JobState::Ended => format!("where its time went: coppice profile {}", job.job),
        None => "what its ranks do is not looked at; o begins that".to_owned(),
    };
    let lines = vec![details::about(all, seen.at_ns), Line::from(does)];
    let is_looked_at = last.is_some() && all.ranks.is_some();
    let map_lines = if is_looked_at { MAP_LINES.min(area.height.saturating_sub(12)) } else { 0 };
    let [head, history, map, rest] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(u16::from(map_lines > 0)),
        Constraint::Length(if map_lines > 0 { details::map_height(all, area.width, map_lines) + 1 } else { 0 }),
        Constraint::Min(0),
    ])
    .areas(area);
    text(frame, head, lines);
    if let Some(ranks) = all.ranks.filter(|_| map_lines > 0) {
        let [name, line] = Layout::horizontal([Constraint::Length(12), Constraint::Min(0)]).areas(history);
        frame.render_widget(Line::styled("in programs ", FAINT), name);
        let width = usize::from(line.width);
        let data: Vec<u64> = ranks.history.iter().rev().take(width).rev().copied().collect();
        frame.render_widget(Sparkline::default().data(data).max(1000), line);
        text(frame, map, details::map(all, map.width, map_lines));
    }
    list(frame, rest, table, all);
}
