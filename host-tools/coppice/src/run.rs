//! `coppice run`: a job from its submission to its end, its streams being ours.

mod core_files;
mod family;
mod input;
mod labels;
mod libraries;
pub(crate) mod output;
pub(crate) mod program;
pub(crate) mod restart;
mod stage;
pub(crate) mod trace;
mod warm;

use std::cell::Cell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use coppice_api::checkpoint::Continuation;
use coppice_api::client::JobStream;
use coppice_api::job::{EXIT_COPPICE, JobDetail, JobView, KillOrder, RankOutcome, Submission};
use coppice_api::path::bytes;
use coppice_api::show::show_end;
use coppice_api::signal::SIGINT;
use coppice_api::stream::{JobEvent, StreamFrame};
use coppice_api::{ByteString, Client, shown};
use indicatif::ProgressBar;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::UnboundedSender;

use self::core_files::CoreFiles;
use self::family::{Family, Manner};
use self::input::Input;
use self::output::{Output, OutputError};
use self::trace::Trace;
use crate::arguments::Run;
use crate::failure::say;
use crate::progress;
use crate::show::{print, print_json};

/// A job that waits no longer than this for nodes is not worth a word.
const QUEUE_PATIENCE: Duration = Duration::from_millis(500);

/// Exit status of a program that SIGPIPE ended: ours, when the reader of our output is gone.
pub(crate) const EXIT_PIPE: u8 = 141;

/// Exit status after a second Ctrl-C, as shells have it for SIGINT.
pub(crate) const EXIT_INTERRUPTED: u8 = 130;

pub(crate) async fn run(client: &Client, run: &Run) -> anyhow::Result<ExitCode> {
    let submission = submission(run)?;
    let missing = libraries::check(&submission.program, &submission.root, &submission.environment)?;
    if let Some(missing) = missing.filter(|_| !run.quiet) {
        say(&missing);
    }
    // From here on, so that there is no moment at which a Ctrl-C is lost or does nothing.
    let mut interrupts = signal(SignalKind::interrupt())?;
    let accepted = Cell::new(None);
    tokio::select! {
        done = submit_and_follow(client, run, &submission, &accepted) => done,
        () = interrupted(client, &accepted, run.options.detach, &mut interrupts) => {
            Ok(ExitCode::from(EXIT_INTERRUPTED))
        }
    }
}

