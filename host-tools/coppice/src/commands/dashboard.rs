//! `coppice dashboard`: pages of a cluster for a browser.

use std::net::Ipv4Addr;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use coppice_api::Client;
use coppice_dashboard::{Access, Tool, serve};
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::arguments::Dashboard;
use crate::failure::say;
use crate::show::print;

/// How long answers that are under way are waited for when it ends.
const END_TIME_MAX: Duration = Duration::from_secs(1);

/// This program, also when its file was replaced meanwhile.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// What opens an address in the desktop's browser.
const OPENER: &str = "xdg-open";

/// Serves them until it is interrupted.
pub(crate) async fn dashboard(client: &Client, arguments: &Dashboard) -> anyhow::Result<ExitCode> {
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, arguments.port))
        .await
        .with_context(|| format!("cannot listen at port {} of loopback", arguments.port))?;
    let access = Access::new(listener.local_addr()?.port()).context("no random numbers for a token")?;
    let cluster = format!("--cluster={}", client.paths().name());
    let tool = Tool { program: OWN_PROGRAM.into(), arguments: vec![cluster.into()] };
    let address = access.address();
    print(&format!("{address}\n"))?;
    if arguments.open {
        open(&address);
    }
    let (end, ended) = oneshot::channel();
    let until = async {
        // It is sent, or this function is left.
        let _ = ended.await;
    };
    let mut serving = Box::pin(serve(client.clone(), access, tool, listener, until));
    let signal = tokio::select! {
        () = &mut serving => bail!("the dashboard ended by itself"),
        _ = interrupted.recv() => SignalKind::interrupt(),
        _ = terminated.recv() => SignalKind::terminate(),
    };
    let _ = end.send(());
    // Whoever is not done by then is cut off.
    let _ = timeout(END_TIME_MAX, serving).await;
    Ok(ExitCode::from(128 + u8::try_from(signal.as_raw_value()).unwrap_or_default()))
}

/// Has the desktop's browser go there.
fn open(address: &str) {
    let (nothing, quiet) = (Stdio::null(), Stdio::null);
    let started = Command::new(OPENER).arg(address).stdin(nothing).stdout(quiet()).stderr(quiet()).spawn();
    if let Err(error) = started {
        say(&format!("cannot start a browser ({OPENER}: {error}); go to that address with one"));
    }
}
