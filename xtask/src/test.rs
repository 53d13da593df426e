//! `cargo xtask test`: everything. Host tests, simulator, then clusters of real QEMU nodes; ends with one count.

mod reasons;

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;

use self::reasons::Reasons;
use crate::command::{cargo, root};
use crate::{build, file_suites, mpich, openmpi, pmix, setup, tidy};

/// What to test.
#[derive(Args)]
pub(crate) struct Options {
    /// Only tests whose name contains this
    filter: Option<String>,
    /// Leave out formatting, lints and layering
    #[arg(long)]
    no_tidy: bool,
    /// All host tests, property tests with fewer cases, and a first look at a cluster: a few minutes
    #[arg(long, conflicts_with = "filter")]
    quick: bool,
    /// Leave out the tests that need QEMU
    #[arg(long)]
    host_only: bool,
    /// Cores of each node, where a test does not say
    #[arg(long, value_name = "C", default_value_t = 2)]
    cores: u16,
}

/// Host crates whose tests need nothing but this machine.
pub(crate) const HOST_PACKAGES: &[&str] = &[
    "coppice-protocol",
    "coppice-endpoint",
    "coppice-fuzz",
    "coppice-hal",
    "coppice-core",
    "coppice-simulator",
    "coppice-api",
    "coppice-dashboard",
    "coppice-explain",
    "coppice-fabric",
    "coppice-io-node",
    "coppice-qemu",
    "coppice-service-node",
    "coppice-storage",
    "coppice-symbols",
    "coppice",
    "xtask",
];

/// Cases of each property test in a quick run.
const QUICK_CASES: &str = "24";

/// Cluster tests of a quick run: nodes boot, real programs run on them, are served, fault, end, and run again warm.
const QUICK_CLUSTER: [&str; 5] =
    ["boot::", "busybox::", "streams::", "hostile::faults_and_privileged_instructions", "retention_worked::"];

/// The test of what is built while clusters are tested; so it comes last.
const LAST: [&str; 2] =
    ["mpi_others::ranks_of_open_mpi_find_each_other", "startup::programs_of_open_mpi_come_to_the_same_in_all_ways"];

/// The lowest priority.
const NICE_MOST: i32 = 19;

/// Sum of the runner's own result lines, and why tests failed.
#[derive(Default)]
struct Count {
    passed: u64,
    failed: u64,
    ignored: u64,
    reasons: Reasons,
}

/// Runs the suite.
///
/// # Errors
/// If anything could not be set up or built, or a test failed.
pub(crate) fn run(options: &Options) -> Result<()> {
    setup::everything()?;
    if options.quick {
        return quick(options);
    }
    // Much of these builds keeps one processor busy only. They are waited for in any case: they would not end with us.
    let others = (!options.host_only).then(|| std::thread::spawn(others_sources));
    let tested = before_clusters(options)
        .inspect_err(|error| eprintln!("xtask: {error:#}\nxtask: that ends it, once what is being built is"));
    let built = others.map_or(Ok(Ok(())), std::thread::JoinHandle::join);
    let (mut count, mut failures) = tested?;
    built.map_err(|_| anyhow!("building what others wrote panicked"))??;
    if !options.host_only {
        clusters(options, &mut count, &mut failures)?;
    }
    conclude(&count, &failures)
}

/// Builds guests of the cluster tests that others wrote, and what guests are made with.
fn others_sources() -> Result<()> {
    file_suites::ready()?;
    mpich::suite::build_fast()?;
    pmix::ready().map(drop)
}

/// The tests of clusters. Meanwhile Open MPI is built, when nobody else wants a processor; what needs it comes last.
fn clusters(options: &Options, count: &mut Count, failures: &mut Vec<String>) -> Result<()> {
    let wanted = options.filter.as_ref().is_none_or(|filter| LAST.iter().any(|last| last.contains(filter)));
    let building = wanted.then(|| {
        std::thread::spawn(|| {
            // Of this thread and what it starts.
            rustix::process::nice(NICE_MOST).context("cannot wait for others")?;
            openmpi::ready().map(drop)
        })
    });
    let name = format!("cluster ({} cores a node)", options.cores);
    let tested = run_tests(cluster_tests(options), options, &name, count, failures);
    // It would not end with us.
    let built = building.map(std::thread::JoinHandle::join);
    tested?;
    match built {
        None => return Ok(()),
        Some(Ok(Ok(()))) => {}
        Some(Ok(Err(error))) => {
            failures.push(format!("building Open MPI ({error:#})"));
            return Ok(());
        }
        Some(Err(_)) => bail!("building Open MPI panicked"),
    }
    let mut last = cluster_tests(options);
    last.args(["--test", "cluster", "--", "--include-ignored", "--exact"]).args(LAST);
    run_tests(last, options, "Open MPI", count, failures)
}

