//! Takes a core file of a rank, which stands meanwhile.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::{CoreFile, Layout, Piece, Snapshot, TooManyAreas};
use crate::held::HeldRank;

/// What the core file of a rank is called that has no other name.
pub(crate) fn name(job: u64, rank: u32) -> PathBuf {
    format!("core.{job}.{rank}").into()
}

/// Writes one there, which has that name when it is whole. Gives its length, bytes.
pub(crate) async fn take(rank: &HeldRank, path: &Path) -> anyhow::Result<u64> {
    let cannot_write = || format!("cannot write {}", path.display());
    // Nobody is to stand still for a file that cannot be.
    let file = CoreFile::new(path).with_context(cannot_write)?;
    let written = write(rank, &file).await;
    rank.release().await;
    let length = written?;
    file.finish(length).with_context(cannot_write)?;
    Ok(length)
}

/// Writes all of it, and says how long the file is to be.
async fn write(rank: &HeldRank, file: &CoreFile) -> anyhow::Result<u64> {
    let process = rank.hold().await?;
    let (mut threads, areas) = (rank.threads().await?, rank.areas().await?);
    if let Some(ends) = &process.ends {
        threads.sort_by_key(|thread| thread.tid != ends.tid);
    }
    let layout = match Layout::of(&Snapshot { process, threads, areas }) {
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
