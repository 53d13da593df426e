//! What pages and `top` cost with very many nodes and jobs: the tools are the real ones, and so are the controller, its
//! database and its API; nodes are simulated (`coppice-simulator served`).

mod chromium;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use self::chromium::{Chromium, Painted};
use super::{Figure, grouped};
use crate::build::Built;
use crate::command::{cargo, run, target};

/// Nodes of the largest cluster, and jobs that it remembers.
const NODES: u32 = 16_384;
const JOBS: u32 = 100_000;

/// Nodes that `top` shows.
const TOP_NODES: u32 = 512;

/// How often each page is asked for, of which the median counts.
const TIMES: usize = 5;

/// Pages that are also looked at in a browser.
const PAINTED: [(&str, &str); 3] = [PAGES[0], PAGES[1], PAGES[2]];

/// How long loads are measured.
const WATCHED: Duration = Duration::from_secs(30);

/// Until what was begun has settled.
const SETTLES: Duration = Duration::from_secs(3);

const PAGES: [(&str, &str); 7] = [
    ("the cluster", "/"),
    ("nodes by state", "/nodes"),
    ("nodes by what they hold", "/nodes?by=held"),
    ("a node", "/nodes/9999"),
    ("the newest jobs", "/jobs"),
    ("jobs in the middle", "/jobs?before=50000"),
    ("links", "/links"),
];

/// A process that ends with this, after what is read of it.
struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Running {
    /// Starts it, and waits for its first line.
    fn start(command: &mut Command) -> Result<(Self, String)> {
        let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start it")?;
        let stdout = BufReader::new(child.stdout.take().context("it has an output")?);
        let mut running = Self { child, stdout };
        let mut line = String::new();
        if running.stdout.read_line(&mut line)? == 0 {
            bail!("{command:?} said nothing");
        }
        Ok((running, line.trim_end().to_owned()))
    }

    fn processor_time(&self) -> Result<Duration> {
        processor_time(self.child.id())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a process has used so far.
fn processor_time(pid: u32) -> Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).context("it has ended")?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |place: usize| fields.get(place).and_then(|ticks| ticks.parse::<u64>().ok()).unwrap_or_default();
    Ok(Duration::from_secs(ticks(11) + ticks(12)) / u32::try_from(rustix::param::clock_ticks_per_second())?)
}

/// A simulated cluster that answers.
struct Served {
    simulator: Running,
    coppice: PathBuf,
    home: TempDir,
}

impl Served {
    fn up(built: &Built, nodes: u32, jobs: u32) -> Result<Self> {
        run(&mut cargo(&["build", "--quiet", "--release", "--package", "coppice-simulator"]))?;
        // Sockets live in there, and their paths must be short.
        let home = tempfile::Builder::new().prefix("cop").tempdir_in("/tmp")?;
        let mut simulator = Command::new(target().join("release/coppice-simulator"));
        simulator.args(["served", "--nodes", &nodes.to_string(), "--past", &jobs.to_string(), "--home"]);
        let (simulator, line) = Running::start(simulator.arg(home.path()))?;
        if line != "up" {
            bail!("the simulated cluster says {line:?}");
        }
        Ok(Self { simulator, coppice: built.coppice.clone(), home })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.coppice);
        command.args(arguments).env("COPPICE_HOME", self.home.path());
        command
    }
}

/// Pages of a cluster.
struct Dashboard {
    process: Running,
    /// What lets a browser in.
    address: String,
    host: String,
    cookie: String,
}

impl Dashboard {
    fn start(served: &Served) -> Result<Self> {
        let (process, address) = Running::start(&mut served.command(&["dashboard"]))?;
        let (host, path) = address.trim_start_matches("http://").split_once('/').context("no address")?;
        let (host, path) = (host.to_owned(), format!("/{path}"));
        let mut dashboard = Self { process, address, host, cookie: String::new() };
        let answer = dashboard.ask(&path)?;
        let cookie = answer.lines().find_map(|line| line.strip_prefix("set-cookie: ")?.split(';').next());
        dashboard.cookie = cookie.context("it lets nobody in")?.to_owned();
        Ok(dashboard)
    }

    fn open(&self, path: &str) -> Result<TcpStream> {
        let mut stream = TcpStream::connect(&self.host)?;
        let Self { host, cookie, .. } = self;
        write!(stream, "GET {path} HTTP/1.1\r\nhost: {host}\r\ncookie: {cookie}\r\nconnection: close\r\n\r\n")?;
        Ok(stream)
    }

