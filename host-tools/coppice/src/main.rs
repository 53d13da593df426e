//! `coppice`: brings clusters up and down, runs programs on them, shows what happened.
//!
//! Each command is a module of [`commands`] (and [`run`]); all talk to the cluster's service node through
//! [`coppice_api::Client`]. Whatever goes wrong ends as one line on standard error and exit status 125.

mod arguments;
mod commands;
mod core;
mod failure;
mod gdb;
mod held;
mod progress;
mod run;
mod show;
mod top;
mod trace;
mod units;

use std::process::ExitCode;

use clap::Parser;
use coppice_api::{Client, ClusterPaths};

use self::arguments::{Arguments, Command};

fn main() -> ExitCode {
    // `doctor` starts a machine, through this very program.
    coppice_qemu::tether::intercept();
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return failure::explain_usage(&error),
    };
    let result = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(anyhow::Error::from);
    let result = result.and_then(|runtime| {
        let result = runtime.block_on(dispatch(arguments));
        // A thread that reads standard input for a job that is over must not hold us up.
        runtime.shutdown_background();
        result
    });
    match result {
        Ok(code) => code,
        Err(error) => failure::explain(&error),
    }
}

async fn dispatch(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let client = || anyhow::Ok(Client::new(find(&arguments)?));
    match &arguments.command {
        Command::Up(up) => return commands::up::up(&client()?, up).await,
        Command::Down => commands::down::down(&client()?).await?,
        Command::Run(run) => return run::run(&client()?, run).await,
        Command::Logs(logs) => return commands::logs::logs(&client()?, logs).await,
        Command::Attach(attach) => return commands::attach::attach(&client()?, attach).await,
        Command::Wait(wait) => return commands::attach::wait(&client()?, wait).await,
        Command::Stage(stage) => commands::stage::stage(&client()?, stage).await?,
        Command::Nodes(nodes) if nodes.links => {
            commands::link::show(&client()?, None, nodes.listing.json).await?;
        }
        Command::Nodes(nodes) => commands::listings::nodes(&client()?, nodes.listing.json).await?,
        Command::Link(link) => commands::link::link(&client()?, link).await?,
        Command::Jobs(jobs) => commands::listings::jobs(&client()?, jobs).await?,
        Command::Job(job) => commands::job::job(&client()?, job).await?,
        Command::Explain(explain) => commands::explain::explain(&client()?, explain).await?,
        Command::Programs(listing) => commands::listings::programs(&client()?, listing.json).await?,
        Command::Forget(forget) => commands::forget::forget(&client()?, forget).await?,
        Command::Ras(ras) => commands::listings::ras(&client()?, ras).await?,
        Command::Metrics(metrics) => commands::metrics::metrics(&client()?, metrics).await?,
        Command::Kill(kill) => commands::orders::kill(&client()?, kill).await?,
        Command::Cut(cut) => commands::orders::cut(&client()?, cut).await?,
        Command::Checkpoint(order) => commands::checkpoints::checkpoint(&client()?, order).await?,
        Command::Checkpoints(order) => return commands::checkpoints::checkpoints(&client()?, order).await,
        Command::Restart(restart) => return run::restart::restart(&client()?, restart).await,
        Command::Overlay(overlay) => commands::overlay::overlay(&client()?, overlay).await?,
        Command::Profile(profile) => commands::profile::profile(&client()?, profile).await?,
        Command::Dashboard(dashboard) => return commands::dashboard::dashboard(&client()?, dashboard).await,
        Command::Report(report) => commands::report::report(&client()?, report).await?,
        Command::Top(top) => return top::top(&client()?, top).await,
        Command::Objects(objects) => commands::objects::objects(&client()?, objects).await?,
        Command::Core(core) => commands::core::core(&client()?, core).await?,
        Command::Gdb(gdb) => return commands::gdb::gdb(&client()?, &arguments.cluster, gdb).await,
        Command::Trace(trace) => return run::trace::trace(&client()?, trace).await,
        Command::Reboot(reboot) => commands::orders::reboot(&client()?, reboot).await?,
        Command::Console(console) => commands::console::console(&client()?, console).await?,
        Command::Doctor(listing) => return commands::doctor::doctor(find(&arguments), listing.json).await,
        Command::Completions(completions) => commands::completions::completions(completions.shell)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn find(arguments: &Arguments) -> Result<ClusterPaths, coppice_api::PathError> {
    let paths = ClusterPaths::find(arguments.cluster.clone())?;
    paths.check_runtime()?;
    Ok(paths)
}
