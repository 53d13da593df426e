//! `coppice core`: a core file of a rank that runs.

use coppice_api::Client;

use crate::arguments::Core;
use crate::core::take;
use crate::held::HeldRank;
use crate::show::print;
use crate::units::show_bytes;

pub(crate) async fn core(client: &Client, core: &Core) -> anyhow::Result<()> {
    let path = core.file();
    let length = take(&HeldRank::new(client, core.job, core.rank), &path).await?;
    print(&format!("{}: {}\n", path.display(), show_bytes(length)))
}