/// What tells most in the shortest time: neither lints nor models nor MPICH.
fn quick(options: &Options) -> Result<()> {
    let (mut count, mut failures) = (Count::default(), Vec::new());
    let mut host = host_tests();
    host.env("PROPTEST_CASES", QUICK_CASES);
    run_tests(host, options, "host", &mut count, &mut failures)?;
    if !options.host_only {
        build::everything()?;
        let mut cluster = cluster_tests(options);
        cluster.arg("--").args(QUICK_CLUSTER);
        run_tests(cluster, options, "some cluster", &mut count, &mut failures)?;
    }
    conclude(&count, &failures)
}

fn host_tests() -> Command {
    let mut host = cargo(&["test", "--no-fail-fast"]);
    HOST_PACKAGES.iter().for_each(|package| {
        host.args(["--package", package]);
    });
    host
}

fn cluster_tests(options: &Options) -> Command {
    // Two clusters at a time at most: more only take the two cores from each other.
    let mut cluster = cargo(&["test", "--no-fail-fast", "--package", "coppice-tests"]);
    cluster.env("RUST_TEST_THREADS", "2").env("COPPICE_TEST_CORES", options.cores.to_string());
    cluster
}

/// Says how it went.
fn conclude(count: &Count, failures: &[String]) -> Result<()> {
    print!("{}", count.reasons);
    println!("\n{} passed, {} failed, {} skipped", count.passed, count.failed, count.ignored);
    if !failures.is_empty() || count.failed > 0 {
        bail!("failed: {}", failures.join(", "));
    }
    if count.passed == 0 {
        bail!("no test matched");
    }
    Ok(())
}

/// What needs neither MPICH nor OpenPMIx: tidiness, the tests of the host's crates, and building what clusters consist
/// of. Returns the count so far and what failed.
fn before_clusters(options: &Options) -> Result<(Count, Vec<String>)> {
    if !options.no_tidy {
        tidy::run()?;
    }
    let mut count = Count::default();
    let mut failures = Vec::new();

    run_tests(host_tests(), options, "host", &mut count, &mut failures)?;

    // Each call once more, while its process is held again and again.
    if options.filter.is_none() {
        let mut held = cargo(&["test", "--no-fail-fast", "--package", "coppice-core", "--lib"]);
        held.env("COPPICE_HOLD_CALLS", "1").env("PROPTEST_CASES", QUICK_CASES).arg("syscall::");
        run_tests(held, options, "held", &mut count, &mut failures)?;
    }

    // With the model checker's locks nothing but models runs.
    if options.filter.as_ref().is_none_or(|filter| filter.contains("models")) {
        let mut models =
            cargo(&["test", "--no-fail-fast", "--package", "coppice-core", "--features", "model", "--lib"]);
        if options.filter.is_none() {
            models.arg("models::");
        }
        run_tests(models, options, "model", &mut count, &mut failures)?;
    }

    if !options.host_only {
        build::everything()?;
    }
    Ok((count, failures))
}

/// Runs one `cargo test`, shows its output as it comes and adds its result lines to the count.
fn run_tests(
    mut command: Command,
    options: &Options,
    name: &str,
    count: &mut Count,
    failures: &mut Vec<String>,
) -> Result<()> {
    command.args(options.filter.as_slice()).current_dir(root()).stdout(Stdio::piped());
    eprintln!("== {name} tests");
    let mut child = command.spawn().context("cannot start cargo")?;
    let output = child.stdout.take().context("cargo has no standard output")?;
    for line in BufReader::new(output).split(b'\n') {
        let line = line.context("cannot read cargo's output")?;
        let mut out = std::io::stdout().lock();
        out.write_all(&line)?;
        out.write_all(b"\n")?;
        count.add(&String::from_utf8_lossy(&line));
    }
    if !child.wait()?.success() {
        failures.push(format!("{name} tests"));
    }
    Ok(())
}

impl Count {
    /// Adds a line such as `test result: ok. 3 passed; 0 failed; 1 ignored; …`; other lines change nothing.
    fn add(&mut self, line: &str) {
        self.reasons.add(line);
        let Some(result) = line.strip_prefix("test result: ") else {
            return;
        };
        let number_before = |word: &str| {
            result
                .split([';', '.'])
                .find_map(|part| part.trim().strip_suffix(word))
                .and_then(|number| number.trim().parse::<u64>().ok())
                .unwrap_or(0)
        };
        self.passed += number_before("passed");
        self.failed += number_before("failed");
        self.ignored += number_before("ignored");
    }
}

#[cfg(test)]
mod tests {
    use super::Count;

    #[test]
    fn adds_up_result_lines() {
        let mut count = Count::default();
        count.add("running 3 tests");
        count.add("test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s");
        count.add("test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 9 filtered out; finished in 1.50s");
        assert_eq!((count.passed, count.failed, count.ignored), (7, 2, 1));
    }
}
