//! The project's only build script: `cargo xtask --help`.
//!
//! | command | module |
//! | --- | --- |
//! | `setup` – install what this machine lacks | [`setup`] |
//! | `build` – node image and host tools | [`build`] |
//! | `demo` – boot four nodes and run a real program | [`demo`] |
//! | `mpich` – a static MPICH for programs that run on nodes | [`mpich`] |
//! | `mpi-suite` – MPICH's own tests on nodes | [`mpich::suite`] |
//! | `file-suites` – programs that others have published to try file systems with | [`file_suites`] |
//! | `sqlite-suite` – SQLite's own tests on a node | [`sqlite_suite`] |
//! | `openmpi` – a static Open MPI for programs that run on nodes | [`openmpi`] |
//! | `pmix` – the static OpenPMIx below it, and its own tests | [`pmix`] |
//! | `test` – everything CI runs | [`test`] |
//! | `simulate` – whole clusters in a simulated world, from seeds | [`simulate`] |
//! | `mutants` – faults put back on purpose, and how soon the simulated world finds them | [`mutants`] |
//! | `soak` – what the suite tries, with fresh seeds and for long | [`soak`] |
//! | `bench` – figures, each beside what it is compared to | [`bench`] |
//! | `figures` – the pictures in docs/figures that have a source | [`figures`] |
//! | `linux-table` – the table of calls in docs/linux.md | [`document`] |
//! | `openapi` – docs/openapi.json | [`document`] |
//! | `tidy` – formatting, lints, layering, sizes | [`tidy`] |

mod bench;
mod build;
mod command;
mod debian;
mod demo;
mod document;
mod figures;
mod file_suites;
mod guard;
mod mpich;
mod mutants;
mod openmpi;
mod pmix;
mod prometheus;
mod recipe;
mod setup;
mod simulate;
mod soak;
mod sqlite_suite;
mod test;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Builds, shows, tests and measures Coppice.
#[derive(Parser)]
#[command(name = "cargo xtask", version)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install what this machine lacks: rustup targets and, when root, Debian packages
    Setup,
    /// Build the node's boot image and the host tools into target/release
    Build,
    /// Set up, build, boot 4 nodes and run a real program on them
    Demo,
    /// Build a static MPICH for programs that run on nodes, in target/mpich or, with --pmi, beside it
    Mpich(mpich::Options),
    /// Run MPICH's own tests of messages, collective operations and files on nodes
    MpiSuite(mpich::suite::Options),
    /// Build a static Open MPI for programs that run on nodes, in target/openmpi
    Openmpi,
    /// Build a static OpenPMIx in target/pmix, and its own tests in target/pmix-tests
    Pmix,
    /// Build programs that others have published to try file systems with, in target/file-suites
    FileSuites,
    /// Run SQLite's own tests on a node and on this host, and compare what fails
    SqliteSuite(sqlite_suite::Options),
    /// Set up, build, and run the whole test suite
    Test(test::Options),
    /// Simulate whole clusters among faults, from seeds: service node, I/O nodes and nodes, the real code
    Simulate(simulate::Options),
    /// Put faults back on purpose, and see how soon the simulated clusters show each
    Mutants(mutants::Options),
    /// Try what the suite tries with fresh seeds, for long
    Soak(soak::Options),
    /// Measure; prints each figure with what it is compared to
    Bench(bench::Options),
    /// Draw the pictures in docs/figures that have a source in the tree
    Figures,
    /// Write the table of system calls in docs/linux.md anew, from the code
    LinuxTable,
    /// Write docs/openapi.json anew, the description of the service node's API, from the code
    Openapi,
    /// Check formatting, lints, dependency arrows and file sizes
    Tidy,
}

fn main() -> ExitCode {
    coppice_qemu::tether::intercept();
    match run(Arguments::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> anyhow::Result<()> {
    match task {
        Task::Setup => setup::everything(),
        Task::Build => setup::for_build().and_then(|()| build::everything()).map(drop),
        Task::Demo => demo::run_all(),
        Task::Mpich(options) => setup::for_mpich().and_then(|()| mpich::run(&options)),
        Task::MpiSuite(options) => mpich::suite::run(&options),
        Task::Openmpi => setup::for_openmpi().and_then(|()| openmpi::run()),
        Task::Pmix => setup::for_openmpi().and_then(|()| pmix::run()),
        Task::FileSuites => setup::for_build().and_then(|()| file_suites::ready()),
        Task::SqliteSuite(options) => sqlite_suite::run(&options),
        Task::Test(options) => test::run(&options),
        Task::Simulate(options) => simulate::run(&options),
        Task::Mutants(options) => mutants::run(&options),
        Task::Soak(options) => soak::run(&options),
        Task::Bench(options) => bench::run(&options),
        Task::Figures => figures::run(),
        Task::LinuxTable => document::linux_table(),
        Task::Openapi => document::openapi(),
        Task::Tidy => tidy::run(),
    }
}
