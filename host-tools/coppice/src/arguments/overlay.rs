//! The command lines of performance overlays: `overlay`, `profile`, and what `run` has of them.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};
use coppice_api::overlay::{OverlayPlacement, OverlayWish, PERIOD_MS_DEFAULT};
use coppice_api::shown;

use super::Listing;
use crate::units::{parse_rate, parse_sample_rate};

/// What `run` and `overlay` have in common.
#[derive(Debug, Args)]
pub(crate) struct OverlayShape {
    /// Where the overlay's processes run: as many of these and ranks on each node, as far as that can be, or on the
    /// nodes that are best for it by load, memory, links and ranks
    #[arg(long = "overlay-placement", value_enum, default_value_t = Placement::Average, value_name = "WAY",
          help_heading = "Overlay")]
    pub(crate) placement: Placement,
    /// A file that says which process of the overlay is below which, and on which node each is, in lines such as
    /// `fe:0 => 0:0 8:0 ;`
    #[arg(long = "overlay-topology", value_name = "FILE", help_heading = "Overlay")]
    pub(crate) topology: Option<PathBuf>,
    /// Look so often a second where each rank is in its program, such as 100, for `coppice profile --flame`
    #[arg(long = "sample", value_name = "RATE", value_parser = parse_sample_rate, help_heading = "Overlay")]
    pub(crate) sample_hz: Option<u32>,
}

/// What `run` has.
#[derive(Debug, Args)]
pub(crate) struct RunOverlay {
    /// Look at what the ranks do, so often a second, such as 10 or 0.5, for `coppice overlay` and `coppice profile`
    #[arg(long = "overlay", value_name = "RATE", num_args = 0..=1, require_equals = true, value_parser = parse_rate,
          default_missing_value = "1", help_heading = "Overlay")]
    pub(crate) period_ms: Option<u64>,
    #[command(flatten)]
    pub(crate) shape: OverlayShape,
}

/// How processes are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Placement {
    /// Best-effort average.
    Average,
    /// Comprehensive evaluation.
    Comprehensive,
}

impl From<Placement> for OverlayPlacement {
    fn from(placement: Placement) -> Self {
        match placement {
            Placement::Average => Self::Average,
            Placement::Comprehensive => Self::Comprehensive,
        }
    }
}

impl OverlayShape {
    fn wish(&self, period_ms: u64) -> anyhow::Result<OverlayWish> {
        let topology = self.topology.as_deref().map(read).transpose()?;
        Ok(OverlayWish { period_ms, placement: self.placement.into(), topology, sample_hz: self.sample_hz })
    }
}

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("--overlay-topology '{}'", shown(path)))
}

