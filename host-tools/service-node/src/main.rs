//! `coppiced`: the service node of one cluster. Started by `coppice up`; ends with `coppice down` or SIGTERM.

use std::process::ExitCode;

use clap::Parser;
use coppice_service_node::daemon;
use coppice_service_node::options::Options;

fn main() -> ExitCode {
    // Children are started through this very program.
    coppice_qemu::tether::intercept();
    match daemon::run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        // Reported and logged already.
        Err(_) => ExitCode::FAILURE,
    }
}
