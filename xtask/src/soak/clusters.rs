//! Tests of whole clusters that go on for as long as they are told, or take a seed.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::child::{self, Ended};
use super::{Came, Part, Turn};
use crate::command::cargo;

/// A test that is run with fresh seeds.
struct Kind {
    name: &'static str,
    unit: &'static str,
    /// What the test's full name contains.
    test: &'static str,
    /// It goes on for `COPPICE_SECONDS`; else it takes about so many.
    endless: bool,
    seconds: u64,
    /// What else it is told.
    environment: &'static [(&'static str, &'static str)],
}

/// The unit of tests that do one thing, and say nothing of how much that is.
const RUNS: &str = "runs";

/// All of them. The output of one that has a unit of its own says how much it tried, in a line such as
/// `123 programs in …`.
const KINDS: &[Kind] = &[
    Kind { unit: "programs", endless: true, ..Kind::new("objects", "objects::random_objects", 20) },
    Kind::new("calls", "hostile::random_system_calls", 20),
    Kind {
        unit: "answers",
        environment: &[("COPPICE_CALLS", "20000")],
        ..Kind::new("likeness", "likeness::random_calls", 60)
    },
    Kind { unit: "seeds", endless: true, ..Kind::new("files", "leases::what_one_rank", 60) },
    Kind { unit: "seeds", endless: true, ..Kind::new("fsx", "fsx::a_program", 60) },
    Kind::new("threads", "threads_endurance::", 90),
    Kind::new("retention", "retention_endurance::", 90),
    Kind { unit: "faults", endless: true, ..Kind::new("storm", "storm::", 60) },
    Kind { environment: &[("COPPICE_MOMENTS", "20")], ..Kind::new("verbs", "verbs::", 120) },
    Kind::new("writes", "every_write::", 120),
    Kind {
        environment: &[("COPPICE_STAGED_MIB", "64"), ("COPPICE_MOMENTS", "10")],
        ..Kind::new("staging", "staging_scale::", 1800)
    },
    Kind {
        unit: "moments",
        endless: true,
        environment: &[("COPPICE_MOMENTS", "10")],
        ..Kind::new("checkpoints", "killed::moments::", 300)
    },
    Kind { environment: &[("COPPICE_MOMENTS", "1")], ..Kind::new("kills", "killed::steps::", 900) },
    Kind { environment: &[("COPPICE_MOMENTS", "1")], ..Kind::new("starts", "starts::", 400) },
    Kind { unit: "programs", endless: true, ..Kind::new("mpich", "killed::suite::", 300) },
];

impl Kind {
    /// One that does one thing, in about so many seconds.
    const fn new(name: &'static str, test: &'static str, seconds: u64) -> Self {
        Self { name, unit: RUNS, test, endless: false, seconds, environment: &[] }
    }
}

/// What a test may take longer than it says: the machine may be busy with something else.
const PATIENCE: Duration = Duration::from_secs(1200);

/// One of them, built.
pub(super) struct Clusters {
    kind: &'static Kind,
    program: PathBuf,
}

/// Builds the cluster tests.
///
/// # Errors
/// If they do not build.
pub(super) fn parts() -> Result<Vec<Clusters>> {
    let mut command = cargo(&["test", "--no-run", "--package", "coppice-tests", "--test", "cluster"]);
    command.arg("--message-format=json-render-diagnostics").stderr(Stdio::inherit());
    let output = command.output().context("cannot start cargo")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let program = messages.filter_map(|message| message["executable"].as_str().map(PathBuf::from)).next_back();
    let Some(program) = program.filter(|_| output.status.success()) else { bail!("the cluster tests do not build") };
    Ok(KINDS.iter().map(|kind| Clusters { kind, program: program.clone() }).collect())
}

impl Part for Clusters {
    fn name(&self) -> &'static str {
        self.kind.name
    }

    fn unit(&self) -> &'static str {
        self.kind.unit
    }

    fn needs(&self) -> Duration {
        Duration::from_secs(self.kind.seconds)
    }

    fn take(&mut self, turn: &Turn<'_>) -> Result<Came> {
        let mut came = Came::default();
        let seconds = turn.end.saturating_duration_since(Instant::now()).as_secs().max(1);
        let mut command = std::process::Command::new(&self.program);
        command.args([self.kind.test, "--nocapture", "--include-ignored", "--test-threads=1"]);
        command.env("COPPICE_SEED", turn.seed.to_string()).env("COPPICE_TEST_CORES", "2");
        command.envs(self.kind.environment.iter().copied());
        if self.kind.endless {
            command.env("COPPICE_SECONDS", seconds.to_string());
        }
        let limit = Duration::from_secs(seconds) + PATIENCE;
        let ran = child::run(command, &format!("{}-{}", self.kind.name, turn.seed), limit, turn)?;
        let of_line = |line: &str| {
            let mut words = line.split_whitespace();
            let count = words.next()?.parse::<u64>().ok()?;
            (words.next()? == self.kind.unit).then_some(count)
        };
        match ran.ended {
            Ended::Well if self.kind.unit == RUNS => came.tried = 1,
            Ended::Well => came.tried = ran.text.lines().filter_map(of_line).sum(),
            Ended::Interrupted => {}
            Ended::Badly | Ended::Late => {
                came.tried = ran.text.lines().filter_map(of_line).sum();
                let told = |(name, value): &(&str, &str)| format!("{name}={value} ");
                let environment: String = self.kind.environment.iter().map(told).collect();
                came.found.push(format!(
                    "{test}: COPPICE_SEED={seed} {environment}cargo test -p coppice-tests --test cluster {test}; \
                     log: {log}{tail}",
                    test = self.kind.test,
                    seed = turn.seed,
                    log = ran.log.display(),
                    tail = ran.tail()
                ));
            }
        }
        Ok(came)
    }
}