impl RunOverlay {
    /// What the job is to have. A file, or how often ranks are sampled, is enough.
    pub(crate) fn wish(&self) -> anyhow::Result<Option<OverlayWish>> {
        let implied = self.shape.topology.is_some() || self.shape.sample_hz.is_some();
        let period_ms = self.period_ms.or_else(|| implied.then_some(PERIOD_MS_DEFAULT));
        period_ms.map(|period_ms| self.shape.wish(period_ms)).transpose()
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
An overlay looks at what each rank of a job does: its time in the program and in the kernel, what it waits for, page \
faults, calls, bytes, and counters that the program offers itself; and at each node: its memory, its network card, \
idle cores. Processes on the job's own nodes bring that together, epoch by epoch, and the service node \
records it for `coppice profile`. What is shown of the last epoch says how many ranks are in it; ranks that are \
missing are named, and since when.\n\nExamples:\n  \
    coppice run --overlay -n 8 ./solve     with one from the beginning\n  \
    coppice overlay 3                      how it is, and what the ranks did last\n  \
    coppice overlay 3 on --rate 10         begin one in a job that runs, ten times a second\n  \
    coppice overlay 3 on --sample 100      also look where each rank is in its program, a hundred times a second\n  \
    coppice overlay 3 off")]
pub(crate) struct Overlay {
    /// The job's number
    #[arg(value_name = "JOB")]
    pub(crate) job: u64,
    /// What to do
    #[arg(value_enum, default_value_t = OverlayAction::Show, value_name = "ACTION")]
    pub(crate) action: OverlayAction,
    /// How often a second the ranks are looked at, such as 10 or 0.5
    #[arg(long = "rate", value_name = "RATE", default_value = "1", value_parser = parse_rate)]
    pub(crate) period_ms: u64,
    #[command(flatten)]
    pub(crate) shape: OverlayShape,
    #[command(flatten)]
    pub(crate) listing: Listing,
}

/// What is done with an overlay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OverlayAction {
    /// Show how it is
    Show,
    /// Begin one, or another one
    On,
    /// End it
    Off,
}

impl Overlay {
    /// What the job is to have, if it is to have any.
    pub(crate) fn wish(&self) -> anyhow::Result<Option<OverlayWish>> {
        match self.action {
            OverlayAction::On => self.shape.wish(self.period_ms).map(Some),
            OverlayAction::Show | OverlayAction::Off => Ok(None),
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Without options it is shown where the time of all ranks went, from the first epoch that was recorded to the last, \
and if they were sampled (`run --sample`, `overlay on --sample`), which functions they were in. What was recorded is \
kept for 30 days; of long jobs with less and less detail of what is long ago.\n\n\
Functions have names, files and lines, also where they are inlined, if the program has debug information (-g), else \
the names of its symbols; in a stripped program there are places in it.\n\n\
Of single ranks it is recorded in turn what they did, of 32 in each epoch: of a job of up to 32 ranks all in each.\
\n\nExamples:\n  \
    coppice run --sample 100 -n 8 ./solve  sample the ranks a hundred times a second\n  \
    coppice profile 3                      where the time went\n  \
    coppice profile 3 --flame solve.svg    a flame graph, for a browser\n  \
    coppice profile 3 --pprof solve.pb.gz  for `pprof -http : solve.pb.gz`\n  \
    coppice profile 3 --folded | grep axpy the stacks with that function\n  \
    coppice profile 3 --rank 7             where the time of rank 7 went, and when\n  \
    coppice profile 3 --csv > job3.csv     a line for each epoch and metric\n  \
    coppice profile 3 --json --limit 60    the last sixty epochs")]
pub(crate) struct Profile {
    /// The job's number
    #[arg(value_name = "JOB")]
    pub(crate) job: u64,
    /// Print a line for each epoch and metric, with commas between
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
    /// What this rank did, from one epoch in which it was its turn to the next
    #[arg(long, value_name = "RANK", conflicts_with = "samples")]
    pub(crate) rank: Option<u32>,
    /// At most so many epochs, the newest
    #[arg(long, value_name = "N", conflicts_with = "samples")]
    pub(crate) limit: Option<u32>,
    #[command(flatten)]
    pub(crate) samples: Samples,
    #[command(flatten)]
    pub(crate) listing: Listing,
}

/// What is made of samples. One of these at most.
#[derive(Debug, Args)]
#[group(id = "samples", multiple = false, conflicts_with_all = ["csv", "json"])]
pub(crate) struct Samples {
    /// Write a line for each stack that was sampled, outermost function first, such as `main;solve;axpy 123`; to a
    /// file, or else to standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-",
          help_heading = "Samples")]
    pub(crate) folded: Option<PathBuf>,
    /// Draw a flame graph of what was sampled, an SVG file for a browser; `-` is standard output
    #[arg(long, value_name = "FILE", help_heading = "Samples")]
    pub(crate) flame: Option<PathBuf>,
    /// Write what was sampled as pprof reads it; `-` is standard output
    #[arg(long, value_name = "FILE", help_heading = "Samples")]
    pub(crate) pprof: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::{Overlay, OverlayAction, Profile};
    use crate::arguments::{Arguments, Command};

    fn overlay(arguments: &[&str]) -> Result<Overlay, String> {
        let all = ["coppice", "overlay"].iter().chain(arguments);
        match Arguments::try_parse_from(all).map_err(|error| error.to_string())?.command {
            Command::Overlay(overlay) => Ok(overlay),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_overlay_is_shown_if_nothing_is_said() {
        assert_eq!(overlay(&["3"]).expect("valid").action, OverlayAction::Show);
        let on = overlay(&["3", "on", "--rate", "10"]).expect("valid");
        assert_eq!((on.action, on.wish().expect("no file").map(|wish| wish.period_ms)), (OverlayAction::On, Some(100)));
        let sampled = overlay(&["3", "on", "--sample", "100"]).expect("valid").wish().expect("no file");
        assert_eq!(sampled.and_then(|wish| wish.sample_hz), Some(100));
        for bad in ["0", "1001", "x", "-1", "0.5"] {
            let error = overlay(&["3", "on", &format!("--sample={bad}")]).expect_err(bad);
            assert!(error.contains("from 1 to 1000"), "{error}");
        }
        assert_eq!(overlay(&["3", "off"]).expect("valid").wish().expect("nothing"), None);
        assert!(overlay(&["3", "on", "--rate", "0"]).is_err() && overlay(&["3", "up"]).is_err());
    }

    #[test]
    fn samples_become_one_thing() {
        let profile = |arguments: &[&str]| -> Result<Profile, String> {
            let all = ["coppice", "profile"].iter().chain(arguments);
            match Arguments::try_parse_from(all).map_err(|error| error.to_string())?.command {
                Command::Profile(profile) => Ok(profile),
                other => panic!("{other:?}"),
            }
        };
        let folded = |arguments: &[&str]| profile(arguments).expect("valid").samples.folded;
        assert_eq!(folded(&["3", "--folded"]), Some("-".into()));
        assert_eq!(folded(&["--folded", "3"]), Some("-".into()));
        assert_eq!(folded(&["3", "--folded=x"]), Some("x".into()));
        assert_eq!(folded(&["3"]), None);
        assert_eq!(profile(&["3", "--flame", "-"]).expect("valid").samples.flame, Some("-".into()));
        let (folded, flame, pprof) = ("--folded", "--flame=x", "--pprof=x");
        for two in [
            [folded, flame],
            [flame, pprof],
            [folded, "--csv"],
            [pprof, "--json"],
            [flame, "--limit=3"],
            [flame, "--rank=1"],
        ] {
            let error = profile(&[&["3"][..], &two].concat()).expect_err("not both");
            assert!(error.contains("cannot be used with"), "{error}");
        }
        assert!(profile(&["3", "--csv", "--json"]).is_err());
    }

    #[test]
    fn a_run_has_one_that_is_named_or_has_a_file() {
        let run = |arguments: &[&str]| {
            let all = ["coppice", "run"].iter().chain(arguments).chain(&["./x"]);
            match Arguments::try_parse_from(all).expect("valid").command {
                Command::Run(run) => run.overlay.wish(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(run(&[]).expect("nothing"), None);
        assert_eq!(run(&["--overlay"]).expect("no file").map(|wish| wish.period_ms), Some(1000));
        assert_eq!(run(&["--overlay=0.5"]).expect("no file").map(|wish| wish.period_ms), Some(2000));
        let sampled = run(&["--sample", "50"]).expect("no file").expect("one");
        assert_eq!((sampled.period_ms, sampled.sample_hz), (1000, Some(50)), "implied");
        let both = run(&["--overlay=10", "--sample", "50"]).expect("no file").expect("one");
        assert_eq!((both.period_ms, both.sample_hz), (100, Some(50)));
        let error = run(&["--overlay-topology", "/no/such/file"]).expect_err("no file");
        assert!(format!("{error:#}").starts_with("--overlay-topology '/no/such/file'"), "{error:#}");
    }
}
