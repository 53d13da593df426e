//! What is counted in instructions: the walk that cuts a page table back, and a launch beside that of Debian's Linux.

use std::path::Path;

use anyhow::{Context, Result};

use super::MEMORY;
use super::programs::Programs;
use super::rank::{Rank, Several};
use crate::bench::cluster::Cluster;
use crate::bench::guest::number;
use crate::bench::{Figure, grouped, linux};
use crate::build::Built;

/// Retained launches of a program; the median counts.
const LAUNCHES: usize = 5;

/// Pages that the program writes which measures what a dropped page costs.
const DIRTY_PAGES: &str = "1000";

/// Stores of 8 bytes that zero a frame: what the walk cannot do without.
const STORES_PER_FRAME: u64 = 512;

/// A program somebody wrote for something else.
const BUSYBOX: [&str; 2] = ["/bin/busybox", "true"];

/// Memory of the peer's machine: its files lie in memory twice while it boots.
const PEER_MEMORY: &str = "512M";

/// Walks and launches, one node.
///
/// # Errors
/// If a measurement fails.
pub(super) fn figures(built: &Built, programs: &Programs) -> Result<Vec<Figure>> {
    let peer = peer(programs);
    let cluster = Cluster::up(built, &["--nodes", "1", "--memory", MEMORY, "--icount"])?;
    let sizes: Vec<Counted> =
        programs.sizes.iter().map(|program| Counted::of(&cluster, &[&program.path])).collect::<Result<_>>()?;
    let mut figures = walks(&cluster, programs, &sizes)?;
    for (program, counted) in programs.sizes.iter().zip(&sizes) {
        let linux = match &peer {
            Ok(text) => {
                number(text, &in_peer(program.size)).map_or_else(|error| error.to_string(), |n| grouped(n as u64))
            }
            Err(error) => format!("not measured: {error}"),
        };
        figures.push(Figure {
            name: format!("retained launch, message received → main, {}, instructions", program.size),
            measured: grouped(counted.start),
            beside: format!("Linux, fork → exec → main, page cache warm: {linux}"),
            wanted: "≤ Linux's",
        });
    }
    Ok(figures)
}

/// What the walk costs per page that stays, per page that goes, and for a whole program.
fn walks(cluster: &Cluster, programs: &Programs, sizes: &[Counted]) -> Result<Vec<Figure>> {
    // The two largest programs have as many data pages as each other, so they differ only in what is kept.
    let [.., large, largest] = sizes else { anyhow::bail!("a slope takes two programs") };
    let clean = Counted::of(cluster, &[&programs.dirty, "0"])?.last;
    let dirty = Counted::of(cluster, &[&programs.dirty, DIRTY_PAGES])?.last;
    let busybox = Counted::of(cluster, &BUSYBOX)?.last;
    let (large, largest) = (&large.last, &largest.last);
    let mapped = busybox.kept + busybox.dropped;
    let without_zeroing = busybox.walk.saturating_sub(STORES_PER_FRAME * busybox.zeroed);
    Ok(vec![
        Figure {
            name: "retain walk per page kept, instructions".into(),
            measured: per(largest.walk.saturating_sub(large.walk), largest.kept.saturating_sub(large.kept)),
            beside: format!("from {} and {} pages kept", grouped(large.kept), grouped(largest.kept)),
            wanted: "≤ 60",
        },
        Figure {
            name: "retain walk per page dropped and zeroed, instructions".into(),
            measured: per(dirty.walk.saturating_sub(clean.walk), dirty.zeroed.saturating_sub(clean.zeroed)),
            beside: format!("of these, zeroing: {STORES_PER_FRAME} stores"),
            wanted: "≤ 60 + the zeroing",
        },
        Figure {
            name: "retain walk of busybox per mapped page, zeroing left out, instructions".into(),
            measured: per(without_zeroing, mapped),
            beside: format!(
                "{} kept, {} dropped, {} frames zeroed: {} in all",
                busybox.kept,
                busybox.dropped,
                busybox.zeroed,
                grouped(busybox.walk)
            ),
            wanted: "≤ 60",
        },
    ])
}

fn per(instructions: u64, pages: u64) -> String {
    format!("{:.1}", instructions as f64 / pages.max(1) as f64)
}

/// Retained launches of one program.
struct Counted {
    /// From the launch message to the end of an empty `main`, median, instructions.
    start: u64,
    /// The last one.
    last: Rank,
}

impl Counted {
    fn of(cluster: &Cluster, command: &[&str]) -> Result<Self> {
        Rank::loaded(cluster, command)?;
        let mut ranks: Vec<Rank> = (0..LAUNCHES).map(|_| Rank::retained(cluster, command)).collect::<Result<_>>()?;
        let start = ranks.iter().map(|rank| rank.start).collect::<Several>().median();
        Ok(Self { start, last: ranks.pop().context("nothing was launched")? })
    }
}

/// What the peer says about starting the same programs.
fn peer(programs: &Programs) -> Result<String> {
    let names: Vec<String> = programs.sizes.iter().map(|program| in_peer(program.size)).collect();
    let paths = programs.sizes.iter().map(|program| Path::new(&program.path));
    let mut files: Vec<(&str, &Path)> = names.iter().map(|name| name.trim_start_matches('/')).zip(paths).collect();
    files.push(("init", &programs.init));
    let arguments = names.join(" ");
    linux::run(&linux::Guest { arguments: &arguments, memory: PEER_MEMORY, ..linux::Guest::of(&files) })
}

/// A program's path in the peer.
fn in_peer(size: &str) -> String {
    format!("/{}", size.replace(' ', ""))
}
