//! `coppiced` as a process: one per cluster, detached from whoever started it.

mod claim;
mod unplanned;

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, anyhow, bail};
use coppice_api::cluster::StartReport;
use coppice_api::descriptors::{Extent, boots_at_once, hard_limit};
use coppice_api::link::LinkShape;
use coppice_api::paths::ClusterPaths;
use coppice_api::{in_one_line, shown};
use coppice_protocol::pset;
use coppice_qemu::launch::Launcher;
use coppice_qemu::locate::find_qemu;
use coppice_qemu::tether::Tether;
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tracing_subscriber::EnvFilter;

use self::claim::Claim;
use crate::checkpoints;
use crate::connections::{Connections, within};
use crate::controller::{Config, Controller, Event, Now, Request};
use crate::database::{Database, DatabaseError};
use crate::http::{Api, Around};
use crate::limits::{EVENTS_MAX, METRICS_CONNECTIONS_MAX, METRICS_TIME_MAX};
use crate::metrics::server;
use crate::options::Options;
use crate::processes::{Processes, Programs, Setup};
use crate::records::{Records, Storage};
use crate::store::ProgramStore;
use crate::time::Clock;

/// What nodes boot, beside the programs.
const IMAGE: &str = "coppice-node.elf";

/// Runs a cluster until it is down. The first line of standard output is a [`StartReport`].
///
/// # Errors
/// If the cluster cannot be started; it was reported, too.
pub fn run(options: &Options) -> anyhow::Result<()> {
    // Fails if this process leads a group already: then it was started by hand, and stays where it is.
    let _ = rustix::process::setsid();
    let paths = ClusterPaths::find(options.cluster.clone()).and_then(|paths| paths.create().map(|()| paths));
    let result = paths.map_err(anyhow::Error::from).and_then(|paths| {
        let claim = Claim::take(&paths)?;
        let result = serve(options, &paths, &claim);
        let removed = paths.remove_runtime();
        claim.give_up(&paths);
        result.and(removed.map_err(anyhow::Error::from))
    });
    if let Err(error) = &result {
        let reason = in_one_line(error.as_ref());
        tracing::error!(reason, "ends");
        report(&StartReport::Failed(reason));
    }
    result
}

fn serve(options: &Options, paths: &ClusterPaths, claim: &Claim) -> anyhow::Result<()> {
    // What a service node that was killed has left; nobody uses it, as we have the lock.
    paths.remove_runtime()?;
    paths.create()?;
    start_log(&paths.log())?;
    let connections = Connections::new(raise_descriptor_limit(Extent::here(options.nodes, options.pset_size))?);
    let programs = find_programs()?;
    let named = |path: &Path| shown(path).to_string();
    let database = Database::open(&paths.database()).with_context(|| named(&paths.database()))?;
    let records = Records::with_reserve(Box::new(database), &paths.reserve()).map_err(|error| {
        let path = if matches!(error, DatabaseError::Reserve(_)) { paths.reserve() } else { paths.database() };
        anyhow::Error::from(error).context(named(&path))
    })?;
    unplanned::tell_of_panics(paths.reserve());
    let store = ProgramStore::open(paths.programs()).with_context(|| shown(&paths.programs()).to_string())?;
    let checkpoints = checkpoints::open(options.storage.clone().unwrap_or_else(|| paths.checkpoints()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut storage = runtime.block_on(async {
        let setup = Setup {
            paths: paths.clone(),
            programs,
            accelerator: options.accel,
            nodes: options.nodes,
            pset_size: options.pset_size,
            cores: options.cores,
            memory_bytes: options.memory_bytes,
            region_bytes: options.region_bytes(),
            processor: options.cpu.clone(),
            icount: options.icount,
            storage: checkpoints.path().to_owned(),
        };
        let config = Config {
            paths: paths.clone(),
            nodes: options.nodes,
            cores: options.cores.into(),
            memory_bytes: options.memory_bytes,
            region_bytes: options.region_bytes(),
            pset_size: options.pset_size,
            retention: options.retention.into(),
            freeze_every_ns: options.freeze_every_ns,
            host_cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            boots_max: boots_at_once(),
            link: LinkShape {
                bandwidth_bits_per_s: options.bandwidth_bits_per_s,
                latency_ns: options.latency_ns,
                loss_ppm: options.loss_ppm,
                cut: false,
            },
        };
        let (events, queue) = mpsc::channel(EVENTS_MAX);
        let scraped = match options.metrics_port {
            Some(port) => Some(server::listen(port).await.map_err(anyhow::Error::msg)?),
            None => None,
        };
        let listener = listen(&paths.api_socket())?;
        claim.be_found()?;
        let (orders, to_be_done) = mpsc::unbounded_channel();
        let plant = Processes::new(setup, store.clone(), events.clone(), orders);
        let kept = plant.kept();
        let clock = Clock::new();
        let mut controller = Controller::new(config, records, store.clone(), plant, now(&clock))
            .with_context(|| named(&paths.database()))?;
        if let Some(socket) = &scraped {
            controller.metrics_at(socket.local_addr()?.port());
        }
        tracing::info!(?options, version = env!("CARGO_PKG_VERSION"), pset = pset::VERSION, "up");
        report(&StartReport::Listening);
        let scrapers = scraped.is_some().then(|| Connections::new(METRICS_CONNECTIONS_MAX));
        let around = Around { kept, scrapers: scrapers.clone() };
        let api = Api::new(events, store, connections.clone(), checkpoints).around(around);
        tokio::spawn(api.clone().carry_out(to_be_done));
        if let (Some(socket), Some(scrapers)) = (scraped, scrapers) {
            tokio::spawn(server::serve(socket, scrapers, METRICS_TIME_MAX, api.clone()));
        }
        let router = api.router();
        tokio::spawn(async move { axum::serve(connections.bound(listener), router).await });
        control(controller, queue, clock).await.inspect_err(|error| unplanned::tell(&paths.reserve(), error))
    })?;
    // Connections that are still open end with the process.
    runtime.shutdown_background();
    storage.finish()?;
    tracing::info!("down");
    Ok(())
}

/// Feeds the controller until everything is gone.
async fn control(
    mut controller: Controller<Processes>,
    mut queue: mpsc::Receiver<Event>,
    mut clock: Clock,
) -> anyhow::Result<Box<dyn Storage>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    controller.start(now(&clock));
    while !controller.is_down() {
        // Never while the time of a job is counted.
        if controller.is_idle() {
            clock = Clock::new();
        }
        let deadline = controller.deadline();
        let due = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(event) = queue.recv() => controller.handle(event, now(&clock)),
            () = due => controller.advance(now(&clock)),
            _ = terminate.recv() => controller.handle(Event::Request(Request::Down), now(&clock)),
            _ = interrupt.recv() => controller.handle(Event::Request(Request::Down), now(&clock)),
        }
    }
    Ok(controller.into_storage(now(&clock)))
}

