//! `cargo xtask bench`: figures measured in this run, each beside a peer or a bound.
//!
//! Instruction counts come from machines under `-icount shift=0`, whose clock is the number of instructions executed;
//! they do not move with the load of the measuring machine. Everything else is wall time and printed with its peer
//! measured in the same run.

mod checkpoint;
pub(crate) mod cluster;
mod dashboard;
mod fences;
mod frozen;
mod guest;
mod io;
mod launch;
mod linux;
mod net;
mod node;
mod overlay;
mod pair;
mod plot;
mod pmi;
mod poll;
mod retain;
mod sections;
mod simulated;
mod slurm;
mod staging;
mod threads;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::{build, setup};

/// What to measure.
#[derive(Args)]
pub(crate) struct Options {
    /// Only the group with this name: node, launch, io, retain, net, pmi, fences, poll, threads, frozen, checkpoint,
    /// sections, staging, copies, pages, beside, overlay, dashboard, or, simulated
    /// and only if they are named, distribution, crowd, startup and gathering
    group: Option<String>,
    /// Also draw the group's figures to this file (SVG), as bars beside what they are held against; of distribution and
    /// startup how time grows with the number of members or nodes, which takes some minutes
    #[arg(long, value_name = "FILE", requires = "group")]
    plot: Option<PathBuf>,
}

/// One measured number and what it is to be held against.
pub(crate) struct Figure {
    /// What was measured.
    name: String,
    /// The number with its unit, which the name may also say last (`…, instructions`).
    measured: String,
    /// The peer or bound, measured or stated, with its unit. Of what is between semicolons is drawn what says
    /// `WHAT: NUMBER UNIT`.
    beside: String,
    /// What the project wants to reach.
    wanted: &'static str,
}

/// A group of figures that share a cluster.
type Group = fn(&build::Built) -> Result<Vec<Figure>>;

const GROUPS: &[(&str, Group)] = &[
    ("node", node::figures),
    ("launch", launch::figures),
    ("io", io::figures),
    ("retain", retain::figures),
    ("net", net::figures),
    ("pmi", pmi::figures),
    ("fences", fences::figures),
    ("poll", poll::figures),
    ("threads", threads::figures),
    ("frozen", frozen::figures),
    ("checkpoint", checkpoint::figures),
    ("sections", sections::figures),
    ("staging", staging::figures),
    ("copies", staging::copies::figures),
    ("pages", staging::counted::figures),
    ("beside", staging::beside::figures),
    ("overlay", overlay::figures),
    ("dashboard", dashboard::figures),
];

/// Measures and prints.
///
/// # Errors
/// If a cluster cannot be brought up or a measurement fails.
pub(crate) fn run(options: &Options) -> Result<()> {
    // Before minutes of measuring rather than behind them.
    let is_nowhere = |path: &&PathBuf| path.parent().is_some_and(|into| into != Path::new("") && !into.is_dir());
    if let Some(path) = options.plot.as_ref().filter(is_nowhere) {
        bail!("cannot write {}: there is no such directory", path.display());
    }
    if let Some(name) = options.group.as_deref().filter(|name| simulated::NAMES.contains(name)) {
        return simulated::show(name, options.plot.as_deref());
    }
    let groups: Vec<_> =
        GROUPS.iter().filter(|(name, _)| options.group.as_deref().is_none_or(|wanted| wanted == *name)).collect();
    if groups.is_empty() {
        let names: Vec<_> = GROUPS.iter().map(|(name, _)| *name).chain(simulated::NAMES).collect();
        bail!("no such group of figures; there are: {}", names.join(", "));
    }
    setup::everything()?;
    let built = build::everything()?;
    let mut figures = Vec::new();
    for (name, group) in groups {
        eprintln!("== measuring: {name}");
        figures.extend(group(&built)?);
    }
    print(&figures);
    if let (Some(path), Some(group)) = (&options.plot, &options.group) {
        std::fs::write(path, plot::svg(group, &figures)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn print(figures: &[Figure]) {
    let width = |column: fn(&Figure) -> &str, title: &str| {
        figures.iter().map(|figure| column(figure).chars().count()).max().unwrap_or(0).max(title.len())
    };
    let name = width(|figure| &figure.name, "figure");
    let measured = width(|figure| &figure.measured, "measured");
    let beside = width(|figure| &figure.beside, "beside");
    println!("\n{:name$}  {:measured$}  {:beside$}  wanted", "figure", "measured", "beside");
    for figure in figures {
        println!("{:name$}  {:measured$}  {:beside$}  {}", figure.name, figure.measured, figure.beside, figure.wanted);
    }
}

/// A large count, with thin groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let (head, tail) = digits.split_at(first);
    let mut groups: Vec<&str> = Vec::new();
    if !head.is_empty() {
        groups.push(head);
    }
    groups.extend(tail.as_bytes().chunks(3).filter_map(|chunk| std::str::from_utf8(chunk).ok()));
    groups.join(" ")
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn groups_digits() {
        assert_eq!(
            [grouped(7), grouped(123), grouped(1234), grouped(1_610_000_000)],
            ["7", "123", "1 234", "1 610 000 000"]
        );
    }
}