    fn ask(&self, path: &str) -> Result<String> {
        let mut answer = String::new();
        self.open(path)?.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

/// All figures of pages and of `top`.
///
/// # Errors
/// If a measurement fails.
pub(super) fn figures(built: &Built) -> Result<Vec<Figure>> {
    let mut figures = of_pages(built)?;
    figures.push(of_top(built)?);
    Ok(figures)
}

fn ms(time: Duration) -> String {
    format!("{:.0} ms", time.as_secs_f64() * 1e3)
}

fn of_pages(built: &Built) -> Result<Vec<Figure>> {
    let served = Served::up(built, NODES, JOBS)?;
    let dashboard = Dashboard::start(&served)?;
    let peer = Instant::now();
    let listed = served.command(&["nodes", "--json"]).output()?;
    let beside = format!("`coppice nodes --json`: {}", ms(peer.elapsed()));
    if !listed.status.success() {
        bail!("`coppice nodes` failed: {}", String::from_utf8_lossy(&listed.stderr));
    }
    let mut figures = of_paint(&served, &dashboard)?;
    for (name, path) in PAGES {
        let mut times = Vec::new();
        let mut bytes = 0;
        for _ in 0..TIMES {
            let begin = Instant::now();
            let answer = dashboard.ask(path)?;
            times.push(begin.elapsed());
            bytes = answer.len() as u64;
            if !answer.starts_with("HTTP/1.1 200") {
                bail!("{path}: {}", answer.lines().next().unwrap_or_default());
            }
        }
        times.sort_unstable();
        figures.push(Figure {
            name: format!("page of {name}, {} nodes, {} jobs", grouped(NODES.into()), grouped(JOBS.into())),
            measured: format!("{}, {} bytes", ms(times[TIMES / 2]), grouped(bytes)),
            beside: beside.clone(),
            wanted: "–",
        });
    }
    for (name, path) in [("nodes", "/live/nodes"), ("the newest jobs", "/live/jobs")] {
        figures.push(of_live(&served, &dashboard, name, path)?);
    }
    Ok(figures)
}

/// How soon somebody sees a page, in a browser that has been there before.
fn of_paint(served: &Served, dashboard: &Dashboard) -> Result<Vec<Figure>> {
    let figure = |name: &str, measured: String, beside: String| Figure {
        name: format!("first paint of {name}, {} nodes, {} jobs", grouped(NODES.into()), grouped(JOBS.into())),
        measured,
        beside,
        wanted: "≤ 1 s",
    };
    if let Some(why) = chromium::missing() {
        return Ok(PAINTED.map(|(name, _)| figure(name, "–".into(), format!("chromium: {why}"))).into());
    }
    let mut chromium = Chromium::start(served.home.path())?;
    chromium.painted(&dashboard.address)?;
    let mut figures = Vec::new();
    for (name, path) in PAINTED {
        let address = format!("http://{}{path}", dashboard.host);
        let mut times = (0..TIMES).map(|_| chromium.painted(&address)).collect::<Result<Vec<Painted>>>()?;
        times.sort_unstable();
        let Painted { first, loaded } = times[TIMES / 2];
        let beside = format!("loaded: {}; slowest first paint: {}", ms(loaded), ms(times[TIMES - 1].first));
        figures.push(figure(name, ms(first), beside));
    }
    Ok(figures)
}

/// How much a page that is open has the service node and the dashboard do.
fn of_live(served: &Served, dashboard: &Dashboard, name: &str, path: &str) -> Result<Figure> {
    let watch = || -> Result<(f64, f64)> {
        sleep(SETTLES);
        let used = || Ok::<_, anyhow::Error>((served.simulator.processor_time()?, dashboard.process.processor_time()?));
        let before = used()?;
        sleep(WATCHED);
        let after = used()?;
        let share = |time: Duration| time.as_secs_f64() * 100.0 / WATCHED.as_secs_f64();
        Ok((share(after.0 - before.0), share(after.1 - before.1)))
    };
    let (without, _) = watch()?;
    let mut live = dashboard.open(path)?;
    let read = std::thread::spawn(move || std::io::copy(&mut live, &mut std::io::sink()));
    let (with, of_dashboard) = watch()?;
    if read.is_finished() {
        bail!("{path} was not live");
    }
    Ok(Figure {
        name: format!("page of {name}, {} nodes, open and live: load on the service node", grouped(NODES.into())),
        measured: format!("{:.1} % of a core", with - without),
        beside: format!("on the dashboard: {of_dashboard:.1} %; without it: {without:.1} %"),
        wanted: "≤ 1 %",
    })
}

/// What a refresh of `top` costs.
fn of_top(built: &Built) -> Result<Figure> {
    let served = Served::up(built, TOP_NODES, JOBS)?;
    let socket = served.home.path().join("tmux");
    let tmux = |arguments: &[&str]| {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(&socket).args(arguments).env("COPPICE_HOME", served.home.path());
        command
    };
    sleep(SETTLES);
    let before = served.simulator.processor_time()?;
    sleep(WATCHED);
    let without = served.simulator.processor_time()? - before;
    let coppice = served.coppice.to_str().context("path is not UTF-8")?;
    run(&mut tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "120", "-y", "50", coppice, "top"]))?;
    let measured = (|| {
        sleep(SETTLES);
        let pid = tmux(&["list-panes", "-F", "#{pane_pid}"]).output()?;
        let pid: u32 = String::from_utf8_lossy(&pid.stdout).trim().parse().context("no `top` runs")?;
        let used = || Ok::<_, anyhow::Error>((processor_time(pid)?, served.simulator.processor_time()?));
        let before = used()?;
        sleep(WATCHED);
        let after = used()?;
        Ok::<_, anyhow::Error>((after.0 - before.0, (after.1 - before.1).saturating_sub(without)))
    })();
    let _ = tmux(&["kill-server"]).output();
    let (tool, service) = measured?;
    // It looks once a second.
    let each = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3 / WATCHED.as_secs_f64());
    Ok(Figure {
        name: format!("`top`, a refresh, {TOP_NODES} nodes, {} jobs: processor time of the tool", grouped(JOBS.into())),
        measured: each(tool),
        beside: format!("of the service node: {}", each(service)),
        wanted: "≤ 10 ms each",
    })
}
