//! Lists the jobs of a cluster, runs a program as one more, waits for its end, and shows what it wrote:
//!
//! ```console
//! $ cargo run -p coppice-api --example jobs -- default ./hello
//! ```

use std::error::Error;
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;

use coppice_api::job::{JobView, JobsQuery, Submission};
use coppice_api::limits::OUTPUT_LOG_BYTES_DEFAULT;
use coppice_api::output::LogQuery;
use coppice_api::stream::{JobEvent, StreamFrame};
use coppice_api::{Client, ClusterName, ClusterPaths};

/// What a program does with a cluster.
///
/// # Errors
/// One line: what cannot be done, and why.
pub(crate) async fn run(client: &Client, program: &Path, out: &mut impl Write) -> Result<JobView, Box<dyn Error>> {
    for job in client.jobs(&JobsQuery { limit: Some(10), ..JobsQuery::default() }).await? {
        writeln!(out, "job {}, {}: {}", job.job, job.name, job.state.as_str())?;
    }

    // Nobody reads its stream, so it is detached, and what it writes is kept.
    let submission = Submission {
        root: std::env::current_dir()?,
        detached: true,
        keep_output: Some(OUTPUT_LOG_BYTES_DEFAULT),
        ..Submission::plain(program.canonicalize()?, "example".into(), 1)
    };
    let job = client.submit(&submission).await?.job;
    let ended = client.wait(job).await?;

    let mut log = client.log(job, &LogQuery::default()).await?;
    while let Some(frame) = log.next_frame().await? {
        match frame {
            StreamFrame::Output { bytes, .. } | StreamFrame::Error { bytes, .. } => out.write_all(&bytes)?,
            StreamFrame::Event(JobEvent::Unreadable { reason }) => writeln!(out, "{reason}")?,
            _ => {}
        }
    }
    writeln!(out, "job {job} exited with {}", ended.exit_status.unwrap_or_default())?;
    Ok(ended)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let [cluster, program] = &arguments[..] else { return Err("usage: jobs CLUSTER PROGRAM".into()) };
    let paths = ClusterPaths::find(ClusterName::try_from(cluster.as_os_str())?)?;
    // Whatever answers in a directory of somebody else is not this user's cluster.
    paths.check_runtime()?;
    run(&Client::new(paths), Path::new(program), &mut std::io::stdout()).await?;
    Ok(())
}
