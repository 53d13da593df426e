//! What it saves to run a program again where it ran before, and what that costs: launches that load nothing beside
//! launches that load, the walk that cuts a page table back, a job on 16 nodes beside an empty control message, and
//! the same launch beside that of Debian's Linux.
//!
//! Two clocks are used. Times are taken by the nodes' clocks or the service node's as the machine runs. Instruction
//! counts come from a node under `-icount`: what the node reports as nanoseconds is instructions there.
//!
//! The measured programs touch all of their pages before `main`, which returns at once. A node reports from the launch
//! message to the first instruction and from there to the end; the sum of both stands for launch → `main`, so the few
//! instructions from `main` to the end count against us.

mod counted;
mod jobs;
mod programs;
mod rank;
mod start;

use anyhow::Result;

use self::programs::Programs;
use super::Figure;
use crate::build::Built;

/// Memory of the nodes that run the measured programs.
const MEMORY: &str = "256M";

/// All figures of retained page tables.
///
/// # Errors
/// If a measurement fails, or a node did not retain what it should.
pub(crate) fn figures(built: &Built) -> Result<Vec<Figure>> {
    let programs = Programs::compile()?;
    let mut figures = start::figures(built, &programs)?;
    figures.extend(counted::figures(built, &programs)?);
    figures.extend(jobs::figures(built, &programs)?);
    Ok(figures)
}
