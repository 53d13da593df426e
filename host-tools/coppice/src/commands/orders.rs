//! `coppice kill`, `coppice cut` and `coppice reboot`.

use coppice_api::Client;
use coppice_api::counted;
use coppice_api::cut::{CutOrder, Step};
use coppice_api::job::KillOrder;
use coppice_api::signal;

use crate::arguments::{Cut, Kill, Reboot};
use crate::show::print;

pub(crate) async fn kill(client: &Client, kill: &Kill) -> anyhow::Result<()> {
    client.kill(kill.job, KillOrder { signal: kill.signal }).await?;
    print(&format!("job {} was sent {}\n", kill.job, signal::name(kill.signal)))
}

pub(crate) async fn reboot(client: &Client, reboot: &Reboot) -> anyhow::Result<()> {
    client.reboot(reboot.node).await?;
    print(&format!("node {} is being booted anew\n", reboot.node))
}

pub(crate) async fn cut(client: &Client, cut: &Cut) -> anyhow::Result<()> {
    let took = client.cut(cut.job, CutOrder { last: cut.last }).await?;
    let steps: Vec<_> = took.steps.iter().map(|step| format!("{} {} µs", step.name, step.us)).collect();
    let done = match cut.last.filter(|last| *last != Step::Go) {
        Some(last) => format!("was led through '{}' of a cut, and is left there,", last.name()),
        None => "was cut".to_owned(),
    };
    let nodes = counted(took.nodes, "node");
    print(&format!("job {} {done} on {nodes}: {}\n", cut.job, steps.join(", ")))
}
