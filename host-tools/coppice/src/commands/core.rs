//! `coppice core`: a core file of a rank that runs.

use anyhow::{Context, bail};
use coppice_api::Client;

use crate::arguments::Core;
use crate::core::{CoreFile, Layout, Piece, Snapshot, TooManyAreas};
use crate::held::HeldRank;
use crate::show::print;
use crate::units::show_bytes;

pub(crate) async fn core(client: &Client, core: &Core) -> anyhow::Result<()> {
    let path = core.file();
    let rank = HeldRank::new(client, core.job, core.rank);
    let cannot_write = || format!("cannot write {}", path.display());
    // Nobody is to stand still for a file that cannot be.
    let file = CoreFile::new(&path).with_context(cannot_write)?;
    let written = write(&rank, &file).await;
    rank.release().await;
    let length = written?;
    file.finish(length).with_context(cannot_write)?;
    print(&format!("{}: {}\n", path.display(), show_bytes(length)))
}

/// Writes all of it, and says how long the file is to be.
async fn write(rank: &HeldRank, file: &CoreFile) -> anyhow::Result<u64> {
    let process = rank.hold().await?;
    let snapshot = Snapshot { process, threads: rank.threads().await?, areas: rank.areas().await? };
    let layout = match Layout::of(&snapshot) {
        Ok(layout) => layout,
        Err(TooManyAreas) => bail!("rank {} has more mapped than a core file can say", rank.rank),
    };
    file.put(&layout.head, 0).context("cannot write the core")?;
    for piece in &layout.pieces {
        write_memory(rank, file, piece).await?;
    }
    Ok(layout.length)
}

async fn write_memory(rank: &HeldRank, file: &CoreFile, piece: &Piece) -> anyhow::Result<()> {
    let mut done = 0;
    while done < piece.length {
        let part = rank.memory(piece.address + done, piece.length - done).await?;
        file.put(&part.bytes, piece.at + done + part.zeros).context("cannot write the core")?;
        done += part.zeros + part.bytes.len() as u64;
    }
    Ok(())
}
