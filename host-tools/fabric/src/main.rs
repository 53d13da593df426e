//! `coppice-fabric`: the switch process. Commands on standard input, replies and events on standard output.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use rustix::process::{Resource, getrlimit, setrlimit};

/// User-space Ethernet switch of a Coppice cluster.
///
/// Takes commands as JSON lines on standard input, answers on standard output, and ends when standard input does.
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    /// Directory of the links' sockets: NAME.sw is made here, NAME.sock is the station's.
    #[arg(long, value_name = "DIR")]
    directory: PathBuf,

    /// Decides which frames are lost on links with loss; the same seed and traffic lose the same frames.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

/// Each link has two sockets, so as many files are open as may be. If that cannot be, the first link that finds no room
/// says so.
fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}

fn main() -> ExitCode {
    let Options { directory, seed } = Options::parse();
    raise_descriptor_limit();
    match coppice_fabric::server::serve(directory, seed) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // It goes to a log, whose disk may be full.
            let _ = writeln!(std::io::stderr(), "coppice-fabric: {error}");
            ExitCode::FAILURE
        }
    }
}
