//! What poll(2) costs when nothing is ready, which is what a waiting MPI program does all the time.

use anyhow::{Context, Result};

use super::cluster::Cluster;
use super::guest::{compile, number};
use super::{Figure, linux};
use crate::build::Built;

/// Calls measured.
const CALLS: &str = "20000";

/// What is polled, as the guest names it and as we print it. Linux's init has no network that is up.
const POLLED: [(&str, &str, &str); 3] = [
    ("poll-pipes", "poll of 16 pipes, none ready, instructions", "≤ 600"),
    ("poll-sockets", "poll of 16 connected TCP sockets, none ready, instructions", "≤ 600"),
    ("epoll-pipes", "epoll_wait on 16 pipes, none ready, instructions", "–"),
];

/// All figures of waiting.
///
/// # Errors
/// If a measurement fails.
pub(crate) fn figures(built: &Built) -> Result<Vec<Figure>> {
    let program = compile("poll_cost")?;
    let path = program.to_str().context("path is not UTF-8")?;
    let peer = linux::run(&linux::Guest { arguments: CALLS, ..linux::Guest::of(&[("init", &program)]) });
    let beside = |name: &str| match &peer {
        Ok(text) => number(text, name).map_or_else(|_| "Linux: no network".to_owned(), |n| format!("Linux {n:.0}")),
        Err(error) => format!("Linux not measured: {error}"),
    };
    let cluster = Cluster::up(built, &["--nodes", "1", "--icount"])?;
    let output = cluster.output(&["run", path, CALLS])?;
    let figure = |(name, title, wanted): (&str, &str, &'static str)| {
        let measured = format!("{:.0}", number(&output, name)?);
        Ok(Figure { name: title.into(), measured, beside: beside(name), wanted })
    };
    POLLED.into_iter().map(figure).collect()
}
