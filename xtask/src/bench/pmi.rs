//! How long ranks take to find each other, by the library that they are linked with, beside the starters of this host;
//! and what that costs a node in instructions.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::cluster::Cluster;
use super::guest::{compile_mpi_with, compile_pmix, number};
use super::slurm::{self, Slurm};
use super::{Figure, grouped};
use crate::build::Built;
use crate::mpich::{Flavour, ready, ready_with};
use crate::openmpi;

/// Runs measured after a first one; the median counts.
const RUNS: usize = 5;

/// Nodes of the cluster that all ranks share.
const NODES: u32 = 8;

/// Memory of a node: four ranks of Open MPI take most of it.
const MEMORY: &str = "512M";

/// A library, and the program that measures, linked with it.
struct Library {
    title: &'static str,
    program: String,
    /// What starts it on this host, a program and its options.
    starter: (PathBuf, &'static [&'static str]),
    /// Whether Slurm's `srun` starts it, too.
    by_srun: bool,
}

/// All figures of starting MPI programs.
///
/// # Errors
/// If a measurement fails.
pub(crate) fn figures(built: &Built) -> Result<Vec<Figure>> {
    let libraries = libraries()?;
    let mut figures = Vec::new();
    let cluster = Cluster::up(built, &["--nodes", &NODES.to_string(), "--memory", MEMORY])?;
    for ranks in [NODES, 4 * NODES] {
        for library in &libraries {
            figures.push(library.to_first_message(&cluster, ranks)?);
        }
    }
    drop(cluster);
    let counted = Cluster::up(built, &["--nodes", "1", "--memory", MEMORY, "--icount"])?;
    let first = libraries.first().context("no library")?.to_init(&counted)?;
    for library in &libraries {
        let instructions = library.to_init(&counted)?;
        figures.push(Figure {
            name: format!("launch → past MPI_Init, {}, 1 rank, instructions it used", library.title),
            measured: grouped(instructions as u64),
            beside: format!("{:.1} × PMI-1", instructions / first),
            wanted: "–",
        });
    }
    figures.push(get(&counted)?);
    Ok(figures)
}

/// All of them, built.
fn libraries() -> Result<Vec<Library>> {
    let compiled = |title, prefix: PathBuf, starter, by_srun| -> Result<Library> {
        let name = prefix.file_name().unwrap_or_default().to_string_lossy();
        let program = compile_mpi_with(&prefix, "init", &format!("init-{name}-bench"))?;
        let program = program.to_str().context("path is not UTF-8")?.to_owned();
        Ok(Library { title, program, starter, by_srun })
    };
    let (mpich, openmpi) = (ready()?.prefix, openmpi::ready()?.prefix);
    let hydra = || (mpich.join("bin/mpiexec"), &[] as &[_]);
    // It serves PMIx, whoever speaks that; Hydra of this version does not.
    let mpirun = || (openmpi.join("bin/mpirun"), &["--allow-run-as-root", "--oversubscribe"] as &[_]);
    Ok(vec![
        compiled("MPICH with PMI-1", mpich.clone(), hydra(), false)?,
        compiled("MPICH with PMI-2", ready_with(Flavour::Pmi2)?.prefix, hydra(), true)?,
        compiled("MPICH with PMIx", ready_with(Flavour::Pmix)?.prefix, mpirun(), false)?,
        compiled("Open MPI", openmpi.clone(), mpirun(), false)?,
    ])
}

impl Library {
    /// From the call of `MPI_Init` to the first message, on nodes and on this host. Wall times, which move with load.
    fn to_first_message(&self, cluster: &Cluster, ranks: u32) -> Result<Figure> {
        let (n, per_node) = (ranks.to_string(), (ranks / NODES).to_string());
        let run = ["run", "--quiet", "-n", &n, "--ranks-per-node", &per_node, &self.program];
        let on_nodes = median(|| cluster.output(&run))?;
        let starter = self.starter.0.file_name().unwrap_or_default().to_string_lossy();
        let mut beside = format!("{starter} on the host, no emulation: {:.1} ms", self.on_host(&n)?);
        if self.by_srun {
            beside += &format!("; srun: {}", self.by_srun(ranks)?);
        }
        Ok(Figure {
            name: format!("MPI_Init to first message, {}, {ranks} ranks on {NODES} nodes, slowest", self.title),
            measured: format!("{on_nodes:.1} ms"),
            beside,
            wanted: "–",
        })
    }

    fn on_host(&self, ranks: &str) -> Result<f64> {
        let (program, options) = &self.starter;
        median(|| {
            let output = Command::new(program).args(*options).args(["-n", ranks, &self.program]).output()?;
            if !output.status.success() {
                bail!("{} failed: {}", program.display(), String::from_utf8_lossy(&output.stderr));
            }
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        })
    }

    /// The same under `srun`, on as many nodes that are all this host, or a word on why not.
    fn by_srun(&self, ranks: u32) -> Result<String> {
        if let Some(why) = slurm::missing() {
            return Ok(why.into());
        }
        let mut slurm = Slurm::up(NODES, ranks / NODES)?;
        Ok(format!("{:.1} ms", median(|| slurm.run(&ranks.to_string(), &self.program))?))
    }

    /// What a rank uses of a processor from its launch until it is past `MPI_Init`, ns of a node that counts
    /// instructions. What the program waits for its pages is no part of it, and they are there in the second run.
    fn to_init(&self, counted: &Cluster) -> Result<f64> {
        let run = ["run", "--quiet", &self.program];
        counted.output(&run)?;
        number(&counted.output(&run)?, "start-to-init")
    }
}

/// What a `PMIx_Get` costs that the node answers.
fn get(counted: &Cluster) -> Result<Figure> {
    let program = compile_pmix("gets")?;
    let path = program.to_str().context("path is not UTF-8")?;
    let text = counted.output(&["run", "--quiet", "-n", "2", "--ranks-per-node", "2", path])?;
    Ok(Figure {
        name: "PMIx_Get answered by the node, the library's work included, instructions".into(),
        measured: grouped(number(&text, "get-answered")? as u64),
        beside: format!("answered by the library itself: {}", grouped(number(&text, "get-kept")? as u64)),
        wanted: "–",
    })
}

/// The median of what runs after a first one print.
fn median(mut run: impl FnMut() -> Result<String>) -> Result<f64> {
    run()?;
    let mut times =
        (0..RUNS).map(|_| run().and_then(|text| number(&text, "init-to-message"))).collect::<Result<Vec<_>>>()?;
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().context("nothing was measured")
}
