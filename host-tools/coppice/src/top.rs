//! `coppice top`: a cluster, its jobs, and what their ranks do, on the terminal, as it changes.
//!
//! | module | what |
//! | --- | --- |
//! | `fetch` | what is shown is asked for again and again |
//! | `ranks` | what single ranks do, by what overlays tell of them in turn |
//! | `log` | the log of a job, as it is followed |
//! | `table`, `lists` | rows: sorted, filtered, selected |
//! | `screen` | what is looked at, and what keys do to that |
//! | `draw`, `details` | how it looks |

mod details;
mod draw;
mod fetch;
mod lists;
mod log;
mod ranks;
mod screen;
mod table;
#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use anyhow::{Context, bail};
use coppice_api::Client;
use coppice_api::job::KillOrder;
use coppice_api::overlay::{OverlayOrder, OverlayWish};
use coppice_api::signal;
use crossterm::event::{Event, EventStream};
use futures_util::StreamExt;
use ratatui::DefaultTerminal;
use tokio::signal::unix::{self, Signal, SignalKind};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use self::fetch::{ANSWER_TIME_MAX, no_answer, now_ns};
use self::log::Told;
use self::screen::{Action, Screen};
use crate::arguments::Top;

/// What was written to a log and waits to be shown.
const TOLD_MAX: usize = 64;

/// Shows it until the user leaves.
pub(crate) async fn top(client: &Client, arguments: &Top) -> anyhow::Result<ExitCode> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        bail!("`coppice top` is for a terminal; use `coppice jobs`, `nodes` or `job` with --json for programs");
    }
    // One line says so, rather than an empty screen, if there is no cluster to begin with.
    client.cluster().await?;
    if let Some(job) = arguments.job {
        client.job(job).await?;
    }
    let terminal = ratatui::try_init().context("cannot use the terminal")?;
    let result = show(client, arguments, terminal).await;
    // Whatever came of it, the terminal is as it was.
    ratatui::try_restore().context("cannot leave the terminal as it was")?;
    result
}

/// Follows the log that is looked at.
struct Follower {
    job: u64,
    told: mpsc::Receiver<Told>,
    task: JoinHandle<()>,
}

impl Follower {
    fn new(client: &Client, job: u64) -> Self {
        let (tell, told) = mpsc::channel(TOLD_MAX);
        Self { job, told, task: tokio::spawn(log::follow(client.clone(), job, tell)) }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn show(client: &Client, arguments: &Top, mut terminal: DefaultTerminal) -> anyhow::Result<ExitCode> {
    let mut ends = Ends::new()?;
    let mut screen = Screen::new(arguments.job);
    let (look_at, looked_at) = watch::channel(arguments.job);
    let (tell, mut told) = mpsc::channel(1);
    // It ends when nobody hears it.
    tokio::spawn(fetch::ask(client.clone(), arguments.every, looked_at, tell));
    let (done, mut all_done) = mpsc::channel::<String>(1);
    let mut is_busy = false;
    let mut keys = EventStream::new();
    let mut follower: Option<Follower> = None;
    loop {
        terminal.draw(|frame| draw::draw(frame, &mut screen, now_ns())).context("cannot write to the terminal")?;
        let action = tokio::select! {
            key = keys.next() => match key {
                Some(Ok(Event::Key(key))) => screen.key(key),
                // It has another size, which is seen when it is drawn.
                Some(Ok(_)) => Action::Nothing,
                Some(Err(error)) => return Err(error).context("cannot read from the terminal"),
                None => Action::Quit,
            },
            seen = told.recv() => {
                let Some(seen) = seen else { bail!("nobody asks any more") };
                screen.take(seen, now_ns());
                Action::Nothing
            }
            written = next(follower.as_mut()) => {
                screen.log.take(written);
                Action::Nothing
            }
            note = all_done.recv() => {
                is_busy = false;
                screen.note = note;
                Action::Nothing
            }
            signal = ends.next() => return Ok(ExitCode::from(128 + signal)),
        };
        match action {
            Action::Nothing => {}
            Action::Quit => return Ok(ExitCode::SUCCESS),
            Action::Signal(..) | Action::Overlay(..) if is_busy => {
                screen.note = Some("the last order is not carried out yet".to_owned());
            }
            Action::Signal(..) | Action::Overlay(..) => {
                is_busy = true;
                let (client, done) = (client.clone(), done.clone());
                tokio::spawn(async move {
                    let carried_out = timeout(ANSWER_TIME_MAX, carry_out(&client, action)).await;
                    let note = carried_out.unwrap_or_else(|_| no_answer());
                    // Who has left does not want to know.
                    let _ = done.send(note).await;
                });
            }
        }
        look_at.send_if_modified(|job| std::mem::replace(job, screen.job()) != screen.job());
        if follower.as_ref().map(|follower| follower.job) != screen.log_of() {
            screen.log = log::Log::default();
            follower = screen.log_of().map(|job| Follower::new(client, job));
        }
    }
}

/// Signals that end it: the terminal is to be as it was all the same.
struct Ends([(Signal, u8); 3]);

impl Ends {
    fn new() -> anyhow::Result<Self> {
        let of = |kind: SignalKind| anyhow::Ok((unix::signal(kind)?, u8::try_from(kind.as_raw_value())?));
        Ok(Self([of(SignalKind::terminate())?, of(SignalKind::hangup())?, of(SignalKind::interrupt())?]))
    }

    /// The number of the one that comes.
    async fn next(&mut self) -> u8 {
        let [(terminate, one), (hangup, two), (interrupt, three)] = &mut self.0;
        tokio::select! {
            _ = terminate.recv() => *one,
            _ = hangup.recv() => *two,
            _ = interrupt.recv() => *three,
        }
    }
}

/// What comes next of a log; never anything, if none is looked at or it is over.
async fn next(follower: Option<&mut Follower>) -> Told {
    let told = match follower {
        Some(follower) => follower.told.recv().await,
        None => None,
    };
    match told {
        Some(told) => told,
        None => std::future::pending().await,
    }
}

/// Does what the user wants, and says what came of it in a line.
async fn carry_out(client: &Client, action: Action) -> String {
    match action {
        Action::Signal(job, signal) => match client.kill(job, KillOrder { signal }).await {
            Ok(()) => format!("job {job} was sent {}", signal::name(signal)),
            Err(error) => error.to_string(),
        },
        Action::Overlay(job, is_on) => {
            let order = OverlayOrder { wish: is_on.then(OverlayWish::default) };
            match client.order_overlay(job, &order).await {
                Ok(_) if is_on => format!("what the ranks of job {job} do is looked at from now on"),
                Ok(_) => format!("what the ranks of job {job} do is not looked at any more"),
                Err(error) => error.to_string(),
            }
        }
        Action::Nothing | Action::Quit => String::new(),
    }
}
