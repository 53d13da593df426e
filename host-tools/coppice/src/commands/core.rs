//! `coppice core`: a core file of a rank that runs.

use anyhow::{Context, bail};
use coppice_api::Client;
use coppice_api::inspect::held::MemoryPart;
use coppice_api::inspect::{Answer, Question};

use crate::arguments::Core;
use crate::core::{CoreFile, Layout, Piece, Snapshot, TooManyAreas};
use crate::show::print;
use crate::units::show_bytes;

/// The rank that is asked.
struct Rank<'a> {
    client: &'a Client,
    job: u64,
    rank: u32,
}

pub(crate) async fn core(client: &Client, core: &Core) -> anyhow::Result<()> {
    let path = core.file();
    let rank = Rank { client, job: core.job, rank: core.rank };
    let cannot_write = || format!("cannot write {}", path.display());
    // Nobody is to stand still for a file that cannot be.
    let file = CoreFile::new(&path).with_context(cannot_write)?;
    let written = rank.write(&file).await;
    // It goes on by itself, later, if it cannot be told to.
    let _ = rank.ask(Question::Release).await;
    let length = written?;
    file.finish(length).with_context(cannot_write)?;
    print(&format!("{}: {}\n", path.display(), show_bytes(length)))
}

impl Rank<'_> {
    async fn ask(&self, question: Question) -> anyhow::Result<Answer> {
        Ok(self.client.question(self.job, self.rank, question).await?)
    }

    fn odd<T>(&self) -> anyhow::Result<T> {
        bail!("the node of rank {} said something else than was asked", self.rank)
    }

    /// Writes all of it, and says how long the file is to be.
    async fn write(&self, file: &CoreFile) -> anyhow::Result<u64> {
        let snapshot = self.snapshot().await?;
        let layout = match Layout::of(&snapshot) {
            Ok(layout) => layout,
            Err(TooManyAreas) => bail!("rank {} has more mapped than a core file can say", self.rank),
        };
        file.put(&layout.head, 0).context("cannot write the core")?;
        for piece in &layout.pieces {
            self.write_memory(file, piece).await?;
        }
        Ok(layout.length)
    }

    async fn snapshot(&self) -> anyhow::Result<Snapshot> {
        let Answer::Held(process) = self.ask(Question::Hold).await? else { return self.odd() };
        let mut snapshot = Snapshot { process, ..Snapshot::default() };
        // Whatever a node says, each list comes to an end.
        let mut from = Some(0);
        while let Some(first) = from {
            let Answer::Threads(threads, next) = self.ask(Question::Threads { from: first }).await? else {
                return self.odd();
            };
            snapshot.threads.extend(threads);
            from = next.filter(|next| *next > first);
        }
        let mut from = Some(0);
        while let Some(first) = from {
            let Answer::Areas(areas, next) = self.ask(Question::Areas { from: first }).await? else {
                return self.odd();
            };
            snapshot.areas.extend(areas);
            from = next.filter(|next| *next > first);
        }
        Ok(snapshot)
    }

    async fn write_memory(&self, file: &CoreFile, piece: &Piece) -> anyhow::Result<()> {
        let mut done = 0;
        while done < piece.length {
            let question = Question::Memory { address: piece.address + done, length: piece.length - done };
            let Answer::Memory(MemoryPart { zeros, bytes }) = self.ask(question).await? else { return self.odd() };
            let told = zeros.saturating_add(bytes.len() as u64);
            if told == 0 || told > piece.length - done {
                return self.odd();
            }
            file.put(&bytes, piece.at + done + zeros).context("cannot write the core")?;
            done += told;
        }
        Ok(())
    }
}
