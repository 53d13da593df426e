//! `coppice logs`: what is kept of a job's output.

use std::process::ExitCode;

use anyhow::anyhow;
use coppice_api::Client;
use coppice_api::output::{LogQuery, OutputView};
use coppice_api::stream::{JobEvent, StreamFrame};

use crate::arguments::Logs;
use crate::failure::say;
use crate::run::output::{Output, OutputError};
use crate::units::show_bytes;

pub(crate) async fn logs(client: &Client, logs: &Logs) -> anyhow::Result<ExitCode> {
    let query = LogQuery { follow: logs.follow, rank: logs.rank, stream: logs.stream.map(Into::into) };
    if let Some(rank) = query.rank {
        let ranks = client.job(logs.job).await?.job.ranks;
        if rank >= ranks {
            let last = ranks.saturating_sub(1);
            return Err(anyhow!("--rank {rank}: job {} has ranks 0 to {last}", logs.job));
        }
    }
    let mut stream = client.log(logs.job, &query).await?;
    let mut output = Output::new(logs.label, false);
    loop {
        let written = match stream.next_frame().await? {
            Some(StreamFrame::Output { rank, bytes }) => output.write(rank, false, bytes).await,
            Some(StreamFrame::Error { rank, bytes }) => output.write(rank, true, bytes).await,
            Some(StreamFrame::Event(JobEvent::Kept(kept))) => {
                let finished = output.finish().await;
                if finished.is_ok()
                    && let Some(line) = cut(logs.job, &kept)
                {
                    say(&line);
                }
                return ended(finished);
            }
            Some(StreamFrame::Event(JobEvent::Unreadable { reason })) => {
                let _ = output.finish().await;
                return Err(anyhow!(reason));
            }
            // A trace is in no log.
            Some(StreamFrame::Event(_) | StreamFrame::Trace { .. }) => Ok(()),
            None => return Err(anyhow!("the cluster ended before the log did")),
        };
        if written.is_err() {
            return ended(written);
        }
    }
}

/// A reader that has seen enough is no failure.
fn ended(written: Result<(), OutputError>) -> anyhow::Result<ExitCode> {
    match written {
        Ok(()) | Err(OutputError::ReaderGone) => Ok(ExitCode::SUCCESS),
        Err(OutputError::Failed(error)) => Err(anyhow!("cannot write the job's output: {error}")),
    }
}

/// Says that a job wrote more than is kept, if it did.
pub(crate) fn cut(job: u64, kept: &OutputView) -> Option<String> {
    let cut = kept.cut?;
    let more = match kept.dropped {
        0 => String::new(),
        dropped => format!("; {} more ({dropped} bytes) were not kept", show_bytes(dropped)),
    };
    Some(format!("the output of job {job} is kept up to here: {cut}{more}"))
}

#[cfg(test)]
mod tests {
    use coppice_api::output::{OutputCut, OutputView};

    use super::cut;

    #[test]
    fn what_is_not_kept_is_said() {
        let whole = OutputView { bytes: Some(3), ..OutputView::limited(4096) };
        assert_eq!(cut(7, &whole), None);
        let line = |kept| cut(7, &kept).expect("cut");
        let limited = OutputView { cut: Some(OutputCut::Limit), dropped: 2048, ..whole };
        assert_eq!(
            line(limited),
            "the output of job 7 is kept up to here: its log has all the room that --keep-output gives it; 2.0 KiB \
             more (2048 bytes) were not kept"
        );
        let ended = OutputView { cut: Some(OutputCut::ServiceNode), ..whole };
        assert_eq!(line(ended), "the output of job 7 is kept up to here: the service node ended");
        let late = OutputView { cut: Some(OutputCut::Late), dropped: 3, ..whole };
        assert_eq!(
            line(late),
            "the output of job 7 is kept up to here: the disk did not take it in time, and the job went on without \
             its log, see `coppice ras`; 3 B more (3 bytes) were not kept"
        );
    }
}
