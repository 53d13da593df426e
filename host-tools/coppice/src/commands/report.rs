//! `coppice report`: one file with all that is known of a job.

use coppice_api::Client;
use coppice_dashboard::{Matter, report as page};

use super::samples::put;
use crate::arguments::Report;

/// Writes it.
pub(crate) async fn report(client: &Client, arguments: &Report) -> anyhow::Result<()> {
    let matter = Matter::gather(client, arguments.job).await?;
    put(&arguments.output, page(&matter, env!("CARGO_PKG_VERSION"))?.as_bytes())
}
