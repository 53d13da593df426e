//! `coppiced`: the service node of one cluster. Started by `coppice up`; ends with `coppice down` or SIGTERM.

use std::process::ExitCode;

use clap::Parser;
use coppice_service_node::daemon;
use coppice_service_node::options::Options;

fn main() -> ExitCode {
    // Children are started through this very program.
    coppice_qemu::tether::intercept();
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(error) if error.use_stderr() => {
            daemon::refuse_usage(&error);
            return ExitCode::FAILURE;
        }
        Err(help) => help.exit(),
    };
    match daemon::run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        // Reported and logged already.
        Err(_) => ExitCode::FAILURE,
    }
}
