//! `coppice link` and `coppice nodes --links`: what links are like, what passes on them, and changing that.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use coppice_api::link::{
    DirectionView, LinkOrder, LinkShape, LinkView, LinksQuery, LinksView, RecordingOrder, RecordingView, Stations,
};
use coppice_api::{Client, shown};
use serde::Serialize;

use crate::arguments::Link;
use crate::show::{or_dash, print, print_json, table};
use crate::units::{show_bytes, show_loss, show_ns, show_rate};

/// How long it is counted what passes, to say how much that is in a second.
const WINDOW: Duration = Duration::from_secs(1);

const NS_PER_S: f64 = 1e9;

pub(crate) async fn link(client: &Client, link: &Link) -> anyhow::Result<()> {
    let recording = match &link.pcap {
        Some(file) => Some(RecordingOrder::Start { file: absolute(file)? }),
        None => link.pcap_stop.then_some(RecordingOrder::Stop),
    };
    let change = link.change();
    if change.is_nothing() && recording.is_none() {
        return show(client, Some(link.links.clone()), link.listing.json).await;
    }
    let view = client.change_links(&LinkOrder { links: link.links.clone(), change, recording }).await?;
    if link.listing.json {
        return print_json(&view.links);
    }
    print(&view.links.iter().map(|link| format!("{}\n", described(link))).collect::<String>())
}

/// All links, or some.
pub(crate) async fn show(client: &Client, links: Option<Stations>, json: bool) -> anyhow::Result<()> {
    let query = LinksQuery { links };
    let before = client.links(&query).await?;
    tokio::time::sleep(WINDOW).await;
    let after = client.links(&query).await?;
    let rated = rated(&before, &after);
    if json { print_json(&rated) } else { print(&links_table(&rated)) }
}

/// A path of the fabric's, which does not run in this directory.
fn absolute(file: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(file).with_context(|| format!("cannot find '{}' from here", shown(file)))
}

/// A link, and how much passes on it.
#[derive(Debug, Serialize)]
struct Rated<'a> {
    #[serde(flatten)]
    link: &'a LinkView,
    /// Nothing, if that could not be measured.
    rates: Option<Rates>,
}

/// What passed in a while.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Rates {
    /// How long it was counted, ns.
    window_ns: u64,
    /// To the station, bytes/s.
    to_bytes_per_s: f64,
    /// From the station, bytes/s.
    from_bytes_per_s: f64,
}

/// What has passed from one look to the next. A fabric that was replaced in between has begun anew.
fn rated<'a>(before: &LinksView, after: &'a LinksView) -> Vec<Rated<'a>> {
    let window_ns = after.counted_at_ns.saturating_sub(before.counted_at_ns);
    let is_measured = before.fabric == after.fabric && window_ns > 0;
    let rates = |link: &LinkView| {
        let earlier = before.links.iter().find(|earlier| earlier.link == link.link).filter(|_| is_measured)?;
        let rate = |earlier: &DirectionView, later: &DirectionView| {
            let bytes = later.counters.bytes.saturating_sub(earlier.counters.bytes);
            bytes as f64 * NS_PER_S / window_ns as f64
        };
        Some(Rates {
            window_ns,
            to_bytes_per_s: rate(&earlier.to, &link.to),
            from_bytes_per_s: rate(&earlier.from, &link.from),
        })
    };
    after.links.iter().map(|link| Rated { link, rates: rates(link) }).collect()
}

fn links_table(links: &[Rated<'_>]) -> String {
    let heading =
        ["LINK", "WAY", "STATE", "BANDWIDTH", "LATENCY", "LOSS", "RATE", "FRAMES", "BYTES", "DROPPED", "RECORDING"];
    let rows = links.iter().flat_map(|rated| {
        let Rated { link, rates } = rated;
        let row = |name: String, way: &str, direction: &DirectionView, rate: Option<f64>, recording: String| {
            let DirectionView { shape, counters } = direction;
            vec![
                name,
                way.to_owned(),
                state(link, *shape).to_owned(),
                or_dash(shape.bandwidth_bits_per_s.map(show_rate)),
                or_dash(Some(shape.latency_ns).filter(|ns| *ns > 0).map(show_ns)),
                or_dash(Some(shape.loss_ppm).filter(|ppm| *ppm > 0).map(show_loss)),
                or_dash(rate.map(|rate| format!("{}/s", show_bytes(rate as u64)))),
                counters.frames.to_string(),
                show_bytes(counters.bytes),
                dropped(direction),
                recording,
            ]
        };
        let recording = link.recording.as_ref().map(recorded);
        [
            row(link.link.to_string(), "to", &link.to, rates.map(|rates| rates.to_bytes_per_s), or_dash(recording)),
            row(String::new(), "from", &link.from, rates.map(|rates| rates.from_bytes_per_s), String::new()),
        ]
    });
    table(&heading, rows)
}

/// Whether frames pass, and whether somebody is there to take them.
fn state(link: &LinkView, shape: LinkShape) -> &'static str {
    match (shape.cut, link.up) {
        (true, _) => "cut",
        (false, true) => "up",
        (false, false) => "down",
    }
}

