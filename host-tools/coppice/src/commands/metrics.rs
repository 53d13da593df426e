//! `coppice metrics`: what there is at the moment, for monitoring.

use std::net::{Ipv4Addr, SocketAddrV4};

use anyhow::anyhow;
use coppice_api::Client;
use coppice_api::client::METRICS_PATH;
use coppice_api::cluster::ClusterView;

use crate::arguments::Metrics;
use crate::show::print;

pub(crate) async fn metrics(client: &Client, metrics: &Metrics) -> anyhow::Result<()> {
    if !metrics.url {
        return print(&client.metrics().await?);
    }
    let view = client.cluster().await?;
    let url = url(&view).ok_or_else(|| {
        anyhow!("cluster '{}' has no port for metrics; bring it up with `coppice up --metrics-port 0`", view.name)
    })?;
    print(&format!("{url}\n"))
}

/// Where a cluster's metrics can be scraped, if they can be.
pub(crate) fn url(view: &ClusterView) -> Option<String> {
    let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, view.metrics_port?);
    Some(format!("http://{address}{METRICS_PATH}"))
}