fn now(clock: &Clock) -> Now {
    let instant = Instant::now();
    Now { instant, realtime_ns: clock.realtime_ns(instant) }
}

fn start_log(path: &Path) -> anyhow::Result<()> {
    crate::processes::put_aside(path);
    let log = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
    let log = log.with_context(|| shown(path).to_string())?;
    let filter = EnvFilter::try_from_env("COPPICE_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let errors = log.try_clone()?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        // What cannot be written is lost: nothing depends on it. Nor is that said on standard error, which is this log.
        .log_internal_errors(false)
        .with_writer(log)
        .try_init()
        .map_err(|error| anyhow!("cannot log: {error}"))?;
    // A panic is written to standard error; that, too, belongs into the log.
    rustix::stdio::dup2_stderr(errors)?;
    Ok(())
}

/// Makes room for the files that the cluster opens; its other processes inherit the limit. Returns the connections of
/// the API that there is room for then.
fn raise_descriptor_limit(cluster: Extent) -> anyhow::Result<usize> {
    let hard = hard_limit();
    if let Some(reason) = cluster.refused_by(hard) {
        bail!(reason);
    }
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).with_context(|| format!("cannot raise the limit of open files to {hard}"))?;
    Ok(within(hard, cluster))
}

/// QEMU from the search path, the rest beside this program.
fn find_programs() -> anyhow::Result<Programs> {
    let qemu = find_qemu()?;
    let own = std::env::current_exe().context("cannot find this program's own directory")?;
    let beside = |name: &str| -> anyhow::Result<PathBuf> {
        let path = own.with_file_name(name);
        if path.is_file() {
            return Ok(path);
        }
        Err(anyhow!("{} is missing; build it with `cargo xtask build`", shown(&path)))
    };
    Ok(Programs {
        launcher: Launcher { qemu, tether: Tether::Own },
        image: beside(IMAGE)?,
        fabric: beside("coppice-fabric")?,
        io_node: beside("coppice-io-node")?,
    })
}

fn listen(socket: &Path) -> anyhow::Result<UnixListener> {
    let listener = UnixListener::bind(socket).with_context(|| shown(socket).to_string())?;
    // The directory is closed to others already; this says so once more.
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Says what is wrong with our arguments to whoever gave them: `up`, which reads reports, or a person.
pub fn refuse_usage(error: &clap::Error) {
    let text = error.to_string();
    let gist: Vec<&str> = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:")).collect();
    report(&StartReport::Failed(format!("coppiced does not take what it was told: {}", gist.join(" ").trim())));
    let _ = error.print();
}

/// Tells whoever started us, once; standard output is closed then, so that nobody waits for more.
fn report(report: &StartReport) {
    let mut line = serde_json::to_vec(report).unwrap_or_default();
    line.push(b'\n');
    let mut output = io::stdout();
    // Whoever started us may be gone; then the cluster is up all the same.
    let _ = output.write_all(&line).and_then(|()| output.flush());
    if let Ok(null) = OpenOptions::new().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stdin(&null);
    }
}