/// Frames that were dropped, by cause.
fn dropped(direction: &DirectionView) -> String {
    let causes: Vec<_> =
        direction.counters.dropped.causes().map(|(cause, frames)| format!("{frames} {cause}")).collect();
    or_dash((!causes.is_empty()).then(|| causes.join(", ")))
}

fn recorded(recording: &RecordingView) -> String {
    let RecordingView { file, counters } = recording;
    let missed = match counters.missed {
        0 => String::new(),
        missed => format!(", {missed} missed"),
    };
    format!("{} ({} frames{missed})", shown(file), counters.frames)
}

/// What a link is like, in one line.
fn described(link: &LinkView) -> String {
    let shape = match link.to.shape == link.from.shape {
        true => shaped(link.to.shape),
        false => format!("to it {}; from it {}", shaped(link.to.shape), shaped(link.from.shape)),
    };
    let recording = link.recording.as_ref().map(|recording| format!("; recorded in {}", shown(&recording.file)));
    format!("link {}: {shape}{}", link.link, recording.unwrap_or_default())
}

fn shaped(shape: LinkShape) -> String {
    let bandwidth = shape.bandwidth_bits_per_s.map_or("no limit".to_owned(), show_rate);
    let cut = if shape.cut { ", cut" } else { "" };
    format!("{bandwidth}, latency {}, loss {}{cut}", show_ns(shape.latency_ns), show_loss(shape.loss_ppm))
}

#[cfg(test)]
mod tests {
    use coppice_api::link::{DroppedView, LinkCounters, RecordingCounters, Station};

    use super::*;

    fn direction(frames: u64, bytes: u64) -> DirectionView {
        let counters = LinkCounters { frames, bytes, dropped: DroppedView::default() };
        DirectionView { shape: LinkShape::default(), counters }
    }

    fn view(fabric: u32, counted_at_ns: u64, bytes: u64) -> LinksView {
        let link = |link| LinkView {
            link,
            up: true,
            to: direction(bytes / 100, bytes),
            from: direction(1, 60),
            queued_frames: 0,
            recording: None,
        };
        LinksView { fabric, counted_at_ns, links: vec![link(Station::Node(2)), link(Station::IoNode(0))] }
    }

    #[test]
    fn rates_are_of_what_passed_in_between() {
        let (before, after) = (view(1, 5_000_000_000, 1000), view(1, 5_500_000_000, 3000));
        let rates = Rates { window_ns: 500_000_000, to_bytes_per_s: 4000.0, from_bytes_per_s: 0.0 };
        assert!(rated(&before, &after).iter().all(|rated| rated.rates == Some(rates)));
        // Of what was not measured nothing is said.
        assert!(rated(&view(1, 5, 9000), &view(2, 10, 3000)).iter().all(|rated| rated.rates.is_none()));
        assert!(rated(&before, &view(1, 5_000_000_000, 3000)).iter().all(|rated| rated.rates.is_none()));
        let json = serde_json::to_value(rated(&before, &after)).expect("json");
        assert_eq!(json[1]["link"], "io0");
        assert_eq!((&json[0]["to"]["bytes"], &json[0]["rates"]["to_bytes_per_s"]), (&3000.into(), &4000.0.into()));
    }

    #[test]
    fn links_have_a_line_for_each_way() {
        let (mut before, mut after) = (view(1, 0, 0), view(1, 1_000_000_000, 204_800));
        before.links.iter_mut().for_each(|link| link.from = direction(0, 0));
        let link = &mut after.links[0];
        link.to.shape =
            LinkShape { bandwidth_bits_per_s: Some(100_000_000), latency_ns: 2_000_000, loss_ppm: 10_000, cut: true };
        link.to.counters.dropped = DroppedView { cut: 3, loss: 7, ..DroppedView::default() };
        let counters = RecordingCounters { frames: 5, bytes: 700, missed: 1 };
        link.recording = Some(RecordingView { file: "/tmp/x.pcap".into(), counters });
        after.links[1].up = false;
        let expected = [
            "LINK WAY STATE BANDWIDTH LATENCY LOSS RATE FRAMES BYTES DROPPED RECORDING",
            "2 to cut 100 Mbit/s 2000 µs 1% 200.0 KiB/s 2048 200.0 KiB 3 cut, 7 loss /tmp/x.pcap (5 frames, 1 missed)",
            "from up - - - 60 B/s 1 60 B -",
            "io0 to down - - - 200.0 KiB/s 2048 200.0 KiB - -",
            "from down - - - 60 B/s 1 60 B -",
        ];
        let text = links_table(&rated(&before, &after));
        let words: Vec<_> = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(words, expected);
    }

    #[test]
    fn a_change_is_told_in_one_line() {
        let mut link = view(1, 0, 0).links.remove(0);
        assert_eq!(described(&link), "link 2: no limit, latency 0 ns, loss 0%");
        link.from.shape = LinkShape { bandwidth_bits_per_s: Some(9_600), loss_ppm: 500, cut: true, ..link.from.shape };
        link.recording = Some(RecordingView { file: "/x\n".into(), counters: RecordingCounters::default() });
        let expected = "link 2: to it no limit, latency 0 ns, loss 0%; from it 9600 bit/s, latency 0 ns, loss 0.05%, \
                        cut; recorded in /x\\n";
        assert_eq!(described(&link), expected);
    }
}
