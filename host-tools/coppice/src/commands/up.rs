//! `coppice up`: starts the service node and waits until every node is ready.

use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, anyhow, bail};
use coppice_api::cluster::{ClusterState, ClusterView, StartReport};
use coppice_api::limits::{NODE_REGION_MEMORIES_DEFAULT, REPORT_BYTES_MAX};
use coppice_api::{Client, counted, in_one_line, shown};
use futures_util::StreamExt;
use rustix::process::{Pid, Signal};
use tokio::process::{Child, Command};
use tokio::signal::unix::{self, SignalKind};
use tokio_util::codec::{FramedRead, LinesCodec};

use super::{down, metrics};
use crate::arguments::Up;
use crate::failure::say;
use crate::progress;
use crate::show::print;

/// The service node's program, beside this one.
const SERVICE_NODE: &str = "coppiced";

/// Exit status of a command that is left before all of it is done, as shells have it for SIGINT.
const EXIT_INTERRUPTED: u8 = 130;

pub(crate) async fn up(client: &Client, up: &Up) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    // From here on, so that there is no moment at which a Ctrl-C leaves half a cluster.
    let mut interrupts = Interrupts::new()?;
    let mut service_node = start(client, up)?;
    let came_up = async {
        wait_for_report(client, &mut service_node).await?;
        wait_until_ready(client, up.nodes).await
    };
    let came_up = tokio::select! {
        came_up = came_up => came_up,
        () = interrupts.next() => Err(anyhow!("interrupted; the cluster is down again")),
    };
    let view = match came_up {
        Ok(view) => view,
        Err(error) => {
            // Half a cluster is of no use to anybody.
            let ended = tokio::select! {
                ended = end(client, &mut service_node) => ended,
                () = interrupts.next() => {
                    say("left while the cluster goes down; `coppice down` waits for it");
                    return Ok(ExitCode::from(EXIT_INTERRUPTED));
                }
            };
            return match ended {
                Ok(()) => Err(error),
                Err(second) => Err(anyhow!(
                    "{error}; and then: {second}",
                    error = in_one_line(error.as_ref()),
                    second = in_one_line(second.as_ref())
                )),
            };
        }
    };
    print(&format!(
        "cluster '{}' is up: {} of {}{} under {}, ready after {:.1} s{}\n",
        view.name,
        counted(view.nodes, "node"),
        counted(view.cores, "core"),
        memory(&view),
        view.accelerator.as_deref().unwrap_or("an unknown accelerator"),
        started.elapsed().as_secs_f64(),
        metrics::url(&view).map(|url| format!(", metrics at {url}")).unwrap_or_default()
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// What nodes have beside cores.
fn memory(view: &ClusterView) -> String {
    let mib = view.memory_bytes >> 20;
    match view.region_bytes >> 20 {
        0 => format!(" and {mib} MiB"),
        region => format!(", {mib} MiB and a region of {region} MiB"),
    }
}

/// Ends a service node that we have started, whatever it is doing: it may not listen yet, or have ended.
async fn end(client: &Client, service_node: &mut Child) -> anyhow::Result<()> {
    let process = service_node.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    if let Some(process) = process {
        // If it has ended meanwhile there is nothing to end.
        let _ = rustix::process::kill_process(process, Signal::TERM);
    }
    let ended = tokio::time::timeout(down::DOWN_TIME_MAX, service_node.wait()).await;
    match (ended, process) {
        (Err(_), Some(process)) => Err(down::does_not_end(process.as_raw_pid())),
        _ => down::remove_remains(client),
    }
}

/// What asks a command to end, from when this is made.
struct Interrupts([unix::Signal; 3]);

impl Interrupts {
    fn new() -> anyhow::Result<Self> {
        let [interrupt, terminate, hang_up] =
            [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(unix::signal);
        Ok(Self([interrupt?, terminate?, hang_up?]))
    }

    /// The next one. Cancel-safe.
    async fn next(&mut self) {
        let Self([interrupt, terminate, hang_up]) = self;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hang_up.recv() => {}
        }
    }
}

fn start(client: &Client, up: &Up) -> anyhow::Result<Child> {
    let own = std::env::current_exe().context("cannot find the directory of this program")?;
    let program: PathBuf = own.with_file_name(SERVICE_NODE);
    let mut command = Command::new(&program);
    command
        .args(["--cluster", client.paths().name().as_str()])
        .args(["--nodes", &up.nodes.to_string()])
        .args(["--cores", &up.cores.to_string()])
        .args(["--memory-bytes", &up.memory.to_string()])
        .args(["--nmr-bytes", &up.nmr.unwrap_or(up.memory * NODE_REGION_MEMORIES_DEFAULT).to_string()])
        .args(["--pset-size", &up.pset_size.to_string()])
        .args(["--accel", up.accel.as_str()])
        .args(["--retention", up.retention.as_str()])
        .args(["--freeze-every-ns", &up.freeze_every.map_or(0, |every| every.as_nanos()).to_string()])
        .args(["--loss-ppm", &up.loss.to_string()])
        .args(["--latency-ns", &up.latency.as_nanos().to_string()]);
    if up.icount {
        command.arg("--icount");
    }
    if let Some(processor) = &up.cpu {
        command.args(["--cpu", &processor.to_string()]);
    }
    if let Some(directory) = &up.storage {
        // It is started in another one.
        let directory = std::path::absolute(directory).context("cannot find the working directory")?;
        command.arg("--storage").arg(directory);
    }
    if let Some(port) = up.metrics_port {
        command.args(["--metrics-port", &port.to_string()]);
    }
    if let Some(bandwidth) = up.bandwidth {
        command.args(["--bandwidth-bits-per-s", &bandwidth.to_string()]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    // Not in the way of somebody who wants to unmount or remove this directory.
    command.current_dir("/");
    command.spawn().with_context(|| format!("cannot start {}; build it with `cargo xtask build`", shown(&program)))
}

/// Reads the one line that the service node prints.
async fn wait_for_report(client: &Client, service_node: &mut Child) -> anyhow::Result<()> {
    let output = service_node.stdout.take().context("cannot hear coppiced")?;
    let mut lines = FramedRead::new(output, LinesCodec::new_with_max_length(REPORT_BYTES_MAX));
    let line = lines.next().await.transpose().context("cannot hear coppiced")?;
    match serde_json::from_str(&line.unwrap_or_default()) {
        Ok(StartReport::Listening) => Ok(()),
        Ok(StartReport::Failed(reason)) => {
            let _ = service_node.wait().await;
            Err(anyhow!(reason))
        }
        Err(_) => {
            let status = service_node.wait().await.context("cannot see the end of coppiced")?;
            Err(anyhow!("coppiced ended with {status}; {} may say why", shown(&client.paths().log())))
        }
    }
}

async fn wait_until_ready(client: &Client, nodes: u32) -> anyhow::Result<ClusterView> {
    let bar = progress::bar(nodes.into(), "booting nodes".to_owned());
    let mut watch = client.watch().await?;
    while let Some(view) = watch.next_state().await? {
        bar.set_position(view.nodes_ready.into());
        match view.state {
            ClusterState::Up => {
                bar.finish_and_clear();
                return Ok(view);
            }
            ClusterState::Failed => {
                bar.finish_and_clear();
                bail!(view.failure.unwrap_or_else(|| "the cluster cannot come up".to_owned()));
            }
            ClusterState::Stopping => break,
            ClusterState::Starting => {}
        }
    }
    bail!("somebody ended the cluster while it came up")
}