/// Has a job done from its submission to its end, and says its number as soon as it has one.
async fn submit_and_follow(
    client: &Client,
    run: &Run,
    submission: &Submission,
    accepted: &Cell<Option<u64>>,
) -> anyhow::Result<ExitCode> {
    // Before there is a job: it may not be writable.
    let trace = run.trace.as_deref().map(|file| Trace::to(file, submission.ranks > 1, true)).transpose()?;
    let job = client.submit(submission).await?.job;
    accepted.set(Some(job));
    if submission.detached {
        print(&format!("{job}\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let following = Following {
        trace,
        reads_input: submission.input_rank.is_some(),
        core_file: run.options.core_file,
        label: run.options.label,
        json: run.options.json,
        quiet: run.quiet,
    };
    following.follow_to_end(client, job, accepted).await
}

/// How whoever has a job run wants to follow it.
struct Following {
    /// Where what it calls goes, if that is wanted.
    trace: Option<Trace>,
    /// It has a rank that reads standard input.
    reads_input: bool,
    core_file: bool,
    label: bool,
    json: bool,
    quiet: bool,
}

impl Following {
    /// Follows a job that was just accepted to its end, and those as which it goes on if it has lost a node, and exits
    /// as the last one does.
    async fn follow_to_end(
        mut self,
        client: &Client,
        mut job: u64,
        accepted: &Cell<Option<u64>>,
    ) -> anyhow::Result<ExitCode> {
        let input = self.reads_input.then(Input::of_ours);
        let Self { core_file, label, json, quiet, .. } = self;
        let mut family = Family::new(client, Manner { core_file, label, json, quiet });
        let tell = family.tell();
        let view = loop {
            let followed = family.beside(self.follow_one(client, job, input.as_ref(), &tell)).await?;
            let End::Job(view) = followed else {
                return Ok(ExitCode::from(EXIT_PIPE));
            };
            let Some((next, line)) = view.continued_as.zip(goes_on(&view)) else { break view };
            job = next.job;
            accepted.set(Some(job));
            if !self.quiet {
                say(&line);
            }
        };
        explain_end(client, &view).await?;
        let of_family = family.followed_to_the_end().await;
        if self.json {
            // It has in it what the line below says.
            print_json(&client.job(job).await?)?;
        } else if let Some(line) = warm::line(&view).filter(|_| !self.quiet) {
            say(&line);
        }
        let status = view.exit_status.unwrap_or(EXIT_COPPICE);
        Ok(ExitCode::from(of_family.filter(|_| status == 0).unwrap_or(status)))
    }

    /// Follows one job to its end. Those that its ranks start are told.
    async fn follow_one(
        &mut self,
        client: &Client,
        job: u64,
        input: Option<&Input>,
        spawned: &UnboundedSender<u64>,
    ) -> anyhow::Result<End> {
        let stream = client.stream(job).await?;
        let tracing = match self.trace.take() {
            Some(trace) => Some(tokio::spawn(trace.follow(client.trace(job, None).await?, None))),
            None => None,
        };
        // Until this job ends; what comes then is for the next.
        let _sending = input.map(|input| input.send(client, job));
        let mut core_files = self.core_file.then(|| CoreFiles::of(client, job));
        let output = Output::new(self.label, self.json);
        let end = follow(stream, output, self.quiet, core_files.as_mut(), Some(spawned)).await?;
        if matches!(end, End::ReaderGone) {
            return Ok(end);
        }
        if let Some(core_files) = &mut core_files {
            core_files.finish().await;
        }
        if let Some(tracing) = tracing {
            tracing.await.context("the trace was given up")??;
        }
        Ok(end)
    }
}

/// How a job goes on that has lost a node, if it does.
pub(crate) fn goes_on(view: &JobView) -> Option<String> {
    let Continuation { job, checkpoint, lost_node } = view.continued_as?;
    Some(format!("job {} lost node {lost_node}; goes on as job {job} from checkpoint {checkpoint}", view.job))
}

fn submission(run: &Run) -> anyhow::Result<Submission> {
    let (name, arguments) = run.command.split_first().ok_or_else(|| anyhow!("name a program to run"))?;
    let program = program::find(name.as_ref())?;
    let (ranks, nodes) = run.ranks_and_nodes().map_err(|wrong| anyhow!(wrong))?;
    let root = std::path::absolute(&run.root).context("cannot find the working directory")?;
    // Without links and dots, if it is there; if not, the service node says so.
    let root = root.canonicalize().unwrap_or(root);
    Ok(Submission {
        staged: run.stage.iter().map(|text| stage::parse(text, &root)).collect::<anyhow::Result<_>>()?,
        stage_program: run.program_staging(),
        scheme: run.scheme.into(),
        name: bytes(name),
        program,
        arguments: arguments.iter().map(bytes).collect(),
        environment: run.environment.iter().map(|pair| variable(pair)).collect::<anyhow::Result<_>>()?,
        root,
        // Takes `cwd` alone if that is absolute.
        directory: bytes(Path::new("/").join(&run.cwd)),
        ranks,
        ranks_per_node: run.ranks_per_node,
        input_rank: run.input_rank(),
        timeout_ms: run.timeout,
        umask: program::umask(),
        estimate_ms: run.estimate,
        retain: !run.no_retain,
        nodes,
        traced: run.trace.is_some(),
        detached: run.options.detach,
        keep_output: run.options.output_kept(),
        core_file: run.options.core_file,
        on_rank_failure: run.on_rank_failure.into(),
        startup: run.startup(),
        restarted_from: None,
        spawned_by: None,
        checkpoint_policy: run.automatic.policy().map_err(|wrong| anyhow!(wrong))?,
        overlay: run.overlay.wish()?,
        io: run.io.into(),
    })
}

/// `NAME=VALUE` as it is; `NAME` with this process's value.
fn variable(pair: &OsStr) -> anyhow::Result<ByteString> {
    if pair.as_bytes().contains(&b'=') {
        return Ok(bytes(pair));
    }
    match std::env::var_os(pair) {
        Some(value) => Ok([pair.as_bytes(), b"=", value.as_bytes()].concat().into()),
        None => Err(anyhow!("--env {0}: there is no such variable here; give {0}=VALUE", shown(pair))),
    }
}

/// How following a job ended.
pub(crate) enum End {
    /// The job ended.
    Job(Box<JobView>),
    /// Nobody reads our output any more.
    ReaderGone,
}

/// Passes output on until the job has ended, and has core files written of ranks that signals end, if they are wanted.
/// Jobs that its ranks start are told to `spawned`.
pub(crate) async fn follow(
    mut stream: JobStream,
    mut output: Output,
    quiet: bool,
    mut core_files: Option<&mut CoreFiles>,
    spawned: Option<&UnboundedSender<u64>>,
) -> anyhow::Result<End> {
    let mut waiting: Option<Waiting> = None;
    let mut staging = progress::staging::Bar::default();
    loop {
        let frame = tokio::time::timeout(QUEUE_PATIENCE, stream.next_frame());
        let frame = match frame.await {
            Ok(frame) => frame?,
            Err(_) => {
                waiting.iter_mut().for_each(Waiting::show);
                continue;
            }
        };
        if !matches!(frame, Some(StreamFrame::Event(JobEvent::Staging(_)))) {
            // Nothing else may come while it is there: it would be written into the bar.
            staging.clear();
        }
        let written = match frame {
            Some(StreamFrame::Output { rank, bytes }) => output.write(rank, false, bytes).await,
            Some(StreamFrame::Error { rank, bytes }) => output.write(rank, true, bytes).await,
            // It has a stream of its own.
            Some(StreamFrame::Trace { .. }) => Ok(()),
            Some(StreamFrame::Event(JobEvent::Queued { ahead })) => {
                waiting = Some(Waiting { ahead, spinner: None });
                Ok(())
            }
            Some(StreamFrame::Event(JobEvent::Started { .. })) => {
                waiting = None;
                Ok(())
            }
            Some(StreamFrame::Event(JobEvent::Staging(progress))) => {
                if !quiet {
                    staging.show(&progress, Instant::now());
                }
                Ok(())
            }
            Some(StreamFrame::Event(JobEvent::Dies { rank, signal })) => {
                core_files.iter_mut().for_each(|core_files| core_files.rank_dies(rank, signal));
                Ok(())
            }
            Some(StreamFrame::Event(JobEvent::Spawned { job, .. })) => {
                // Whoever hears of them is there as long as we are.
                let _ = spawned.map(|spawned| spawned.send(job));
                Ok(())
            }
            Some(StreamFrame::Event(JobEvent::NotSpawned { rank, reason })) => {
                say(&format!("rank {rank} wanted to spawn others, and none are started: {reason}"));
                Ok(())
            }
            Some(StreamFrame::Event(JobEvent::Staged | JobEvent::Kept(_) | JobEvent::Unreadable { .. })) => Ok(()),
            Some(StreamFrame::Event(JobEvent::Ended(view))) => {
                drop(waiting);
                return match output.finish().await {
                    Ok(()) => Ok(End::Job(view)),
                    Err(error) => gone(error),
                };
            }
            None => return Err(anyhow!("the cluster ended before the job did")),
        };
        if let Err(error) = written {
            return gone(error);
        }
    }
}

fn gone(error: OutputError) -> anyhow::Result<End> {
    match error {
        OutputError::ReaderGone => Ok(End::ReaderGone),
        OutputError::Failed(error) => Err(anyhow!("cannot write the program's output: {error}")),
    }
}

/// Shown while a job waits for nodes; cleared when it is dropped.
struct Waiting {
    ahead: u32,
    spinner: Option<ProgressBar>,
}

impl Waiting {
    fn show(&mut self) {
        let text = match self.ahead {
            0 => "waiting for nodes".to_owned(),
            ahead => format!("waiting for nodes, {ahead} jobs ahead"),
        };
        self.spinner.get_or_insert_with(|| progress::spinner(text));
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.spinner.iter().for_each(ProgressBar::finish_and_clear);
    }
}

/// The first Ctrl-C is passed on to the job, whose end is then waited for; returns at the second. Before there is a
/// job, at the first.
async fn interrupted(client: &Client, accepted: &Cell<Option<u64>>, detach: bool, interrupts: &mut Signal) {
    interrupts.recv().await;
    let Some(job) = accepted.get() else {
        if detach {
            return say("left before the job was accepted; if it is yet, it runs, see `coppice jobs`");
        }
        return say("left before the job was accepted; if it is yet, it ends, as nobody takes its output");
    };
    say(&format!("job {job} is sent SIGINT; Ctrl-C once more leaves at once"));
    let ask = async {
        // If it has ended meanwhile the stream says so; if coppiced is silent, the next Ctrl-C helps.
        let _ = client.kill(job, KillOrder { signal: SIGINT }).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = ask => {}
        _ = interrupts.recv() => say(&format!("left; job {job} is being killed")),
    }
}

/// Says why a job ended, if its exit status alone does not.
pub(crate) async fn explain_end(client: &Client, view: &JobView) -> anyhow::Result<()> {
    if let Some(reason) = &view.reason {
        say(&format!("job {}: {reason}", view.job));
        if let Some(line) = goes_on(view) {
            say(&line);
        }
    } else if view.exit_status.is_some_and(|status| status > 128) {
        let detail = client.job(view.job).await?;
        if let Some(line) = signalled(&detail) {
            say(&line);
        }
    }
    Ok(())
}

/// The first rank that a signal ended, and how many others.
fn signalled(detail: &JobDetail) -> Option<String> {
    let mut ranks = detail.rank_reports.iter().filter(|rank| rank.outcome == RankOutcome::Signalled);
    let first = ranks.next()?;
    let reason = first.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    let others = match ranks.count() {
        0 => String::new(),
        others => format!(" (and {others} other ranks by signals)"),
    };
    let job = detail.job.job;
    Some(format!(
        "job {job}: rank {} on node {} was ended by {}{reason}{others}; see `coppice ras --job {job}`",
        first.rank,
        first.node,
        show_end(first)
    ))
}
