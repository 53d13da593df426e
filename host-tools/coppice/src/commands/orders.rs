//! `coppice kill` and `coppice reboot`.

use coppice_api::Client;
use coppice_api::job::KillOrder;
use coppice_api::signal;

use crate::arguments::{Kill, Reboot};
use crate::show::print;

pub(crate) async fn kill(client: &Client, kill: &Kill) -> anyhow::Result<()> {
    client.kill(kill.job, KillOrder { signal: kill.signal }).await?;
    print(&format!("job {} was sent {}\n", kill.job, signal::name(kill.signal)))
}

pub(crate) async fn reboot(client: &Client, reboot: &Reboot) -> anyhow::Result<()> {
    client.reboot(reboot.node).await?;
    print(&format!("node {} is being booted anew\n", reboot.node))
}
