//! How long each way takes for more and more members, as a table and as a plot.

use std::path::Path;

use anyhow::{Context, anyhow, bail};
use coppice_simulator::distribution::{Faults, bound_ns, random_pull};
use coppice_simulator::plot::{Axes, Curve, svg};

use super::{MODELS, RANDOM_PULL, RANDOM_PULL_MEMBERS_MAX, SCHEMES, Transfer};

/// What is drawn.
const AXES: Axes = Axes { x: "members", y: "time, in units of what the bytes take on one link" };

/// The first number of members, and how much larger each other is than the one before.
const FIRST: u32 = 16;
const FACTOR: u32 = 4;

/// Whether a plot may be written there; it is long until it is known otherwise.
pub(crate) fn check(path: &Path) -> anyhow::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if path.is_dir() || !directory.is_dir() {
        bail!("--plot {}: that is no file in a directory that exists", path.display());
    }
    Ok(())
}

/// Prints the figures, and draws them to a file.
pub(super) fn show(transfer: &Transfer, path: &Path) -> anyhow::Result<()> {
    let sizes = sizes(transfer.members);
    print!("\n{:44}", "x bound, for so many members");
    sizes.iter().for_each(|size| print!(" {size:>9}"));
    println!();
    let curves = curves(transfer, &sizes)?;
    for curve in &curves {
        print!("{:44}", curve.name);
        curve.points.iter().for_each(|(_, times)| print!(" {times:>9.3}"));
        println!();
    }
    let text = svg(&curves, AXES).map_err(|what| anyhow!("--plot: {what}"))?;
    std::fs::write(path, text).with_context(|| format!("cannot write the plot to {}", path.display()))
}

fn curves(transfer: &Transfer, sizes: &[u32]) -> anyhow::Result<Vec<Curve>> {
    let mut curves = Vec::new();
    for (name, scheme) in SCHEMES {
        let mut points = Vec::new();
        for members in sizes.iter().copied() {
            let plan = transfer.plan(scheme, members);
            let result = transfer.run(&plan, Faults::default()).with_context(|| name.to_owned())?;
            points.push((members, result.of_bound(&plan)));
        }
        curves.push(Curve { name: name.into(), is_model: false, points });
    }
    let model = |name: &str, times: &dyn Fn(u32) -> Option<f64>| {
        let points = sizes.iter().filter_map(|members| Some((*members, times(*members)?))).collect();
        Curve { name: name.into(), is_model: true, points }
    };
    let plan = |members| transfer.plan(super::Scheme::TwoTrees, members);
    for (name, way) in MODELS {
        curves.push(model(name, &|members| Some(way.whole_ns(&plan(members)) / bound_ns(&plan(members)))));
    }
    curves.push(model(RANDOM_PULL, &|members| {
        let is_possible = members <= RANDOM_PULL_MEMBERS_MAX;
        is_possible.then(|| random_pull(&plan(members), transfer.seed) / bound_ns(&plan(members)))
    }));
    Ok(curves)
}

/// Numbers of members up to the one that is wanted.
fn sizes(members: u32) -> Vec<u32> {
    let sizes = std::iter::successors(Some(FIRST), |size| size.checked_mul(FACTOR));
    let mut sizes: Vec<u32> = sizes.take_while(|size| *size < members).collect();
    sizes.push(members);
    sizes
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::Parser;

    use super::{check, curves, sizes};
    use crate::transfers::Transfer;

    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        transfer: Transfer,
    }

    fn parse(arguments: &str) -> Result<Transfer, clap::Error> {
        Arguments::try_parse_from(arguments.split_whitespace()).map(|arguments| arguments.transfer)
    }

    #[test]
    fn sizes_go_up_to_what_is_wanted() {
        assert_eq!(sizes(16_384), [16, 64, 256, 1024, 4096, 16_384]);
        assert_eq!([sizes(5), sizes(16), sizes(100)], [vec![5], vec![16], vec![16, 64, 100]]);
    }

    #[test]
    fn every_way_is_drawn_for_every_size() {
        let transfer = parse("distribution --bytes 1000000 --members 64").expect("options");
        let curves = curves(&transfer, &[16, 64]).expect("a plan");
        assert_eq!(curves.len(), 9);
        assert_eq!(curves.iter().filter(|curve| curve.is_model).count(), 6);
        for curve in curves {
            assert!(curve.points.iter().map(|point| point.0).eq([16, 64]), "{curve:?}");
            assert!(curve.points.iter().all(|point| point.1 > 1.0), "{curve:?}");
        }
    }

    #[test]
    fn the_run_with_a_million_members_can_be_said() {
        let transfer = parse("distribution --members 1048576 --piece 98304 --short").expect("options");
        let plan = transfer.plan(crate::transfers::Scheme::TwoTrees, transfer.members);
        assert!(transfer.short && plan.check().is_ok());
        assert_eq!((plan.members, plan.pieces(), plan.bytes), (1 << 20, 509, 50_000_000));
        assert_eq!(parse("distribution --loss 0.01,0.05").expect("options").loss, [0.01, 0.05]);
        assert!(parse("distribution --short --plot a.svg").is_err(), "a plot of one way is not what is meant");
        assert!(parse("distribution --members many").is_err());
    }

    #[test]
    fn a_plot_goes_to_a_directory_that_is_there() {
        let directory = tempfile::tempdir().expect("a directory");
        assert!(check(&directory.path().join("a.svg")).is_ok() && check(Path::new("a.svg")).is_ok());
        assert!(check(directory.path()).is_err() && check(&directory.path().join("none/a.svg")).is_err());
    }
}
