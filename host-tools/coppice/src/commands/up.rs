//! `coppice up`: starts the service node and waits until every node is ready.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, anyhow, bail};
use coppice_api::Client;
use coppice_api::cluster::{ClusterState, ClusterView, StartReport};

use super::down;
use crate::arguments::Up;
use crate::progress;
use crate::show::print;
use crate::units::counted;

/// The service node's program, beside this one.
const SERVICE_NODE: &str = "coppiced";

pub(crate) async fn up(client: &Client, up: &Up) -> anyhow::Result<()> {
    let started = Instant::now();
    let mut service_node = start(client, up)?;
    wait_for_report(client, &mut service_node)?;
    let waited = tokio::select! {
        waited = wait_until_ready(client, up.nodes) => waited,
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            Err(anyhow!("interrupted"))
        }
    };
    let view = match waited {
        Ok(view) => view,
        Err(error) => {
            // Half a cluster is of no use to anybody.
            let ended = down::end(client).await;
            let _ = service_node.wait();
            return match ended {
                Ok(()) => Err(error),
                Err(second) => Err(anyhow!("{error:#}; and then: {second:#}")),
            };
        }
    };
    let plural = if view.nodes == 1 { "" } else { "s" };
    print(&format!(
        "cluster '{}' is up: {} node{plural} of {} and {} MiB under {}, ready after {:.1} s\n",
        view.name,
        view.nodes,
        counted(view.cores.into(), "core"),
        view.memory_bytes >> 20,
        view.accelerator.as_deref().unwrap_or("an unknown accelerator"),
        started.elapsed().as_secs_f64()
    ))
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
        .args(["--pset-size", &up.pset_size.to_string()])
        .args(["--accel", up.accel.as_str()])
        .args(["--retention", up.retention.as_str()])
        .args(["--loss-ppm", &up.loss.to_string()])
        .args(["--latency-ns", &up.latency.as_nanos().to_string()]);
    if up.icount {
        command.arg("--icount");
    }
    if let Some(processor) = &up.cpu {
        command.args(["--cpu", &processor.to_string()]);
    }
    if let Some(bandwidth) = up.bandwidth {
        command.args(["--bandwidth-bits-per-s", &bandwidth.to_string()]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    // Not in the way of somebody who wants to unmount or remove this directory.
    command.current_dir("/");
    command.spawn().with_context(|| format!("cannot start {}; build it with `cargo xtask build`", program.display()))
}

/// Reads the one line that the service node prints.
fn wait_for_report(client: &Client, service_node: &mut Child) -> anyhow::Result<()> {
    let mut line = String::new();
    if let Some(output) = service_node.stdout.take() {
        BufReader::new(output).read_line(&mut line).context("cannot hear coppiced")?;
    }
    match serde_json::from_str(&line) {
        Ok(StartReport::Listening) => Ok(()),
        Ok(StartReport::Failed(reason)) => {
            let _ = service_node.wait();
            Err(anyhow!(reason))
        }
        Err(_) => {
            let status = service_node.wait().context("cannot see the end of coppiced")?;
            Err(anyhow!("coppiced ended with {status}; {} may say why", client.paths().log().display()))
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
