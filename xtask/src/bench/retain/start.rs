//! How much sooner a program is in `main` where it is retained, and that nothing was fetched for it.

use anyhow::Result;

use super::MEMORY;
use super::programs::{Program, Programs};
use super::rank::{Rank, Several};
use crate::bench::Figure;
use crate::bench::cluster::Cluster;
use crate::build::Built;

/// Launches of either kind, in turns; the medians count.
const LAUNCHES: usize = 7;

/// Launches and what they fetched, per program.
///
/// # Errors
/// If a measurement fails.
pub(super) fn figures(built: &Built, programs: &Programs) -> Result<Vec<Figure>> {
    let cluster = Cluster::up(built, &["--nodes", "1", "--memory", MEMORY])?;
    let measured: Vec<_> = programs.sizes.iter().map(|program| launches(&cluster, program)).collect::<Result<_>>()?;
    let (sooner, fetched): (Vec<_>, Vec<_>) = measured.into_iter().unzip();
    Ok(sooner.into_iter().chain(fetched).collect())
}

fn launches(cluster: &Cluster, program: &Program) -> Result<(Figure, Figure)> {
    let command = [program.path.as_str()];
    // The host reads the file now, which nobody's figure is to pay for.
    Rank::loaded(cluster, &command)?;
    let pairs: Vec<_> = (0..LAUNCHES)
        .map(|_| Ok((Rank::loaded(cluster, &command)?, Rank::retained(cluster, &command)?)))
        .collect::<Result<_>>()?;
    let (loaded, retained): (Vec<Rank>, Vec<Rank>) = pairs.into_iter().unzip();
    let starts = |ranks: &[Rank]| ranks.iter().map(|rank| rank.start).collect::<Several>();
    let (slow, fast) = (starts(&loaded), starts(&retained));
    let sooner = Figure {
        name: format!("launch → main, {}, all touched, retained, wall", program.size),
        measured: fast.show_ms(),
        beside: format!("loaded {}: {:.1} ×", slow.show_ms(), slow.median() as f64 / fast.median().max(1) as f64),
        wanted: program.wanted,
    };
    let fetched = Figure {
        name: format!("pages fetched on a retained launch, {}", program.size),
        measured: fetched(&retained),
        beside: format!("loaded {}", fetched(&loaded)),
        wanted: "0",
    };
    Ok((sooner, fetched))
}

/// The most that any of the launches fetched, and the most faults it took.
fn fetched(ranks: &[Rank]) -> String {
    let most = |count: fn(&Rank) -> u64| ranks.iter().map(count).max().unwrap_or(0);
    format!("{} ({} faults)", most(|rank| rank.fetched), most(|rank| rank.faults))
}
