//! `coppice trace`, and what a job's ranks call on its way to a file or to us.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow};
use coppice_api::client::JobStream;
use coppice_api::stream::StreamFrame;
use coppice_api::{Client, shown};
use tokio::fs::File;
use tokio::io::{AsyncWriteExt, BufWriter};
use tokio::time::sleep;

use super::EXIT_PIPE;
use super::output::{Output, OutputError};
use crate::trace::Tracer;

/// See this module.
#[derive(Debug)]
pub(super) struct Trace {
    tracer: Tracer,
    to: Sink,
}

/// Where it goes.
#[derive(Debug)]
enum Sink {
    /// To one of our streams.
    Ours { is_error: bool },
    /// To a file.
    File(PathBuf, BufWriter<File>),
}

/// What the ranks of a job call from now on, for as long as is said or until it ends.
///
/// # Errors
/// There is no such job or rank, it has ended, somebody traces it, or the file cannot be written.
pub(crate) async fn trace(client: &Client, order: &crate::arguments::Trace) -> anyhow::Result<ExitCode> {
    let label = order.rank.is_none() && client.job(order.job).await?.job.ranks > 1;
    let trace = Trace::to(&order.output, label, false)?;
    let stream = client.trace(order.job, order.rank).await?;
    let length = order.seconds.map(|seconds| Duration::from_secs(seconds.into()));
    Ok(if trace.follow(stream, length).await? { ExitCode::SUCCESS } else { ExitCode::from(EXIT_PIPE) })
}

impl Trace {
    /// To this file, which is made anew; if it is `-`, to standard error or standard output. `label`: say of which rank
    /// each line is.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn to(path: &Path, label: bool, is_error: bool) -> anyhow::Result<Self> {
        let tracer = Tracer::new(label);
        if path == Path::new("-") {
            return Ok(Self { tracer, to: Sink::Ours { is_error } });
        }
        let file = std::fs::File::create(path).with_context(|| format!("cannot write the trace to {}", shown(path)))?;
        Ok(Self { tracer, to: Sink::File(path.to_owned(), BufWriter::new(File::from_std(file))) })
    }

    /// Writes what ranks do until the job has ended, or that long. False: nobody reads it any more.
    ///
    /// # Errors
    /// It cannot be written, the stream breaks off, or a node says what makes no sense.
    pub(super) async fn follow(mut self, mut stream: JobStream, length: Option<Duration>) -> anyhow::Result<bool> {
        let mut output = Output::new(false, false);
        let mut over = pin!(async {
            match length {
                Some(length) => sleep(length).await,
                None => std::future::pending().await,
            }
        });
        let ours = |error| match error {
            OutputError::ReaderGone => Ok(false),
            OutputError::Failed(error) => Err(anyhow!("cannot write the trace: {error}")),
        };
        loop {
            let frame = tokio::select! {
                // Also while there always is something to be shown.
                biased;
                () = &mut over => break,
                frame = stream.next_frame() => frame?,
            };
            let text = match frame {
                Some(StreamFrame::Trace { rank, bytes }) => self.tracer.add(rank, &bytes)?,
                Some(_) => continue,
                None => break,
            };
            if let Err(error) = self.put(&mut output, text).await? {
                return ours(error);
            }
        }
        let rest = self.tracer.finish().to_owned();
        if let Err(error) = self.put(&mut output, rest).await? {
            return ours(error);
        }
        output.finish().await.map_or_else(ours, |()| Ok(true))
    }

    /// Says whether our stream takes it.
    async fn put(&mut self, output: &mut Output, text: String) -> anyhow::Result<Result<(), OutputError>> {
        let (path, file) = match &mut self.to {
            Sink::Ours { is_error } => return Ok(output.add(*is_error, text).await),
            Sink::File(path, file) => (path, file),
        };
        let written = async {
            file.write_all(text.as_bytes()).await?;
            file.flush().await
        };
        written.await.with_context(|| format!("cannot write the trace to {}", shown(&*path)))?;
        Ok(Ok(()))
    }
}
