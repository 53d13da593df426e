//! `coppice gdb`: a rank that runs, debugged with gdb.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use anyhow::{Context, anyhow, bail};
use coppice_api::{Client, ClusterName};
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};

use crate::arguments::Gdb;
use crate::gdb::debug;
use crate::held::HeldRank;
use crate::show::print;

pub(crate) async fn gdb(client: &Client, cluster: &ClusterName, gdb: &Gdb) -> anyhow::Result<ExitCode> {
    let rank = HeldRank::new(client, gdb.job, gdb.rank);
    if gdb.print {
        // Whoever debugs it has it held, too, so this can be said of a rank of which that can be had.
        rank.hold().await?;
        rank.release().await;
        print(&format!("{}\n", typed(cluster, gdb)?))?;
        return Ok(ExitCode::SUCCESS);
    }
    if std::io::stdin().is_terminal() {
        return Err(start(&rank, cluster, gdb).await);
    }
    // A terminal sends it to all that gdb has started, and gdb says so itself.
    let interrupts = signal(SignalKind::interrupt()).context("cannot wait for signals")?;
    let (debugged, runtime) = (rank.clone(), Handle::current());
    let ended = tokio::task::spawn_blocking(move || debug(debugged, &runtime)).await;
    drop(interrupts);
    rank.release().await;
    ended.context("the debugger's thread is gone")??;
    Ok(ExitCode::SUCCESS)
}

/// What has it debugged when it is typed on a terminal of this host, in whatever directory and surroundings.
fn typed(cluster: &ClusterName, gdb: &Gdb) -> anyhow::Result<String> {
    let this = std::env::current_exe().context("cannot find this program itself")?;
    let mut words = Vec::new();
    if let Some(home) = std::env::var_os("COPPICE_HOME") {
        words.push(format!("COPPICE_HOME={}", quoted(&home.to_string_lossy())?));
    }
    words.push(quoted(&this.to_string_lossy())?.into_owned());
    words.extend(["--cluster".to_owned(), cluster.as_str().to_owned(), "gdb".to_owned()]);
    words.extend([gdb.job.to_string(), gdb.rank.to_string()]);
    if let Some(program) = &gdb.program {
        let program = std::path::absolute(program).context("cannot find where this is")?;
        words.extend(["--program".to_owned(), quoted(&program.to_string_lossy())?.into_owned()]);
    }
    Ok(words.join(" "))
}

/// As a shell takes it for itself.
fn quoted(word: &str) -> anyhow::Result<Cow<'_, str>> {
    match shlex::try_quote(word) {
        Ok(quoted) if !word.contains(char::REPLACEMENT_CHARACTER) => Ok(quoted),
        _ => bail!("{word:?} cannot be typed"),
    }
}

/// Becomes a gdb that starts this program again. Gives why it could not.
async fn start(rank: &HeldRank, cluster: &ClusterName, gdb: &Gdb) -> anyhow::Error {
    let program = match (&gdb.program, rank.hold().await) {
        (_, Err(error)) => return error,
        (Some(program), Ok(_)) => program.clone().into_os_string(),
        (None, Ok(process)) => OsString::from_vec(process.program.to_vec()),
    };
    rank.release().await;
    let this = match std::env::current_exe() {
        Ok(this) => this.to_string_lossy().replace('\'', "'\\''"),
        Err(error) => return anyhow!("cannot find this program itself: {error}"),
    };
    let remote = format!("target remote | '{this}' --cluster '{}' gdb {} {}", cluster.as_str(), gdb.job, gdb.rank);
    let error = Command::new("gdb").arg("-q").arg(program).args(["-ex", &remote]).exec();
    anyhow!("cannot start gdb: {error}")
}
