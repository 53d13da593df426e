//! All property tests, one after the other, with as many cases as fit into a few seconds. Their seeds are fresh in
//! every run; one that fails is kept beside the sources by the test itself, and tried first from then on.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::child::{self, Ended};
use super::{Came, Part, Turn};
use crate::command::{cargo, root};
use crate::test::HOST_PACKAGES;

/// Cases that a property is tried with first; then as many as take about [`AIM`].
const CASES_FIRST: u32 = 16;
const CASES_MAX: u32 = 1 << 20;
const AIM: Duration = Duration::from_secs(8);
/// Longest one run of one property may take, shrinking included.
const LIMIT: Duration = Duration::from_secs(900);

/// One property test.
struct Property {
    package: String,
    /// The program it is in.
    program: PathBuf,
    /// Its directory, in which it is run as cargo does.
    directory: PathBuf,
    /// Its full name.
    name: String,
    /// Cases that take about as long as they should.
    cases: u32,
}

/// All of them.
pub(super) struct Properties {
    all: Vec<Property>,
    next: usize,
}

impl Properties {
    /// Builds the tests of the host's crates and looks for the properties among them.
    ///
    /// # Errors
    /// If they do not build.
    pub(super) fn build() -> Result<Self> {
        let mut command = cargo(&["test", "--no-run", "--message-format=json-render-diagnostics"]);
        HOST_PACKAGES.iter().for_each(|package| {
            command.args(["--package", package]);
        });
        let output = command.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
        if !output.status.success() {
            bail!("the host's tests do not build");
        }
        let names = names()?;
        let mut all = Vec::new();
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let Ok(message) = serde_json::from_str::<Value>(line) else { continue };
            let (Some(program), true) = (message["executable"].as_str(), message["profile"]["test"] == true) else {
                continue;
            };
            let manifest = PathBuf::from(message["manifest_path"].as_str().unwrap_or_default());
            let directory = manifest.parent().map(PathBuf::from).unwrap_or_default();
            let Some(names) = names.get(&directory) else { continue };
            let package = directory.strip_prefix(root()).unwrap_or(&directory).display().to_string();
            let listed = Command::new(program).args(["--list", "--format=terse"]).output()?;
            for test in String::from_utf8_lossy(&listed.stdout).lines().filter_map(|line| line.strip_suffix(": test")) {
                let last = test.rsplit("::").next().unwrap_or(test);
                if names.iter().any(|name| name == last) {
                    let (program, directory) = (PathBuf::from(program), directory.clone());
                    let (package, name) = (package.clone(), test.to_owned());
                    all.push(Property { package, program, directory, name, cases: CASES_FIRST });
                }
            }
        }
        if all.is_empty() {
            bail!("there are no property tests");
        }
        Ok(Self { all, next: 0 })
    }
}

/// Names of the functions in blocks of properties, by the crate's directory.
fn names() -> Result<BTreeMap<PathBuf, Vec<String>>> {
    let listed = crate::command::output(&mut crate::command::command("git", &["ls-files", "*.rs"]))?;
    let mut names: BTreeMap<PathBuf, Vec<String>> = BTreeMap::new();
    for path in listed.lines().map(|name| root().join(name)) {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let Some(crate_of) = path.ancestors().skip(1).find(|directory| directory.join("Cargo.toml").exists()) else {
            continue;
        };
        names.entry(crate_of.to_path_buf()).or_default().extend(names_in(&text));
    }
    Ok(names)
}

/// Names of the tests in a text's blocks of properties.
fn names_in(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        // A block may be in a module, whose other tests it does no harm to take for properties.
        inside = (inside || line.trim() == "proptest! {") && line != "}";
        let function = line.trim_start().strip_prefix("fn ").filter(|_| inside);
        names.extend(function.and_then(|rest| rest.split('(').next()).map(str::to_owned));
    }
    names
}

impl Part for Properties {
    fn name(&self) -> &'static str {
        "properties"
    }

    fn unit(&self) -> &'static str {
        "cases"
    }

    fn needs(&self) -> Duration {
        AIM
    }

    fn take(&mut self, turn: &Turn<'_>) -> Result<Came> {
        let mut came = Came::default();
        while Instant::now() < turn.end && !turn.watch.is_interrupted() {
            let at = self.next % self.all.len();
            self.next += 1;
            let property = &mut self.all[at];
            let mut command = Command::new(&property.program);
            command.args(["--exact", &property.name]).env("PROPTEST_CASES", property.cases.to_string());
            // As cargo runs it: what was found before is looked for from there.
            command.env("CARGO_MANIFEST_DIR", &property.directory).env("PROPTEST_MAX_SHRINK_TIME", "300000");
            let name = format!("property-{}", property.name.replace("::", "-"));
            let start = Instant::now();
            let ran = child::run(command, &name, LIMIT, turn)?;
            match ran.ended {
                Ended::Well => {
                    came.tried += u64::from(property.cases);
                    let faster = AIM.as_secs_f64() / start.elapsed().as_secs_f64().max(0.05);
                    let cases = (f64::from(property.cases) * faster.min(16.0)) as u32;
                    property.cases = cases.clamp(CASES_FIRST.min(property.cases), CASES_MAX);
                }
                Ended::Interrupted => break,
                Ended::Badly | Ended::Late => came.found.push(format!(
                    "{}: PROPTEST_CASES={} cargo test --manifest-path {}/Cargo.toml {}; log: {}{}",
                    property.name,
                    property.cases,
                    property.package,
                    property.name,
                    ran.log.display(),
                    ran.tail()
                )),
            }
        }
        Ok(came)
    }
}

#[cfg(test)]
mod tests {
    use super::names_in;

    #[test]
    fn properties_are_found_by_their_blocks() {
        let text = "fn helper() {}\n\nproptest! {\n    #[test]\n    fn first(a in 0..3) {\n    }\n\n    #[test]\n    \
                    fn second(\n    ) {}\n}\n\n#[test]\nfn plain() {}\n";
        assert_eq!(names_in(text), ["first", "second"]);
    }
}
